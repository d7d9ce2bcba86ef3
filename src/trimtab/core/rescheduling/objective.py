"""The objective of all moves: a penalty of each node that grows with how often, and how far, it is above its limit.

    penalty of a node = sum over snapshots of weight * f(highest of its resources, relative to their limits)

Snapshots are of the whole cluster (`load.snapshots`), so pods that peak together count together, and those that take turns
do not. Recent snapshots count most, and the newest of them more than the others; the past counts less where the cluster had
room all week, because a later move can make up for whatever happens again. `f` rises steeply right below the limit, so
that a node that stays a little above it is worth a move; it is convex above, so that relief goes first to where it is needed
most and no node is sacrificed; far below it still prefers an even load, a little. Where the cluster has room, it rises only
at the limit itself: a small pod that brings a node just below it is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.snapshots import HOURLY, RECENT, SnapshotTimes, common_times, parts_of
from trimtab.core.model.resources import CPU
from trimtab.core.model.steps import Steps, finish
from trimtab.core.rescheduling.forecast import BySnapshots, Forecast, Forecaster, Snapshots
from trimtab.core.tables import Bools, Floats, Index

Array = NDArray[np.float32]

LIMIT = 0.8  # utilisation is scaled so that every resource has its limit here
OVERLOADED = 0.9  # above this, by CPU, relief comes before the limit of whoever takes a pod
MOST_OF_CPU = 0.95  # of a target, whatever its limit
RAMP_FROM, RAMP_WITH_ROOM = 0.78, 0.799  # where the ramp up to the limit begins, and where the whole cluster has room
LINEAR, QUADRATIC, EVENNESS = 3.0, 40.0, 0.1
RECENT_WEIGHT, HOURLY_WEIGHT, DECAY = 68.0, 136.0, 0.5
WITH_ROOM = 2.0, 0.25  # what these weights are multiplied by where the whole cluster has room
ROOM_BELOW, NO_ROOM_ABOVE = 0.62, 0.66  # the highest mean load of all nodes
HOURS_TO_KNOW = 72  # hourly snapshots without which nobody knows how full the cluster gets
BY_SNAPSHOTS = BySnapshots()


def penalties(load: Array, weights: Array, room: float = 0.0) -> Array:
    """Of any number of nodes, by the last axis: the snapshots of each, scaled to `LIMIT`.

    `room` is that of the whole cluster: the more there is, the closer to the limit a node may be.
    """
    ramp_from = RAMP_FROM + room * (RAMP_WITH_ROOM - RAMP_FROM)
    over = load - np.float32(LIMIT)
    np.maximum(over, 0.0, out=over)
    cost = (load - np.float32(ramp_from)) * np.float32(1 / (LIMIT - ramp_from))
    np.clip(cost, 0.0, 1.0, out=cost)
    cost += over * (np.float32(LINEAR) + np.float32(QUADRATIC) * over)
    cost += np.float32(EVENNESS) * load * load
    return np.asarray(cost @ weights)


def snapshot_weights(recent: int, hourly: int, newest: float = 1.0, room: float = 0.0) -> Array:
    """By snapshot: recent ones decay, the newest first; each of the hourly ones counts alike.

    `newest` is the share of its samples that the newest one has so far: the first of ten is no five minutes of load.
    `room` is that of the whole cluster, from 0 to 1 (`room_below`).
    """
    decaying = np.exp(-DECAY * np.arange(recent))
    decaying[:1] *= newest
    of_recent, of_hourly = (1 + room * (factor - 1) for factor in WITH_ROOM)
    return np.concatenate(
        [
            of_recent * RECENT_WEIGHT * decaying / max(decaying.sum(), 1.0),
            np.full(hourly, of_hourly * HOURLY_WEIGHT / HOURLY),
        ]
    ).astype(np.float32)


def room_below(peak: float) -> float:
    """1 for a cluster whose mean load stayed so low that a node which gets hot can always be relieved, 0 for one that was
    nearly full; `peak` is the highest mean load, scaled to `LIMIT`."""
    return min(max((NO_ROOM_ABOVE - peak) / (NO_ROOM_ABOVE - ROOM_BELOW), 0.0), 1.0)


class PodLoad(NamedTuple):
    """Usage of some pods by resource, pod and snapshot, in millicores and bytes."""

    slots: Index
    usage: Array


class NodeLoad:
    """Usage of all nodes by resource, row and snapshot, which moves of pods change; and the penalty that follows.

    Computed when it is first asked for: most of the time no node is suggested, and nothing needs to be known of it.
    """

    def __init__(self, cluster: Cluster, limits: Mapping[str, float], forecaster: Forecaster = BY_SNAPSHOTS) -> None:
        self.cluster, self.limits, self.resources, self._forecaster = cluster, limits, tuple(limits), forecaster

    @cached_property
    def times(self) -> SnapshotTimes:
        return common_times(self.cluster.load_store.snapshots[name] for name in self.resources)

    @cached_property
    def weights(self) -> Array:
        """Of the snapshots, and of the further scenarios of a forecaster after them."""
        return self._forecast.weights

    @cached_property
    def _slots(self) -> Index:
        """Of all pods that are on a node and stay there."""
        placed = self.cluster.load_store.placed_pods
        return np.flatnonzero(placed.in_use & np.isnan(placed.terminating_since) & (placed.row >= 0))

    def prepare(self) -> Steps[None]:
        """Computes in short steps what would be computed at once when it is first asked for."""
        if "_filled" not in self.__dict__:
            self._filled = yield from self._fill()
        _ = self.room
        yield
        _ = self._pods
        yield
        if "usage" not in self.__dict__:
            self.usage = yield from self._sum()
        if "penalty" not in self.__dict__:
            self.penalty = yield from self._penalties()

    @cached_property
    def _filled(self) -> Mapping[str, Array]:
        """Usage of these pods at the snapshots, by resource, snapshot and pod."""
        return finish(self._fill())

    def _fill(self) -> Steps[Mapping[str, Array]]:
        store, found = self.cluster.load_store, dict[str, Array]()
        for name in self.resources:
            found[name] = yield from store.fill_snapshots(name, self.times, self._slots)
        return found

    @cached_property
    def _snapshots(self) -> Snapshots:
        times = self.times
        weights = snapshot_weights(len(times.recent), len(times.hourly), self.newest_share, self.room)
        return Snapshots(times, {name: lines.T for name, lines in self._filled.items()}, weights)

    @cached_property
    def room(self) -> float:
        """Of the whole cluster, by its fullest resource at the fullest of all snapshots; none before three days are known."""
        if len(self.times.hourly) < HOURS_TO_KNOW:
            return 0.0
        shares = [LIMIT / self.limits[name] * self._share_used(name) for name in self.resources]
        return room_below(max(shares, default=0.0))

    def _share_used(self, name: str) -> float:
        """Of what all nodes have, by these pods, at the snapshot at which they used most."""
        usable = float(np.nansum(self.cluster.view.usable(name)))
        return float(self._filled[name].sum(axis=1).max(initial=0.0)) / usable if usable > 0 else 0.0

    @property
    def newest_share(self) -> float:
        """Of the samples that the fullest of the recent snapshots has; 1 where samples are as rare as snapshots."""
        if not len(self.times.recent):
            return 1.0
        newest = self.times.recent[0] % RECENT
        counts = [self.cluster.load_store.snapshots[name].counts for name in self.resources]
        return max(float(each[newest].max(initial=0)) / max(float(each.max(initial=0)), 1.0) for each in counts)

    @cached_property
    def _forecast(self) -> Forecast:
        return self._forecaster.forecast(self._snapshots)

    @cached_property
    def _pods(self) -> Mapping[str, Array]:
        """Usage of these pods by resource, scenario and pod."""
        filled, further = self._filled, self._forecast.further
        return {name: np.vstack([filled[name], further[name].T]) for name in filled} if further else filled

    @cached_property
    def usage(self) -> Array:
        return finish(self._sum())

    def _sum(self) -> Steps[Array]:
        """What the pods of each row use, and the system beside them, some scenarios in each step."""
        rows = self.cluster.load_store.placed_pods.row[self._slots]
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        shape = len(self.resources), len(self.cluster.node_table), len(self.weights)
        usage: Array = np.zeros(shape, dtype=np.float32)
        for name, sums in zip(self.resources, usage, strict=True):
            for part in parts_of(shape[2], len(rows)) if len(rows) else ():
                by_row = self._pods[name][part].take(order, axis=1)  # several times as fast as to index by `[:, order]`
                sums[rows[order][starts], part] = np.add.reduceat(by_row, starts, axis=1).T
                yield
            sums += np.nan_to_num(self.cluster.load.system_usage(name))[:, None].astype(np.float32)
        return usage

    @cached_property
    def per_unit(self) -> Array:
        """By resource and row: what makes scaled utilisation of usage; 0 where a node has nothing of it."""
        capacity = np.stack([self.cluster.view.usable(name) for name in self.resources])
        scale = LIMIT / np.array([[self.limits[name]] for name in self.resources])
        with np.errstate(divide="ignore"):
            return np.where(capacity > 0, scale / capacity, 0.0).astype(np.float32)

    @property
    def known(self) -> Bools:
        """By row: whether samples of every resource are trusted, and of pods as well as of the node."""
        load = self.cluster.view.load
        known = np.ones(len(self.cluster.node_table), dtype=np.bool_)
        for name in self.resources:
            known &= (load.trust(name) > 0) & ~load.node_metrics_only(name)
        return known

    @cached_property
    def penalty(self) -> Floats:
        return finish(self._penalties())

    def _penalties(self) -> Steps[Floats]:
        rows = np.arange(len(self.cluster.node_table))
        found = np.zeros(len(rows))
        for part in parts_of(len(rows), len(self.resources) * len(self.weights)):
            found[part] = self.penalties_of(self.load(rows[part]))
            yield
        return found

    def penalties_of(self, load: Array) -> Array:
        """Of nodes with this load, by the last axis: that of each scenario, scaled to `LIMIT`."""
        return penalties(load, self.weights, self.room)

    def pods(self, slots: Index) -> PodLoad:
        index = np.searchsorted(self._slots, slots)
        return PodLoad(slots, np.stack([self._pods[name][:, index].T for name in self.resources]))

    def load(self, rows: Index) -> Array:
        """By row and snapshot: the utilisation of the fullest resource, scaled to `LIMIT`."""
        return np.asarray((self.usage[:, rows] * self.per_unit[:, rows, None]).max(axis=0))

    def gains_without(self, row: int, pods: PodLoad) -> Floats:
        """By pod: by how much the penalty of its node falls if it leaves."""
        left = np.maximum(self.usage[:, row, None] - pods.usage, 0.0) * self.per_unit[:, row, None, None]
        return np.asarray(self.penalty[row] - self.penalties_of(left.max(axis=0)))

    def losses_with(self, rows: Index, pods: PodLoad) -> Floats:
        """By pod and row: by how much the penalty of the row rises if the pod comes."""
        with_pod = self.usage[:, None, rows] + pods.usage[:, :, None]
        with_pod *= self.per_unit[:, None, rows, None]  # in place: these are the largest arrays of a search
        return np.asarray(self.penalties_of(with_pod.max(axis=0)) - self.penalty[rows])

    def fits(self, source: int, rows: Index, pods: PodLoad) -> Bools:
        """By pod of `source` and row: whether the row stays within all limits with the pod, as both were last seen.

        If the CPU of the source is overloaded, that of the row may be above its limit, but not overloaded as well.
        """
        newest = (self.usage[:, None, rows, 0] + pods.usage[:, :, None, 0]) * self.per_unit[:, None, rows]
        lacking = (self.per_unit[:, None, rows] == 0.0) & (pods.usage[:, :, None, 0] > 0.0)
        return np.asarray(((newest <= self._ceilings(source)) & ~lacking).all(axis=0))

    def _ceilings(self, source: int) -> Array:
        """By resource: how far targets of pods that leave this row may be filled, scaled to `LIMIT`."""
        ceilings = np.full((len(self.resources), 1, 1), LIMIT, dtype=np.float32)
        if CPU in self.limits:
            cpu = self.resources.index(CPU)
            if self.usage[cpu, source, 0] * self.per_unit[cpu, source] > OVERLOADED:
                ceilings[cpu] = max(LIMIT, min(OVERLOADED, LIMIT * MOST_OF_CPU / self.limits[CPU]))
        return ceilings

    def move(self, pod: PodLoad, source: int, target: int) -> None:
        """`pod` is a single one."""
        self.usage[:, source] -= pod.usage[:, 0]
        self.usage[:, target] += pod.usage[:, 0]
        rows = np.array([source, target])
        self.penalty[rows] = self.penalties_of(self.load(rows))
