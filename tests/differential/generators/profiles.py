"""Random cases for the whole default profile, and how often each plugin is tested.

One pod on every node, pods one after another, or preemption.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.differential.generators import other_objects, plugin_cases, pods, volumes
from tests.differential.generators.nodes import IMAGES, names, open_nodes
from tests.differential.generators.rng import JsonObject, Rng, without_empty


def default_profile(rng: Rng) -> JsonObject:
    found = open_nodes(rng, 1, 7)
    running = pods.existing(rng, names(found), 0, 12, 8)
    pod = pods.constrained(rng, pods.pod(rng, "pod"), 20)
    objects = {"namespaces": other_objects.namespaces(rng)}
    if rng.chance(25):
        pod, owners = other_objects.owner(rng, pod)
        objects |= owners | without_empty(services=other_objects.services(rng))
    if rng.chance(25):
        pod, stored = with_storage(rng, pod, names(found))
        objects |= stored
    elif rng.chance(15):
        pod = volumes.mounted(pod, [{"image": {"reference": rng.one(*IMAGES)}}])
    promised = nominated(rng, names(found)) if rng.chance(30) else {}
    return {
        **plugin_cases.asked(rng, plugin_cases.FILTER, pod, found, existingPods=running, objects=objects),
        **promised,
    }


def with_storage(rng: Rng, pod: JsonObject, on: list[str]) -> tuple[JsonObject, JsonObject]:
    claimed, made = volumes.claims(rng, rng.between(1, 2))
    stored = {"persistentVolumes": made, "persistentVolumeClaims": claimed, "storageClasses": volumes.CLASSES}
    stored |= {"csiNodes": [volumes.csi_node(rng, name) for name in on]} | volumes.drivers(rng)
    using = volumes.mounted(pod, volumes.of_claims(names(claimed)))
    return {**using, "metadata": {**using["metadata"], "namespace": "default"}}, stored


def nominated(rng: Rng, on: list[str]) -> JsonObject:
    """Pods that wait in kube-scheduler's queue for their victims to terminate."""
    made = [pods.constrained(rng, pods.pod(rng, f"nominated-{number}"), 10) for number in range(rng.between(1, 2))]
    promised = [{**each, "status": {"nominatedNodeName": rng.one(*on)}} for each in made]
    return {"nominatedPods": promised, "nominatedQueued": True}


def sequence(rng: Rng) -> JsonObject:
    found = open_nodes(rng, 3, 6)
    templates = [pods.constrained(rng, pods.pod(rng, f"kind-{number}"), 20) for number in range(rng.between(1, 3))]
    pending = [_copy(rng.one(*templates), number) for number in range(rng.between(2, 8))]
    return {
        "extensionPoints": ["SchedulingCycle"],
        "nodes": found,
        "pendingPods": pending,
        "objects": {"namespaces": other_objects.namespaces(rng)},
        **without_empty(existingPods=pods.existing(rng, names(found), 0, 6, 8)),
    }


def _copy(template: JsonObject, number: int) -> JsonObject:
    name = f"{template['metadata']['name']}-{number}"
    return {**template, "metadata": {**template["metadata"], "name": name, "uid": f"uid-{name}"}}


def preemption(rng: Rng) -> JsonObject:
    found, home = open_nodes(rng, 2, 6), rng.one("default", None)
    running = [_low(rng, each) for each in pods.existing(rng, names(found), 8, 26, 6, home)]
    pod = pods.constrained(rng, pods.pod(rng, "pod"), 12)
    pod = plugin_cases.spec(
        pod, priority=rng.one(1000, 1000, 100, 5), preemptionPolicy="Never" if rng.chance(8) else None
    )
    large = {"cpu": rng.one("1", "1500m", "2", "3"), "memory": rng.one("1Gi", "2Gi", "3Gi")}
    pod["spec"]["containers"][0]["resources"] = {"requests": large}
    objects = {"namespaces": other_objects.namespaces(rng)}
    if rng.chance(50):
        objects["podDisruptionBudgets"] = other_objects.budgets(rng, running)
    if rng.chance(15):
        pod["status"] = {"nominatedNodeName": rng.one(*names(found))}
    promised = nominated(rng, names(found)) if rng.chance(25) else {}
    made = plugin_cases.asked(
        rng, [*plugin_cases.FILTER, "PostFilter"], pod, found, existingPods=running, objects=objects
    )
    return {**made, **promised, "preemptionMode": "force" if rng.chance(10) else "auto"}


def _low(rng: Rng, pod: JsonObject) -> JsonObject:
    """A pod that may be preempted, possibly terminating already."""
    low = plugin_cases.spec(pod, priority=rng.one(0, 0, 10, 10, 100, -5, 1000))
    if "deletionTimestamp" in pod["metadata"] and rng.chance(60):
        told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        low["status"] = {**pod["status"], "conditions": [*pod["status"].get("conditions", []), told]}
    return low


# Each with its share of the questions.
MAKERS: dict[str, tuple[int, Callable[[Rng], JsonObject]]] = {
    "DefaultPreemption": (16, preemption),
    "DefaultProfile": (20, default_profile),
    "DefaultProfileSequence": (4, sequence),
    "ImageLocality": (3, plugin_cases.image_locality),
    "InterPodAffinity": (12, plugin_cases.inter_pod_affinity),
    "NodeAffinity": (7, plugin_cases.node_affinity),
    "NodeName": (1, plugin_cases.node_name),
    "NodePorts": (3, plugin_cases.node_ports),
    "NodeResourcesBalancedAllocation": (6, plugin_cases.balanced_allocation),
    "NodeResourcesFit": (12, plugin_cases.resources_fit),
    "NodeUnschedulable": (1, plugin_cases.node_unschedulable),
    "NodeVolumeLimits": (5, plugin_cases.volume_limits),
    "PodTopologySpread": (14, plugin_cases.topology_spread),
    "PrioritySort": (1, plugin_cases.priority_sort),
    "SchedulingGates": (1, plugin_cases.scheduling_gates),
    "TaintToleration": (4, plugin_cases.taint_toleration),
    "VolumeBinding": (8, plugin_cases.volume_binding),
    "VolumeRestrictions": (5, plugin_cases.volume_restrictions),
    "VolumeZone": (4, plugin_cases.volume_zone),
}


def question(plugin: str) -> st.SearchStrategy[JsonObject]:
    """Questions to one plugin, or to the default profile under one of its three names.

    Only the seed of the dice is hypothesis's to choose: its own draws crowd around the ends of what is allowed, and four
    clusters in ten came out twice.
    """
    make = MAKERS[plugin][1]
    return st.randoms(use_true_random=True).map(lambda chance: {"plugin": plugin, **make(Rng(chance))})
