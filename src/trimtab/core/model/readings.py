"""The answer to one query of a metric source, for many nodes or pods.

A scrape of a large cluster is a hundred thousand numbers, so they are columns: as many objects would cost more than all that
is done with them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Unit(StrEnum):
    """The unit of values: millicores and bytes as in requests, a fraction of the node's capacity, or anything."""

    ABSOLUTE = "own"
    FRACTION = "share"
    RAW = "raw"


class Statistic(StrEnum):
    """A single sample, or a statistic computed by the source."""

    LATEST = "latest"
    MEAN = "mean"
    DEVIATION = "deviation"


class Subject(StrEnum):
    """Whether values are of nodes or of pods."""

    NODES = "nodes"
    PODS = "pods"


class Reading(Struct, frozen=True, gc=False):
    """One metric: `names` (of nodes, or namespace/name of pods), their `values`, and when each was `measured`.

    `window` is the period in seconds that a value covers, 0 for an instant. Each name occurs once: of two values for one
    name the source drops both. `skipped` counts what was dropped, by reason.
    """

    source: str
    resource: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    measured: tuple[float, ...]
    subject: Subject = Subject.NODES
    unit: Unit = Unit.ABSOLUTE
    statistic: Statistic = Statistic.LATEST
    window: float = 0.0
    skipped: tuple[tuple[str, int], ...] = ()
