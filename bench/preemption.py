"""CPU time to find preemption victims on a full cluster, over all nodes; the best of several rounds."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from trimtab.config.registry import default_profile
from trimtab.core.controllers import EngineState
from trimtab.core.framework.interface import PreemptionCandidate
from trimtab.core.model.affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from trimtab.core.model.node import Node
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import HostPort, Pod, PodSpec
from trimtab.core.model.resources import CPU, MEMORY, PODS, PodRequests
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.plugins.default_preemption import DefaultPreemption
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.evaluator import Evaluator
from trimtab.core.settings import Settings

NODES, NODE_CPU, APPS, BUDGETS = 5_000, 8_000, 100, 50
ROUNDS = 5
PROFILE = default_profile("default-scheduler")
PLUGIN = DefaultPreemption()
SAME = LabelSelector((("app", "urgent"),))
URGENT: Mapping[str, PodSpec] = {
    "plain": PodSpec(),
    "host port": PodSpec(ports=(HostPort("TCP", "0.0.0.0", 80),)),
    "zonal spread": PodSpec(topology_spread=(TopologySpreadConstraint("zone", 1, True, SAME),)),
    "hostname anti-affinity": PodSpec(
        affinity=Affinity(pod_anti_affinity=PodAffinity(required=(PodAffinityTerm("kubernetes.io/hostname", SAME),)))
    ),
}


def full_cluster(pods_per_node: int) -> Evaluator:
    """Every node filled with this many pods of three priorities, and disruption budgets for half of them."""
    evaluator = Evaluator(EngineState(Settings((PROFILE,)), MetricsRecorder()))
    cluster = evaluator.state.cluster
    for i in range(NODES):
        labels = {"zone": f"z{i % 3}", "kubernetes.io/hostname": f"n{i}"}
        cluster.upsert_node(
            Node(f"n{i}", f"n{i}", 1, labels, allocatable=((CPU, NODE_CPU), (MEMORY, 1 << 36), (PODS, 110)))
        )
    for i in range(NODES * pods_per_node):
        cluster.upsert_pod(_pod(i, f"n{i % NODES}", NODE_CPU // pods_per_node, priority=i % 3))
    for i in range(BUDGETS):
        selector = LabelSelector((("app", f"a{i}"),))
        cluster.upsert_object(
            PodDisruptionBudget(
                name=f"b{i}", uid=f"b{i}", namespace="default", selector=selector, disruptions_allowed=1
            )
        )
    return evaluator


def _pod(number: int, node: str, cpu: int, priority: int) -> Pod:
    requests = ((CPU, cpu), (MEMORY, 1 << 28))
    return Pod(
        f"u{number}",
        "default",
        f"p{number}",
        number + 1,
        {"app": f"a{number % APPS}"},
        node=node,
        priority=priority,
        requests=PodRequests(requests, requests, cpu, 1 << 28),
        started=float(number % 977),
    )


def dry_runs() -> list[tuple[str, ...]]:
    """One row per kind of urgent pod: milliseconds with 4 and with 10 pods on every node."""
    crowds = [full_cluster(each) for each in (4, 10)]
    return [(name, *(f"{_best(evaluator, spec):.1f}" for evaluator in crowds)) for name, spec in URGENT.items()]


def _best(evaluator: Evaluator, spec: PodSpec) -> float:
    pod = replace(_pod(1 << 30, "", 3_000, 100), spec=spec, labels={"app": "urgent"}, started=None)
    return min(_once(evaluator, pod) for _ in range(ROUNDS))


def _once(evaluator: Evaluator, pod: Pod) -> float:
    stuck = evaluator.filter_status(pod, PROFILE)
    started = time.process_time()
    found = PLUGIN.post_filter(evaluator.state.cluster.view, pod, stuck)
    spent = time.process_time() - started
    assert isinstance(found, PreemptionCandidate)
    return spent * 1e3
