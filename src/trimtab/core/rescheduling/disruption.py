"""What the disruption of a pod must be worth: the required gain, times a factor for what the pod is.

An ordinary pod has the factor 1: priority 0, Burstable, ready within a minute, never restarted. Reasons multiply, within
`LEAST` and `MOST`, so that a dear pod still leaves a node that is hot enough, and a cheap one is not moved for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log2, log10
from statistics import median_low
from typing import NamedTuple

from trimtab.core.model.pod import DELETION_COST, EVICT_ANYWAY, SAFE_LOCAL_VOLUMES, Pod
from trimtab.core.model.resources import CPU, MEMORY

LEAST, MOST = 0.5, 4.0
BEST_EFFORT, BURSTABLE, GUARANTEED = 0, 1, 2
BY_QOS = {BEST_EFFORT: (0.8, "BestEffort"), GUARANTEED: (1.25, "Guaranteed")}
DIGITS = 9  # of the highest priority, or deletion cost, of a user's pods: that one doubles the cost
QUICK_START, PER_DOUBLING, SLOWEST_START = 60.0, 0.25, 2.0
PER_RESTART, MOST_RESTARTS = 0.1, 5
LOCAL_DATA = 1.5
NEGLIGIBLE = 0.05  # of what a move just now would count


class Reason(NamedTuple):
    """Why a pod is dearer or cheaper than others, in words, and by which factor."""

    factor: float
    text: str


class DisruptionCost(NamedTuple):
    """`why` is empty for an ordinary pod."""

    cost: float
    why: str = ""


def disruption_cost(pod: Pod, required_gain: float, workload: Iterable[Pod] = (), moved: float = 0.0) -> DisruptionCost:
    """`workload` are all pods of the same workload that are known: what they needed to start, this one will need again.

    moved: how often the pod was moved of late (`guards.context.recent_moves`). That counts beyond all other factors: a load
    that moves around must not take the pod with it.
    """
    factor, reasons = 1.0, list(_reasons(pod, workload))
    for each in reasons:
        factor *= each.factor
    factor = min(max(factor, LEAST), MOST)
    if moved > NEGLIGIBLE:
        reasons.append(Reason(1 + moved, "moved of late"))
        factor *= reasons[-1].factor
    return DisruptionCost(required_gain * factor, ", ".join(each.text for each in reasons))


def _reasons(pod: Pod, workload: Iterable[Pod]) -> Iterator[Reason]:
    if pod.priority:
        yield Reason(_by_digits(pod.priority), f"priority {pod.priority}")
    if (qos := qos_class(pod)) in BY_QOS:
        yield Reason(*BY_QOS[qos])
    seconds = start_up_time(workload)
    if seconds is not None and seconds > QUICK_START:
        longer = 1 + PER_DOUBLING * log2(seconds / QUICK_START)
        yield Reason(min(longer, SLOWEST_START), f"starts in {seconds:.0f} s")
    if pod.restarts:
        times = "once" if pod.restarts == 1 else f"{pod.restarts} times"
        yield Reason(1 + PER_RESTART * min(pod.restarts, MOST_RESTARTS), f"restarted {times}")
    if deletion_cost := int(pod.annotations.get(DELETION_COST, "0")):
        yield Reason(_by_digits(deletion_cost), f"deletion cost {deletion_cost}")
    if lost_volumes(pod):
        yield Reason(LOCAL_DATA, "local data")


def _by_digits(number: int) -> float:
    """From a half to 2: people choose such numbers by their order of magnitude."""
    factor = 1 + min(log10(1 + abs(number)) / DIGITS, 1.0)
    return factor if number > 0 else 1 / factor


def start_up_time(pods: Iterable[Pod]) -> float | None:
    """Seconds from a pod's start on its node to ready, as half of these pods had it; None if it was never seen.

    A pod that was restarted, or that was not ready for a while, became ready later than it started: the median leaves most
    of these out, and restarted ones do not count.
    """
    seen = [
        pod.ready_since - pod.started
        for pod in pods
        if pod.ready_since is not None and pod.started is not None and not pod.restarts
    ]
    return median_low(seen) if seen else None


def lost_volumes(pod: Pod) -> list[str]:
    """Names of the local volumes whose data the pod would miss."""
    if not pod.spec.local_volumes or EVICT_ANYWAY in pod.annotations:
        return []
    safe = pod.annotations.get(SAFE_LOCAL_VOLUMES, "").split(",")
    return [name for name in pod.spec.local_volumes if name not in safe]


def qos_class(pod: Pod) -> int:
    """By the sums of all containers, which is exact for pods with one."""
    requests, limits = dict(pod.requests.amounts), dict(pod.requests.limits)
    asked = {name: requests.get(name, 0) for name in (CPU, MEMORY)}
    limited = {name: limits.get(name, 0) for name in (CPU, MEMORY)}
    if not any(asked.values()) and not any(limited.values()):
        return BEST_EFFORT
    return GUARANTEED if all(limited.values()) and limited == asked else BURSTABLE
