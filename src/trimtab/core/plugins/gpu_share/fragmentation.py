"""How much of a node's free GPUs the pods of a workload cannot use, and by how much a pod adds to that.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
(USENIX ATC 2023). For one kind of pod, free GPU is a fragment if the node lacks CPU, devices or the model for such a
pod, and else what is free on devices with too little left for it. The fragmentation of a node is the mean of that over
the workload, each kind of pod by its weight; for pods without GPUs all of it is a fragment.

With W the sum of all weights, G what is free in total, and w, u for a kind of pod that fits its weight and what is free
on the devices that it could use: fragmentation = G - sum(w * u) / W. Weights are whole numbers, so sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Ints, Rows
from trimtab.core.model.resources import CPU
from trimtab.core.model.selectors import Requirement
from trimtab.core.plugins.gpu_share.devices import MODEL_LABEL, WHOLE, GpuRequest, PodKind
from trimtab.core.tables import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Kinds of pods as columns, grouped by their GPUs; `starts` is where each group begins."""

    weight: int  # of all kinds, with those that ask for no GPUs
    cpus: Ints
    weights: Ints
    starts: Ints
    counts: Ints
    millis: Ints
    models: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, kinds: Iterable[tuple[PodKind, int]]) -> Workload:
        listed = sorted(kinds, key=lambda each: (each[0].request, each[0].models, each[0].cpu))
        sharing = [each for each in listed if each[0].request.gpus]
        groups = list(dict.fromkeys((kind.request, kind.models) for kind, _ in sharing))
        keys = [(kind.request, kind.models) for kind, _ in sharing]
        return cls(
            max(sum(weight for _, weight in listed), 1),
            _column(kind.cpu for kind, _ in sharing),
            _column(weight for _, weight in sharing),
            _column(map(keys.index, groups)),
            _column(request.gpus for request, _ in groups),
            _column(request.milli for request, _ in groups),
            tuple(models for _, models in groups),
        )

    def accessible(self, view: View, rows: Rows) -> Bools:
        """By group and node, whether the node has one of the models."""
        lines = np.ones((len(self.models), len(view.pod_count[rows])), dtype=np.bool_)
        for line, models in zip(lines, self.models, strict=True):
            if models:
                line[:] = view.matching_label(Requirement(MODEL_LABEL, "In", models))[rows]
        return lines

    def fragmentation(self, free: Ints, cpu: Ints, accessible: Bools) -> Ints:
        """Of nodes with this much free on each device, and this much free CPU: in thousandths, times `weight`."""
        total = free.sum(axis=1) * self.weight
        if not len(self.starts):
            return np.asarray(total)
        fits = free >= self.millis[:, None, None]
        usable = np.where(fits, free, 0).sum(axis=2)
        possible = accessible & (fits.sum(axis=2) >= self.counts[:, None])
        enough_cpu = np.where(self.cpus[:, None] <= cpu, self.weights[:, None], 0)
        weights = np.add.reduceat(enough_cpu, self.starts, axis=0)
        return np.asarray(total - np.where(possible, weights * usable, 0).sum(axis=0))


def _column(values: Iterable[int]) -> Ints:
    return np.array([*values], dtype=np.int64)


@lru_cache(maxsize=16)
def workload_of(kinds: tuple[tuple[PodKind, int], ...]) -> Workload:
    """The same for kinds that do not change, such as those of a configuration."""
    return Workload.of(kinds)


class Descent(NamedTuple):
    """By node, how much less fragmentation there is with the pod, in devices, and the device that a share goes to."""

    decrease: Floats
    device: Ints


def descend(workload: Workload, free: Ints, cpu: Ints, accessible: Bools, kind: PodKind) -> Descent:
    """For a pod of this kind on the devices where it adds the least; the pod must fit."""
    before, left, order = workload.fragmentation(free, cpu, accessible), cpu - kind.cpu, free.argsort(axis=1)
    nodes, slots, after_free = _candidates(np.take_along_axis(free, order, axis=1), kind.request)
    after = workload.fragmentation(after_free, left[nodes], accessible[:, nodes])
    best = np.full(len(free), np.iinfo(np.int64).max)
    np.minimum.at(best, nodes, after)
    device = np.zeros(len(free), dtype=np.int64)
    chosen = np.flatnonzero(after == best[nodes])[::-1]  # of equally good ones, the device with the least free
    device[nodes[chosen]] = slots[chosen]
    if order.shape[1]:
        device = np.take_along_axis(order, device[:, None], axis=1)[:, 0]
    return Descent((before - best) / (workload.weight * float(WHOLE)), device)


def _candidates(free: Ints, request: GpuRequest) -> tuple[Ints, Ints, Ints]:
    """Nodes, their devices, and what would be free then, for each way to place the pod; devices by increasing free.

    A share may go to any device that fits, of which one of each size is tried; other pods take the tightest ones. Where
    nothing fits nothing is taken, so that a node's score does not depend on how many devices the other nodes have.
    """
    nodes = np.arange(len(free))
    fits = free >= max(request.milli, 1)
    if request.gpus != 1 or request.milli >= WHOLE or not free.shape[1]:
        taken = fits & (fits.cumsum(axis=1) <= request.gpus)
        return nodes, np.zeros_like(nodes), free - taken * request.milli
    fits[:, 1:] &= free[:, 1:] != free[:, :-1]
    taken = np.where(fits.any(axis=1), request.milli, 0)
    fits[:, 0] |= taken == 0
    nodes, slots = np.nonzero(fits)
    after = free[nodes]
    after[np.arange(len(nodes)), slots] -= taken[nodes]
    return nodes, slots, after


def free_cpu(view: View, rows: Rows) -> Ints:
    return view.allocatable(CPU)[rows] - view.requested(CPU)[rows]


def most_common(counts: Sequence[tuple[PodKind, int]], share: float) -> tuple[tuple[PodKind, int], ...]:
    """The most common kinds that together are this share of all pods."""
    ordered, enough = sorted(counts, key=lambda each: (-each[1], each[0])), share * sum(each for _, each in counts)
    sums = np.cumsum([count for _, count in ordered])
    return tuple(ordered[: int(np.searchsorted(sums, enough)) + 1])
