"""Allocatable and requested amounts of a resource by node, with the pod included; resource arguments of plugins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Rows
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts
from trimtab.core.model.setting import ParsedFields, setting

EXACT_AS_FLOAT = 1 << 46  # times 100 it stays below 2^53, where division and floor of floats are exact
EXACT_AS_INT = 1 << 56


@dataclass(frozen=True, slots=True)
class ResourceWeight:
    """A resource and its weight; 0 counts as 1, as in kube-scheduler."""

    name: str = setting("", required="write that of the resource")
    weight: int = setting(1, between=(0, 100))

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        parsed.values["weight"] = parsed.values.get("weight") or 1


class ResourceAmounts(Struct, frozen=True):
    """Amounts by resource in the units of requests, as in plugin arguments."""

    amounts: Amounts = ()

    def of(self, resource: str) -> int:
        return dict(self.amounts).get(resource, 0)


class ResourceValues(Struct, frozen=True):
    """A number for each of some resources, as in plugin arguments."""

    values: tuple[tuple[str, float], ...] = ()

    def of(self, resource: str, otherwise: float = 0.0) -> float:
        return dict(self.values).get(resource, otherwise)


def is_scalar(resource: str) -> bool:
    """Whether it is a scalar resource: devices, huge pages, anything with a domain in its name."""
    return "/" in resource or resource.startswith(("hugepages-", "attachable-volumes-"))


def allocatable_and_requested(
    view: View, pod: Pod, resource: str, rows: Rows, *, nonzero: bool
) -> tuple[Ints, Ints] | None:
    """Allocatable, and requests including the pod's own; None when the pod does not request a scalar resource.

    `nonzero` counts a default for containers without requests (kube-scheduler's NonZeroRequested).
    """
    pod_request = pod.requests.nonzero_of(resource) if nonzero else pod.requests.of(resource)
    requested = view.requested(resource)
    if nonzero and resource in (CPU, MEMORY):
        requested = view.nonzero_cpu if resource == CPU else view.nonzero_memory
    elif resource not in (CPU, MEMORY, EPHEMERAL_STORAGE) and (pod_request == 0 or not is_scalar(resource)):
        return None
    return view.allocatable(resource)[rows], requested[rows] + pod_request


def percent(part: Ints, whole: Ints) -> Ints:
    """100 * part / whole, rounded down, for parts between 0 and the whole; 0 where the whole is 0. Always exact."""
    if whole.max(initial=0) < EXACT_AS_FLOAT:
        ratio = part * float(MAX_SCORE)
        ratio /= np.maximum(whole, 1)
        return ratio.astype(np.int64)
    result = part * MAX_SCORE // np.maximum(whole, 1)
    for row in np.flatnonzero(whole >= EXACT_AS_INT):  # no real node is this large, so a loop is fine
        result[row] = part.item(row) * MAX_SCORE // whole.item(row)
    return result
