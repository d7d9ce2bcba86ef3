"""Random cases for single plugins.

Each generator makes a small cluster in which its plugin matters; everything else stays plain.
"""

from __future__ import annotations

from tests.differential.generators import other_objects, pods, terms, volumes
from tests.differential.generators.nodes import HOSTNAME, IMAGES, ZONE, names, nodes, open_nodes, taint
from tests.differential.generators.rng import JsonObject, Rng, without_empty

FILTER = ["PreFilter", "Filter"]
SCORE = ["PreScore", "Score"]
RESOURCES = ("cpu", "memory", "example.com/gpu")


def asked(rng: Rng, points: list[str], pod: JsonObject, found: list[JsonObject], **more: object) -> JsonObject:
    """A question; for scores, some of the nodes are to be scored."""
    scored = rng.some(names(found), 1, len(found)) if SCORE[1] in points else None
    return {"extensionPoints": points, "pod": pod, "nodes": found, **without_empty(scoreNodes=scored, **more)}


def spec(pod: JsonObject, **fields: object) -> JsonObject:
    return {**pod, "spec": {**pod["spec"], **without_empty(**fields)}}


def node_name(rng: Rng) -> JsonObject:
    pod = spec(pods.pod(rng, "pod"), nodeName=rng.one("node-0", "node-1", "node-9", None))
    return asked(rng, ["Filter"], pod, nodes(rng))


def node_unschedulable(rng: Rng) -> JsonObject:
    found = nodes(rng)
    for each in found:
        each["spec"]["unschedulable"] = rng.chance(60)
    return asked(rng, ["Filter"], spec(pods.pod(rng, "pod"), tolerations=terms.tolerations(rng)), found)


def taint_toleration(rng: Rng) -> JsonObject:
    found = nodes(rng)
    for each in found:
        each["spec"] = without_empty(taints=rng.several(0, 3, lambda: taint(rng)))
    pod = spec(pods.pod(rng, "pod"), tolerations=terms.tolerations(rng))
    return asked(rng, ["Filter", *SCORE], pod, found)


def node_affinity(rng: Rng) -> JsonObject:
    affinity = rng.maybe(80, lambda: without_empty(nodeAffinity=terms.node_affinity(rng)))
    chosen = rng.maybe(30, lambda: {"disktype": rng.one("ssd", "hdd")})
    pod = spec(pods.pod(rng, "pod"), affinity=affinity, nodeSelector=chosen)
    added = terms.node_affinity(rng) if rng.chance(25) else {}
    return asked(rng, FILTER + SCORE, pod, nodes(rng), args=without_empty(addedAffinity=added))


def node_ports(rng: Rng) -> JsonObject:
    def open_(pod: JsonObject) -> JsonObject:
        every = [{**each, "ports": rng.several(0, 2, lambda: pods.port(rng))} for each in pod["spec"]["containers"]]
        return spec(pod, containers=every)

    found = nodes(rng)
    running = [open_(each) for each in pods.existing(rng, names(found), 0, 6)]
    return asked(rng, FILTER, open_(pods.pod(rng, "pod")), found, existingPods=running)


def resources_fit(rng: Rng) -> JsonObject:
    found = nodes(rng)
    running = pods.existing(rng, names(found), 0, 8)
    args = rng.maybe(60, lambda: _fit_arguments(rng))
    return asked(rng, FILTER + SCORE, pods.pod(rng, "pod"), found, existingPods=running, args=args)


