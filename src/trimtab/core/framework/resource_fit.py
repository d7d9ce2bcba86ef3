"""Whether a pod's requests fit on nodes, as kube-scheduler's NodeResourcesFit decides it, by whatever counts as requested.

Codes are sets of bits: the first for the number of pods, then one per requested resource in the pod's order, of which the
sixty-second and all further ones share one; negative where the node's allocatable alone is too little, so that no eviction
helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.framework.resource_amounts import is_scalar
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from trimtab.core.model.selectors import is_label_key

TOO_MANY_PODS = 1
LAST_BIT = 62  # all resources from there on share it
NATIVE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})

Request = tuple[str, int]  # a resource and an amount


def checked_requests(
    pod: Pod, ignored_resources: Collection[str], ignored_groups: Collection[str]
) -> Iterator[Request]:
    """What is compared with a node's resources; extended resources may be ignored by name or group."""
    for resource, amount in pod.requests.amounts:
        ignored = _is_extended(resource) and (resource in ignored_resources or resource.split("/")[0] in ignored_groups)
        if amount > 0 and (resource in NATIVE or is_scalar(resource)) and not ignored:
            yield resource, amount


def fit_codes(view: View, rows: Rows, requests: Sequence[Request], requested: Callable[[str], Ints]) -> Ints:
    """A code per row; `requested` is what counts as requested of a resource on these rows."""
    codes = (view.pod_count[rows] >= view.allocatable(PODS)[rows]).astype(np.int64)
    unresolvable = np.zeros(len(codes), dtype=np.bool_)
    for bit, (resource, amount) in enumerate(requests, start=1):
        allocatable = view.allocatable(resource)[rows]
        insufficient = allocatable - requested(resource) < amount
        if insufficient.any():
            codes |= insufficient.astype(np.int64) << min(bit, LAST_BIT)
            unresolvable |= insufficient & (allocatable < amount)
    if unresolvable.any():
        codes[unresolvable] *= -1
    return codes


def fit_reasons(requests: Sequence[Request], code: int) -> tuple[str, ...]:
    """The reasons behind a code, in kube-scheduler's words."""
    bits = abs(code)
    too_many_pods = ("Too many pods",) if bits & TOO_MANY_PODS else ()
    names = enumerate((resource for resource, _ in requests[: LAST_BIT - 1]), start=1)
    others = (f"Insufficient {_either(requests[LAST_BIT - 1 :])}",) if bits >> LAST_BIT & 1 else ()
    return (*too_many_pods, *(f"Insufficient {resource}" for bit, resource in names if bits >> bit & 1), *others)


def _either(requests: Sequence[Request]) -> str:
    """The resources that share the last bit."""
    more = len(requests) - 1
    return f"{requests[0][0]}, or one of {more} further resources" if more else requests[0][0]


def resource_error(name: str) -> str | None:
    """What is wrong with the name of a resource to ignore."""
    return None if is_label_key(name) else f"{name[:100]!r} is not a valid resource name"


def group_error(name: str) -> str | None:
    """What is wrong with the name of a resource group to ignore."""
    valid = "/" not in name and is_label_key(name)
    return None if valid else f"{name[:100]!r} is not a valid resource group: write the part before the '/'"


def _is_extended(resource: str) -> bool:
    """A name outside Kubernetes' own domain, such as a device plugin's."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")
