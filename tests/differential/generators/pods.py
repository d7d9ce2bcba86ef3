"""Random pods: containers, requests, ports."""

from __future__ import annotations

from tests.differential.generators import terms
from tests.differential.generators.nodes import IMAGES
from tests.differential.generators.rng import JsonObject, Rng, without_empty

CPU = ("100m", "500m", "1", "250m", "0.3", "1500m", "200m", "2")
MEMORY = ("64Mi", "256Mi", "1Gi", "500M", "1.5Gi", "200Mi", "1e9", "128974848")


def pod(rng: Rng, name: str, namespace: str | None = None) -> JsonObject:
    """A pod with containers and without constraints; without a namespace it gets one of three."""
    spec = {"containers": [container(rng, f"c{number}") for number in range(rng.between(1, 2))]}
    spec |= without_empty(
        initContainers=initial(rng),
        overhead=resources(rng) if rng.chance(10) else None,
        resources=without_empty(requests=whole(rng)) if rng.chance(15) else None,
        priority=rng.one(None, 0, 10, 100),
    )
    home = namespace or rng.one("default", "default", *terms.NAMESPACES)
    metadata = {"name": name, "namespace": home, "uid": f"uid-{name}", "labels": terms.pod_labels(rng)}
    return {"metadata": metadata, "spec": spec}


def container(rng: Rng, name: str) -> JsonObject:
    return {"name": name, "image": rng.one("app", *IMAGES), **without_empty(resources=asked(rng), ports=ports(rng))}


def initial(rng: Rng) -> list[JsonObject]:
    """Init containers, some of them sidecars."""
    count = rng.between(1, 3) if rng.chance(25) else 0
    made = [container(rng, f"i{number}") for number in range(count)]
    return [{**each, "restartPolicy": "Always"} if rng.chance(50) else each for each in made]


def asked(rng: Rng) -> JsonObject:
    requests = resources(rng) if rng.chance(80) else {}
    limited = {key: value for key, value in requests.items() if "." in key or "pages" in key}
    return without_empty(requests=requests, limits=limited or (requests if rng.chance(15) else {}))


def resources(rng: Rng) -> JsonObject:
    return {
        **({"cpu": rng.one(*CPU)} if rng.chance(75) else {}),
        **({"memory": rng.one(*MEMORY)} if rng.chance(70) else {}),
        **({"ephemeral-storage": rng.one("1Gi", "30Gi", "500M")} if rng.chance(6) else {}),
        **({"example.com/gpu": rng.one("1", "2")} if rng.chance(5) else {}),
        **({"hugepages-2Mi": rng.one("4Mi", "128Mi")} if rng.chance(2) else {}),
    }


def whole(rng: Rng) -> JsonObject:
    """Pod-level requests, at least those of its containers."""
    return {"cpu": rng.one("1", "2", "4"), **({"memory": rng.one("1Gi", "3Gi")} if rng.chance(60) else {})}


def ports(rng: Rng) -> list[JsonObject]:
    return [port(rng)] if rng.chance(10) else []


def port(rng: Rng) -> JsonObject:
    return without_empty(
        containerPort=80,
        hostPort=rng.one(80, 8080, None),
        protocol=rng.one("TCP", "UDP", None),
        hostIP=rng.one(None, "127.0.0.1", "0.0.0.0"),
    )


def constrained(rng: Rng, made: JsonObject, often: int) -> JsonObject:
    """The pod with affinities, spread and tolerations, each with this probability in percent."""
    own = made["metadata"]["labels"]
    affinity = without_empty(
        nodeAffinity=rng.maybe(often, lambda: terms.node_affinity(rng)),
        podAffinity=rng.maybe(often, lambda: terms.inter_pod(rng, own, 15)),
        podAntiAffinity=rng.maybe(often, lambda: terms.inter_pod(rng, own, 30)),
    )
    spec = without_empty(
        affinity=affinity,
        tolerations=rng.maybe(often, lambda: terms.tolerations(rng)),
        topologySpreadConstraints=rng.maybe(often, lambda: rng.several(1, 2, lambda: terms.spread(rng, own))),
        nodeSelector=rng.maybe(often // 3, lambda: {"disktype": rng.one("ssd", "hdd")}),
    )
    return {**made, "spec": {**made["spec"], **spec}}


def placed(rng: Rng, made: JsonObject, node: str, minute: int) -> JsonObject:
    """The pod running on a node since that minute; perhaps being resized, perhaps terminating."""
    status: JsonObject = {"phase": "Running", "startTime": f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z"}
    if rng.chance(15):
        status |= resized(rng, made["spec"])
    metadata = {**made["metadata"], **({"deletionTimestamp": "2024-01-02T00:00:00Z"} if rng.chance(6) else {})}
    return {"metadata": metadata, "spec": {**made["spec"], "nodeName": node}, "status": status}


def resized(rng: Rng, spec: JsonObject) -> JsonObject:
    """The status during an in-place resize: allocated and actual may be less or more than desired."""
    reason = rng.one(None, "Deferred", "Infeasible", "InProgress")
    kind = "PodResizeInProgress" if reason == "InProgress" else "PodResizePending"
    held = [each for each in spec.get("initContainers", []) if "restartPolicy" in each]
    return without_empty(
        containerStatuses=[_held(rng, each) for each in spec["containers"]],
        initContainerStatuses=[_held(rng, each) for each in held],
        conditions=[{"type": kind, "status": "True", **without_empty(reason=reason)}] if reason else [],
    )


def _held(rng: Rng, made: JsonObject) -> JsonObject:
    def other() -> JsonObject:
        requests = made.get("resources", {}).get("requests", {})
        return {**requests, **({"cpu": rng.one(*CPU)} if "cpu" in requests and rng.chance(70) else {})}

    return without_empty(name=made["name"], allocatedResources=other(), resources=without_empty(requests=other()))


def existing(
    rng: Rng, on: list[str], low: int, high: int, often: int = 0, namespace: str | None = None
) -> list[JsonObject]:
    """Pods on these nodes; no two on one node started in the same minute, because Go's order of those is random."""
    count = rng.between(low, high) if on else 0
    minutes = {node: iter(rng.some(range(count), count, count)) for node in on}
    homes = [rng.one(*on) for _ in range(count)]
    made = [constrained(rng, pod(rng, f"run-{number}", namespace), often) for number in range(count)]
    running = [placed(rng, each, home, next(minutes[home])) for each, home in zip(made, homes, strict=True)]
    return _ports_once(running)


def _ports_once(running: list[JsonObject]) -> list[JsonObject]:
    """Without host ports of an earlier pod on the node: no kubelet admits the second, and Go loses it when one is removed."""
    taken: set[tuple[str, int]] = set()
    for each in running:
        home = each["spec"]["nodeName"]
        for part in (*each["spec"]["containers"], *each["spec"].get("initContainers", ())):
            wanted = {(home, port["hostPort"]) for port in part.get("ports", ()) if "hostPort" in port}
            if wanted & taken:
                del part["ports"]
            taken |= wanted
    return running