def _fit_arguments(rng: Rng) -> JsonObject:
    kind = rng.one("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
    weighed = [{"name": name, "weight": rng.one(1, 3, 10)} for name in rng.some(RESOURCES, 1, 3)]
    shape = rng.one(
        [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
        [{"utilization": 0, "score": 10}, {"utilization": 70, "score": 3}, {"utilization": 100, "score": 0}],
    )
    ratio = {"requestedToCapacityRatio": {"shape": shape}} if kind == "RequestedToCapacityRatio" else {}
    return without_empty(
        scoringStrategy={"type": kind, "resources": weighed, **ratio},
        ignoredResources=["example.com/gpu"] if rng.chance(15) else None,
        ignoredResourceGroups=["example.com"] if rng.chance(15) else None,
    )


def balanced_allocation(rng: Rng) -> JsonObject:
    found = nodes(rng)
    running = pods.existing(rng, names(found), 0, 8)
    weighed = [{"name": name, "weight": 1} for name in rng.some(RESOURCES, 1, 3)]
    args = {"resources": weighed} if rng.chance(40) else None
    return asked(rng, SCORE, pods.pod(rng, "pod"), found, existingPods=running, args=args)


def image_locality(rng: Rng) -> JsonObject:
    pod = pods.pod(rng, "pod")
    every = [{**each, "image": rng.one(*IMAGES, IMAGES[2].split(":")[0])} for each in pod["spec"]["containers"]]
    mounted = [{"name": "v0", "image": {"reference": rng.one(*IMAGES), "pullPolicy": "IfNotPresent"}}]
    pod = spec(pod, containers=every, volumes=mounted if rng.chance(40) else None)
    return asked(rng, ["Score"], pod, nodes(rng))


def inter_pod_affinity(rng: Rng) -> JsonObject:
    def tied(pod: JsonObject, often: int) -> JsonObject:
        own = pod["metadata"]["labels"]
        near = rng.maybe(often, lambda: terms.inter_pod(rng, own))
        return spec(pod, affinity=without_empty(podAffinity=near, podAntiAffinity=_apart(rng, own, often)))

    found = open_nodes(rng, 2, 7)
    running = [tied(each, 35) for each in pods.existing(rng, names(found), 1, 12)]
    args = without_empty(
        hardPodAffinityWeight=rng.one(None, None, 0, 50),
        ignorePreferredTermsOfExistingPods=rng.one(None, None, True),
    )
    objects = {"namespaces": other_objects.namespaces(rng)}
    pod = tied(pods.pod(rng, "pod"), 65)
    return asked(rng, FILTER + SCORE, pod, found, existingPods=running, args=args, objects=objects)


def _apart(rng: Rng, own: JsonObject, often: int) -> JsonObject | None:
    return rng.maybe(often, lambda: terms.inter_pod(rng, own))


def topology_spread(rng: Rng) -> JsonObject:
    found = open_nodes(rng, 2, 8)
    home = rng.one("default", None)
    running = pods.existing(rng, names(found), 1, 14, namespace=home)
    pod = pods.pod(rng, "pod", home)
    objects: JsonObject = {}
    if rng.chance(35):
        pod, objects = other_objects.owner(rng, pod)
        objects |= without_empty(services=other_objects.services(rng))
    if rng.chance(75):
        pod = spec(
            pod, topologySpreadConstraints=rng.several(1, 3, lambda: terms.spread(rng, pod["metadata"]["labels"]))
        )
    if rng.chance(30):
        pod = spec(
            pod, tolerations=terms.tolerations(rng), affinity=without_empty(nodeAffinity=terms.node_affinity(rng))
        )
    args = rng.maybe(25, lambda: _spread_arguments(rng))
    return asked(rng, FILTER + SCORE, pod, found, existingPods=running, args=args, objects=objects)


def _spread_arguments(rng: Rng) -> JsonObject:
    keys = rng.some((ZONE, HOSTNAME, "rack"), 0, 2)
    constraints = [
        {
            "maxSkew": rng.between(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": rng.one("ScheduleAnyway", "DoNotSchedule"),
        }
        for key in keys
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def volume_restrictions(rng: Rng) -> JsonObject:
    found = nodes(rng)
    claimed = [volumes.claim(rng, f"claim-{n}", None, f"pv-{n}", _mode(rng)) for n in range(3)]
    every = names(claimed)

    def using(pod: JsonObject) -> JsonObject:
        own = [*volumes.of_claims(rng.some(every, 0, 1)), *rng.several(0, 2, lambda: volumes.inline(rng))]
        return volumes.mounted(pod, own)

    running = [using(each) for each in pods.existing(rng, names(found), 0, 8, namespace="default")]
    objects = {"persistentVolumeClaims": claimed}
    return asked(rng, FILTER, using(pods.pod(rng, "pod", "default")), found, existingPods=running, objects=objects)


def _mode(rng: Rng) -> str:
    return rng.one("ReadWriteOncePod", "ReadWriteOnce")


def volume_limits(rng: Rng) -> JsonObject:
    found, count = nodes(rng), 6
    made = [volumes.volume(rng, f"pv-{n}", None, f"claim-{n}") for n in range(count)]
    claimed = [volumes.claim(rng, f"claim-{n}", None, f"pv-{n}") for n in range(count)]
    late = volumes.claim(rng, "claim-late", "late", None)
    every = [*names(claimed), "claim-late"]

    def using(pod: JsonObject) -> JsonObject:
        return volumes.mounted(pod, volumes.of_claims(rng.some(every, 0, 3)))

    running = [using(each) for each in pods.existing(rng, names(found), 0, 8, namespace="default")]
    attached = [volumes.attachment(rng, n, names(found), made) for n in range(rng.between(0, 2))]
    objects = without_empty(
        persistentVolumes=made,
        persistentVolumeClaims=[*claimed, late],
        storageClasses=volumes.CLASSES,
        csiNodes=[volumes.csi_node(rng, name) for name in names(found) if not rng.chance(8)],
        volumeAttachments=attached,
    )
    return asked(rng, FILTER, using(pods.pod(rng, "pod", "default")), found, existingPods=running, objects=objects)


def volume_zone(rng: Rng) -> JsonObject:
    return _with_claims(rng, FILTER)


def volume_binding(rng: Rng) -> JsonObject:
    return _with_claims(rng, FILTER + SCORE)


def _with_claims(rng: Rng, points: list[str]) -> JsonObject:
    claimed, made = volumes.claims(rng, rng.between(1, 3))
    used = volumes.of_claims(names(claimed))
    pod = pods.pod(rng, "pod", "default")
    if rng.chance(15):
        passing, its_claim = volumes.ephemeral(rng, pod, len(used))
        used, claimed = [*used, passing], [*claimed, its_claim]
    if rng.chance(4):
        used = [*used, *volumes.of_claims(["claim-none"])]
    objects = {"persistentVolumes": made, "persistentVolumeClaims": claimed, "storageClasses": volumes.CLASSES}
    return asked(rng, points, volumes.mounted(pod, used), nodes(rng), objects=objects | volumes.drivers(rng))


def scheduling_gates(rng: Rng) -> JsonObject:
    gates = rng.some(("example.com/one", "example.com/two", "three"), 0, 3)
    gated = spec(pods.pod(rng, "pod"), schedulingGates=[{"name": name} for name in gates])
    return {"extensionPoints": ["PreEnqueue"], "pod": gated}


def priority_sort(rng: Rng) -> JsonObject:
    queue = [
        {
            "pod": pods.pod(rng, f"pod-{n}"),
            "timestamp": f"2024-01-01T00:00:0{rng.between(0, 3)}.{rng.between(1, 9)}Z",
        }
        for n in range(rng.between(2, 5))
    ]
    return {"extensionPoints": ["QueueSort"], "queue": queue}
