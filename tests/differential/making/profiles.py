"""Decides which questions are asked of the whole default profile, and how often each plugin is asked.

One pod on every node, pods one after another, or preemption; leaves questions to single plugins to `questions`.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tests.differential.making import around, pods, questions, volumes
from tests.differential.making.dice import Dice, Thing, kept
from tests.differential.making.nodes import IMAGES, names, open_nodes


def default_profile(dice: Dice) -> Thing:
    found = open_nodes(dice, 1, 7)
    running = pods.existing(dice, names(found), 0, 12, 8)
    pod = pods.wishes(dice, pods.pod(dice, "pod"), 20)
    objects = {"namespaces": around.namespaces(dice)}
    if dice.chance(25):
        pod, owners = around.owner(dice, pod)
        objects |= owners | kept(services=around.services(dice))
    if dice.chance(25):
        pod, stored = with_storage(dice, pod, names(found))
        objects |= stored
    elif dice.chance(15):
        pod = volumes.mounted(pod, [{"image": {"reference": dice.one(*IMAGES)}}])
    promised = nominated(dice, names(found)) if dice.chance(30) else {}
    return {**questions.asked(dice, questions.FILTER, pod, found, existingPods=running, objects=objects), **promised}


def with_storage(dice: Dice, pod: Thing, on: list[str]) -> tuple[Thing, Thing]:
    claimed, made = volumes.claims(dice, dice.between(1, 2))
    stored = {"persistentVolumes": made, "persistentVolumeClaims": claimed, "storageClasses": volumes.CLASSES}
    stored |= {"csiNodes": [volumes.csi_node(dice, name) for name in on]} | volumes.drivers(dice)
    using = volumes.mounted(pod, volumes.of_claims(names(claimed)))
    return {**using, "metadata": {**using["metadata"], "namespace": "default"}}, stored


def nominated(dice: Dice, on: list[str]) -> Thing:
    """Pods that wait in kube-scheduler's queue for victims to go."""
    made = [pods.wishes(dice, pods.pod(dice, f"nominated-{number}"), 10) for number in range(dice.between(1, 2))]
    promised = [{**each, "status": {"nominatedNodeName": dice.one(*on)}} for each in made]
    return {"nominatedPods": promised, "nominatedQueued": True}


def sequence(dice: Dice) -> Thing:
    found = open_nodes(dice, 3, 6)
    templates = [pods.wishes(dice, pods.pod(dice, f"kind-{number}"), 20) for number in range(dice.between(1, 3))]
    pending = [_copy(dice.one(*templates), number) for number in range(dice.between(2, 8))]
    return {
        "extensionPoints": ["SchedulingCycle"],
        "nodes": found,
        "pendingPods": pending,
        "objects": {"namespaces": around.namespaces(dice)},
        **kept(existingPods=pods.existing(dice, names(found), 0, 6, 8)),
    }


def _copy(template: Thing, number: int) -> Thing:
    name = f"{template['metadata']['name']}-{number}"
    return {**template, "metadata": {**template["metadata"], "name": name, "uid": f"uid-{name}"}}


def preemption(dice: Dice) -> Thing:
    found, home = open_nodes(dice, 2, 6), dice.one("default", None)
    running = [_low(dice, each) for each in pods.existing(dice, names(found), 8, 26, 6, home)]
    pod = pods.wishes(dice, pods.pod(dice, "pod"), 12)
    pod = questions.spec(
        pod, priority=dice.one(1000, 1000, 100, 5), preemptionPolicy="Never" if dice.chance(8) else None
    )
    large = {"cpu": dice.one("1", "1500m", "2", "3"), "memory": dice.one("1Gi", "2Gi", "3Gi")}
    pod["spec"]["containers"][0]["resources"] = {"requests": large}
    objects = {"namespaces": around.namespaces(dice)}
    if dice.chance(50):
        objects["podDisruptionBudgets"] = around.budgets(dice, running)
    if dice.chance(15):
        pod["status"] = {"nominatedNodeName": dice.one(*names(found))}
    promised = nominated(dice, names(found)) if dice.chance(25) else {}
    made = questions.asked(dice, [*questions.FILTER, "PostFilter"], pod, found, existingPods=running, objects=objects)
    return {**made, **promised, "preemptionMode": "force" if dice.chance(10) else "auto"}


def _low(dice: Dice, pod: Thing) -> Thing:
    """A pod that may have to give way; one that is going already may be doing so."""
    low = questions.spec(pod, priority=dice.one(0, 0, 10, 10, 100, -5, 1000))
    if "deletionTimestamp" in pod["metadata"] and dice.chance(60):
        told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        low["status"] = {**pod["status"], "conditions": [*pod["status"].get("conditions", []), told]}
    return low


# Each with its share of the questions.
MAKERS: dict[str, tuple[int, Callable[[Dice], Thing]]] = {
    "DefaultPreemption": (16, preemption),
    "DefaultProfile": (20, default_profile),
    "DefaultProfileSequence": (4, sequence),
    "ImageLocality": (3, questions.image_locality),
    "InterPodAffinity": (12, questions.inter_pod_affinity),
    "NodeAffinity": (7, questions.node_affinity),
    "NodeName": (1, questions.node_name),
    "NodePorts": (3, questions.node_ports),
    "NodeResourcesBalancedAllocation": (6, questions.balanced_allocation),
    "NodeResourcesFit": (12, questions.resources_fit),
    "NodeUnschedulable": (1, questions.node_unschedulable),
    "NodeVolumeLimits": (5, questions.volume_limits),
    "PodTopologySpread": (14, questions.topology_spread),
    "PrioritySort": (1, questions.priority_sort),
    "SchedulingGates": (1, questions.scheduling_gates),
    "TaintToleration": (4, questions.taint_toleration),
    "VolumeBinding": (8, questions.volume_binding),
    "VolumeRestrictions": (5, questions.volume_restrictions),
    "VolumeZone": (4, questions.volume_zone),
}


def question(plugin: str) -> st.SearchStrategy[Thing]:
    """Questions to one plugin, or to the default profile under one of its three names.

    Only the seed of the dice is hypothesis's to choose: its own draws crowd around the ends of what is allowed, and four
    clusters in ten came out twice.
    """
    make = MAKERS[plugin][1]
    return st.randoms(use_true_random=True).map(lambda chance: {"plugin": plugin, **make(Dice(chance))})
