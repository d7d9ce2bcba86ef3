"""The workloads of the benchmarks, as API objects.

Nodes are in ten zones. Every pod of a workload has the label `batch: new`, so that its progress can be polled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.controlplane.objects import node, pod

Json = dict[str, Any]

ZONES = 10
MIXED = 100
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def worker(i: int) -> Json:
    """A node."""
    return node(f"node-{i:05d}", cpu="32", memory="64Gi", labels={ZONE: f"zone-{i % ZONES}"})


def resident(i: int, nodes: int) -> Json:
    """A plain pod that is bound before the run."""
    return pod(f"there-{i:05d}", nodeName=f"node-{i % nodes:05d}")


def plain(i: int) -> Json:
    return _new(i, "plain")


def zonal(i: int) -> Json:
    """Spread over zones, hard."""
    return _new(i, "zonal", topologySpreadConstraints=[_spread("zonal", ZONE, hard=True)])


def apart(i: int) -> Json:
    """No two on one node: required anti-affinity by host name, one pod for every node."""
    term = {"labelSelector": _selects("apart"), "topologyKey": HOSTNAME}
    return _new(i, "apart", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def together(i: int) -> Json:
    """Preferred affinity within a zone."""
    term = {"labelSelector": _selects("together"), "topologyKey": ZONE}
    preferred = {"weight": 10, "podAffinityTerm": term}
    return _new(
        i, "together", affinity={"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    )


def mixed(i: int) -> Json:
    """A hundred templates in turn: plain ones, spread (hard and soft), anti-affinity (hard and soft), affinity."""
    app = f"app-{i % MIXED:02d}"
    term = {"labelSelector": _selects(app), "topologyKey": HOSTNAME}
    near = {"labelSelector": _selects(app), "topologyKey": ZONE}
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    shapes: tuple[Json, ...] = (
        {},
        {"topologySpreadConstraints": [_spread(app, ZONE, hard=True)]},
        {"affinity": {"podAntiAffinity": {required: [term]}}},
        {"topologySpreadConstraints": [_spread(app, HOSTNAME, hard=False)]},
        {"affinity": {"podAffinity": {preferred: [{"weight": 10, "podAffinityTerm": near}]}}},
        {"affinity": {"podAntiAffinity": {preferred: [{"weight": 50, "podAffinityTerm": term}]}}},
        {},
        {"topologySpreadConstraints": [_spread(app, ZONE, hard=False), _spread(app, HOSTNAME, hard=False)]},
        {},
        {"nodeSelector": {ZONE: f"zone-{i % MIXED % ZONES}"}},
    )
    return _new(i, app, cpu=f"{100 + i % MIXED % 7 * 50}m", **shapes[i % MIXED % len(shapes)])


WORKLOADS: Mapping[str, Callable[[int], Json]] = {
    "plain": plain,
    "zonal": zonal,
    "apart": apart,
    "together": together,
    "mixed": mixed,
}


def _new(i: int, app: str, **spec: Any) -> Json:
    return pod(f"new-{i:05d}", labels={"batch": "new", "app": app}, **spec)


def _selects(app: str) -> Json:
    return {"matchLabels": {"app": app}}


def _spread(app: str, key: str, *, hard: bool) -> Json:
    how = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": how, "labelSelector": _selects(app)}
