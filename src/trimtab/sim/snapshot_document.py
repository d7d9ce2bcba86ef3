"""The document in a snapshot file, and how it is written. `snapshot_file` reads it back.

::

    {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ClusterSnapshot",
     "metadata": {"taken": "2026-01-31T08:00:00Z",       when the first list began
                  "trimtab": "1.4.0", "kubernetes": "v1.35.0",
                  "hashed": false,                       whether names are pseudonyms (`--hash-names`)
                  "interval": 30.0,                      seconds between two samples of the source, if there is one
                  "missing": ["persistentvolumes"],      kinds that could not be listed: nothing is known of them
                  "notes": ["…"]},                       what else is not in the file, and why
     "objects": {"nodes": […], "pods": […], "replicasets": […], …},
     "usage": {"nodes": {"NODE": SAMPLE}, "pods": {"NAMESPACE/NAME": SAMPLE}},
     "history": {"start": 1769846400, "step": 300, "nodes": {"NODE": SERIES}, "pods": {"NAMESPACE/NAME": SERIES}}}

    SAMPLE   {"cpu": 250.5, "memory": 104857600, "measured": 1769846395.2, "custom": {"psi.cpu": 0.02}}
    SERIES   {"cpu": [250.5, null, …], "memory": […], "custom": {"network": […]}}

Gzip, if the name of the file ends in `.gz`; a reader looks at the first bytes. Objects are Kubernetes' own JSON, as the API
server listed them, reduced to the fields that scheduling decodes (`wire/reduction.py`); they lack `kind` and `apiVersion`.
CPU is in millicores and memory in bytes. What was not measured is absent, or null within a series, and never 0: without a
source there is no `usage`, and without `--history` no `history`. Value `i` of a series was measured at `start + i * step`
seconds since 1970, and all series have the same length. `custom` has the metrics of nodes and of pods that are neither CPU
nor memory, in units of their own; only those of pods have a past. A reader ignores fields that it does not know; a change
that it must not ignore gets a new apiVersion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.config.trimtab.document import GROUP
from trimtab.core.model.readings import Reading, Subject, Unit
from trimtab.core.model.resources import CPU, MEMORY

VERSION, KIND = "v1alpha1", "ClusterSnapshot"
API_VERSION = f"{GROUP}/{VERSION}"
SOURCE = "snapshot"  # the source of the readings that samples become

Amounts = tuple[float | None, ...]


class Metadata(Struct, frozen=True, omit_defaults=True):
    """About the file as a whole."""

    taken: Annotated[datetime, Meta(tz=True)]
    trimtab: str = ""
    kubernetes: str = ""
    hashed: bool = False
    interval: float | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Sample(Struct, frozen=True, omit_defaults=True):
    """What one node or pod used; `measured` is when, in seconds since 1970, the older time if the two differ."""

    measured: float
    cpu: float | None = None
    memory: float | None = None
    custom: dict[str, float] = {}

    def amounts(self) -> Mapping[str, float]:
        """Usage by resource, as far as it was measured."""
        return {name: value for name, value in ((CPU, self.cpu), (MEMORY, self.memory)) if value is not None}


class PastUsage(Struct, frozen=True, omit_defaults=True):
    """What one node or pod has used, one value per step."""

    cpu: Amounts = ()
    memory: Amounts = ()
    custom: dict[str, Amounts] = {}

    def series(self) -> Mapping[str, Amounts]:
        """By resource or custom metric."""
        return {CPU: self.cpu, MEMORY: self.memory, **self.custom}


class Usage(Struct, frozen=True):
    """The latest samples, of nodes by name and of pods by namespace/name."""

    nodes: Mapping[str, Sample] = {}
    pods: Mapping[str, Sample] = {}

    def readings(self) -> tuple[Reading, ...]:
        """The samples as a source would report them, for `SamplesRead`."""
        found = [
            _reading(samples, resource, subject)
            for subject, samples in ((Subject.NODES, self.nodes), (Subject.PODS, self.pods))
            for resource in (CPU, MEMORY)
        ]
        for subject, samples in ((Subject.NODES, self.nodes), (Subject.PODS, self.pods)):
            custom = dict.fromkeys(name for each in samples.values() for name in each.custom)
            found += [_custom_reading(samples, name, subject) for name in custom]
        return tuple(each for each in found if each.names)


class History(Struct, frozen=True):
    """Past usage: value `i` of every series was measured at `start + i * step`."""

    start: float
    step: float
    nodes: Mapping[str, PastUsage] = {}
    pods: Mapping[str, PastUsage] = {}

    @property
    def steps(self) -> int:
        """The length of every series."""
        series = (each for of in (self.nodes, self.pods) for one in of.values() for each in one.series().values())
        return max(map(len, series), default=0)

    def readings(self) -> tuple[Reading, ...]:
        """The values as a source would report them, for `HistoryRead`: one reading per step and metric, oldest first."""
        custom = dict.fromkeys(name for each in self.pods.values() for name in each.custom)
        found = (
            _past_reading(series, resource, subject, step, self.start + step * self.step)
            for step in range(self.steps)
            for subject, series in ((Subject.NODES, self.nodes), (Subject.PODS, self.pods))
            for resource in (CPU, MEMORY, *(custom if subject is Subject.PODS else ()))
        )
        return tuple(each for each in found if each.names)


def _reading(samples: Mapping[str, Sample], resource: str, subject: Subject) -> Reading:
    found = [
        (name, each.amounts()[resource], each.measured) for name, each in samples.items() if resource in each.amounts()
    ]
    names, values, measured = zip(*found, strict=True) if found else ((), (), ())
    return Reading(f"{SOURCE}/{subject}", resource, names, values, measured, subject)


def _past_reading(series: Mapping[str, PastUsage], resource: str, subject: Subject, step: int, at: float) -> Reading:
    lines = ((name, each.series().get(resource, ())) for name, each in series.items())
    found = [(name, value) for name, values in lines if values and (value := values[step]) is not None]
    names, values = zip(*found, strict=True) if found else ((), ())
    unit = Unit.ABSOLUTE if resource in (CPU, MEMORY) else Unit.RAW
    return Reading(f"{SOURCE}/{subject}", resource, names, values, (at,) * len(names), subject, unit)


def _custom_reading(samples: Mapping[str, Sample], metric: str, subject: Subject) -> Reading:
    found = [(name, each.custom[metric], each.measured) for name, each in samples.items() if metric in each.custom]
    names, values, measured = zip(*found, strict=True)
    return Reading(f"{SOURCE}/{metric}", metric, names, values, measured, subject, Unit.RAW)


def encode_document(
    metadata: Metadata,
    objects: Mapping[str, Iterable[bytes]],
    usage: Usage | None = None,
    history: History | None = None,
) -> Iterator[bytes]:
    """The document in pieces, because that of a large cluster is hundreds of megabytes."""
    head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
    yield msgspec.json.encode(head)[:-1] + b',\n"objects":{'
    for index, (kind, items) in enumerate(objects.items()):
        yield (b",\n" if index else b"\n") + msgspec.json.encode(kind) + b":["
        yield from _joined(items)
        yield b"]"
    yield b"}"
    if usage is not None:
        yield b',\n"usage":'
        yield from _encode_maps({}, {"nodes": usage.nodes, "pods": usage.pods})
    if history is not None:
        yield b',\n"history":'
        bounds = {"start": history.start, "step": history.step}
        yield from _encode_maps(bounds, {"nodes": history.nodes, "pods": history.pods})
    yield b"}\n"


def _encode_maps(fields: Mapping[str, float], maps: Mapping[str, Mapping[str, Struct]]) -> Iterator[bytes]:
    yield b"{" + b"".join(
        b"%s:%s," % (msgspec.json.encode(name), msgspec.json.encode(value)) for name, value in fields.items()
    )
    for index, (name, entries) in enumerate(maps.items()):
        yield (b",\n" if index else b"\n") + msgspec.json.encode(name) + b":{"
        yield from _joined(
            msgspec.json.encode(key) + b":" + msgspec.json.encode(entry) for key, entry in entries.items()
        )
        yield b"}"
    yield b"}"


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for index, piece in enumerate(pieces):
        yield (b",\n" if index else b"\n") + piece
