"""Reads snapshot files of `trimtab snapshot`; `snapshot_document` describes the format.

    snapshot = read_snapshot("cluster.json.gz")      raises SnapshotError, with the file and the field
    scenario = scenario_of(snapshot)                 of `snapshot_scenario`, to simulate it

Objects are decoded by the readers that decode what the API server sends, so the nodes and pods of a file are the ones that
the scheduler saw. A file may come from anywhere: whatever is in it, it is read whole or an error says why not.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct, ValidationError

from trimtab.config.diagnostics import printable
from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.config.trimtab.document import GROUP
from trimtab.core.model.duration import DAY
from trimtab.core.model.events import (
    Event,
    HistoryRead,
    KindForbidden,
    NodeUpserted,
    ObjectUpserted,
    PodUpserted,
    SamplesRead,
    Synced,
)
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object, PodGroup
from trimtab.core.model.pod import Pod
from trimtab.sim.snapshot_document import API_VERSION, KIND, VERSION, History, Metadata, PastUsage, Sample, Usage
from trimtab.wire.decoding import UNREADABLE, Malformed, format_error
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.readers import OBJECT_READERS
from trimtab.wire.watch import Reader

NOT_LISTED = "the snapshot was taken without permission to list it"

MAX_BYTES = 2 << 30  # uncompressed
MAX_STEPS = 10_000_000  # of a history: more would seem to be simulated for ever
GZIP = b"\x1f\x8b"

T = TypeVar("T")
Values = tuple[float | None, ...]


class SnapshotError(Exception):
    """Why a file cannot be used: the file, the field, and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment, as the scheduler saw it; `usage` and `history` are None where nothing was measured."""

    metadata: Metadata
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    objects: tuple[Object, ...]
    usage: Usage | None = None
    history: History | None = None

    @property
    def taken(self) -> float:
        """Seconds since 1970."""
        return self.metadata.taken.timestamp()

    def events(self, at: float | None = None) -> Iterator[Event]:
        """What an engine must be told to be in this state, at the time that the snapshot was taken or another one.

        A missing kind is reported as forbidden, so pods that need it wait as they would have.
        """
        now = self.taken if at is None else at
        yield from (ObjectUpserted(each, now) for each in self.objects)
        yield from (NodeUpserted(each, now) for each in self.nodes)
        yield from (PodUpserted(each, now) for each in self.pods)
        for kind in ("nodes", "pods", *OBJECT_READERS):
            yield KindForbidden(kind, NOT_LISTED, now) if kind in self.metadata.missing else Synced(kind, now)
        if self.usage is not None and (readings := self.usage.readings()):
            yield SamplesRead(readings, now)
        if self.history is not None and (past := self.history.readings()):
            yield HistoryRead(past, now)


def read_snapshot(path: Path | str) -> ClusterSnapshot:
    """The snapshot in this file; raises SnapshotError."""
    try:
        return _parse(_read_content(Path(path)))
    except _Problem as error:
        raise SnapshotError(printable(f"{path}: {error}")) from None


class _Problem(Exception):
    """What is wrong with the content, without the name of the file."""


class _Head(Struct, frozen=True, rename={"api_version": "apiVersion"}):
    api_version: str = ""
    kind: str = ""


class _History(Struct, frozen=True):
    start: float
    step: float
    nodes: dict[str, Raw] = {}
    pods: dict[str, Raw] = {}


class _Usage(Struct, frozen=True):
    nodes: dict[str, Raw] = {}
    pods: dict[str, Raw] = {}


class _Document(Struct, frozen=True):
    metadata: Metadata
    objects: dict[str, Raw]
    usage: _Usage | None = None
    history: _History | None = None


def _read_content(path: Path) -> bytes:
    try:
        with path.open("rb") as plain:
            packed = plain.read(len(GZIP)) == GZIP
            plain.seek(0)
            with gzip.GzipFile(fileobj=plain) if packed else plain as stream:
                content: bytes = stream.read(MAX_BYTES + 1)
    except EOFError:
        raise _Problem("the file is cut short: copy it again, or take another snapshot") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _Problem(f"the file is damaged ({error}): copy it again, or take another snapshot") from None
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        raise _Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise _Problem(f"has more than {MAX_BYTES >> 30} GiB: it is not read")
    return content


def _parse(content: bytes) -> ClusterSnapshot:
    if not content.strip():
        raise _Problem("the file is empty: copy it again, or take another snapshot")
    _check_head(_decoded(content, _Head, ""))
    document = _decoded(content, _Document, "")
    if unknown := [kind for kind in document.objects if kind not in ("nodes", "pods", *OBJECT_READERS)]:
        raise _Problem(f"objects.{unknown[0]}: unknown kind, perhaps of a newer version: upgrade trimtab")
    if document.metadata.interval is not None:
        _check_seconds(document.metadata.interval, "metadata.interval")
    pods: tuple[Pod, ...] = _objects(document, "pods", PodReader(), lambda pod: pod.spec_error)
    nodes: tuple[Node, ...] = _objects(document, "nodes", NodeReader(NODE_ANNOTATIONS), lambda node: node.error)
    others = [each for kind, reader in OBJECT_READERS.items() for each in _objects(document, kind, reader())]
    named = {"nodes": {node.name for node in nodes}, "pods": {pod.key for pod in pods}}
    usage = None if document.usage is None else _usage(document.usage, named)
    history = None if document.history is None else _history(document.history, named)
    return ClusterSnapshot(document.metadata, nodes, pods, tuple(others), usage, history)


def _check_head(head: _Head) -> None:
    group, _, version = head.api_version.partition("/")
    if head.kind != KIND or group != GROUP:
        found = f"kind {head.kind[:40]!r} of {head.api_version[:40]!r}" if head.kind else "no kind"
        raise _Problem(f"is not a snapshot: it has {found}, not {KIND!r}; take one with `trimtab snapshot`")
    if version != VERSION:
        reads = f"this trimtab reads {API_VERSION}; if the snapshot is of a newer one, upgrade"
        raise _Problem(f"apiVersion: {head.api_version[:40]!r} is not supported: {reads}")


def _decoded(content: bytes | Raw, shape: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(content, type=shape)
    except UNREADABLE as error:
        damaged = (
            "" if path or isinstance(error, ValidationError) else ": copy the file again, or take another snapshot"
        )
        raise _Problem(in_words(format_error(path, error)).lstrip(".: ") + damaged) from None


_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "datetime": "a time",
}
_EXPECTED = re.compile(r"Expected `([a-z| ]+)`, got `([a-z]+)`")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_NO_TIME = re.compile(r"Expected `datetime` with a timezone component|Invalid RFC3339 encoded datetime")


def in_words(message: str) -> str:
    """A decoder's message in the words of this program."""

    def expected(match: re.Match[str]) -> str:
        wanted = " or ".join(_TYPES.get(each, each) for each in match.group(1).split(" | "))
        return f"expected {wanted}, got {_TYPES.get(match.group(2), match.group(2))}"

    message = _EXPECTED.sub(expected, message)
    message = _MISSING.sub(r"\1 is missing", message)
    message = _NO_TIME.sub("expected a time with a time zone, such as 2026-01-31T08:00:00Z", message)
    return message.replace("Input data was truncated", "the file is cut short").replace(
        "JSON is malformed", "is not JSON"
    )


