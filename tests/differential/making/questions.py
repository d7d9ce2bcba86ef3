"""Decides which questions are asked of a single plugin; leaves those to the whole profile to `profiles`.

Each maker rolls a small cluster in which its own plugin has something to say; what does not concern it stays plain.
"""

from __future__ import annotations

from tests.differential.making import around, pods, terms, volumes
from tests.differential.making.dice import Dice, Thing, kept
from tests.differential.making.nodes import HOSTNAME, IMAGES, ZONE, names, nodes, open_nodes, taint

FILTER = ["PreFilter", "Filter"]
SCORE = ["PreScore", "Score"]
RESOURCES = ("cpu", "memory", "example.com/gpu")


def asked(dice: Dice, points: list[str], pod: Thing, found: list[Thing], **more: object) -> Thing:
    """The question itself; where it is about scores, some of the nodes are those to be scored."""
    scored = dice.some(names(found), 1, len(found)) if SCORE[1] in points else None
    return {"extensionPoints": points, "pod": pod, "nodes": found, **kept(scoreNodes=scored, **more)}


def spec(pod: Thing, **fields: object) -> Thing:
    return {**pod, "spec": {**pod["spec"], **kept(**fields)}}


def node_name(dice: Dice) -> Thing:
    pod = spec(pods.pod(dice, "pod"), nodeName=dice.one("node-0", "node-1", "node-9", None))
    return asked(dice, ["Filter"], pod, nodes(dice))


def node_unschedulable(dice: Dice) -> Thing:
    found = nodes(dice)
    for each in found:
        each["spec"]["unschedulable"] = dice.chance(60)
    return asked(dice, ["Filter"], spec(pods.pod(dice, "pod"), tolerations=terms.tolerations(dice)), found)


def taint_toleration(dice: Dice) -> Thing:
    found = nodes(dice)
    for each in found:
        each["spec"] = kept(taints=dice.several(0, 3, lambda: taint(dice)))
    pod = spec(pods.pod(dice, "pod"), tolerations=terms.tolerations(dice))
    return asked(dice, ["Filter", *SCORE], pod, found)


def node_affinity(dice: Dice) -> Thing:
    affinity = dice.maybe(80, lambda: kept(nodeAffinity=terms.node_affinity(dice)))
    chosen = dice.maybe(30, lambda: {"disktype": dice.one("ssd", "hdd")})
    pod = spec(pods.pod(dice, "pod"), affinity=affinity, nodeSelector=chosen)
    added = terms.node_affinity(dice) if dice.chance(25) else {}
    return asked(dice, FILTER + SCORE, pod, nodes(dice), args=kept(addedAffinity=added))


def node_ports(dice: Dice) -> Thing:
    def open_(pod: Thing) -> Thing:
        every = [{**each, "ports": dice.several(0, 2, lambda: pods.port(dice))} for each in pod["spec"]["containers"]]
        return spec(pod, containers=every)

    found = nodes(dice)
    running = [open_(each) for each in pods.existing(dice, names(found), 0, 6)]
    return asked(dice, FILTER, open_(pods.pod(dice, "pod")), found, existingPods=running)


def resources_fit(dice: Dice) -> Thing:
    found = nodes(dice)
    running = pods.existing(dice, names(found), 0, 8)
    args = dice.maybe(60, lambda: _fit_arguments(dice))
    return asked(dice, FILTER + SCORE, pods.pod(dice, "pod"), found, existingPods=running, args=args)


