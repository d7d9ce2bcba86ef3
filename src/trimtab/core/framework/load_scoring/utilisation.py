"""Utilisation of nodes: by measured load where it is trusted, by requests where it is not.

Measured means what the node will use once every pod on it is in a sample (`LoadView.expected`), so a burst of pods
counts at once. A node without metrics counts the requests of its pods, with a default for containers without requests.

Most policies treat CPU and memory alike. They get both in one array with a line each: after a placement one row is
scored again, and then the number of numpy calls is the whole cost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, MAX_SCORE, Bools, Ints, Rows
from trimtab.core.load.estimates import workload_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import Floats

RESOURCES = (CPU, MEMORY)
EPSILON, MIN_CAPACITY = 1e-150, 1e-200
SCORE_SCALE = 10_000  # units of a point in load scores: a small pod on a large node must still make a difference


def is_daemon_set_pod(pod: Pod) -> bool:
    """Such a pod has one possible node, however full it is."""
    return pod.owner is not None and pod.owner.kind == "DaemonSet"


def estimate_signature(pod: Pod) -> Hashable:
    """Everything of the pod that its usage estimate depends on: its requests, and its workload."""
    return pod.requests, workload_key(pod)


# --- one resource


def estimate(view: View, pod: Pod, resource: str) -> float:
    """The pod's estimated usage."""
    return view.load.estimate(pod, resource)[0]


def expected(view: View, resource: str, rows: Rows) -> Floats:
    """Each node's expected usage; NaN where no sample is trusted."""
    return view.load.expected(resource)[: view.count][rows]


def newest_sample_time(view: View, resource: str) -> float:
    """When any node was last sampled, which does not change between samples; -inf for never."""
    return float(np.fmax.reduce(view.load.sampled_at(resource)[: view.count], initial=-np.inf))


def requested_with(view: View, resource: str, rows: Rows, pod: Pod | None = None) -> Floats:
    """Requests of the pods on each node, including this one."""
    if resource not in RESOURCES:
        return np.add(view.requested(resource)[rows], pod.requests.of(resource) if pod else 0, dtype=np.float64)
    column = view.nonzero_cpu if resource == CPU else view.nonzero_memory
    return np.add(column[rows], pod.requests.nonzero_of(resource) if pod else 0, dtype=np.float64)


def ratios(used: Floats, capacity: Ints) -> Floats:
    """Used over capacity; a node with no capacity is full, even when nothing is used. NaN stays NaN.

    Adding EPSILON changes no result but 0 / 0, and avoids a test for zeros, which would cost more than all the rest.
    """
    return (used + EPSILON) / np.maximum(capacity, MIN_CAPACITY)


def utilisation(view: View, resource: str, rows: Rows, pod: Pod) -> Floats:
    """Utilisation of each node with this pod on it, relative to allocatable. Never NaN."""
    offered = view.allocatable(resource)[rows]
    shares = ratios(expected(view, resource, rows) + estimate(view, pod, resource), offered)
    return fill_unknown(shares, lambda: ratios(requested_with(view, resource, rows, pod), offered))


# --- CPU and memory, a line each


def cpu_and_memory(column: Callable[[str], NDArray[np.generic]], view: View, rows: Rows) -> Floats:
    """A column of both; it may be longer than the number of nodes."""
    cpu, memory = (column(resource)[: view.count][rows] for resource in RESOURCES)
    both: Floats = np.array((cpu, memory), dtype=np.float64)
    return both


def expected_usage(view: View, rows: Rows) -> Floats:
    return cpu_and_memory(view.load.expected, view, rows)


def quantities(column: Callable[[str], Ints], rows: Rows) -> Ints:
    """An integer column of both, such as `View.allocatable` or `View.capacity`."""
    return np.array((column(CPU)[rows], column(MEMORY)[rows]))


def pod_estimate(view: View, pod: Pod) -> Floats:
    """The pod's estimated usage of both."""
    return np.array(((estimate(view, pod, CPU),), (estimate(view, pod, MEMORY),)))


def utilisations(view: View, rows: Rows, pod: Pod) -> Floats:
    """Utilisation of each node with this pod on it, relative to allocatable. Never NaN."""
    offered = quantities(view.allocatable, rows)
    return fill_from_requests(view, rows, pod, ratios(expected_usage(view, rows) + pod_estimate(view, pod), offered))


def fill_from_requests(view: View, rows: Rows, pod: Pod | None, known: Floats) -> Floats:
    """The ratios of both, with requests in place of unknown values."""
    return fill_unknown(
        known,
        lambda: ratios(
            np.array([requested_with(view, resource, rows, pod) for resource in RESOURCES]),
            quantities(view.allocatable, rows),
        ),
    )


def fill_unknown(known: Floats, otherwise: Callable[[], Floats]) -> Floats:
    """The known values, and the result of `otherwise` where unknown; it is called only if needed."""
    unknown: Bools = np.isnan(known)
    return np.where(unknown, otherwise(), known) if unknown.any() else known


# --- scores and notes


def weighted_sum(cpu_weight: float, memory_weight: float, lines: Floats) -> Floats:
    """The sum of both lines in a fixed order: a matrix product rounds differently for other numbers of rows."""
    both: Floats = cpu_weight * lines[0] + memory_weight * lines[1]
    return both


def free_score(utilisation: Floats) -> Ints:
    """100 for an empty node down to 0 for a full one, scaled."""
    free = 1.0 - np.minimum(utilisation, 1.0)
    return np.rint(free * (MAX_SCORE * SCORE_SCALE)).astype(np.int64)


def whole_points(whole: Floats) -> Ints:
    """Whole points, scaled, as upstream scores; 1e-9 makes up for float results just below a whole number."""
    return np.floor(np.clip(whole, 0.0, MAX_SCORE) + 1e-9).astype(np.int64) * SCORE_SCALE


def unmeasured_note(view: View, resources: tuple[str, ...] = RESOURCES) -> str:
    """How many nodes are scored by requests; empty when all are measured."""
    counts = {each: int(np.isnan(expected(view, each, ALL_ROWS)).sum()) for each in resources}
    missing = [f"{count} of {view.count} nodes without {each} metrics" for each, count in counts.items() if count]
    return f"{', '.join(missing)}: scored by requests" if missing else ""


# --- thresholds as filter codes: one bit per threshold in order; -2 times the bits where no eviction helps, because
# the pod alone exceeds one, so that -1 stays free for other reasons of the plugin


def threshold_codes(above: Bools, pod_only_above: Callable[[], Bools] | None = None) -> Ints:
    """One line per threshold: which rows exceed it, and, evaluated only where some do, where the pod alone does."""
    if not above.any():
        return np.zeros(above.shape[1], dtype=np.int64)
    codes: Ints = (1 << np.arange(len(above), dtype=np.int64)) @ above
    if pod_only_above is not None:
        codes[(above & pod_only_above()).any(axis=0)] *= -2
    return codes


def exceeded_thresholds(code: int) -> list[int]:
    """The indices of the thresholds behind a code."""
    bits = code if code > 0 else -code // 2
    return [bit for bit in range(bits.bit_length()) if bits >> bit & 1]
