"""`trimtab replay`: runs a recording through a new engine, and compares what comes out with what was recorded.

Instructions must be equal, and decisions must come to the same node or the same message; decisions that do so with other
scores are counted. Scores may differ in the last digits, because processors round differently. After the first difference
the two engines know different things, so further ones are counted and only the first few are kept.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isclose, isnan
from pathlib import Path
from typing import Any

import msgspec

from trimtab.apps.config_file import recorded_files
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.plugins import PluginError, installed_for_rescheduling, installed_plugins
from trimtab.apps.recording import RecordingReader
from trimtab.apps.runtime import DECISIONS_PER_TURN
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import BindFailed, BindFailure, ConfigText, Turn
from trimtab.core.model.instructions import Bind
from trimtab.core.model.schedule_result import Decision, Placement
from trimtab.core.recording import UNREADABLE, Record, RecordDecoder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import PodExplanation, explain_pod, find_pod
from trimtab.core.settings import Settings
from trimtab.sources.registry import SOURCE_SETTINGS

MAX_DIFFERENCES = 10  # that are kept
MAX_SETTLING_TURNS = 100_000
TOLERANCE = 1e-9


class ReplayError(Exception):
    """The recording cannot be replayed here, and why."""


@dataclass(frozen=True)
class Difference:
    """A record whose outputs differ: those that only one side has, in order."""

    record: int
    at: float
    event: str
    recorded: tuple[Output, ...]
    replayed: tuple[Output, ...]
    error: str = ""  # the traceback where the engine raised


@dataclass
class Result:
    """What a replay came to; decisions and instructions count those that were recorded."""

    records: int = 0
    events: Counter[str] = field(default_factory=Counter)
    first: float = 0.0
    last: float = 0.0
    decisions: int = 0
    same_decisions: int = 0
    instructions: int = 0
    same_instructions: int = 0
    other_scores: int = 0  # decisions that are the same, with other scores or in another attempt
    different_records: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.records += 1
        self.events[type(record.event).__name__] += 1
        self.first, self.last = self.first if self.records > 1 else record.event.at, record.event.at


class Replay:
    """One file and the engine that it is replayed on."""

    def __init__(self, path: Path) -> None:
        self.reader = RecordingReader(path)
        self.header = self.reader.header
        self.result = Result()
        self.decoder = RecordDecoder(self._read_settings)
        try:
            self.engine = Engine(self._read_settings(self.header.config))
        except ReplayError:
            self.reader.close()
            raise

    def run(self, stop: Callable[[Record, int], bool] = lambda record, number: False) -> Iterator[Record]:
        """Replay record by record, until the end or where `stop` says so of the next one; then the file is closed."""
        with self.reader:
            yield from self._run(stop)

    def _run(self, stop: Callable[[Record, int], bool]) -> Iterator[Record]:
        for offset, content in self.reader.records():
            try:
                record = self.decoder.decode(content)
            except UNREADABLE as error:
                raise self.reader.damaged(offset, str(error)) from None
            if stop(record, self.result.records + 1):
                return
            self.result.add(record)
            self._handle(record)
            yield record

    def explain(self, key: str) -> PodExplanation | None:
        """What `trimtab explain` would have said at this moment of the pod; None where no such pod is known."""
        pod = find_pod(self.engine.cluster, key)
        return None if pod is None else explain_pod(self.engine.controller(Scheduling), pod)

    def _handle(self, record: Record) -> None:
        number, error = self.result.records, ""
        outputs: Sequence[Output] = ()
        try:
            outputs = self.engine.handle(record.event)
        except Exception:  # as it did when this was recorded, or as it does now
            error = traceback.format_exc()
        if number > self.header.snapshot_events or error:
            self._compare(record, outputs, error)
        if number == self.header.snapshot_events:
            settle(self.engine, record.event.at)

    def _compare(self, record: Record, outputs: Sequence[Output], error: str) -> None:
        result = self.result
        missing, extra = unmatched(record.outputs, outputs)
        decisions, missing_decisions = _count_decisions(record.outputs), _count_decisions(missing)
        result.decisions += decisions
        result.same_decisions += decisions - missing_decisions
        result.instructions += len(record.outputs) - decisions
        result.same_instructions += len(record.outputs) - decisions - (len(missing) - missing_decisions)
        if not (missing or extra or error):
            result.other_scores += sum(not same_scores(*pair) for pair in zip(record.outputs, outputs, strict=True))
            return
        result.different_records += 1
        if len(result.differences) < MAX_DIFFERENCES:
            event = type(record.event).__name__
            result.differences.append(Difference(result.records, record.event.at, event, missing, extra, error))

    def _read_settings(self, config: ConfigText) -> Settings:
        try:
            return read_settings(config, self.header.controllers)
        except (ConfigError, PluginError, OSError) as error:
            where = f"record {self.result.records + 1}" if self.result.records else "its start"
            raise ReplayError(f"the configuration recorded at {where} cannot be read here: {error}") from None


def read_settings(config: ConfigText, controllers: Sequence[str]) -> Settings:
    """The settings that such a process makes of the text; plugins of other packages must be installed here, too."""
    if config.file:
        read_file, installed = recorded_files(config), installed_for_rescheduling()
        found = parse(config.content, config.file, installed_plugins(), SOURCE_SETTINGS, read_file, installed=installed)
    else:
        found = default_configuration()
    return configuration_for(controllers, found, config.file).settings


def settle(engine: Engine, now: float) -> None:
    """Let the engine decide on the pods of a snapshot: those that were unschedulable or backing off are so again.

    What it binds here was backing off when the snapshot was taken, so the bind is answered as not sent.
    """
    for _ in range(MAX_SETTLING_TURNS):
        if not engine.has_work():
            return
        for output in engine.handle(Turn(DECISIONS_PER_TURN, now)):
            if isinstance(output, Bind):
                engine.handle(BindFailed(output.uid, output.node, BindFailure.NOT_SENT, "", now))


def unmatched(recorded: Sequence[Output], replayed: Sequence[Output]) -> tuple[tuple[Output, ...], tuple[Output, ...]]:
    """Outputs that only one side has; all of both where only their order differs."""
    if len(recorded) == len(replayed) and all(map(same, recorded, replayed)):
        return (), ()
    missing, extra = [], list(replayed)
    for output in recorded:
        twin = next((each for each in extra if same(output, each)), None)
        if twin is None:
            missing.append(output)
        else:
            extra.remove(twin)
    return (tuple(missing), tuple(extra)) if missing or extra else (tuple(recorded), tuple(replayed))


def same(one: Output, other: Output) -> bool:
    """Whether they come to the same."""
    if isinstance(one, Decision) and isinstance(other, Decision):
        return _outcome(one) == _outcome(other)
    return one == other


def same_scores(one: Output, other: Output) -> bool:
    return one == other or _close(_plain(one), _plain(other))


def _outcome(decision: Decision) -> tuple[str, ...]:
    verdict = decision.verdict
    result = ("node", verdict.node) if isinstance(verdict, Placement) else ("message", verdict.message())
    return decision.uid, decision.profile, *result


def _plain(output: Output) -> Any:
    return msgspec.to_builtins(output, enc_hook=lambda number: number.item())


def _close(one: Any, other: Any) -> bool:
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(_close, one, other))
        case float(), (float() | int()):
            return isclose(one, other, rel_tol=TOLERANCE) or (isnan(one) and isnan(other))
    return bool(one == other)


def _count_decisions(outputs: Sequence[Output]) -> int:
    return sum(isinstance(output, Decision) for output in outputs)
