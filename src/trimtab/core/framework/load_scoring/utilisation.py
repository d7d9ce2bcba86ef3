"""How full nodes are: as measured where that is believed, by requests where it is not; how full is too full, plugins say.

Measured means what the node will be seen to use once every pod on it is in a sample (`LoadView.expected`), so that a
burst of pods is felt at once. A node without data counts what its pods ask for, a little for those that ask for nothing.

Most policies look at CPU and memory in one way. They get both in one array, a line each: after a placement one row is
judged again, and then the number of calls is all that costs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import Floats, View
from trimtab.core.framework.interface import ALL_ROWS, MAX_SCORE, Bools, Ints, Rows
from trimtab.core.load.estimator import workload_key
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY

RESOURCES = (CPU, MEMORY)
EPSILON, MIN_CAPACITY = 1e-150, 1e-200
SCORE_SCALE = 10_000  # of a point, in which scores by load are counted: a small pod on a large node must still be seen


def is_daemon_set_pod(pod: Pod) -> bool:
    """Such a pod has its one node, however full that is."""
    return pod.owner is not None and pod.owner.kind == "DaemonSet"


def estimate_signature(pod: Pod) -> Hashable:
    """All of the pod that its estimate depends on: what it asks for, and whose sibling it is."""
    return pod.requests, workload_key(pod)


# --- one resource


def estimate(view: View, pod: Pod, resource: str) -> float:
    """What the pod will use, as far as anyone can tell."""
    return view.load.estimate(pod, resource)[0]


def expected(view: View, resource: str, rows: Rows) -> Floats:
    """What each node will be seen to use; NaN where nothing is believed."""
    return view.load.expected(resource)[: view.count][rows]


def newest_sample_time(view: View, resource: str) -> float:
    """When any node was measured last: the clock of whoever must give the same answer until there is news; -inf for never."""
    return float(np.fmax.reduce(view.load.sampled_at(resource)[: view.count], initial=-np.inf))


def requested_with(view: View, resource: str, rows: Rows, pod: Pod | None = None) -> Floats:
    """What pods on each node ask for, with this one among them."""
    if resource not in RESOURCES:
        return np.add(view.requested(resource)[rows], pod.requests.of(resource) if pod else 0, dtype=np.float64)
    column = view.nonzero_cpu if resource == CPU else view.nonzero_memory
    return np.add(column[rows], pod.requests.nonzero_of(resource) if pod else 0, dtype=np.float64)


def ratios(used: Floats, capacity: Ints) -> Floats:
    """Used over offered; a node that offers nothing is full, also when nothing is used. NaN stays NaN.

    To add so little changes no figure but 0, and spares a look for zeros, which would cost more than all the rest.
    """
    return (used + EPSILON) / np.maximum(capacity, MIN_CAPACITY)


def utilisation(view: View, resource: str, rows: Rows, pod: Pod) -> Floats:
    """How full each node will be with this pod on it, of what it has for pods. Never NaN."""
    offered = view.allocatable(resource)[rows]
    shares = ratios(expected(view, resource, rows) + estimate(view, pod, resource), offered)
    return fill_unknown(shares, lambda: ratios(requested_with(view, resource, rows, pod), offered))


# --- CPU and memory, a line each


def cpu_and_memory(column: Callable[[str], NDArray[np.generic]], view: View, rows: Rows) -> Floats:
    """A column of both; it may be longer than there are nodes."""
    cpu, memory = (column(resource)[: view.count][rows] for resource in RESOURCES)
    both: Floats = np.array((cpu, memory), dtype=np.float64)
    return both


def expected_usage(view: View, rows: Rows) -> Floats:
    return cpu_and_memory(view.load.expected, view, rows)


def quantities(column: Callable[[str], Ints], rows: Rows) -> Ints:
    """Of `View.allocatable` or `View.capacity`."""
    return np.array((column(CPU)[rows], column(MEMORY)[rows]))


def pod_estimate(view: View, pod: Pod) -> Floats:
    """What the pod will use of both."""
    return np.array(((estimate(view, pod, CPU),), (estimate(view, pod, MEMORY),)))


def utilisations(view: View, rows: Rows, pod: Pod) -> Floats:
    """How full each node will be with this pod on it, of what it has for pods. Never NaN."""
    offered = quantities(view.allocatable, rows)
    return fill_from_requests(view, rows, pod, ratios(expected_usage(view, rows) + pod_estimate(view, pod), offered))


def fill_from_requests(view: View, rows: Rows, pod: Pod | None, known: Floats) -> Floats:
    """The shares of both, with requests in place of what is not known."""
    return fill_unknown(
        known,
        lambda: ratios(
            np.array([requested_with(view, resource, rows, pod) for resource in RESOURCES]),
            quantities(view.allocatable, rows),
        ),
    )


def fill_unknown(known: Floats, otherwise: Callable[[], Floats]) -> Floats:
    """What is known, and the other figure, asked for only then, where nothing is."""
    blind: Bools = np.isnan(known)
    return np.where(blind, otherwise(), known) if blind.any() else known


# --- scores and words


def weighted_sum(cpu_weight: float, memory_weight: float, lines: Floats) -> Floats:
    """The sum of both lines, always in one order: a product of matrices would round otherwise for other numbers of rows."""
    both: Floats = cpu_weight * lines[0] + memory_weight * lines[1]
    return both


def free_score(utilisation: Floats) -> Ints:
    """100 for an empty node down to 0 for a full one, in parts of a point."""
    free = 1.0 - np.minimum(utilisation, 1.0)
    return np.rint(free * (MAX_SCORE * SCORE_SCALE)).astype(np.int64)


def whole_points(whole: Floats) -> Ints:
    """Scores that are counted in whole points, as their origin does it; what floats leave below a whole is made good."""
    return np.floor(np.clip(whole, 0.0, MAX_SCORE) + 1e-9).astype(np.int64) * SCORE_SCALE


def unmeasured_note(view: View, resources: tuple[str, ...] = RESOURCES) -> str:
    """In words, how many nodes are judged by requests; nothing when all are measured."""
    counts = {each: int(np.isnan(expected(view, each, ALL_ROWS)).sum()) for each in resources}
    told = [f"{count} of {view.count} nodes without {each} data" for each, count in counts.items() if count]
    return f"{', '.join(told)}: judged by requests" if told else ""