def _fit_arguments(dice: Dice) -> Thing:
    kind = dice.one("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
    weighed = [{"name": name, "weight": dice.one(1, 3, 10)} for name in dice.some(RESOURCES, 1, 3)]
    shape = dice.one(
        [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
        [{"utilization": 0, "score": 10}, {"utilization": 70, "score": 3}, {"utilization": 100, "score": 0}],
    )
    ratio = {"requestedToCapacityRatio": {"shape": shape}} if kind == "RequestedToCapacityRatio" else {}
    return kept(
        scoringStrategy={"type": kind, "resources": weighed, **ratio},
        ignoredResources=["example.com/gpu"] if dice.chance(15) else None,
        ignoredResourceGroups=["example.com"] if dice.chance(15) else None,
    )


def balanced_allocation(dice: Dice) -> Thing:
    found = nodes(dice)
    running = pods.existing(dice, names(found), 0, 8)
    weighed = [{"name": name, "weight": 1} for name in dice.some(RESOURCES, 1, 3)]
    args = {"resources": weighed} if dice.chance(40) else None
    return asked(dice, SCORE, pods.pod(dice, "pod"), found, existingPods=running, args=args)


def image_locality(dice: Dice) -> Thing:
    pod = pods.pod(dice, "pod")
    every = [{**each, "image": dice.one(*IMAGES, IMAGES[2].split(":")[0])} for each in pod["spec"]["containers"]]
    mounted = [{"name": "v0", "image": {"reference": dice.one(*IMAGES), "pullPolicy": "IfNotPresent"}}]
    pod = spec(pod, containers=every, volumes=mounted if dice.chance(40) else None)
    return asked(dice, ["Score"], pod, nodes(dice))


def inter_pod_affinity(dice: Dice) -> Thing:
    def tied(pod: Thing, often: int) -> Thing:
        own = pod["metadata"]["labels"]
        near = dice.maybe(often, lambda: terms.inter_pod(dice, own))
        return spec(pod, affinity=kept(podAffinity=near, podAntiAffinity=_apart(dice, own, often)))

    found = open_nodes(dice, 2, 7)
    running = [tied(each, 35) for each in pods.existing(dice, names(found), 1, 12)]
    args = kept(
        hardPodAffinityWeight=dice.one(None, None, 0, 50),
        ignorePreferredTermsOfExistingPods=dice.one(None, None, True),
    )
    objects = {"namespaces": around.namespaces(dice)}
    pod = tied(pods.pod(dice, "pod"), 65)
    return asked(dice, FILTER + SCORE, pod, found, existingPods=running, args=args, objects=objects)


def _apart(dice: Dice, own: Thing, often: int) -> Thing | None:
    return dice.maybe(often, lambda: terms.inter_pod(dice, own))


def topology_spread(dice: Dice) -> Thing:
    found = open_nodes(dice, 2, 8)
    home = dice.one("default", None)
    running = pods.existing(dice, names(found), 1, 14, namespace=home)
    pod = pods.pod(dice, "pod", home)
    objects: Thing = {}
    if dice.chance(35):
        pod, objects = around.owner(dice, pod)
        objects |= kept(services=around.services(dice))
    if dice.chance(75):
        pod = spec(
            pod, topologySpreadConstraints=dice.several(1, 3, lambda: terms.spread(dice, pod["metadata"]["labels"]))
        )
    if dice.chance(30):
        pod = spec(pod, tolerations=terms.tolerations(dice), affinity=kept(nodeAffinity=terms.node_affinity(dice)))
    args = dice.maybe(25, lambda: _spread_arguments(dice))
    return asked(dice, FILTER + SCORE, pod, found, existingPods=running, args=args, objects=objects)


def _spread_arguments(dice: Dice) -> Thing:
    keys = dice.some((ZONE, HOSTNAME, "rack"), 0, 2)
    constraints = [
        {
            "maxSkew": dice.between(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": dice.one("ScheduleAnyway", "DoNotSchedule"),
        }
        for key in keys
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def volume_restrictions(dice: Dice) -> Thing:
    found = nodes(dice)
    claimed = [volumes.claim(dice, f"claim-{n}", None, f"pv-{n}", _mode(dice)) for n in range(3)]
    every = names(claimed)

    def using(pod: Thing) -> Thing:
        own = [*volumes.of_claims(dice.some(every, 0, 1)), *dice.several(0, 2, lambda: volumes.inline(dice))]
        return volumes.mounted(pod, own)

    running = [using(each) for each in pods.existing(dice, names(found), 0, 8, namespace="default")]
    objects = {"persistentVolumeClaims": claimed}
    return asked(dice, FILTER, using(pods.pod(dice, "pod", "default")), found, existingPods=running, objects=objects)


def _mode(dice: Dice) -> str:
    return dice.one("ReadWriteOncePod", "ReadWriteOnce")


def volume_limits(dice: Dice) -> Thing:
    found, count = nodes(dice), 6
    made = [volumes.volume(dice, f"pv-{n}", None, f"claim-{n}") for n in range(count)]
    claimed = [volumes.claim(dice, f"claim-{n}", None, f"pv-{n}") for n in range(count)]
    late = volumes.claim(dice, "claim-late", "late", None)
    every = [*names(claimed), "claim-late"]

    def using(pod: Thing) -> Thing:
        return volumes.mounted(pod, volumes.of_claims(dice.some(every, 0, 3)))

    running = [using(each) for each in pods.existing(dice, names(found), 0, 8, namespace="default")]
    attached = [volumes.attachment(dice, n, names(found), made) for n in range(dice.between(0, 2))]
    objects = kept(
        persistentVolumes=made,
        persistentVolumeClaims=[*claimed, late],
        storageClasses=volumes.CLASSES,
        csiNodes=[volumes.csi_node(dice, name) for name in names(found) if not dice.chance(8)],
        volumeAttachments=attached,
    )
    return asked(dice, FILTER, using(pods.pod(dice, "pod", "default")), found, existingPods=running, objects=objects)


def volume_zone(dice: Dice) -> Thing:
    return _with_claims(dice, FILTER)


def volume_binding(dice: Dice) -> Thing:
    return _with_claims(dice, FILTER + SCORE)


def _with_claims(dice: Dice, points: list[str]) -> Thing:
    claimed, made = volumes.claims(dice, dice.between(1, 3))
    used = volumes.of_claims(names(claimed))
    pod = pods.pod(dice, "pod", "default")
    if dice.chance(15):
        passing, its_claim = volumes.ephemeral(dice, pod, len(used))
        used, claimed = [*used, passing], [*claimed, its_claim]
    if dice.chance(4):
        used = [*used, *volumes.of_claims(["claim-none"])]
    objects = {"persistentVolumes": made, "persistentVolumeClaims": claimed, "storageClasses": volumes.CLASSES}
    return asked(dice, points, volumes.mounted(pod, used), nodes(dice), objects=objects | volumes.drivers(dice))


def scheduling_gates(dice: Dice) -> Thing:
    gates = dice.some(("example.com/one", "example.com/two", "three"), 0, 3)
    gated = spec(pods.pod(dice, "pod"), schedulingGates=[{"name": name} for name in gates])
    return {"extensionPoints": ["PreEnqueue"], "pod": gated}


def priority_sort(dice: Dice) -> Thing:
    queue = [
        {
            "pod": pods.pod(dice, f"pod-{n}"),
            "timestamp": f"2024-01-01T00:00:0{dice.between(0, 3)}.{dice.between(1, 9)}Z",
        }
        for n in range(dice.between(2, 5))
    ]
    return {"extensionPoints": ["QueueSort"], "queue": queue}
