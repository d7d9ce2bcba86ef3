"""The objective of all moves: a penalty of each node that grows with how often, and how far, it is above its limit.

    penalty of a node = sum over snapshots of weight * f(highest of its resources, relative to their limits)

Snapshots are of the whole cluster (`load.snapshots`), so pods that peak together count together, and those that take turns
do not. Recent snapshots count most, and the newest of them more than the others. `f` rises steeply right below the limit, so
that a node that stays a little above it is worth a move; it is convex above, so that relief goes first to where it is needed
most and no node is sacrificed; far below it still prefers an even load, a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.snapshots import HOURLY, RECENT, SnapshotTimes, common_times
from trimtab.core.rescheduling.forecast import BySnapshots, Forecast, Forecaster, Snapshots
from trimtab.core.tables import Bools, Floats, Index

Array = NDArray[np.float32]

LIMIT = 0.8  # utilisation is scaled so that every resource has its limit here
RAMP_FROM, RAMP_WIDTH = 0.78, 0.02
LINEAR, QUADRATIC, EVENNESS = 3.0, 40.0, 0.1
RECENT_WEIGHT, HOURLY_WEIGHT, DECAY = 56.0, 112.0, 0.5
BY_SNAPSHOTS = BySnapshots()


def penalties(load: Array, weights: Array) -> Array:
    """Of any number of nodes, by the last axis: the snapshots of each, scaled to `LIMIT`."""
    over = np.maximum(load - np.float32(LIMIT), 0.0)
    cost = np.clip((load - np.float32(RAMP_FROM)) * np.float32(1 / RAMP_WIDTH), 0.0, 1.0)
    cost += over * (np.float32(LINEAR) + np.float32(QUADRATIC) * over)
    cost += np.float32(EVENNESS) * load * load
    return np.asarray(cost @ weights)


def snapshot_weights(recent: int, hourly: int, newest: float = 1.0) -> Array:
    """By snapshot: recent ones decay, the newest first; each of the hourly ones counts alike.

    `newest` is the share of its samples that the newest one has so far: the first of ten is no five minutes of load.
    """
    decaying = np.exp(-DECAY * np.arange(recent))
    decaying[:1] *= newest
    return np.concatenate(
        [RECENT_WEIGHT * decaying / max(decaying.sum(), 1.0), np.full(hourly, HOURLY_WEIGHT / HOURLY)]
    ).astype(np.float32)


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

    @cached_property
    def _snapshots(self) -> Snapshots:
        store, times = self.cluster.load_store, self.times
        usage = {name: store.filled_snapshots(name, times, self._slots) for name in self.resources}
        weights = snapshot_weights(len(times.recent), len(times.hourly), self._newest_share)
        return Snapshots(times, usage, weights)

    @property
    def _newest_share(self) -> float:
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
        """Usage of these pods by resource, pod and scenario."""
        usage, further = self._snapshots.usage, self._forecast.further
        return {name: np.hstack([usage[name], further[name]]) for name in usage} if further else usage

    @cached_property
    def usage(self) -> Array:
        return np.stack([self._sums(name) for name in self.resources])

    def _sums(self, name: str) -> Array:
        """What the pods of each row use, and the system beside them."""
        pods, rows = self._pods[name], self.cluster.load_store.placed_pods.row[self._slots]
        sums = np.zeros((len(self.cluster.node_table), len(self.weights)), dtype=np.float32)
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        if len(starts):
            sums[rows[order][starts]] = np.add.reduceat(pods[order], starts, axis=0)
        sums += np.nan_to_num(self.cluster.load.system_usage(name))[:, None].astype(np.float32)
        return sums

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
        return penalties(self.load(np.arange(len(self.cluster.node_table))), self.weights).astype(np.float64)

    def pods(self, slots: Index) -> PodLoad:
        index = np.searchsorted(self._slots, slots)
        return PodLoad(slots, np.stack([self._pods[name][index] for name in self.resources]))

    def load(self, rows: Index) -> Array:
        """By row and snapshot: the utilisation of the fullest resource, scaled to `LIMIT`."""
        return np.asarray((self.usage[:, rows] * self.per_unit[:, rows, None]).max(axis=0))

    def gains_without(self, row: int, pods: PodLoad) -> Floats:
        """By pod: by how much the penalty of its node falls if it leaves."""
        left = np.maximum(self.usage[:, row, None] - pods.usage, 0.0) * self.per_unit[:, row, None, None]
        return np.asarray(self.penalty[row] - penalties(left.max(axis=0), self.weights))

    def losses_with(self, rows: Index, pods: PodLoad) -> Floats:
        """By pod and row: by how much the penalty of the row rises if the pod comes."""
        with_pod = (self.usage[:, None, rows] + pods.usage[:, :, None]) * self.per_unit[:, None, rows, None]
        return np.asarray(penalties(with_pod.max(axis=0), self.weights) - self.penalty[rows])

    def fits(self, rows: Index, pods: PodLoad) -> Bools:
        """By pod and row: whether the row stays within all limits with the pod, as both were last seen."""
        newest = (self.usage[:, None, rows, 0] + pods.usage[:, :, None, 0]) * self.per_unit[:, None, rows]
        lacking = (self.per_unit[:, None, rows] == 0.0) & (pods.usage[:, :, None, 0] > 0.0)
        return np.asarray(((newest <= LIMIT) & ~lacking).all(axis=0))

    def move(self, pod: PodLoad, source: int, target: int) -> None:
        """`pod` is a single one."""
        self.usage[:, source] -= pod.usage[:, 0]
        self.usage[:, target] += pod.usage[:, 0]
        rows = np.array([source, target])
        self.penalty[rows] = penalties(self.load(rows), self.weights)
