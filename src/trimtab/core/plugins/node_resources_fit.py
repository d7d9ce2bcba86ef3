"""NodeResourcesFit: rejects nodes with insufficient resources, and scores by one of three strategies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.resource_amounts import ResourceWeight, allocatable_and_requested, percent
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
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import ParsedFields, setting

MAX_SHAPE_SCORE = 10
LEAST_ALLOCATED, BY_RATIO = "LeastAllocated", "RequestedToCapacityRatio"
TYPES = (LEAST_ALLOCATED, "MostAllocated", BY_RATIO)
CPU_AND_MEMORY = (ResourceWeight(CPU), ResourceWeight(MEMORY))

AmountToScore = Callable[[Ints, Ints], Ints]  # of what is offered and taken


@dataclass(frozen=True, slots=True)
class ShapePoint:
    """At this utilization, in percent, the score is this, out of 10."""

    utilization: int = setting(0, between=(0, 100))
    score: int = setting(0, between=(0, MAX_SHAPE_SCORE))


@dataclass(frozen=True, slots=True)
class RequestedToCapacityRatio:
    """A piecewise linear function of the utilization."""

    shape: tuple[ShapePoint, ...] = ()

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        points: tuple[ShapePoint, ...] = parsed.values.get("shape", ())
        if not points:
            parsed.node.error("the shape needs at least one point")
        for number, (before, after) in enumerate(pairwise(points), start=1):
            if before.utilization >= after.utilization:
                parsed.entries["shape"].items()[number].error("utilization must increase from point to point")
                break


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """Which nodes are better: emptier ones, fuller ones, or by a piecewise linear function."""

    type: str = setting(LEAST_ALLOCATED, choices=TYPES, required=f"one of {', '.join(TYPES)}")
    resources: tuple[ResourceWeight, ...] = setting(CPU_AND_MEMORY, empty_is_unset=True)
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        kind, ratio = parsed.values.get("type"), parsed.entries.get("requestedToCapacityRatio")
        if kind == BY_RATIO and ratio is None:
            parsed.node.error(f"the type {kind} needs requestedToCapacityRatio.shape")
        elif kind is not None and kind != BY_RATIO and ratio is not None:
            ratio.note(f"ignored: the type is {kind}")
            parsed.values.pop("requested_to_capacity_ratio", None)

    @property
    def shape(self) -> tuple[ShapePoint, ...]:
        ratio = self.requested_to_capacity_ratio
        return ratio.shape if ratio is not None else ()


DEFAULT_STRATEGY = ScoringStrategy()


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """Codes are those of `resource_fit`."""

    name: ClassVar[str] = "NodeResourcesFit"
    requeue_on: ClassVar[Change] = (
        Change.NODE_ADDED | Change.ALLOCATABLE | Change.POD_DELETED | Change.POD_UPDATED | Change.OWN_POD_UPDATED
    )
    depends_on: ClassVar[Change] = Change.ALLOCATABLE | Change.PODS
    normalise: ClassVar[Normalise] = Normalise.NONE

    ignored_resources: tuple[str, ...] = setting(
        (), "extended resources that the filter ignores", validate_item=resource_error
    )
    ignored_resource_groups: tuple[str, ...] = setting(
        (), "the same by the part before the `/`", validate_item=group_error
    )
    scoring_strategy: ScoringStrategy = setting(
        DEFAULT_STRATEGY,
        "type (LeastAllocated, MostAllocated or RequestedToCapacityRatio), resources (cpu and memory "
        "unless set; weights 1 to 100) and requestedToCapacityRatio (the shape for that type; increasing "
        "utilization 0 to 100, scores 0 to 10)",
    )

    def __post_init__(self) -> None:
        if self.scoring_strategy.type not in _STRATEGIES:
            raise ValueError(
                f"scoringStrategy.type: {self.scoring_strategy.type!r} is not one of {', '.join(_STRATEGIES)}"
            )

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return fit_codes(view, rows, self._requests(pod), lambda resource: view.requested(resource)[rows])

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return fit_reasons(self._requests(pod), code)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return _STRATEGIES[self.scoring_strategy.type](self.scoring_strategy, view, pod, rows)

    def _requests(self, pod: Pod) -> Sequence[Request]:
        return [*checked_requests(pod, self.ignored_resources, self.ignored_resource_groups)]


def _weighted_mean(strategy: ScoringStrategy, view: View, pod: Pod, rows: Rows, amount_to_score: AmountToScore) -> Ints:
    """The weighted mean over the resources a node has of the percentage that `amount_to_score` is of allocatable."""
    total = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
    weights: Ints | int = 0
    for resource in strategy.resources:
        amounts = allocatable_and_requested(view, pod, resource.name, rows, nonzero=True)
        if amounts is not None:
            allocatable, requested = amounts
            score = percent(amount_to_score(allocatable, requested), allocatable)
            total += score if resource.weight == 1 else score * resource.weight
            weights = weights + (resource.weight if allocatable.all() else (allocatable > 0) * resource.weight)
    # Sums of percentages are small, so dividing them as floats is exact, and far cheaper than as integers.
    return (total / np.maximum(weights, 1)).astype(np.int64)


def _least_allocated(strategy: ScoringStrategy, view: View, pod: Pod, rows: Rows) -> Ints:
    return _weighted_mean(
        strategy, view, pod, rows, lambda allocatable, requested: np.maximum(allocatable - requested, 0)
    )


def _most_allocated(strategy: ScoringStrategy, view: View, pod: Pod, rows: Rows) -> Ints:
    return _weighted_mean(strategy, view, pod, rows, lambda allocatable, requested: np.minimum(requested, allocatable))


def _requested_to_capacity_ratio(strategy: ScoringStrategy, view: View, pod: Pod, rows: Rows) -> Ints:
    """By the piecewise linear shape; a resource that scores 0 does not count, and halves are rounded up."""
    shape = piecewise_linear(strategy.shape)
    total = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
    weights = np.zeros_like(total)
    for resource in strategy.resources:
        amounts = allocatable_and_requested(view, pod, resource.name, rows, nonzero=True)
        if amounts is not None:
            allocatable, requested = amounts
            score = np.where(allocatable > 0, shape[percent(np.minimum(requested, allocatable), allocatable)], 0)
            total += score * resource.weight
            weights += (score > 0) * resource.weight
    return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)


@lru_cache(maxsize=64)  # computed after every placement, and always the same for a profile
def piecewise_linear(shape: tuple[ShapePoint, ...]) -> Ints:
    """The score at each whole percent of utilization, linear between the points and flat outside them."""
    return np.array([_interpolate(shape, at) for at in range(MAX_SCORE + 1)], dtype=np.int64)


def _interpolate(shape: tuple[ShapePoint, ...], utilization: int) -> int:
    scale = MAX_SCORE // MAX_SHAPE_SCORE
    for index, point in enumerate(shape):
        if utilization <= point.utilization:
            if index == 0:
                return point.score * scale
            before = shape[index - 1]
            rise = (point.score - before.score) * scale * (utilization - before.utilization)
            step = abs(rise) // (point.utilization - before.utilization)
            return before.score * scale + (step if rise >= 0 else -step)
    return shape[-1].score * scale if shape else 0


_STRATEGIES = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "RequestedToCapacityRatio": _requested_to_capacity_ratio,
}
