"""UsageOvercommit: fits pods by what the pods of a node really use instead of what they request, with a safety margin.

For profiles that disable NodeResourcesFit in its favour. Requests are usually far above usage, so nodes are full by
requests and idle in fact. Here a node's CPU and memory count as requested by

    use      = mean + z * deviation of the node's load (`LoadView.forecast`), at least the last sample
    counted  = use * margin, but not more than the requests, unless the use itself is more
             and at least requests - (maxOvercommit - 1) * allocatable

where z belongs to the percentile that the load may exceed that rarely. So requests never exceed `maxOvercommit` times
allocatable, and a node whose pods use more than they request is full earlier. The pod itself counts with its request in
full; once it is placed, with its estimated usage and then with what is measured.

A node without trusted metrics counts plain requests, as in NodeResourcesFit: missing is never zero. While its metrics
are ageing it gets half of the discount. Other resources and the number of pods are exact, always.

Assumptions, and when they fail: loads of pods add up to a normal distribution, and the next hour is like the last one
(raise the percentile, or lower `maxOvercommit`). Memory that is in use cannot be throttled, so its defaults are stricter.
When a node runs out of memory all the same, the kubelet evicts pods first that use more than they request.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.framework.resource_fit import (
    Request,
    checked_requests,
    fit_codes,
    fit_reasons,
    group_error,
    resource_error,
)
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MAX_AMOUNT, MEMORY
from trimtab.core.model.setting import check_ranges, setting
from trimtab.core.tables import Floats

BISECTIONS, MAX_DEVIATIONS = 60, 8.0


@dataclass(frozen=True, slots=True)
class Discount:
    """How far requests of a resource are discounted; percentile 50 is the mean, margin 1 none, maxOvercommit 1 none."""

    percentile: float = setting(95.0, between=(50, 99.99))
    margin: float = setting(1.1, between=(1, 10))
    max_overcommit: float = setting(1.5, between=(1, 10))

    def __post_init__(self) -> None:
        check_ranges(self)

    def counted(self, requested: Ints, allocatable: Ints, use: Floats, trust: Floats) -> Ints:
        """What counts as requested where the use is known, and the requests where it is NaN."""
        counted = np.minimum(use * self.margin, np.maximum(requested, use))
        counted = np.where(counted < requested, requested - trust * (requested - counted), counted)
        counted = np.maximum(counted, requested - (self.max_overcommit - 1.0) * allocatable)
        whole = np.ceil(np.minimum(np.nan_to_num(counted), float(MAX_AMOUNT))).astype(np.int64)
        return np.where(np.isnan(use), requested, whole)


@dataclass(frozen=True, slots=True)
class MemoryDiscount(Discount):
    """The same with the defaults of memory."""

    percentile: float = setting(99.9, between=(50, 99.99))
    max_overcommit: float = setting(1.2, between=(1, 10))


DEFAULT_CPU, DEFAULT_MEMORY = Discount(), MemoryDiscount()


@dataclass(frozen=True, slots=True)
class UsageOvercommit:
    """Codes are those of `resource_fit`, as NodeResourcesFit's."""

    name: ClassVar[str] = "UsageOvercommit"
    requeue_on: ClassVar[Change] = (
        Change.NODE_ADDED
        | Change.ALLOCATABLE
        | Change.POD_DELETED
        | Change.POD_UPDATED
        | Change.OWN_POD_UPDATED
        | Change.LOAD
    )
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = utilisation.SCORE_SCALE

    cpu: Discount = setting(
        DEFAULT_CPU,
        "`{percentile: 95, margin: 1.1, maxOvercommit: 1.5}` unless set: CPU counts as what is used at this percentile,"
        " times the margin; requests may add up to this multiple of allocatable",
    )
    memory: MemoryDiscount = setting(
        DEFAULT_MEMORY, "`{percentile: 99.9, margin: 1.1, maxOvercommit: 1.2}` unless set: the same for memory"
    )
    ignored_resources: tuple[str, ...] = setting(
        (), "extended resources that the filter ignores", validate_item=resource_error
    )
    ignored_resource_groups: tuple[str, ...] = setting(
        (), "the same by the part before the `/`", validate_item=group_error
    )

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return fit_codes(view, rows, self._requests(pod), lambda resource: self._counted(view, resource, rows))

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return fit_reasons(self._requests(pod), code)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """The mean of free CPU and memory with the pod, by what counts as requested."""
        counted = np.array([self._counted(view, resource, rows) for resource in utilisation.RESOURCES], np.float64)
        pod_requests = np.array([[pod.requests.nonzero_of(resource)] for resource in utilisation.RESOURCES])
        full = utilisation.ratios(counted + pod_requests, utilisation.quantities(view.allocatable, rows))
        return utilisation.free_score(utilisation.weighted_sum(0.5, 0.5, np.minimum(full, 1.0)))

    def explain_note(self, view: View, pod: Pod) -> str:
        note = utilisation.unmeasured_note(view)
        return note.replace("scored by requests", "counted by requests") if note else ""

    def _requests(self, pod: Pod) -> Sequence[Request]:
        return [*checked_requests(pod, self.ignored_resources, self.ignored_resource_groups)]

    def _counted(self, view: View, resource: str, rows: Rows) -> Ints:
        """What counts as requested on these rows."""
        requested = view.requested(resource)[rows]
        if resource not in (CPU, MEMORY):
            return requested
        discount, load, count = self.cpu if resource == CPU else self.memory, view.load, view.count
        mean, variance = (column[:count][rows] for column in load.forecast(resource))
        use = mean + deviations_at(discount.percentile) * np.sqrt(np.maximum(variance, 0.0))
        use = np.maximum(use, load.latest(resource)[:count][rows])
        trust = load.trust(resource)[:count][rows]
        return discount.counted(requested, view.allocatable(resource)[rows], use, trust)


@lru_cache(maxsize=64)
def deviations_at(percentile: float) -> float:
    """How many deviations above its mean a normally distributed load is at this percentile, from 50 up."""
    low, high = 0.0, MAX_DEVIATIONS
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = 100.0 * (1.0 - math.erfc(middle / math.sqrt(2)) / 2)
        low, high = (middle, high) if below < percentile else (low, middle)
    return high if percentile > 50 else 0.0
