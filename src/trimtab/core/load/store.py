"""Everything measured, and what follows from it, kept in step with the cluster's rows (nodes) and slots (pods).

Missing is never zero: a node without a sample, or with one that is too old, has NaN, which fails every comparison. Amounts
are in the units of requests: millicores and bytes. `LoadView` is what plugins read of it, `ingest` what takes samples in:

| part | holds |
|---|---|
| `latest_samples` | the newest sample of each node, how far it is trusted, and since when the node has had its name |
| `history` | samples and means of nodes over a day, of pods over an hour |
| `placed_pods`, `terminated_pods` | which pods are where since when; removed ones that samples still contain |
| `snapshots` | usage of pods at the same times over a week, where a rescheduler wants it |
| `pod_metrics` | the newest values of further resources that a rescheduler limits |
| `pod_usage`, `usage_accounting` | what is known of each pod, what it contributes to its node, and the sums |
| `estimates` | what unmeasured pods will use |
| `validation` | which samples are rejected |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from types import MappingProxyType

import numpy as np

from trimtab.core.load.estimates import Estimate, Estimator, request_and_limit
from trimtab.core.load.history import Matrix, NodeHistory, PodHistory
from trimtab.core.load.latest_samples import LatestSamples, NodeNameHistory
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.pod_metrics import Capacity, MetricOfNodes, PodMetric
from trimtab.core.load.settings import TRACKED, LoadSettings
from trimtab.core.load.snapshots import PodSnapshots, SnapshotTimes, Workloads
from trimtab.core.load.terminated_pods import TerminatedPods
from trimtab.core.load.usage_accounting import UsageAccounting
from trimtab.core.load.validation import JumpGuard
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Statistic
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.steps import Steps, finish
from trimtab.core.tables import ArrayTable, Floats, Index

PRECISION_LIMITS = {CPU: 1e6, MEMORY: 1e13}  # a thousand cores, ten terabytes: floats are precise enough up to there
FIRST_CAPACITY = 16
MAX_CHANGES = 4096

SamplesKey = tuple[str, Statistic, bool]  # the last one: a custom metric


class RowChanges:
    """Rows whose totals changed, in order; `epoch` rises when all rows may have changed, and the list starts again."""

    __slots__ = ("epoch", "rows")

    def __init__(self) -> None:
        self.epoch = 0
        self.rows: list[int] = []

    def add(self, row: int) -> None:
        if len(self.rows) >= MAX_CHANGES:
            self.add_all()
        self.rows.append(row)

    def add_all(self) -> None:
        self.epoch += 1
        self.rows = []


class LoadStore:
    """Arrays are longer than there are rows and slots. Only `Cluster` and `ingest` write to it."""

    def __init__(self, settings: LoadSettings | None = None, rows: int = 0) -> None:
        self.settings = settings if settings is not None else LoadSettings()
        self.now = -math.inf
        self.rows, self.capacity = rows, max(rows, FIRST_CAPACITY)
        self.placed_pods, self.node_names = PlacedPods(), NodeNameHistory(self.capacity)
        slots = self.placed_pods.size
        self.accounting = {
            name: UsageAccounting(i, self.capacity, slots, PRECISION_LIMITS[name]) for i, name in enumerate(TRACKED)
        }
        self.other_samples: dict[SamplesKey, LatestSamples] = {}  # besides those of `accounting`
        self.node_histories: dict[str, NodeHistory] = {}
        self.snapshots: dict[str, PodSnapshots] = {}  # empty unless a rescheduler is configured
        self.pod_metrics: dict[str, PodMetric] = {}
        self.capacities: Mapping[str, Capacity] = {}  # of the further resources in `pod_metrics`
        self.terminated_pods = TerminatedPods()
        self.estimator = Estimator(TRACKED)
        self.source_ids: dict[str, int] = {}
        self.discarded_sources: set[int] = set()
        self.jump_guard = JumpGuard()
        self.changes = RowChanges()
        self._next_trust_change = math.inf

    def latest_samples(
        self, resource: str, statistic: Statistic = Statistic.LATEST, *, custom: bool = False
    ) -> LatestSamples | None:
        """Of a resource, or of a custom metric."""
        if statistic is Statistic.LATEST and not custom and resource in self.accounting:
            return self.accounting[resource].samples
        return self.other_samples.get((resource, statistic, custom))

    def all_samples(self) -> Iterator[LatestSamples]:
        yield from (accounting.samples for accounting in self.accounting.values())
        yield from self.other_samples.values()

    def source_id(self, source: str) -> int:
        return self.source_ids.setdefault(source, len(self.source_ids))

    # --- settings, sources and time

    def apply_settings(self, settings: LoadSettings) -> None:
        if settings == self.settings:
            return
        new_rules, self.settings = settings.estimates != self.settings.estimates, settings
        for name in self.accounting if new_rules else ():
            self.update_estimates(name, np.flatnonzero(self.placed_pods.in_use), by_rule=True)
        self.recompute()

    def keep_snapshots(self, wanted: bool, further: Mapping[str, Capacity] = MappingProxyType({})) -> None:
        """Of CPU and memory, and of further resources, from now on, or no longer; those of pods that are already placed
        begin with the next sample."""
        names, slots = (*(TRACKED if wanted else ()), *further), self.placed_pods.size
        kept, metrics = self.snapshots, self.pod_metrics
        self.snapshots = {name: kept[name] if name in kept else PodSnapshots(slots) for name in names}
        self.pod_metrics = {name: metrics[name] if name in metrics else PodMetric(slots) for name in further}
        self.capacities = further

    def drop_pod_histories(self) -> None:
        """Of a fork that no sample reaches: filters read none of them, and the first pod to leave would copy them all."""
        self.keep_snapshots(False)
        for accounting in self.accounting.values():
            accounting.history = PodHistory(self.placed_pods.size)

    @property
    def workloads(self) -> Workloads:
        return Workloads(self.placed_pods.workload, self.estimator.workload_ids)

    def usual_of_pods(self, resource: str) -> Floats:
        """What each pod counts with in a further resource, by slot; NaN if its workload has never had a value."""
        return self.pod_metrics[resource].usual(self.placed_pods, self.snapshots[resource])

    def filled_snapshots(self, resource: str, times: SnapshotTimes, slots: Index) -> Matrix:
        """By slot and snapshot, without gaps: `fill_snapshots` at once."""
        return finish(self.fill_snapshots(resource, times, slots)).T

    def fill_snapshots(self, resource: str, times: SnapshotTimes, slots: Index) -> Steps[Matrix]:
        """By snapshot and slot, without gaps: a pod that was never measured counts with its estimate or, if its workload
        does not use a further resource, with nothing."""
        if resource in self.accounting:
            instead = self.accounting[resource].pods.mean[slots]
            return (yield from self.snapshots[resource].fill(times, slots, instead, self.workloads))
        usual, found = self.usual_of_pods(resource)[slots], np.zeros((len(times), len(slots)), dtype=np.float32)
        uses = ~np.isnan(usual)
        found[:, uses] = yield from self.snapshots[resource].fill(times, slots[uses], usual[uses], self.workloads)
        return found

    def metric_of_nodes(self, resource: str) -> MetricOfNodes | None:
        """A further resource by row; None for any other."""
        if resource not in self.pod_metrics:
            return None
        usual, settings = self.usual_of_pods(resource), self.settings
        return self.pod_metrics[resource].of_nodes(
            self.placed_pods, usual, self.rows, self.now, settings, self.discarded_sources
        )

    def discard_source(self, source: str, now: float) -> None:
        """Nothing of this source is trusted until it answers again: it was removed, or its answers are invalid."""
        self.now = max(self.now, now)
        self.discarded_sources.add(self.source_id(source))
        self.recompute()

    def advance(self, now: float) -> bool:
        """Let samples age; returns whether any is trusted less."""
        self.now = max(self.now, now)
        if self.now <= self._next_trust_change:
            return False
        results = [
            samples.update_trust(self.now, self.settings, self.discarded_sources) for samples in self.all_samples()
        ]
        if any(crossed for _, crossed in results):
            self.recompute()
        self._next_trust_change = self._compute_next_trust_change()
        return any(changed for changed, _ in results)

    def recompute(self, *, new_samples: bool = False) -> None:
        """Update trust as of now, and compute everything that depends on it."""
        for samples in self.all_samples():
            samples.update_trust(self.now, self.settings, self.discarded_sources)
        self.terminated_pods.trim(self.now, self.settings.stale)
        for accounting in self.accounting.values():
            accounting.set_trust(self.now, self.settings.stale, self.discarded_sources)
            accounting.recompute(self.placed_pods, self.terminated_pods)
            if new_samples:
                accounting.update_system_usage(self.placed_pods, self.terminated_pods)
        self._next_trust_change = self._compute_next_trust_change()
        self.changes.add_all()

    def _compute_next_trust_change(self) -> float:
        times = (samples.next_trust_change(self.now, self.settings) for samples in self.all_samples())
        return min(times, default=math.inf)

    # --- rows

    def add_row(self, row: int, name: str) -> None:
        if row == self.capacity:
            self._grow_rows(2 * self.capacity)
        for table in self._row_tables():
            table.clear(row)
        self.node_names.node_added(row, name)
        self.rows = row + 1
        self.changes.add_all()

    def remove_row(self, row: int, last: int, name: str) -> None:
        """The node of this row was removed, and the node of the last row moves into it."""
        for table in self._row_tables():
            if row == last:
                table.clear(row)
            else:
                table.move(last, row)
        orphaned = self.placed_pods.remove_row(row, last)
        for accounting in self.accounting.values():
            accounting.recompute_pods(orphaned, self.placed_pods)
        self.terminated_pods.remove_row(row, last)
        self.node_names.node_removed(name, self.now)
        self.rows = last
        self.changes.add_all()

    def _row_tables(self) -> Iterator[ArrayTable]:
        yield self.node_names
        yield from self.all_samples()
        yield from self.node_histories.values()
        yield from (accounting.totals for accounting in self.accounting.values())

    def _grow_rows(self, capacity: int) -> None:
        self.capacity = capacity
        for table in self._row_tables():
            table.grow(capacity)

    # --- slots

    def add_pod(self, slot: int, pod: Pod, row: int) -> None:
        """A pod is placed (row -1: on an unknown node): its estimate counts until a sample contains it."""
        placed = self.placed_pods
        if slot >= placed.size:
            self._grow_slots(max(2 * placed.size, slot + 1))
        placed.workload = self.estimator.compact_ids(placed.workload)
        workload = self.estimator.workload_id(pod)
        placed.add_pod(slot, pod, row, self.now, workload)
        for name, accounting in self.accounting.items():
            request, limit = request_and_limit(pod, name)
            estimate = self.estimate(name, request, limit, workload)
            accounting.add_pod(slot, placed, (request, limit), estimate[:2])
        self._row_changed(row)

    def assign_row(self, slots: Sequence[int], row: int) -> None:
        """The node of these pods, which was unknown, is known now: their samples stay valid."""
        if slots:
            self.placed_pods.row[slots] = row
            for accounting in self.accounting.values():
                accounting.recompute_pods(np.array(slots, dtype=np.intp), self.placed_pods)
            self._sum_row(row)

    def update_pod(self, slot: int, pod: Pod) -> bool:
        """The pod may have started, or may be terminating; returns whether its row changed."""
        if not self.placed_pods.update_pod(slot, pod, self.now):
            return False
        loses_precision = [accounting.update_pod(slot, self.placed_pods) for accounting in self.accounting.values()]
        row = self.placed_pods.row.item(slot)
        if any(loses_precision):
            self._sum_row(row)
        self._row_changed(row)
        return True

    def resize_pod(self, slot: int, pod: Pod) -> None:
        """New requests on the same node: what was measured of it stays valid."""
        self.placed_pods.update_pod(slot, pod, self.now)
        workload = self.placed_pods.workload.item(slot)
        for name, accounting in self.accounting.items():
            request, limit = request_and_limit(pod, name)
            estimate = self.estimate(name, request, limit, workload)
            accounting.resize_pod(slot, self.placed_pods, (request, limit), estimate[:2])
        self._sum_row(self.placed_pods.row.item(slot))

    def remove_pod(self, slot: int) -> None:
        """Its part of the node's sample is subtracted until a sample no longer contains it."""
        row = self.placed_pods.row.item(slot)
        removed = [accounting.remove_pod(slot, row, self.now) for accounting in self.accounting.values()]
        for snapshots in self.snapshots.values():
            snapshots.remove_pod(slot, self.placed_pods.workload_key(slot))
        for metric in self.pod_metrics.values():
            metric.clear(slot)
        in_sample = tuple(amount for amount, _ in removed)
        self.placed_pods.remove_pod(slot, self.now)
        if row >= 0 and any(in_sample) and self.terminated_pods.add(row, self.now, in_sample):
            self._sum_all()
        if any(loses_precision for _, loses_precision in removed):
            self._sum_row(row)
        self._row_changed(row)

    def estimate(self, resource: str, request: float, limit: float, workload: int) -> Estimate:
        return self.estimator.estimate(self.settings.estimates, resource, request, limit, workload)

    def update_estimates(self, resource: str, slots: Index, *, by_rule: bool = False) -> None:
        """Apply what has been learned to these pods; with `by_rule` also the default rules to the others, whose estimates
        change only with the settings."""
        pods, workload = self.accounting[resource].pods, self.placed_pods.workload
        mean, deviation = self.estimator.learned_estimates(
            self.settings.estimates, resource, pods.request[slots], pods.limit[slots], workload[slots]
        )
        known = ~np.isnan(mean)
        pods.ensure_writable()
        pods.estimate[slots[known]], pods.estimate_deviation[slots[known]] = mean[known], deviation[known]
        for slot in slots[~known].tolist() if by_rule else ():
            estimate = self.estimate(resource, pods.request.item(slot), pods.limit.item(slot), workload.item(slot))
            pods.estimate[slot], pods.estimate_deviation[slot], _ = estimate

    def _sum_row(self, row: int) -> None:
        """Sum a row again: subtracting a huge request must not leave its rounding error behind."""
        if row >= 0:
            slots = np.flatnonzero(self.placed_pods.row[: self.placed_pods.end] == row)
            for accounting in self.accounting.values():
                accounting.sum_row(row, slots, self.terminated_pods)
        self._row_changed(row)

    def _sum_all(self) -> None:
        for accounting in self.accounting.values():
            accounting.sum_all(self.placed_pods, self.terminated_pods)
        self.changes.add_all()

    def _row_changed(self, row: int) -> None:
        if row >= 0:
            self.changes.add(row)

    def _grow_slots(self, slots: int) -> None:
        self.placed_pods.grow(slots)
        for accounting in self.accounting.values():
            accounting.pods.grow(slots)
            accounting.history.grow(slots)
        for table in (*self.snapshots.values(), *self.pod_metrics.values()):
            table.grow(slots)

    # --- copies

    def copy(self) -> LoadStore:
        return finish(self.copy_in_steps())

    def copy_in_steps(self) -> Steps[LoadStore]:
        """The same, as long as nothing changes in between."""
        copy = shallow_copy(self)
        copy.placed_pods, copy.terminated_pods = self.placed_pods.copy(), self.terminated_pods.copy()
        yield
        copy.accounting = {name: accounting.copy() for name, accounting in self.accounting.items()}
        copy.other_samples = {key: samples.copy() for key, samples in self.other_samples.items()}
        copy.node_histories = {name: history.copy() for name, history in self.node_histories.items()}
        copy.snapshots = {name: snapshots.copy() for name, snapshots in self.snapshots.items()}
        copy.pod_metrics = {name: metric.copy() for name, metric in self.pod_metrics.items()}
        copy.estimator, copy.node_names = self.estimator.copy(), self.node_names.copy()
        copy.source_ids, copy.discarded_sources = self.source_ids.copy(), self.discarded_sources.copy()
        copy.jump_guard, copy.changes = self.jump_guard.copy(), RowChanges()
        return copy

    def unshare_pods(self) -> Steps[None]:
        """Copies in short steps what the first pod to be added or removed would copy at once."""
        for accounting in self.accounting.values():
            accounting.pods.ensure_writable()
            yield

    def reordered(self, rows: Index, slots: Index) -> LoadStore:
        """A copy with other numbers: row r holds what `rows[r]` holds here, slot s what `slots[s]` holds."""
        copy = self.copy()
        copy.rows, copy.capacity, copy.node_names = len(rows), len(rows), self.node_names.reordered(rows)
        copy.other_samples = {key: samples.reordered(rows) for key, samples in self.other_samples.items()}
        copy.node_histories = {name: history.reordered(rows) for name, history in self.node_histories.items()}
        copy.accounting = {name: accounting.reordered(rows, slots) for name, accounting in self.accounting.items()}
        copy.placed_pods = self.placed_pods.reordered(slots)
        copy.snapshots = {name: snapshots.reordered(slots) for name, snapshots in self.snapshots.items()}
        copy.pod_metrics = {name: metric.reordered(slots) for name, metric in self.pod_metrics.items()}
        new_row = np.full(self.capacity + 1, -1, dtype=np.intp)
        new_row[rows] = np.arange(len(rows))
        copy.placed_pods.row = new_row[copy.placed_pods.row]
        copy.terminated_pods.row = new_row[self.terminated_pods.row]
        copy._grow_rows(max(len(rows), FIRST_CAPACITY))
        copy._grow_slots(max(len(slots), FIRST_CAPACITY))
        return copy

    def with_delta(self, removed: Index, others: tuple[tuple[int, Pod, int], ...]) -> LoadStore:
        """A read-only copy as if the pods in these slots, whose rows are known, had just been removed; `others` have no
        slot: the row, the pod, and 1 if it is added or -1 if it is removed."""
        copy = shallow_copy(self)
        copy.accounting = {
            name: accounting.without_pods(removed, self.placed_pods, self.terminated_pods, self.now)
            for name, accounting in self.accounting.items()
        }
        for row, pod, sign in others:
            workload = self.estimator.known_workload_id(pod)
            for name, accounting in copy.accounting.items():
                mean, deviation, _ = self.estimate(name, *request_and_limit(pod, name), workload)
                contribution = (mean, deviation**2, mean, deviation**2, 0.0, 0.0, 0.0)
                accounting.totals.add(row, contribution, sign)
        return copy
