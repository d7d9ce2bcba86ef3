"""A study: a scenario under several policies and seeds. All input is read before the first job, and what is stored stays."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterator, Sequence
from errno import EINVAL, EISDIR, ENOENT, ENOTDIR
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from trimtab.apps.atomic_file import BY_UMASK, NOT_REGULAR, is_special, write_atomically
from trimtab.apps.simulate.html.page import render_page
from trimtab.apps.simulate.jobs import Finished, Job, make_jobs
from trimtab.apps.simulate.policies import Policy, find_policies, notes_on
from trimtab.apps.simulate.process_pool import JobDone, JobFailed, PoolEvent
from trimtab.apps.simulate.results import Results, summarise_results, to_csv, to_json
from trimtab.apps.simulate.store import Store
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.sim.measures import RunResult
from trimtab.sim.scenario import Scenario
from trimtab.sim.shipped import find_scenario

REPORT, RESULTS, TABLE = "report.html", "results.json", "results.csv"


class Pool(Protocol):
    """Runs jobs, somewhere."""

    def run(self, jobs: Sequence[Job]) -> Iterator[PoolEvent]:
        """Yields what happens, job by job as they finish."""
        ...


class Study(Struct, frozen=True):
    """What is compared; all of it has been read and is valid."""

    given: str
    scenarios: dict[int, Scenario]
    policies: tuple[Policy, ...]

    def jobs(self, *, compaction: bool = False) -> tuple[Job, ...]:
        return make_jobs(self.scenarios, self.policies, compaction=compaction)

    def notes(self) -> list[str]:
        scenario = next(iter(self.scenarios.values()))
        return [*scenario.notes, *(note for policy in self.policies for note in notes_on(policy, scenario))]


def read_study(given: str, policies: Sequence[str], seeds: Sequence[int]) -> Study:
    """Raises ConfigError with the problems of the scenario and of all policies."""
    problems: list[Problem] = []
    scenarios: dict[int, Scenario] = {}
    found: tuple[Policy, ...] = ()
    try:
        scenarios = {seed: find_scenario(given, seed) for seed in seeds}
    except ConfigError as error:
        problems += error.problems
    try:
        found = find_policies(policies)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return Study(given, scenarios, found)


def command_of(scenario: str, policies: Sequence[str], seeds: Sequence[int], *, compaction: bool) -> str:
    """The command that gives the same results again."""
    parts = ["trimtab", "simulate", scenario]
    for policy in policies:
        parts += ["--policy", policy]
    parts += ["--seed", str(seeds[0])] if len(seeds) == 1 else ["--seeds", str(len(seeds))]
    return shlex.join([*parts, *(["--compaction"] if compaction else [])])


class StudyProgress(Struct):
    """How far a study is: finished jobs with their results, failed ones with where their tracebacks are."""

    jobs: tuple[Job, ...]
    finished: list[tuple[Job, Finished]]
    failed: list[tuple[Job, str]]
    stored: int = 0  # were finished before

    def outcome(self, study: Study, command: str) -> tuple[Results, list[RunResult]]:
        return summarise_results(command, study.scenarios, study.policies, self.finished)


def resume(jobs: tuple[Job, ...], store: Store) -> tuple[StudyProgress, list[Job]]:
    """What is finished already, and the jobs that are not."""
    found = [(job, store.find(job)) for job in jobs]
    finished = [(job, each) for job, each in found if each is not None]
    return StudyProgress(jobs, finished, [], len(finished)), [job for job, each in found if each is None]


def carry_out(progress: StudyProgress, waiting: Sequence[Job], pool: Pool, store: Store) -> Generator[PoolEvent]:
    """Run the jobs, and store each result before anybody hears of it."""
    for event in pool.run(waiting):
        if isinstance(event, JobDone):
            store.put(event.job, event.finished)
            progress.finished.append((event.job, event.finished))
        elif isinstance(event, JobFailed):
            path = store.put_failure(event.job, event.traceback)
            progress.failed.append((event.job, str(path) if path is not None else event.traceback))
        yield event


class Outputs(Struct, frozen=True):
    """Where results go besides the terminal."""

    folder: Path | None = None
    html: Path | None = None
    json: Path | None = None
    csv: Path | None = None

    def paths(self) -> list[tuple[Path, str]]:
        """Every file with its kind."""
        in_folder = [(self.folder / name, name) for name in (REPORT, RESULTS, TABLE)] if self.folder is not None else []
        given = (self.html, REPORT), (self.json, RESULTS), (self.csv, TABLE)
        return [*in_folder, *((path, kind) for path, kind in given if path is not None)]

    def check(self) -> None:
        """Raises OSError now, with the path that was given, if a file could not be written later."""
        for path, _ in self.paths():
            if path.is_dir():
                raise IsADirectoryError(EISDIR, "it is a folder", str(path))
            if is_special(path):
                raise OSError(EINVAL, f"it {NOT_REGULAR}", str(path))
            try:
                if self.folder is not None:
                    self.folder.mkdir(parents=True, exist_ok=True)
                probe = path.with_name(f".{path.name}.probe")
                probe.touch()
                probe.unlink()
            except FileNotFoundError:
                raise FileNotFoundError(ENOENT, f"there is no folder {path.parent}", str(path)) from None
            except (FileExistsError, NotADirectoryError):
                raise NotADirectoryError(ENOTDIR, f"{path.parent} is not a folder", str(path)) from None
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(path)) from None

    def write(self, results: Results, runs: list[RunResult]) -> None:
        made: dict[str, bytes] = {}
        for path, kind in self.paths():
            if kind not in made:
                made[kind] = _content(kind, results, runs)
            write_atomically(path, [made[kind]], BY_UMASK)


def _content(kind: str, results: Results, runs: list[RunResult]) -> bytes:
    if kind == REPORT:
        return render_page(results, runs).encode()
    return to_json(results) if kind == RESULTS else to_csv(results)
