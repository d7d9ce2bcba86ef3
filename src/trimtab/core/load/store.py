"""All that load columns hold, kept in step with the cluster's rows and slots; takes nothing in and answers nothing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from trimtab.core.load.array_table import ArrayTable, Floats, Index
from trimtab.core.load.estimator import Estimate, Estimator
from trimtab.core.load.latest_samples import LatestSamples
from trimtab.core.load.name_reuse import NodeNameHistory
from trimtab.core.load.node_history import NodeHistory
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.row_cache import RowCache
from trimtab.core.load.settings import LoadSettings
from trimtab.core.load.terminated_pods import TerminatedPods
from trimtab.core.load.usage_accounting import UsageAccounting
from trimtab.core.load.validation import JumpGuard
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Statistic
from trimtab.core.model.resources import CPU, MEMORY

TRACKED = (CPU, MEMORY)  # resources that pods are counted in
PRECISION_LIMITS = {CPU: 1e6, MEMORY: 1e13}  # a thousand cores, ten terabytes: up to there floats add up well enough
FIRST_CAPACITY = 16

SamplesKey = tuple[str, Statistic, bool]  # the last one: a metric of the user's own


class LoadStore:
    """Arrays are longer than there are rows and slots."""

    def __init__(self, settings: LoadSettings | None = None, rows: int = 0) -> None:
        self._settings = settings if settings is not None else LoadSettings()
        self.now = -math.inf
        self.rows, self.capacity = rows, max(rows, FIRST_CAPACITY)
        self.placed_pods, self.node_names = PlacedPods(), NodeNameHistory(self.capacity)
        slots = self.placed_pods.size
        self.accounting = {
            name: UsageAccounting(i, self.capacity, slots, PRECISION_LIMITS[name]) for i, name in enumerate(TRACKED)
        }
        self.other_samples: dict[SamplesKey, LatestSamples] = {}  # beside those of the accounts
        self.node_histories: dict[str, NodeHistory] = {}
        self.terminated_pods = TerminatedPods(len(TRACKED))
        self.estimator = Estimator(TRACKED)
        self.source_ids: dict[str, int] = {}
        self.failed_sources: set[int] = set()
        self.jump_guard = JumpGuard()
        self._expected = {name: RowCache() for name in TRACKED}
        self._forecast = {name: RowCache() for name in TRACKED}
        self._statistics: dict[Hashable, Floats] = {}  # answers that no pod alters, until the next reading
        self.plugin_cache: dict[Hashable, Any] = {}  # by whoever has dear answers; it alters none, and no twin has it
        self._estimates: tuple[Pod | None, dict[str, Estimate]] = (None, {})  # of the pod that was asked about last

    @property
    def settings(self) -> LoadSettings:
        return self._settings

    def latest_samples(
        self, resource: str, statistic: Statistic = Statistic.LATEST, *, own: bool = False
    ) -> LatestSamples | None:
        """Of a resource, or of a metric of the user's own."""
        if statistic is Statistic.LATEST and not own and resource in self.accounting:
            return self.accounting[resource].samples
        return self.other_samples.get((resource, statistic, own))

    def all_samples(self) -> Iterator[LatestSamples]:
        yield from (account.samples for account in self.accounting.values())
        yield from self.other_samples.values()

    # --- rows

    def add_row(self, row: int, name: str) -> None:
        if row == self.capacity:
            self._grow_rows(2 * self.capacity)
        for part in self._row_tables():
            part.clear(row)
        self.node_names.node_added(row, name)
        self.rows = row + 1
        self._invalidate_all()

    def remove_row(self, row: int, last: int, name: str) -> None:
        """The node in this row has gone, and the one in the last row has taken its place."""
        for part in self._row_tables():
            if row == last:
                part.clear(row)
            else:
                part.move(last, row)
        unseated = self.placed_pods.remove_row(row, last)
        for account in self.accounting.values():
            account.recompute_pods(unseated, self.placed_pods)
        self.terminated_pods.remove_row(row, last)
        self.node_names.node_removed(name, self.now)
        self.rows = last
        self._invalidate_all()

    def _row_tables(self) -> Iterator[ArrayTable]:
        yield self.node_names
        yield from self.all_samples()
        yield from self.node_histories.values()
        yield from (account.totals for account in self.accounting.values())

    def _grow_rows(self, capacity: int) -> None:
        self.capacity = capacity
        for part in self._row_tables():
            part.grow(capacity)

    # --- slots

    def add_pod(self, slot: int, pod: Pod, row: int) -> None:
        """A pod takes a place (row -1: on a node nobody has seen): estimated until a sample contains it."""
        if slot >= self.placed_pods.size:
            self._grow_slots(max(2 * self.placed_pods.size, slot + 1))
        self.placed_pods.kin = self.estimator.compact_ids(self.placed_pods.kin)
        kin = self.estimator.workload_id(pod)
        self.placed_pods.add_pod(slot, pod, row, self.now, kin)
        for name, account in self.accounting.items():
            wanted = request_and_limit(pod, name)
            account.add_pod(slot, self.placed_pods, wanted, self._estimate(name, *wanted, kin)[:2])
        self._invalidate_row(row)

    def assign_row(self, slots: Sequence[int], row: int) -> None:
        """The node of these pods, which stood nowhere, is known now: what was measured of them stays true."""
        if slots:
            self.placed_pods.row[slots] = row
            for account in self.accounting.values():
                account.recompute_pods(np.array(slots, dtype=np.intp), self.placed_pods)
            self._resum_row(row, coarse=True)

    def update_pod(self, slot: int, pod: Pod) -> bool:
        """The same pod, on its way out perhaps: then its share is taken off at once. Whether its row is touched by it."""
        if not self.placed_pods.update_pod(slot, pod, self.now):
            return False
        coarse = [account.update_pod(slot, self.placed_pods) for account in self.accounting.values()]
        self._resum_row(self.placed_pods.row.item(slot), any(coarse))
        return True

    def resize_pod(self, slot: int, pod: Pod) -> None:
        """The same pod where it was, asking for another amount: what it uses goes on."""
        self.placed_pods.update_pod(slot, pod, self.now)
        kin = self.placed_pods.kin.item(slot)
        for name, account in self.accounting.items():
            wanted = request_and_limit(pod, name)
            account.resize_pod(slot, self.placed_pods, wanted, self._estimate(name, *wanted, kin)[:2])
        self._resum_row(self.placed_pods.row.item(slot), coarse=True)

    def remove_pod(self, slot: int) -> None:
        """It has gone: what it used is taken off until the next sample shows that it has."""
        row = self.placed_pods.row.item(slot)
        left = [account.remove_pod(slot, row, self.now) for account in self.accounting.values()]
        shown = tuple(amount for amount, _ in left)
        self.placed_pods.remove_pod(slot, self.now)
        if row >= 0 and any(shown) and self.terminated_pods.add(row, self.now, shown):
            self._resum_all()
        self._resum_row(row, any(coarse for _, coarse in left))

    def _estimate(self, resource: str, request: float, limit: float, kin: int) -> Estimate:
        return self.estimator.estimate(self.settings.estimates, resource, request, limit, kin)

    def update_estimates(self, resource: str, slots: Index, *, by_rule: bool = False) -> None:
        """What others teach of these pods by now; and `by_rule` what a peer's rule says of the rest, which never changes
        unless the rules do."""
        shares, kin = self.accounting[resource].pods, self.placed_pods.kin
        mean, deviation = self.estimator.learned_estimates(
            self.settings.estimates, resource, shares.request[slots], shares.limit[slots], kin[slots]
        )
        known = ~np.isnan(mean)
        shares.estimate[slots[known]], shares.deviation[slots[known]] = mean[known], deviation[known]
        for slot in slots[~known].tolist() if by_rule else ():
            request, limit = shares.request.item(slot), shares.limit.item(slot)
            shares.estimate[slot], shares.deviation[slot], _ = self._estimate(resource, request, limit, kin.item(slot))

    def _resum_row(self, row: int, coarse: bool) -> None:
        """Something was taken off the row: an absurd request that comes and goes must leave nothing of itself."""
        if coarse and row >= 0:
            slots = np.flatnonzero(self.placed_pods.row[: self.placed_pods.end] == row)
            for account in self.accounting.values():
                account.sum_row(row, slots, self.terminated_pods)
        self._invalidate_row(row)

    def _resum_all(self) -> None:
        for account in self.accounting.values():
            account.sum_all(self.placed_pods, self.terminated_pods)
        self._invalidate_all()

    def _grow_slots(self, slots: int) -> None:
        for part in (self.placed_pods, *(account.pods for account in self.accounting.values())):
            part.grow(slots)

    # --- answers that follow from sums

    def _invalidate_row(self, row: int) -> None:
        if row >= 0:
            for derived in (*self._expected.values(), *self._forecast.values()):
                derived.invalidate_row(row)

    def _invalidate_all(self) -> None:
        for derived in (*self._expected.values(), *self._forecast.values()):
            derived.clear()
        self._statistics, self._estimates = {}, (None, {})

    # --- twins

    def copy(self) -> Self:
        twin = self._shallow_copy()
        twin.placed_pods, twin.terminated_pods, twin.jump_guard = (
            self.placed_pods.copy(),
            self.terminated_pods.copy(),
            self.jump_guard.copy(),
        )
        twin.accounting = {name: account.copy() for name, account in self.accounting.items()}
        twin.other_samples = {key: meter.copy() for key, meter in self.other_samples.items()}
        twin.node_histories = {name: course.copy() for name, course in self.node_histories.items()}
        twin.estimator, twin.node_names = self.estimator.copy(), self.node_names.copy()
        twin.source_ids, twin.failed_sources = self.source_ids.copy(), self.failed_sources.copy()
        return twin

    def reordered(self, rows: Index, slots: Index) -> Self:
        """A twin with other numbers: row r holds what `rows[r]` held, slot s what `slots[s]` held."""
        twin = self.copy()
        twin.rows, twin.capacity, twin.node_names = len(rows), len(rows), self.node_names.reordered(rows)
        twin.other_samples = {key: meter.reordered(rows) for key, meter in self.other_samples.items()}
        twin.node_histories = {name: course.reordered(rows) for name, course in self.node_histories.items()}
        twin.accounting = {name: account.reordered(rows, slots) for name, account in self.accounting.items()}
        twin.placed_pods = self.placed_pods.reordered(slots)
        back = np.full(self.capacity + 1, -1, dtype=np.intp)
        back[rows] = np.arange(len(rows))
        twin.placed_pods.row, twin.terminated_pods.row = back[twin.placed_pods.row], back[self.terminated_pods.row]
        twin._grow_rows(max(len(rows), FIRST_CAPACITY))
        twin._grow_slots(max(len(slots), FIRST_CAPACITY))
        return twin

    def with_delta(self, slots: Index, others: tuple[tuple[int, Pod, int], ...]) -> Self:
        """A twin to be read, as if the pods in these slots, whose nodes are known, had gone just now; `others` have no
        slot: their row, the pod, and 1 for who comes or -1 for who goes."""
        twin, gone = self._shallow_copy(), (slots, self.placed_pods, self.terminated_pods, self.now)
        twin.accounting = {name: account.without_pods(*gone) for name, account in self.accounting.items()}
        for row, pod, sign in others:
            kin = self.estimator.known_workload_id(pod)
            for name, account in twin.accounting.items():
                mean, deviation, _ = self._estimate(name, *request_and_limit(pod, name), kin)
                account.totals.add(row, (mean, deviation**2, deviation**2, mean, 0.0, 0.0, 0.0), sign)
        return twin

    def _shallow_copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._expected = {name: RowCache() for name in TRACKED}
        twin._forecast = {name: RowCache() for name in TRACKED}
        twin._statistics, twin._estimates, twin.plugin_cache = {}, (None, {}), {}
        return twin


def request_and_limit(pod: Pod, resource: str) -> tuple[float, float]:
    """Request and limit, 0 for none."""
    for name, limit in pod.requests.limits:
        if name == resource:
            return float(pod.requests.of(resource)), float(limit)
    return float(pod.requests.of(resource)), 0.0