# --- objects


def _objects(
    document: _Document, kind: str, reader: Reader[Any], error_of: Callable[[Any], str] = lambda each: ""
) -> tuple[Any, ...]:
    """All objects of the kind; a field that cannot be decoded is an error, for the writer has decoded all."""
    found: list[Any] = []
    seen: set[tuple[str, str]] = set()
    items = _decoded(document.objects[kind], tuple[Raw, ...], f"objects.{kind}") if kind in document.objects else ()
    for index, raw in enumerate(items):
        each, where = reader.read(raw), f"objects.{kind}[{index}]"
        if isinstance(each, Malformed):
            raise _Problem(f"{where}.{in_words(each.error)}")
        if error := error_of(each):
            raise _Problem(f"{where}.{in_words(error)}")
        for what, identity in _identities(each):
            if (what, identity) in seen:
                raise _Problem(f"{where}.metadata.{what}: {identity[:60]!r} is that of an earlier object, too")
            seen.add((what, identity))
        found.append(each)
    return tuple(found)


def _identities(each: Any) -> Iterator[tuple[str, str]]:
    """What no two objects of a kind share. A node may lack a UID; PodGroups of two API groups may share their name."""
    if each.uid:
        yield "uid", each.uid
    if not isinstance(each, PodGroup):
        yield "name", each.name if isinstance(each, Node) else each.key


# --- measurements


def _usage(shape: _Usage, named: Mapping[str, Collection[str]]) -> Usage:
    nodes = dict(_entries(shape.nodes, Sample, "usage.nodes", named["nodes"]))
    pods = dict(_entries(shape.pods, Sample, "usage.pods", named["pods"]))
    for where, samples in (("usage.nodes", nodes), ("usage.pods", pods)):
        for name, each in samples.items():
            _check_amounts(tuple(each.amounts().values()), f"{where}[{name!r}]")
            _check_finite((each.measured, *each.custom.values()), f"{where}[{name!r}]")
    return Usage(nodes, pods)


def _history(shape: _History, named: Mapping[str, Collection[str]]) -> History:
    _check_seconds(shape.step, "history.step")
    _check_finite((shape.start,), "history.start")
    nodes = dict(_entries(shape.nodes, PastUsage, "history.nodes", named["nodes"]))
    pods = dict(_entries(shape.pods, PastUsage, "history.pods", named["pods"]))
    found = History(shape.start, shape.step, nodes, pods)
    if found.steps > MAX_STEPS:
        raise _Problem(f"history: {found.steps:,} values in a series are more than {MAX_STEPS:,}")
    for where, series in (("history.nodes", nodes), ("history.pods", pods)):
        for name, each in series.items():
            for resource, values in each.series().items():
                _check_series(values, found.steps, f"{where}[{name!r}].{resource}")
    return found


def _entries(entries: Mapping[str, Raw], shape: type[T], path: str, known: Collection[str]) -> Iterator[tuple[str, T]]:
    for name, raw in entries.items():
        if name not in known:
            kind = path.rpartition(".")[2]
            raise _Problem(f"{path}[{name[:200]!r}]: there is no such object in objects.{kind}")
        yield name, _decoded(raw, shape, f"{path}[{name!r}]")


def _check_series(values: Values, steps: int, where: str) -> None:
    if values and len(values) != steps:
        raise _Problem(f"{where}: {len(values)} values, where other series have {steps}")
    _check_amounts(values, where)


def _check_amounts(values: Values, where: str) -> None:
    for each in values:
        if each is not None and not 0 <= each < float("inf"):
            raise _Problem(f"{where}: {each:g} is not an amount")


def _check_seconds(value: float, where: str) -> None:
    if not 1 <= value <= DAY:
        raise _Problem(f"{where}: {value:g} is not a number of seconds from 1 to {DAY:.0f}, a day")


def _check_finite(values: tuple[float, ...], where: str) -> None:
    for each in values:
        if not isfinite(each):
            raise _Problem(f"{where}: {each:g} is not a number that can be measured")
