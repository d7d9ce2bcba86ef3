"""Grades moves: what one was worth, minutes and hours after it ended, against what its plan had promised.

    relief = penalty of both nodes, had the replacement stayed on the source  -  their penalty as they are

by snapshot, over those since the move. The utilisation of both nodes since then is compared with what was promised, too.

A plan judges each move with those before it made, and those after it not. So does the grade: later moves of either node are
taken back first, or two moves that were both needed would each seem to be worth nothing.

Without trusted samples of both nodes, or of the replacement, there is no grade. `summarise` says what many
moves were worth together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median

import numpy as np
from msgspec import Struct

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.history import FIVE_MINUTES
from trimtab.core.load.snapshots import BUCKETS_PER_HOUR, SnapshotTimes, common_times
from trimtab.core.model.ledger import Grade, MoveRecord, MoveState
from trimtab.core.rescheduling.objective import Array, NodeLoad, penalties
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.tables import Index

LATEST = 1.5  # times the wanted age: a grade that could not be given until then is left out
AT_ONCE = 10  # grades of one tick


def promise(load: NodeLoad, source: int, target: int, gain: float) -> tuple[tuple[float, float] | None, float | None]:
    """Of a move just made in `load`: the utilisation of both nodes, as they were used lately, and the gain by snapshot."""
    recent, weights = len(load.times.recent), load.weights
    if not recent or not weights.sum():
        return None, None
    rows = np.array([source, target])
    lately = _utilisation(load.usage[:, rows, :recent], load, rows) @ (weights[:recent] / weights[:recent].sum())
    return (float(lately[0]), float(lately[1])), float(gain / weights.sum())


def _utilisation(usage: Array, load: NodeLoad, rows: Index) -> Array:
    """By row and snapshot: of the fullest resource, as a share of what pods may use."""
    capacity = np.stack([load.cluster.view.usable(name)[rows] for name in load.resources])
    shares = usage / np.where(capacity > 0, capacity, np.inf)[:, :, None]
    return np.asarray(shares.max(axis=0), dtype=np.float32)


def grade_moves(
    cluster: Cluster, settings: ReschedulingSettings, records: Sequence[MoveRecord], now: float
) -> Iterator[tuple[MoveRecord, Grade]]:
    """Those that are due, a few at a time, each second beginning with another one: a move of which too little is known is
    tried again and again, and delays no others."""
    due = [each for each in enumerate(records) if each[1].relief is not None and _is_due(each[1], settings, now)]
    first = int(now) % len(due) if due else 0
    for number, record in (*due[first:], *due[:first])[:AT_ONCE]:
        grade = grade_move(cluster, settings, record, records[number + 1 :], now)
        if grade is not None:
            yield record, grade


def _is_due(record: MoveRecord, settings: ReschedulingSettings, now: float) -> bool:
    """Whether the time of a grade has come, and it was not given."""
    age = now - record.ended
    if record.state is not MoveState.DONE or age > LATEST * settings.grade_again_after:
        return False
    for wanted in (settings.grade_after, settings.grade_again_after):
        if wanted <= age <= LATEST * wanted:
            return all(each.after < wanted for each in record.grades)
    return False


def grade_move(
    cluster: Cluster, settings: ReschedulingSettings, record: MoveRecord, later: Sequence[MoveRecord], now: float
) -> Grade | None:
    """None if too little is known. later: the moves that were charged after it."""
    since = Since(cluster, settings, record.ended)
    if record.relief is None or not len(since.weights):
        return None
    both = since.rows(record)
    if both is None or since.replacement(record) is None or not since.load.known[both].all():
        return None
    usage = since.usage(both)
    for each in reversed(later):
        since.take_back(each, usage, both)
    penalty = since.penalty(usage, both)
    source, target = since.mean_utilisation(usage, both)
    since.take_back(record, usage, both)
    errors: tuple[float | None, float | None] = None, None
    if record.promised is not None:  # another node than the planned one has promised nothing
        errors = source - record.promised[0], target - record.promised[1] if record.node == record.target else None
    return Grade(now - record.ended, record.relief, since.penalty(usage, both) - penalty, *errors)


class Since:
    """What pods and nodes have used since a move ended. Usage is by resource and snapshot; each snapshot counts for the time
    that it stands for."""

    def __init__(self, cluster: Cluster, settings: ReschedulingSettings, began: float) -> None:
        self.cluster, self.load = cluster, NodeLoad(cluster, settings.limits)
        times = common_times(cluster.load_store.snapshots[name] for name in settings.limits)
        recent = times.recent[times.recent * FIVE_MINUTES >= began]
        oldest = recent[-1] if len(recent) else np.inf
        first = times.hourly * BUCKETS_PER_HOUR  # the bucket of which an hour's snapshot is
        hourly = times.hourly[(first * FIVE_MINUTES >= began) & (first < oldest)] if len(recent) else times.hourly[:0]
        self.times = SnapshotTimes(recent, hourly)
        weights = np.concatenate([np.ones(len(recent)), np.full(len(hourly), BUCKETS_PER_HOUR)])
        self.weights = (weights / max(weights.sum(), 1.0)).astype(np.float32)

    def rows(self, record: MoveRecord) -> Index | None:
        """Of source and of the replacement's node."""
        rows = [self.cluster.node_table.row.get(name) for name in (record.source, record.node)]
        found = [row for row in rows if row is not None]
        return np.array(found) if len({*found}) == len(rows) else None

    def replacement(self, record: MoveRecord) -> Array | None:
        """Its usage by resource and snapshot; None if it is gone, or was never measured since."""
        slot = self._slot_of_replacement(record)
        if slot is None:
            return None
        store = self.cluster.load_store
        needed = [name for name in self.load.resources if name not in store.pod_metrics]  # not all pods use the others
        if not all(store.snapshots[name].has_any(self.times, slot) for name in needed):
            return None
        return self._of_pods(np.array([slot]))[:, 0]

    def _slot_of_replacement(self, record: MoveRecord) -> int | None:
        pod = self.cluster.pods.get(record.replacement)
        stays = pod is not None and pod.node == record.node and not pod.terminating and not pod.finished
        return self.cluster.pod_table.slot.get(record.replacement) if stays else None

    def _of_pods(self, slots: Index) -> Array:
        """By resource, pod and snapshot; gaps are filled."""
        store = self.cluster.load_store
        return np.stack([store.filled_snapshots(name, self.times, slots) for name in self.load.resources])

    def usage(self, rows: Index) -> Array:
        """By resource, row and snapshot: of the pods that are there now, and the system beside them."""
        placed = self.cluster.load_store.placed_pods
        stay = placed.in_use & np.isnan(placed.terminating_since)
        sums = [self._of_pods(np.flatnonzero(stay & (placed.row == row))).sum(axis=1) for row in rows.tolist()]
        system = [np.nan_to_num(self.cluster.load.system_usage(name)[rows]) for name in self.load.resources]
        return np.asarray(np.stack(sums, axis=1) + np.stack(system)[:, :, None], dtype=np.float32)

    def take_back(self, record: MoveRecord, usage: Array, rows: Index) -> None:
        """As if the replacement had stayed on the source, as far as that concerns these rows."""
        row = self.cluster.node_table.row
        left, joined = (np.flatnonzero(rows == row.get(name, -1)) for name in (record.source, record.node))
        concerned = record.state is MoveState.DONE and len(left) + len(joined) > 0
        own = self.replacement(record) if concerned else None
        if own is not None:
            usage[:, left] += own[:, None]
            usage[:, joined] = np.maximum(usage[:, joined] - own[:, None], 0.0)

    def penalty(self, usage: Array, rows: Index) -> float:
        """Of these rows together, by snapshot."""
        scaled = (usage * self.load.per_unit[:, rows, None]).max(axis=0)
        return float(penalties(scaled, self.weights).sum())

    def mean_utilisation(self, usage: Array, rows: Index) -> tuple[float, float]:
        source, target = (_utilisation(usage, self.load, rows) @ self.weights).tolist()
        return source, target


class GradeSummary(Struct, frozen=True, rename="camel"):
    """By the last grade of each move; None where no move has one.

    Relief is a mean by move and snapshot, in units of the penalty. `plan_error` is the median of how far the utilisation of
    sources and targets was from the promise, as a share of 1, over all grades.
    """

    graded: int = 0
    helped: int = 0
    promised: float | None = None
    measured: float | None = None
    plan_error: float | None = None


def summarise(records: Iterable[MoveRecord]) -> GradeSummary:
    graded = [each for each in records if each.grades]
    if not graded:
        return GradeSummary()
    last = [each.grades[-1] for each in graded]
    errors = [
        abs(error)
        for each in graded
        for grade in each.grades
        for error in (grade.source_error, grade.target_error)
        if error is not None
    ]
    return GradeSummary(
        len(last),
        sum(each.helped for each in last),
        fmean(each.promised for each in last),
        fmean(each.measured for each in last),
        median(errors) if errors else None,
    )
