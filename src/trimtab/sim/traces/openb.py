"""Reads openb, the GPU cluster that Alibaba published in 2023: a list of nodes, and lists of pods without usage.

The protocol of the published runs: the nodes with GPUs; the list of pods in a random order, followed by random copies of its
pods until they ask for `demand` times the GPUs; one pod per second arrives, and none leaves. Resources and labels are those
that GpuShare reads: a pod requests so many devices, and so many thousandths of each.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path
from random import Random

from msgspec import Struct

from trimtab.core.model.affinity import Affinity, NodeAffinity
from trimtab.core.model.duration import HOUR
from trimtab.core.model.node import HOSTNAME, Node
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.resources import CPU, MEMORY, MIB, NANOS, PODS, ContainerRequests, pod_requests
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.sim.scenario import MetricsPipeline, PodTemplate, Scenario, SimulatedNode, TracedPod
from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.recording import MOST_PODS
from trimtab.sim.traces.tables import Row, fail, find_file, read_rows

GPU_COUNT, GPU_MILLI = "alibabacloud.com/gpu-count", "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
WHOLE_GPU = 1000
STEP = 60.0
NODE_FILES = ("nodes.csv", "openb_node_list_gpu_node.csv", "openb_node_list_all_node.csv")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class ListedPod(Struct, frozen=True):
    """A pod of the list: millicores, bytes, GPUs, thousandths of each GPU, and the models it may use, as `A|B`."""

    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: str

    @property
    def demand(self) -> int:
        """Thousandths of all its GPUs."""
        return self.gpus * self.milli


def load_openb(options: TraceOptions, seed: int) -> Scenario:
    """The published experiment with this seed; raises ConfigError."""
    nodes = _nodes(find_file(options.folder, NODE_FILES))[: options.nodes]
    listed = [f"pods_{options.pod_list}.csv", f"openb_pod_list_{options.pod_list}.csv"]
    pods = _pods(path := find_file(options.folder, listed))
    offered = sum(dict(each.node.allocatable)[GPU_MILLI] for each in nodes)
    if not any(pod.demand for pod in pods):
        fail(str(path), "no pod uses a GPU: this is not a list of openb")
    arriving = _arrivals(pods, options.demand * offered, Random(seed))
    return Scenario(
        f"openb-{options.pod_list}",
        ceil((len(arriving) + 1) / STEP) * STEP,
        tuple(nodes),
        pods=tuple(arriving),
        step=STEP,
        metrics=MetricsPipeline(HOUR),  # no usage was published
    )


def _nodes(path: Path) -> list[SimulatedNode]:
    found = [node for row in read_rows(path, NODE_COLUMNS) if (node := _node(row)) is not None]
    if not found:
        fail(str(path), "no node has a GPU: this is not a list of openb")
    return found


def _node(row: Row) -> SimulatedNode | None:
    """A node with GPUs."""
    name, gpus = row.name("sn"), row.integer("gpu")
    amounts = {
        CPU: row.integer("cpu_milli", 1),
        MEMORY: row.integer("memory_mib", 1) * MIB,
        PODS: MOST_PODS,
        GPU_COUNT: gpus,
        GPU_MILLI: gpus * WHOLE_GPU,  # for policies without GpuShare, which count it as any resource
    }
    labels = {HOSTNAME: name, GPU_MODEL: row.text("model")}
    allocatable = tuple(sorted(amounts.items()))
    node = Node(name, f"node/{name}", labels=labels, allocatable=allocatable, capacity=allocatable)
    return SimulatedNode(node) if gpus else None


def _pods(path: Path) -> list[ListedPod]:
    return [
        ListedPod(
            row.name("name"),
            row.integer("cpu_milli"),
            row.integer("memory_mib") * MIB,
            row.integer("num_gpu"),
            row.integer("gpu_milli"),
            row.text("gpu_spec"),
        )
        for row in read_rows(path, POD_COLUMNS, ["gpu_spec"])
    ]


def _arrivals(pods: list[ListedPod], demand: float, rng: Random) -> list[TracedPod]:
    """All pods in a random order, then copies until they ask for this much of the GPUs."""
    order = list(pods)
    rng.shuffle(order)
    templates = _Templates()
    found = [TracedPod(pod.name, templates.of(pod), (float(at), float(at))) for at, pod in enumerate(order)]
    asked = sum(pod.demand for pod in order)
    while asked < demand:
        pod, at = rng.choice(pods), float(len(found))
        asked += pod.demand
        found.append(TracedPod(f"{pod.name}-copy-{len(found)}", templates.of(pod), (at, at)))
    return found


class _Templates:
    """One template for equal pods, so that the scheduler sees that they are equal."""

    def __init__(self) -> None:
        self._specs: dict[str, PodSpec] = {}
        self._templates: dict[tuple[int, int, int, int, str], PodTemplate] = {}

    def of(self, pod: ListedPod) -> PodTemplate:
        key = (pod.cpu, pod.memory, pod.gpus, pod.milli, pod.models)
        if key not in self._templates:
            spec = self._specs.setdefault(pod.models, _spec(pod.models))
            self._templates[key] = PodTemplate(pod_requests([ContainerRequests(_requests(pod))]), spec=spec)
        return self._templates[key]


def _spec(models: str) -> PodSpec:
    if not models:
        return PodSpec()
    named = tuple(dict.fromkeys(models.split("|")))
    term = NodeSelectorTerm((Requirement(GPU_MODEL, "In", named),))
    return PodSpec(affinity=Affinity(NodeAffinity((term,))))


def _requests(pod: ListedPod) -> dict[str, int]:
    amounts = {
        CPU: pod.cpu * (NANOS // 1000),
        MEMORY: pod.memory * NANOS,
        GPU_COUNT: pod.gpus * NANOS,
        GPU_MILLI: pod.milli * NANOS,
    }
    return {name: amount for name, amount in amounts.items() if amount}
