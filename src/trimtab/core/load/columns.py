"""Measured load as columns: what each node uses, what its pods will use, and whether that can still be believed.

Missing is never zero: a node without a sample, or with one that is too old, has NaN, and every comparison with it fails.
Node columns follow the cluster's rows and pod columns its slots; `Cluster` says who comes, goes and moves. All answers are
in the units of requests: thousandths of a core, bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Reading, Statistic, Subject, Unit

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Cells(Protocol):
    """One amount per row."""

    @property
    def array(self) -> NDArray[np.int64]: ...


class Rows(Protocol):
    """Whoever knows which node stands in which row, and what the machine has."""

    row: dict[str, int]

    @property
    def has(self) -> Mapping[str, Cells]: ...

    def __len__(self) -> int: ...


class Meter:
    """One metric of all nodes: the newest value, when it was measured, over which span, and by which source."""

    def __init__(self, rows: int) -> None:
        self.value, self.measured = np.full(rows, np.nan), np.full(rows, np.nan)
        self.window: Floats = np.zeros(rows)
        self.source = np.full(rows, -1)
        self.lines: list[tuple[float, Floats]] = []

    def columns(self) -> tuple[str, ...]:
        return ("value", "measured", "window", "source")


class LoadColumns:
    """Everything measured. Plugins read it through `View.load`; only `Cluster` and the engine write it."""

    def __init__(self, settings: LoadSettings | None = None, rows: int = 0) -> None:
        self.settings = settings if settings is not None else LoadSettings()
        self.now = -math.inf
        self.version = 0
        self.rows = rows
        self.meters: dict[tuple[str, Statistic], Meter] = {}
        self.sources: dict[str, int] = {}
        self.failed: set[int] = set()
        self.pods: dict[int, tuple[Pod, int, float]] = {}

    # --- facts

    def read(self, readings: Sequence[Reading], at: float, rows: Rows) -> Counter[str]:
        """Take a scrape in; returns how many numbers were not believed, by reason."""
        self.now, refused = max(self.now, at), Counter[str]()
        self.version += 1
        for reading in readings:
            source = self.sources.setdefault(reading.source, len(self.sources))
            self.failed.discard(source)
            if reading.subject is Subject.NODES:
                self._read_nodes(reading, source, rows, refused)
        return refused

    def _read_nodes(self, reading: Reading, source: int, rows: Rows, refused: Counter[str]) -> None:
        meter = self.meters.setdefault((reading.resource, reading.statistic), Meter(self.rows))
        line = np.full(self.rows, np.nan)
        for name, value, measured in zip(reading.names, reading.values, reading.measured, strict=True):
            row = rows.row.get(name)
            if row is None:
                refused["unknown"] += 1
            elif not (math.isfinite(value) and math.isfinite(measured)):
                refused["nan"] += 1
            elif value < 0 and reading.unit is not Unit.RAW:
                refused["negative"] += 1
            else:
                if reading.unit is Unit.SHARE:
                    value *= float(rows.has[reading.resource].array[row])
                meter.value[row], meter.measured[row] = value, measured
                meter.window[row], meter.source[row] = reading.window, source
                line[row] = value
        meter.lines = [*meter.lines[-240:], (self.now, line)]

    def fail(self, source: str, at: float) -> None:
        """The source does not answer: nothing of it is believed until it does."""
        self.now = max(self.now, at)
        self.version += 1
        self.failed.add(self.sources.setdefault(source, len(self.sources)))

    def refill(self, readings: Sequence[Reading], at: float, rows: Rows) -> Counter[str]:
        """Take history in, oldest first: rings, snapshots and sums, never the latest value."""
        return Counter()

    def age(self, at: float) -> bool:
        """Let time pass; whether anything is trusted less for it."""
        before = [self._trust(meter).tolist() for meter in self.meters.values()]
        self.now = max(self.now, at)
        changed = before != [self._trust(meter).tolist() for meter in self.meters.values()]
        self.version += changed
        return changed

    # --- rows and slots, kept in step by Cluster

    def open_row(self, row: int) -> None:
        self.rows += 1
        for meter in self.meters.values():
            for name in meter.columns():
                old = getattr(meter, name)
                blank = 0.0 if name == "window" else -1 if name == "source" else np.nan
                setattr(meter, name, np.append(old, np.array([blank], dtype=old.dtype)))
            meter.lines = [(at, np.append(line, np.nan)) for at, line in meter.lines]

    def close_row(self, row: int, last: int) -> None:
        """The node in this row has gone, and the one in the last row has taken its place."""
        self.rows -= 1
        for meter in self.meters.values():
            for column in (*(getattr(meter, name) for name in meter.columns()), *(line for _, line in meter.lines)):
                column[row] = column[last]
            for name in meter.columns():
                setattr(meter, name, getattr(meter, name)[:-1])
            meter.lines = [(at, line[:-1]) for at, line in meter.lines]
        moves = {row: -1, last: row} if row != last else {row: -1}
        self.pods = {slot: (pod, moves.get(at, at), since) for slot, (pod, at, since) in self.pods.items()}

    def came(self, slot: int, pod: Pod, row: int) -> None:
        """A pod takes a place (row -1: on a node nobody has seen): estimated until a sample contains it."""
        self.pods[slot] = (pod, row, self.now if pod.started is None else pod.started)

    def altered(self, slot: int, pod: Pod) -> None:
        """The same pod, on its way out perhaps: then its share is taken off at once."""
        _, row, since = self.pods[slot]
        self.pods[slot] = (pod, row, since if pod.started is None else pod.started)

    def left(self, slot: int) -> None:
        """It has gone: what it used is taken off until the next sample shows that it has."""
        del self.pods[slot]

    # --- what plugins read: one cell per row, NaN where nothing is to be believed

    def _trust(self, meter: Meter) -> Floats:
        age = np.abs(self.now - meter.measured)
        trust = np.where(age <= self.settings.fresh, 1.0, np.where(age <= self.settings.stale, 0.5, 0.0))
        trust[np.isin(meter.source, list(self.failed))] = 0.0
        return trust

    def _believed(self, name: str, statistic: Statistic) -> Floats:
        meter = self.meters.get((name, statistic))
        return np.full(self.rows, np.nan) if meter is None else np.where(self._trust(meter) > 0, meter.value, np.nan)

    def trust(self, resource: str) -> Floats:
        """1 while fresh, a half while getting on, 0 once stale, absent, or its source has failed."""
        meter = self.meters.get((resource, Statistic.LATEST))
        return np.zeros(self.rows) if meter is None else self._trust(meter)

    def latest(self, resource: str) -> Floats:
        """The newest sample of each node, as it was measured."""
        return self._believed(resource, Statistic.LATEST)

    def measured(self, resource: str) -> Floats:
        """When the newest sample of each node was measured; NaN for none."""
        meter = self.meters.get((resource, Statistic.LATEST))
        return np.full(self.rows, np.nan) if meter is None else meter.measured

    def pending(self, resource: str) -> Floats:
        """What the newest sample does not show yet: estimates of pods not in it, less what left since. Never NaN."""
        meter, pending = self.meters.get((resource, Statistic.LATEST)), np.zeros(self.rows)
        for pod, row, since in self.pods.values():
            if row >= 0 and not (meter is not None and since <= meter.measured[row]):
                pending[row] += self.estimate(pod, resource)[0]
        return pending

    def expected(self, resource: str) -> Floats:
        """`latest` + `pending`, not below 0: what the node will be seen to use once everything is in a sample."""
        return np.maximum(self.latest(resource) + self.pending(resource), 0.0)

    def _span(self, resource: str, seconds: float) -> NDArray[np.float64]:
        meter = self.meters.get((resource, Statistic.LATEST))
        lines = [] if meter is None else [line for at, line in meter.lines if at > self.now - seconds]
        return np.array([np.full(self.rows, np.nan), *lines])

    def average(self, resource: str, seconds: float) -> Floats:
        """Mean of the node's samples of the last `seconds` (at most an hour)."""
        lines = self._span(resource, seconds)
        counts = np.isfinite(lines).sum(axis=0)
        return np.where(counts > 0, np.nansum(lines, axis=0) / np.maximum(counts, 1), np.nan) + 0 * self.latest(
            resource
        )

    def mean(self, resource: str) -> Floats:
        """Mean over `settings.window`, or what the source itself gave as such."""
        given = self._believed(resource, Statistic.MEAN)
        return np.where(np.isnan(given), self.average(resource, self.settings.window), given)

    def deviation(self, resource: str) -> Floats:
        """Standard deviation over `settings.window`, or what the source gave; NaN with fewer than two samples."""
        given = self._believed(resource, Statistic.DEVIATION)
        lines = self._span(resource, self.settings.window)
        counts = np.isfinite(lines).sum(axis=0)
        squares = np.nansum((lines - self.average(resource, self.settings.window)) ** 2, axis=0)
        own = np.where(counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1)), np.nan)
        return np.where(np.isnan(given), own, given)

    def percentile(self, resource: str, percent: int, seconds: int) -> Floats:
        """Exact percentile (50, 90, 95, 99) over 300, 600 or 1800 seconds."""
        lines = self._span(resource, seconds)
        cells = [column[np.isfinite(column)] for column in lines.T]
        return np.array([np.percentile(each, percent) if len(each) else np.nan for each in cells])

    def peak(self, resource: str, seconds: int) -> Floats:
        """The highest five-minute mean within 3600 or 86400 seconds."""
        return self.percentile(resource, 100, seconds)

    def forecast(self, resource: str) -> tuple[Floats, Floats]:
        """Mean and variance of the sum that each node's pods will come to: hour's means and variances of pods that are
        seen, estimates of those that are not, and what the node uses beside its pods. Where pods are not measured the
        node's own figures stand in (`stand_in`)."""
        return self.expected(resource), self.deviation(resource) ** 2

    def stand_in(self, resource: str) -> Bools:
        """Nodes whose forecast rests on node metrics alone."""
        return np.ones(self.rows, dtype=np.bool_)

    def estimate(self, pod: Pod, resource: str) -> tuple[float, float, str]:
        """What a pod nobody has seen yet will use: mean, standard deviation, and the rule that knew it."""
        amount = float(pod.demand.of(resource) or {CPU: 250, MEMORY: 200 * 1024 * 1024}.get(resource, 0))
        return amount, amount / 2, "requests"

    def custom(self, name: str) -> Floats:
        """The newest value of a metric of the user's own (`Unit.RAW`), NaN where it is not to be believed."""
        return self._believed(name, Statistic.LATEST)

    @property
    def placed(self) -> Floats:
        """By slot: when each pod took its place, as far as known."""
        placed = np.full(max(self.pods, default=-1) + 1, -np.inf)
        for slot, (_, _, since) in self.pods.items():
            placed[slot] = since
        return placed

    @property
    def sampled(self) -> Floats:
        """By slot: when the newest sample that contains the pod was measured; NaN for none."""
        return np.full(max(self.pods, default=-1) + 1, np.nan)

    def reordered(self, rows: NDArray[np.intp], slots: NDArray[np.intp]) -> LoadColumns:
        """The same with other numbers: row r holds what rows[r] held, slot s what slots[s] held."""
        twin = self.copy()
        for meter in twin.meters.values():
            for name in meter.columns():
                setattr(meter, name, getattr(meter, name)[rows])
            meter.lines = [(at, line[rows]) for at, line in meter.lines]
        back = {old: new for new, old in enumerate(rows.tolist())}
        held = ((slot, self.pods[old]) for slot, old in enumerate(slots.tolist()))
        twin.pods = {slot: (pod, back.get(row, -1), since) for slot, (pod, row, since) in held}
        return twin

    def copy(self) -> LoadColumns:
        return deepcopy(self)


__all__ = ["Bools", "Floats", "LoadColumns", "Rows", "Statistic", "Subject", "Unit"]
