"""NodeResourcesFit: rejects nodes with insufficient resources, and scores by one of three strategies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.resource_amounts import ResourceWeight, allocatable_and_requested, is_scalar, percent
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from trimtab.core.model.selectors import is_label_key
from trimtab.core.model.setting import ParsedFields, setting

TOO_MANY_PODS = 1
NATIVE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
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


def _resource_error(name: str) -> str | None:
    return None if is_label_key(name) else f"{name[:100]!r} is not a valid resource name"


def _group_error(name: str) -> str | None:
    valid = "/" not in name and is_label_key(name)
    return None if valid else f"{name[:100]!r} is not a valid resource group: write the part before the '/'"


@dataclass(frozen=True, slots=True)
class NodeResourcesFit:
    """Codes are sets of bits: the first for the number of pods, then one per resource in the pod's order."""

    name: ClassVar[str] = "NodeResourcesFit"
    requeue_on: ClassVar[Change] = (
        Change.NODE_ADDED | Change.ALLOCATABLE | Change.POD_DELETED | Change.POD_UPDATED | Change.OWN_POD_UPDATED
    )
    depends_on: ClassVar[Change] = Change.ALLOCATABLE | Change.PODS
    normalise: ClassVar[Normalise] = Normalise.NONE

    ignored_resources: tuple[str, ...] = setting(
        (), "extended resources that the filter ignores", validate_item=_resource_error
    )
    ignored_resource_groups: tuple[str, ...] = setting(
        (), "the same by the part before the `/`", validate_item=_group_error
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
        codes = (view.pod_count[rows] >= view.allocatable(PODS)[rows]).astype(np.int64)
        unresolvable = np.zeros(len(codes), dtype=np.bool_)
        for bit, (resource, amount) in enumerate(self._requests(pod), start=1):
            allocatable = view.allocatable(resource)[rows]
            insufficient = allocatable - view.requested(resource)[rows] < amount
            if insufficient.any():
                codes |= insufficient.astype(np.int64) << bit
                unresolvable |= insufficient & (allocatable < amount)
        if unresolvable.any():
            codes[unresolvable] *= -1
        return codes

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        bits = abs(code)
        too_many_pods = ("Too many pods",) if bits & TOO_MANY_PODS else ()
        requests = enumerate(self._requests(pod), start=1)
        return (*too_many_pods, *(f"Insufficient {resource}" for bit, (resource, _) in requests if bits >> bit & 1))

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return _STRATEGIES[self.scoring_strategy.type](self.scoring_strategy, view, pod, rows)

    def _requests(self, pod: Pod) -> Iterator[tuple[str, int]]:
        for resource, amount in pod.requests.amounts:
            if amount > 0 and (resource in NATIVE or is_scalar(resource)) and not self._ignores(resource):
                yield resource, amount

    def _ignores(self, resource: str) -> bool:
        return is_extended(resource) and (
            resource in self.ignored_resources or resource.split("/")[0] in self.ignored_resource_groups
        )


def is_extended(resource: str) -> bool:
    """A name outside Kubernetes' own domain, such as a device plugin's."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


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
