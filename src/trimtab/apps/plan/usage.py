"""What is known of the nodes' usage: whether it is enough to plan by, and which nodes are hottest before and after."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import isnan

from msgspec import Struct

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import TRACKED, LoadSettings
from trimtab.core.model.duration import format_duration
from trimtab.core.model.plan import Move
from trimtab.sim.snapshot_document import Usage

NO_USAGE = (
    "nothing was measured: name a metric source in --config FILE when the snapshot is taken, or install metrics-server, "
    "which is asked without one; `trimtab doctor` says what is missing"
)
NO_POD_USAGE = "no pod was measured, so nobody knows what a move would change: let a source measure pods, too"


class Peak(Struct, frozen=True, forbid_unknown_fields=True):
    """A node and its usage as a share of what pods may use."""

    node: str
    usage: float


class Hottest(Struct, frozen=True):
    """The node with the highest usage of a resource, with the moves and without; `over` counts nodes above the limit."""

    resource: str
    limit: float
    before: Peak
    after: Peak
    over_before: int
    over_after: int


def check_usage(
    cluster: Cluster, usage: Usage | None, limits: Iterable[str], load: LoadSettings
) -> str | tuple[str, ...]:
    """Why nothing can be planned, or else the notes on what is not known."""
    if usage is None or not usage.nodes:
        return NO_USAGE
    if not usage.pods:
        return NO_POD_USAGE
    nodes = [node.name for node in cluster.node_table.nodes]
    lacking = [(resource, _unknown_nodes(cluster, resource)) for resource in limits]
    unknown = {name: resource for resource, names in reversed(lacking) for name in names}
    if not unknown:
        return ()
    reasons = _reasons(unknown, usage, load)
    if len(unknown) > load.most_missing * len(nodes):
        return (
            f"the usage of {len(unknown)} of {len(nodes)} nodes is unknown ({reasons}), more than load.mostMissing "
            f"({load.most_missing:g}) allows: see `trimtab doctor`"
        )
    return (
        f"the usage of {len(unknown)} of {len(nodes)} nodes is unknown ({reasons}): pods neither leave nor join them",
    )


def _unknown_nodes(cluster: Cluster, resource: str) -> list[str]:
    known = (cluster.view.load.trust(resource) > 0).tolist()
    return [node.name for node, is_known in zip(cluster.node_table.nodes, known, strict=True) if not is_known]


def _reasons(unknown: Mapping[str, str], usage: Usage, load: LoadSettings) -> str:
    """By the first resource that a node lacks. Samples that are in the snapshot but not trusted are too old, as a rule."""
    further = Counter(resource for resource in unknown.values() if resource not in TRACKED)
    others = [name for name, resource in unknown.items() if resource in TRACKED]
    stale = sum(name in usage.nodes for name in others)
    missing = sum(name not in usage.nodes for name in others)
    parts = (
        f"{stale} with samples that are older than {format_duration(load.stale)}, or invalid" if stale else "",
        f"{missing} without samples" if missing else "",
        *(f"{count} without {name} of their pods, or its capacity" for name, count in further.items()),
    )
    return ", ".join(part for part in parts if part)


def hottest_nodes(cluster: Cluster, limits: Mapping[str, float], moves: Iterable[Move]) -> tuple[Hottest, ...]:
    """By resource; what a pod was measured to use goes with it."""
    moved = tuple(moves)
    return tuple(_hottest(cluster, name, limit, moved) for name, limit in limits.items())


def _hottest(cluster: Cluster, resource: str, limit: float, moves: Iterable[Move]) -> Hottest:
    before = _usage(cluster, resource, {})
    after = _usage(cluster, resource, _shifts(cluster, resource, moves))
    over = [sum(each.usage > limit for each in peaks) for peaks in (before, after)]
    return Hottest(resource, limit, _peak(before), _peak(after), *over)


def _peak(peaks: list[Peak]) -> Peak:
    return max(peaks, key=lambda each: each.usage, default=Peak("", 0.0))


def _usage(cluster: Cluster, resource: str, shifts: Mapping[str, float]) -> list[Peak]:
    """Of the nodes whose usage is known."""
    view = cluster.view
    rows = zip(view.nodes, view.load.expected(resource).tolist(), view.usable(resource).tolist(), strict=False)
    return [
        Peak(node.name, max(used + shifts.get(node.name, 0.0), 0.0) / room)
        for node, used, room in rows
        if used == used and room > 0
    ]


def _shifts(cluster: Cluster, resource: str, moves: Iterable[Move]) -> Mapping[str, float]:
    """What leaves or joins each node."""
    slots, shifts = cluster.pod_table.slot, defaultdict[str, float](float)
    used_by = _amounts_of_pods(cluster, resource)
    for move in moves:
        used = used_by(slots[move.uid])
        shifts[move.source] -= used
        shifts[move.target] += used  # of no node if it has no target
    return shifts


def _amounts_of_pods(cluster: Cluster, resource: str) -> Callable[[int], float]:
    if resource in TRACKED:
        return cluster.view.load.pod_usage(resource).expected_of
    usual = cluster.load_store.usual_of_pods(resource)
    return lambda slot: 0.0 if isnan(usual.item(slot)) else float(usual.item(slot))
