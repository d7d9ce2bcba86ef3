"""How hot nodes were, and how hot they would have been with each pod where the policy would have put it.

    real     what was measured of a node
    shadow   the same, without the measured usage of the pods that would be elsewhere, and with that of those it would have

Fractions are of allocatable. A node without a trusted sample counts on neither side for that time, and a pod without one
moves nothing: what is not measured is left out on both sides, never taken for 0. A pod that the policy would leave pending
uses nothing in the shadow; one whose node no longer exists stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.duration import MINUTE
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import Floats
from trimtab.sim.shadow.outcomes import Outcome

LEVELS = (80, 90, 100)  # percent
RESOURCES = (CPU, MEMORY)
MAX_GAP = 5 * MINUTE  # a longer one was not watched: the machine slept, or the source failed


class Side(Struct):
    """One resource of all nodes over time, in reality or in the shadow."""

    hot_minutes: dict[str, float] = field(default_factory=lambda: {str(level): 0.0 for level in LEVELS})
    spread_minutes: float = 0.0  # the standard deviation over nodes, times minutes
    peak: float = 0.0
    peak_node: str = ""
    peak_at: float = 0.0

    def add(self, names: list[str], shares: Floats, minutes: float, now: float) -> None:
        for level in LEVELS:
            self.hot_minutes[str(level)] += minutes * int((shares * 100 >= level).sum())
        self.spread_minutes += minutes * float(shares.std())
        top = int(shares.argmax())
        if shares[top] > self.peak:
            self.peak, self.peak_node, self.peak_at = float(shares[top]), names[top], now


class ResourceLoad(Struct):
    """Both sides of one resource; `node_minutes` is the time of all measured nodes together."""

    real: Side = field(default_factory=Side)
    shadow: Side = field(default_factory=Side)
    minutes: float = 0.0
    node_minutes: float = 0.0

    def spread(self, side: Side) -> float:
        """The mean standard deviation of the nodes' utilisation."""
        return side.spread_minutes / self.minutes if self.minutes else 0.0


class LoadComparison(Struct):
    """Accumulates over time; `unmeasured` moved pods had no sample of their own at the last measurement."""

    resources: dict[str, ResourceLoad] = field(default_factory=lambda: {each: ResourceLoad() for each in RESOURCES})
    unmeasured: int = 0
    measured_at: float | None = None

    @property
    def measured(self) -> bool:
        return any(each.minutes for each in self.resources.values())

    def measure(self, cluster: Cluster, moved: Iterable[Outcome], now: float) -> None:
        """Let the time since the last call count with the load of now."""
        gap = now - self.measured_at if self.measured_at is not None else 0.0
        self.measured_at = now
        pods = with_slots(cluster, moved)
        missing: set[str] = set()
        for resource, load in self.resources.items():
            missing |= _measure(cluster, resource, load, pods, min(max(gap, 0.0), MAX_GAP) / MINUTE, now)
        self.unmeasured = len(missing)


def _measure(
    cluster: Cluster, resource: str, load: ResourceLoad, pods: list[tuple[int, Outcome]], minutes: float, now: float
) -> set[str]:
    """Returns the pods that have no sample of a resource that is measured."""
    view = cluster.view
    allocatable = view.allocatable(resource).astype(float)
    real = view.used(resource).astype(float)
    change, missing = moved_usage(cluster, resource, pods)
    known = np.isfinite(real) & (allocatable > 0)
    if known.any() and minutes:
        names = [view.nodes[row].name for row in np.flatnonzero(known).tolist()]
        load.minutes += minutes
        load.node_minutes += minutes * len(names)
        load.real.add(names, real[known] / allocatable[known], minutes, now)
        shadow = np.maximum(real[known] + change[known], 0.0)
        load.shadow.add(names, shadow / allocatable[known], minutes, now)
    return missing if known.any() else set()


def with_slots(cluster: Cluster, moved: Iterable[Outcome]) -> list[tuple[int, Outcome]]:
    """Those that are still there, with their slots in the pod table."""
    slots = cluster.pod_table.slot
    return [(slots[each.uid], each) for each in moved if each.uid in slots]


def moved_usage(cluster: Cluster, resource: str, pods: list[tuple[int, Outcome]]) -> tuple[Floats, set[str]]:
    """What each row would have more or less, and the pods of which that is not known."""
    usage, rows = cluster.view.load.pod_usage(resource), cluster.node_table.row
    change: Floats = np.zeros(len(cluster.node_table))
    missing: set[str] = set()
    for slot, each in pods:
        real, shadow = rows.get(each.real), rows.get(each.shadow)
        if real is None or (shadow is None and each.shadow):
            continue
        if np.isnan(usage.sampled_at[slot]):
            missing.add(each.uid)
            continue
        change[real] -= usage.sample[slot]
        if shadow is not None:
            change[shadow] += usage.sample[slot]
    return change, missing
