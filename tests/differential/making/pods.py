"""Decides what the pods of a question ask for; leaves wishes about places to `terms`, volumes to `volumes`."""

from __future__ import annotations

from tests.differential.making import terms
from tests.differential.making.dice import Dice, Thing, kept
from tests.differential.making.nodes import IMAGES

CPU = ("100m", "500m", "1", "250m", "0.3", "1500m", "200m", "2")
MEMORY = ("64Mi", "256Mi", "1Gi", "500M", "1.5Gi", "200Mi", "1e9", "128974848")


def pod(dice: Dice, name: str, namespace: str | None = None) -> Thing:
    """A pod with containers and nothing that ties it to a place; without a namespace it gets one of three."""
    spec = {"containers": [container(dice, f"c{number}") for number in range(dice.between(1, 2))]}
    spec |= kept(
        initContainers=initial(dice),
        overhead=resources(dice) if dice.chance(10) else None,
        resources=kept(requests=whole(dice)) if dice.chance(15) else None,
        priority=dice.one(None, 0, 10, 100),
    )
    home = namespace or dice.one("default", "default", *terms.NAMESPACES)
    metadata = {"name": name, "namespace": home, "uid": f"uid-{name}", "labels": terms.pod_labels(dice)}
    return {"metadata": metadata, "spec": spec}


def container(dice: Dice, name: str) -> Thing:
    return {"name": name, "image": dice.one("app", *IMAGES), **kept(resources=asked(dice), ports=ports(dice))}


def initial(dice: Dice) -> list[Thing]:
    """Init containers, of which some are sidecars: they go on running."""
    count = dice.between(1, 3) if dice.chance(25) else 0
    made = [container(dice, f"i{number}") for number in range(count)]
    return [{**each, "restartPolicy": "Always"} if dice.chance(50) else each for each in made]


def asked(dice: Dice) -> Thing:
    requests = resources(dice) if dice.chance(80) else {}
    limited = {key: value for key, value in requests.items() if "." in key or "pages" in key}
    return kept(requests=requests, limits=limited or (requests if dice.chance(15) else {}))


def resources(dice: Dice) -> Thing:
    return {
        **({"cpu": dice.one(*CPU)} if dice.chance(75) else {}),
        **({"memory": dice.one(*MEMORY)} if dice.chance(70) else {}),
        **({"ephemeral-storage": dice.one("1Gi", "30Gi", "500M")} if dice.chance(6) else {}),
        **({"example.com/gpu": dice.one("1", "2")} if dice.chance(5) else {}),
        **({"hugepages-2Mi": dice.one("4Mi", "128Mi")} if dice.chance(2) else {}),
    }


def whole(dice: Dice) -> Thing:
    """Requests of the pod as a whole, which stand above those of its containers."""
    return {"cpu": dice.one("1", "2", "4"), **({"memory": dice.one("1Gi", "3Gi")} if dice.chance(60) else {})}


def ports(dice: Dice) -> list[Thing]:
    return [port(dice)] if dice.chance(10) else []


def port(dice: Dice) -> Thing:
    return kept(
        containerPort=80,
        hostPort=dice.one(80, 8080, None),
        protocol=dice.one("TCP", "UDP", None),
        hostIP=dice.one(None, "127.0.0.1", "0.0.0.0"),
    )


def wishes(dice: Dice, made: Thing, often: int) -> Thing:
    """The pod with affinities, spread and tolerations, each that often in a hundred."""
    own = made["metadata"]["labels"]
    affinity = kept(
        nodeAffinity=dice.maybe(often, lambda: terms.node_affinity(dice)),
        podAffinity=dice.maybe(often, lambda: terms.inter_pod(dice, own, 15)),
        podAntiAffinity=dice.maybe(often, lambda: terms.inter_pod(dice, own, 30)),
    )
    spec = kept(
        affinity=affinity,
        tolerations=dice.maybe(often, lambda: terms.tolerations(dice)),
        topologySpreadConstraints=dice.maybe(often, lambda: dice.several(1, 2, lambda: terms.spread(dice, own))),
        nodeSelector=dice.maybe(often // 3, lambda: {"disktype": dice.one("ssd", "hdd")}),
    )
    return {**made, "spec": {**made["spec"], **spec}}


def placed(dice: Dice, made: Thing, node: str, minute: int) -> Thing:
    """The pod as it runs on a node since that minute; perhaps it is being resized, perhaps it is going away."""
    status: Thing = {"phase": "Running", "startTime": f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z"}
    if dice.chance(15):
        status |= resized(dice, made["spec"])
    metadata = {**made["metadata"], **({"deletionTimestamp": "2024-01-02T00:00:00Z"} if dice.chance(6) else {})}
    return {"metadata": metadata, "spec": {**made["spec"], "nodeName": node}, "status": status}


def resized(dice: Dice, spec: Thing) -> Thing:
    """What the kubelet says while requests change: allocated and actual may be less or more than desired."""
    reason = dice.one(None, "Deferred", "Infeasible", "InProgress")
    kind = "PodResizeInProgress" if reason == "InProgress" else "PodResizePending"
    held = [each for each in spec.get("initContainers", []) if "restartPolicy" in each]
    return kept(
        containerStatuses=[_held(dice, each) for each in spec["containers"]],
        initContainerStatuses=[_held(dice, each) for each in held],
        conditions=[{"type": kind, "status": "True", **kept(reason=reason)}] if reason else [],
    )


def _held(dice: Dice, made: Thing) -> Thing:
    def other() -> Thing:
        requests = made.get("resources", {}).get("requests", {})
        return {**requests, **({"cpu": dice.one(*CPU)} if "cpu" in requests and dice.chance(70) else {})}

    return kept(name=made["name"], allocatedResources=other(), resources=kept(requests=other()))


def existing(
    dice: Dice, on: list[str], low: int, high: int, often: int = 0, namespace: str | None = None
) -> list[Thing]:
    """Pods on these nodes; no two on one node started in the same minute: which of them matters more is chance in Go."""
    count = dice.between(low, high) if on else 0
    minutes = {node: iter(dice.some(range(count), count, count)) for node in on}
    homes = [dice.one(*on) for _ in range(count)]
    made = [wishes(dice, pod(dice, f"run-{number}", namespace), often) for number in range(count)]
    running = [placed(dice, each, home, next(minutes[home])) for each, home in zip(made, homes, strict=True)]
    return _ports_once(running)


def _ports_once(running: list[Thing]) -> list[Thing]:
    """Without ports that an earlier pod of the node has: no kubelet admits the second, and Go forgets it when one goes."""
    taken: set[tuple[str, int]] = set()
    for each in running:
        home = each["spec"]["nodeName"]
        for part in (*each["spec"]["containers"], *each["spec"].get("initContainers", ())):
            wanted = {(home, port["hostPort"]) for port in part.get("ports", ()) if "hostPort" in port}
            if wanted & taken:
                del part["ports"]
            taken |= wanted
    return running
