"""Generates the score charts of docs/load.md from the real plugins.

    python -m tools.curves     rewrites docs/img/*.svg

A plugin scores 101 nodes that differ in one value only, from 0 to 100 percent, for a negligible pod. A test checks that the
committed charts are what the plugins return.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tools.plot import Chart, Line, render_svg
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import IN_TREE
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, Filter, Score
from trimtab.core.framework.profile import score_scale_of
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Unit
from trimtab.core.model.resources import CPU, MEMORY, NANOS, PODS, ContainerRequests, amounts, pod_requests

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "img"
NOW = 100_000.0
CORES, BYTES = 1000, 1 << 40
PERCENT = range(101)
MEASURED = "CPU usage of the node; memory is idle"


class NodeLoad(NamedTuple):
    """What the nodes have in common, as fractions: memory usage, deviation of CPU usage, requests and limits of their pods.

    `varying` goes from 0 to 100 percent: usage of `cpu` or `memory`, or `requests` without any metrics. `recent_pods` is the
    number of pods placed since the last sample.
    """

    varying: str = CPU
    memory: float = 0.0
    deviation: float = 0.0
    requested: float = 0.0
    limits: float = 0.0
    recent_pods: int = 0


class Curve(NamedTuple):
    """The scores of a plugin with these arguments for these nodes."""

    label: str
    nodes: NodeLoad = NodeLoad()
    arguments: Mapping[str, object] = {}


class Drawing(NamedTuple):
    """One chart of one plugin."""

    plugin: str
    x_axis: str
    curves: tuple[Curve, ...]


DEVIATION_CURVES = tuple(Curve(f"deviation {share:.0%}", NodeLoad(deviation=share)) for share in (0.0, 0.1, 0.2))
STRICT = {"strict": True}
DRAWINGS: Mapping[str, Drawing] = {
    "peak-risk": Drawing(
        "PeakRisk",
        "average CPU usage of the node; limit 80 %, memory is idle",
        (*DEVIATION_CURVES, Curve("without metrics: CPU requested", NodeLoad("requests"))),
    ),
    "rescheduler": Drawing("Rescheduler", MEASURED, (Curve("score"),)),
    "cpu-real-usage": Drawing("CpuRealUsage", "CPU usage of the node", (Curve("score"),)),
    "mem-real-usage": Drawing("MemRealUsage", "memory usage of the node", (Curve("score", NodeLoad(MEMORY)),)),
    "lowest-load": Drawing(
        "LowestLoad",
        "CPU usage of the node",
        tuple(Curve(f"memory {each:.0%}", NodeLoad(memory=each)) for each in (0.0, 0.3, 0.6)),
    ),
    "target-load-packing": Drawing(
        "TargetLoadPacking",
        "CPU usage of the node; target 40 %",
        (Curve("default"), Curve("strict", NodeLoad(), STRICT)),
    ),
    "load-variation-risk-balancing": Drawing(
        "LoadVariationRiskBalancing",
        "average CPU usage of the node; memory is idle",
        (*DEVIATION_CURVES, Curve("strict, deviation 10%", NodeLoad(deviation=0.1), STRICT)),
    ),
    "low-risk-over-commitment": Drawing(
        "LowRiskOverCommitment",
        "average CPU usage of the node; half of its CPU is requested",
        tuple(
            Curve(
                f"limits {limited:.0%}, deviation {share:.0%}", NodeLoad(deviation=share, requested=0.5, limits=limited)
            )
            for limited, share in ((1.0, 0.02), (1.0, 0.1), (1.5, 0.1))
        ),
    ),
    "load-aware-scheduling": Drawing(
        "LoadAwareScheduling",
        MEASURED,
        (Curve("default weights"), Curve("dominantResourceWeight 1", NodeLoad(), {"dominantResourceWeight": 1})),
    ),
    "dynamic": Drawing(
        "Dynamic",
        "CPU usage of the node, all day; memory is idle",
        tuple(Curve(f"{count} recently bound pods", NodeLoad(recent_pods=count)) for count in (0, 2, 5)),
    ),
    "usage": Drawing("Usage", MEASURED, (Curve("score"),)),
    "usage-overcommit": Drawing(
        "UsageOvercommit",
        "average CPU usage of the node; memory is idle",
        tuple(Curve(f"{share:.0%} of CPU requested", NodeLoad(requested=share)) for share in (0.4, 0.8, 1.2)),
    ),
}


def chart(drawing: Drawing) -> Chart:
    """The chart for a drawing, from the scores of its plugin."""
    return Chart(drawing.plugin, drawing.x_axis, tuple(_line(drawing.plugin, curve) for curve in drawing.curves))


def _line(name: str, curve: Curve) -> Line:
    plugin = build_plugin(name, IN_TREE[name], curve.arguments)
    view, pod = _cluster(curve.nodes).view, _pod("new", *_small())
    assert isinstance(plugin, Score)
    raw = plugin.score(view, pod, ALL_ROWS)
    assert raw is not None
    codes = plugin.filter(view, pod, ALL_ROWS).tolist() if isinstance(plugin, Filter) else []
    rejected = next((float(percent) for percent, code in zip(PERCENT, codes, strict=False) if code), None)
    points = [score / score_scale_of(plugin) for score in raw.tolist()]
    return Line(curve.label, tuple(zip(map(float, PERCENT), points, strict=True)), rejected)


def _cluster(nodes: NodeLoad) -> Cluster:
    cluster = Cluster()
    has = amounts({CPU: CORES * NANOS, MEMORY: BYTES * NANOS, PODS: 1000 * NANOS})
    for percent in PERCENT:
        cluster.upsert_node(Node(_name(percent), allocatable=has))
        requested = percent / 100 if nodes.varying == "requests" else nodes.requested
        if requested:
            limits = {CPU: nodes.limits * CORES} if nodes.limits else {}
            cluster.upsert_pod(_pod(f"there-{percent}", {CPU: requested * CORES}, limits, percent))
    if nodes.varying != "requests":
        cluster.ingest_samples(_readings(nodes), NOW)
    for percent in PERCENT:
        for number in range(nodes.recent_pods):
            cluster.assume(_pod(f"late-{percent}-{number}", *_small()), _name(percent))
    return cluster


def _readings(nodes: NodeLoad) -> tuple[Reading, ...]:
    used = {
        resource: [percent / 100 if resource == nodes.varying else otherwise for percent in PERCENT]
        for resource, otherwise in ((CPU, 0.0), (MEMORY, nodes.memory))
    }
    return tuple(
        Reading(
            "curves", resource, names, tuple(values), (NOW - 1.0,) * len(names), unit=Unit.FRACTION, statistic=statistic
        )
        for names in (tuple(map(_name, PERCENT)),)
        for resource in (CPU, MEMORY)
        for statistic, values in (
            (Statistic.LATEST, used[resource]),
            (Statistic.MEAN, used[resource]),
            (Statistic.DEVIATION, [nodes.deviation if resource == CPU else 0.0] * len(names)),
        )
    )


def _small() -> tuple[dict[str, float], dict[str, float]]:
    """A hundred-thousandth of a node, as requests and limits."""
    tiny = {CPU: CORES / 1e5, MEMORY: BYTES / 1e5}
    return tiny, tiny


def _pod(name: str, asks: Mapping[str, float], limits: Mapping[str, float], percent: int | None = None) -> Pod:
    wished, most = ({resource: int(amount * NANOS) for resource, amount in each.items()} for each in (asks, limits))
    return Pod(
        uid=name,
        namespace="curves",
        name=name,
        node="" if percent is None else _name(percent),
        requests=pod_requests([ContainerRequests(wished, most)]),
        phase="Pending" if percent is None else "Running",
    )


def _name(percent: int) -> str:
    return f"node-{percent}"


def main() -> int:
    """Write every chart."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawing in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(render_svg(chart(drawing)))
        print(f"docs/img/{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
