"""Runs kube-scheduler's own plugins, in the Go program built by tools/controlplane."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.differential.generators.rng import JsonObject

PROGRAM = "differential"


class Oracle:
    """The Go program: one JSON question per line in, one answer per line out."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [str(folder / PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, question: JsonObject) -> JsonObject:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program with kube-scheduler's plugins ended: {self._process.wait()}")
        answer: JsonObject = json.loads(line)
        return answer

    def settled(self, question: JsonObject, times: int = 3) -> JsonObject | None:
        """The answer; None if Go fails, or if its answers vary."""
        first = self.ask(question)
        same = all(self.ask(question) == first for _ in range(times - 1))
        return first if same and not _failed(first) else None


def _failed(answer: JsonObject) -> bool:
    return "error" in answer or "Error" in set(_codes(answer))


def _codes(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (each for key, each in value.items() if key == "code")
        yield from _each(value.values())
    elif isinstance(value, list):
        yield from _each(value)


def _each(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        yield from _codes(value)
