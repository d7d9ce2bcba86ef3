"""What one question to one metric source was answered, for many nodes or pods; how far it is trusted is left to `load`.

A scrape of a large cluster is a hundred thousand numbers: they travel as plain columns, because as many objects would cost
more than all that is done with them.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Unit(StrEnum):
    """What the numbers count: as requests do (thousandths of a core, bytes), shares of the node's capacity, or anything."""

    ABSOLUTE = "own"
    FRACTION = "share"
    RAW = "raw"


class Statistic(StrEnum):
    """One look at the meter, or what the source itself has made of many."""

    LATEST = "latest"
    MEAN = "mean"
    DEVIATION = "deviation"


class Subject(StrEnum):
    """Whose numbers these are."""

    NODES = "nodes"
    PODS = "pods"


class Reading(Struct, frozen=True, gc=False):
    """One metric: `names` (of nodes, or namespace/name of pods), their `values`, and when each was `measured`.

    `window` is the span in seconds that a value speaks for, 0 for an instant. A name stands in it once: whoever finds two
    values for one leaves both out and counts them. `skipped` counts what was left out, by reason.
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
