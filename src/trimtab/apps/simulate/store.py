"""Stores results of jobs in a folder, one file each, so that an interrupted run continues where it ended.

A file is written as a whole or not at all: whoever finds it finds all of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from trimtab.apps.atomic_file import BY_UMASK, remove_leftovers, write_atomically
from trimtab.apps.simulate.jobs import Finished, Job, Timing

RUNS, FAILURES = "runs", "failures"
KEY_CHARS = 16  # of a job's key in its file's name


class StoredJob(Struct, frozen=True):
    """A file of the folder. `result` is the same whenever the job is run; `timing` is not."""

    key: str
    policy: str
    seed: int
    kind: str
    result: Raw
    timing: Timing


class Store:
    """The folder; without one, results are kept in memory only."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            for each in (RUNS, FAILURES):
                (folder / each).mkdir(parents=True, exist_ok=True)
                remove_leftovers(folder / each)

    def find(self, job: Job) -> Finished | None:
        """The job's result, if it has been run."""
        if self.folder is None:
            return None
        try:
            stored = msgspec.json.decode(self._path(self.folder, job).read_bytes(), type=StoredJob)
        except (OSError, msgspec.DecodeError):
            return None
        return Finished(bytes(stored.result), stored.timing) if stored.key == job.key else None

    def put(self, job: Job, finished: Finished) -> None:
        if self.folder is not None:
            stored = StoredJob(
                job.key, job.policy.name, job.seed, job.kind.value, Raw(finished.content), finished.timing
            )
            write_atomically(self._path(self.folder, job), [msgspec.json.encode(stored)], BY_UMASK)

    def put_failure(self, job: Job, text: str) -> Path | None:
        """Keep the traceback; returns where."""
        if self.folder is None:
            return None
        path = self.folder / FAILURES / f"{_file_name(job)}.txt"
        write_atomically(path, [text.encode()], BY_UMASK)
        return path

    @staticmethod
    def _path(folder: Path, job: Job) -> Path:
        return folder / RUNS / f"{_file_name(job)}.json"


def _file_name(job: Job) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", job.policy.name)[-60:].lstrip(".-")
    return f"{name}-{job.seed}-{job.kind.value}-{job.key[:KEY_CHARS]}"
