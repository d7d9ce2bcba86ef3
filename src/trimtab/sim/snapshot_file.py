"""Reads snapshot files of `trimtab snapshot`; `snapshot_document` describes the format.

    snapshot = read_snapshot("cluster.json.gz")      raises SnapshotError, with the file and the field
    scenario = scenario_of(snapshot)                 of `snapshot_scenario`, to simulate it

Objects are decoded by the readers that decode what the API server sends, so the nodes and pods of a file are the ones that
the scheduler saw. A file may come from anywhere: whatever is in it, it is read whole or an error says why not.
"""

from __future__ import annotations

import gzip
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
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.sim.snapshot_document import KIND, VERSION, History, Metadata, PastUsage, Sample, Usage
from trimtab.wire.decoding import UNREADABLE, Malformed, format_error
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.readers import OBJECT_READERS
from trimtab.wire.watch import Reader

MAX_BYTES = 2 << 30  # uncompressed
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
    objects: dict[str, tuple[Raw, ...]]
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
    _check_head(_decoded(content, _Head, ""))
    document = _decoded(content, _Document, "")
    if unknown := [kind for kind in document.objects if kind not in ("nodes", "pods", *OBJECT_READERS)]:
        raise _Problem(f"objects.{unknown[0]}: unknown kind, perhaps of a newer version: upgrade trimtab")
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
        raise _Problem(f"apiVersion: {head.api_version!r} is a snapshot of a newer version: upgrade trimtab")


def _decoded(content: bytes | Raw, shape: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(content, type=shape)
    except UNREADABLE as error:
        damaged = (
            "" if path or isinstance(error, ValidationError) else ": copy the file again, or take another snapshot"
        )
        raise _Problem(format_error(path, error).lstrip(".: ") + damaged) from None


# --- objects


def _objects(
    document: _Document, kind: str, reader: Reader[Any], error_of: Callable[[Any], str] = lambda each: ""
) -> tuple[Any, ...]:
    """All objects of the kind; a field that cannot be decoded is an error, for the writer has decoded all."""
    found: list[Any] = []
    seen: set[str] = set()
    for index, raw in enumerate(document.objects.get(kind, ())):
        each, where = reader.read(raw), f"objects.{kind}[{index}]"
        if isinstance(each, Malformed):
            raise _Problem(f"{where}.{each.error}")
        if error := error_of(each):
            raise _Problem(f"{where}.{error}")
        identity = each.uid or each.name  # a node may lack the former
        if identity in seen:
            raise _Problem(f"{where}.metadata: {identity[:60]!r} is that of an earlier object, too")
        seen.add(identity)
        found.append(each)
    return tuple(found)


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
    if not (isfinite(shape.step) and shape.step > 0):
        raise _Problem(f"history.step: {shape.step:g} is not a number of seconds above 0")
    _check_finite((shape.start,), "history.start")
    nodes = dict(_entries(shape.nodes, PastUsage, "history.nodes", named["nodes"]))
    pods = dict(_entries(shape.pods, PastUsage, "history.pods", named["pods"]))
    found = History(shape.start, shape.step, nodes, pods)
    for where, series in (("history.nodes", nodes), ("history.pods", pods)):
        for name, each in series.items():
            for resource, values in (("cpu", each.cpu), ("memory", each.memory)):
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


def _check_finite(values: tuple[float, ...], where: str) -> None:
    for each in values:
        if not isfinite(each):
            raise _Problem(f"{where}: {each:g} is not a number that can be measured")
