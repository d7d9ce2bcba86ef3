"""All that load columns hold, kept in step with the cluster's rows and slots; takes nothing in and answers nothing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from trimtab.core.load.aligned import Aligned, Floats, Index
from trimtab.core.load.derived import Derived
from trimtab.core.load.estimating.estimator import Estimate, Estimator
from trimtab.core.load.intake import Brake
from trimtab.core.load.nodes.course import Course
from trimtab.core.load.nodes.ground import Ground
from trimtab.core.load.nodes.meter import Meter
from trimtab.core.load.pods.account import Account
from trimtab.core.load.pods.departed import Departed
from trimtab.core.load.pods.standing import Standing
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.sample import Statistic

TRACKED = (CPU, MEMORY)  # resources that pods are counted in
LARGEST = {CPU: 1e6, MEMORY: 1e13}  # a thousand cores, ten terabytes: up to there floats add up well enough
FIRST_CAPACITY = 16

MeterKey = tuple[str, Statistic, bool]  # the last one: a metric of the user's own


class LoadState:
    """Arrays are longer than there are rows and slots."""

    def __init__(self, settings: LoadSettings | None = None, rows: int = 0) -> None:
        self._settings = settings if settings is not None else LoadSettings()
        self.now = -math.inf
        self.rows, self.capacity = rows, max(rows, FIRST_CAPACITY)
        self.standing, self.ground = Standing(), Ground(self.capacity)
        slots = self.standing.size
        self.accounts = {name: Account(i, self.capacity, slots, LARGEST[name]) for i, name in enumerate(TRACKED)}
        self.meters: dict[MeterKey, Meter] = {}  # beside those of the accounts
        self.courses: dict[str, Course] = {}
        self.departed = Departed(len(TRACKED))
        self.estimator = Estimator(TRACKED)
        self.sources: dict[str, int] = {}
        self.failed: set[int] = set()
        self.brake = Brake()
        self._expected = {name: Derived() for name in TRACKED}
        self._forecast = {name: Derived() for name in TRACKED}
        self._kept: dict[Hashable, Floats] = {}  # answers that no pod alters, until the next reading
        self.worked_out: dict[Hashable, Any] = {}  # by whoever has dear answers; it alters none, and no twin has it
        self._estimates: tuple[Pod | None, dict[str, Estimate]] = (None, {})  # of the pod that was asked about last

    @property
    def settings(self) -> LoadSettings:
        return self._settings

    def meter(self, resource: str, statistic: Statistic = Statistic.LATEST, *, own: bool = False) -> Meter | None:
        """Of a resource, or of a metric of the user's own."""
        if statistic is Statistic.LATEST and not own and resource in self.accounts:
            return self.accounts[resource].meter
        return self.meters.get((resource, statistic, own))

    def all_meters(self) -> Iterator[Meter]:
        yield from (account.meter for account in self.accounts.values())
        yield from self.meters.values()

    # --- rows

    def open_row(self, row: int, name: str) -> None:
        if row == self.capacity:
            self._widen(2 * self.capacity)
        for part in self._by_row():
            part.clear(row)
        self.ground.opened(row, name)
        self.rows = row + 1
        self._drop_derived()

    def close_row(self, row: int, last: int, name: str) -> None:
        """The node in this row has gone, and the one in the last row has taken its place."""
        for part in self._by_row():
            if row == last:
                part.clear(row)
            else:
                part.move(last, row)
        unseated = self.standing.close_row(row, last)
        for account in self.accounts.values():
            account.count(unseated, self.standing)
        self.departed.close_row(row, last)
        self.ground.closed(name, self.now)
        self.rows = last
        self._drop_derived()

    def _by_row(self) -> Iterator[Aligned]:
        yield self.ground
        yield from self.all_meters()
        yield from self.courses.values()
        yield from (account.totals for account in self.accounts.values())

    def _widen(self, capacity: int) -> None:
        self.capacity = capacity
        for part in self._by_row():
            part.grow(capacity)

    # --- slots

    def came(self, slot: int, pod: Pod, row: int) -> None:
        """A pod takes a place (row -1: on a node nobody has seen): estimated until a sample contains it."""
        if slot >= self.standing.size:
            self._lengthen(max(2 * self.standing.size, slot + 1))
        self.standing.kin = self.estimator.forget(self.standing.kin)
        kin = self.estimator.number(pod)
        self.standing.came(slot, pod, row, self.now, kin)
        for name, account in self.accounts.items():
            wanted = asked(pod, name)
            account.came(slot, self.standing, wanted, self._estimated(name, *wanted, kin)[:2])
        self._touch(row)

    def seated(self, slots: Sequence[int], row: int) -> None:
        """The node of these pods, which stood nowhere, is known now: what was measured of them stays true."""
        if slots:
            self.standing.row[slots] = row
            for account in self.accounts.values():
                account.count(np.array(slots, dtype=np.intp), self.standing)
            self._mend(row, coarse=True)

    def altered(self, slot: int, pod: Pod) -> bool:
        """The same pod, on its way out perhaps: then its share is taken off at once. Whether its row is touched by it."""
        if not self.standing.altered(slot, pod, self.now):
            return False
        coarse = [account.altered(slot, self.standing) for account in self.accounts.values()]
        self._mend(self.standing.row.item(slot), any(coarse))
        return True

    def resized(self, slot: int, pod: Pod) -> None:
        """The same pod where it was, asking for another amount: what it uses goes on."""
        self.standing.altered(slot, pod, self.now)
        kin = self.standing.kin.item(slot)
        for name, account in self.accounts.items():
            wanted = asked(pod, name)
            account.resized(slot, self.standing, wanted, self._estimated(name, *wanted, kin)[:2])
        self._mend(self.standing.row.item(slot), coarse=True)

    def left(self, slot: int) -> None:
        """It has gone: what it used is taken off until the next sample shows that it has."""
        row = self.standing.row.item(slot)
        left = [account.left(slot, row, self.now) for account in self.accounts.values()]
        shown = tuple(amount for amount, _ in left)
        self.standing.left(slot, self.now)
        if row >= 0 and any(shown) and self.departed.add(row, self.now, shown):
            self._sum_all()
        self._mend(row, any(coarse for _, coarse in left))

    def _estimated(self, resource: str, request: float, limit: float, kin: int) -> Estimate:
        return self.estimator.estimate(self.settings.estimates, resource, request, limit, kin)

    def estimate_anew(self, resource: str, slots: Index, *, by_rule: bool = False) -> None:
        """What others teach of these pods by now; and `by_rule` what a peer's rule says of the rest, which never changes
        unless the rules do."""
        shares, kin = self.accounts[resource].shares, self.standing.kin
        mean, deviation = self.estimator.columns(
            self.settings.estimates, resource, shares.request[slots], shares.limit[slots], kin[slots]
        )
        known = ~np.isnan(mean)
        shares.estimate[slots[known]], shares.deviation[slots[known]] = mean[known], deviation[known]
        for slot in slots[~known].tolist() if by_rule else ():
            request, limit = shares.request.item(slot), shares.limit.item(slot)
            shares.estimate[slot], shares.deviation[slot], _ = self._estimated(resource, request, limit, kin.item(slot))

    def _mend(self, row: int, coarse: bool) -> None:
        """Something was taken off the row: an absurd request that comes and goes must leave nothing of itself."""
        if coarse and row >= 0:
            slots = np.flatnonzero(self.standing.row[: self.standing.end] == row)
            for account in self.accounts.values():
                account.sum_row(row, slots, self.departed)
        self._touch(row)

    def _sum_all(self) -> None:
        for account in self.accounts.values():
            account.sum_all(self.standing, self.departed)
        self._drop_derived()

    def _lengthen(self, slots: int) -> None:
        for part in (self.standing, *(account.shares for account in self.accounts.values())):
            part.grow(slots)

    # --- answers that follow from sums

    def _touch(self, row: int) -> None:
        if row >= 0:
            for derived in (*self._expected.values(), *self._forecast.values()):
                derived.touch(row)

    def _drop_derived(self) -> None:
        for derived in (*self._expected.values(), *self._forecast.values()):
            derived.drop()
        self._kept, self._estimates = {}, (None, {})

    # --- twins

    def copy(self) -> Self:
        twin = self._shadow()
        twin.standing, twin.departed, twin.brake = self.standing.copy(), self.departed.copy(), self.brake.copy()
        twin.accounts = {name: account.copy() for name, account in self.accounts.items()}
        twin.meters = {key: meter.copy() for key, meter in self.meters.items()}
        twin.courses = {name: course.copy() for name, course in self.courses.items()}
        twin.estimator, twin.ground = self.estimator.copy(), self.ground.copy()
        twin.sources, twin.failed = self.sources.copy(), self.failed.copy()
        return twin

    def reordered(self, rows: Index, slots: Index) -> Self:
        """A twin with other numbers: row r holds what `rows[r]` held, slot s what `slots[s]` held."""
        twin = self.copy()
        twin.rows, twin.capacity, twin.ground = len(rows), len(rows), self.ground.reordered(rows)
        twin.meters = {key: meter.reordered(rows) for key, meter in self.meters.items()}
        twin.courses = {name: course.reordered(rows) for name, course in self.courses.items()}
        twin.accounts = {name: account.reordered(rows, slots) for name, account in self.accounts.items()}
        twin.standing = self.standing.reordered(slots)
        back = np.full(self.capacity + 1, -1, dtype=np.intp)
        back[rows] = np.arange(len(rows))
        twin.standing.row, twin.departed.row = back[twin.standing.row], back[self.departed.row]
        twin._widen(max(len(rows), FIRST_CAPACITY))
        twin._lengthen(max(len(slots), FIRST_CAPACITY))
        return twin

    def shifted(self, slots: Index, others: tuple[tuple[int, Pod, int], ...]) -> Self:
        """A twin to be read, as if the pods in these slots, whose nodes are known, had gone just now; `others` have no
        slot: their row, the pod, and 1 for who comes or -1 for who goes."""
        twin, gone = self._shadow(), (slots, self.standing, self.departed, self.now)
        twin.accounts = {name: account.without(*gone) for name, account in self.accounts.items()}
        for row, pod, sign in others:
            kin = self.estimator.known(pod)
            for name, account in twin.accounts.items():
                mean, deviation, _ = self._estimated(name, *asked(pod, name), kin)
                account.totals.add(row, (mean, deviation**2, deviation**2, mean, 0.0, 0.0, 0.0), sign)
        return twin

    def _shadow(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._expected = {name: Derived() for name in TRACKED}
        twin._forecast = {name: Derived() for name in TRACKED}
        twin._kept, twin._estimates, twin.worked_out = {}, (None, {}), {}
        return twin


def asked(pod: Pod, resource: str) -> tuple[float, float]:
    """Request and limit, 0 for none."""
    for name, limit in pod.demand.limits:
        if name == resource:
            return float(pod.demand.of(resource)), float(limit)
    return float(pod.demand.of(resource)), 0.0
