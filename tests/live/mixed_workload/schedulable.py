"""The 2,000 schedulable pods of the mixed workload; all of them fit, in any order."""

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

from tests.live.mixed_workload.nodes import DEDICATED, GPU, GPUS, HOST, IMAGE, POOL, POOLS, RACK, ZONE
from tests.live.mixed_workload.specs import (
    PREFERRED,
    affinity_term,
    claim_volume,
    container_spec,
    expression,
    in_pool,
    make_pod,
    node_affinity,
    pod_affinity,
    pod_anti_affinity,
    spread_constraint,
    with_host_port,
)
from tests.live.mixed_workload.storage import ALONE, ATTACHED, LOCAL, ZONAL
from tools.controlplane.client import Document

PODS = 2_000
ON_MEADOW: dict[str, Any] = {"nodeSelector": {POOL: "meadow"}}
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
SNUG = 200  # pods of one CPU each, which fill the pool exactly


def plain() -> Iterator[Document]:
    """Without constraints."""
    return (make_pod("plain", number) for number in range(PODS))


def imaged() -> Iterator[Document]:
    """An image that a fifth of the nodes have."""
    return (make_pod("imaged", number, containers=[container_spec("40m", image=IMAGE)]) for number in range(80))


def selecting() -> Iterator[Document]:
    """A node selector."""
    return (make_pod("selecting", number, nodeSelector={"disk": "ssd"}) for number in range(100))


def affine() -> Iterator[Document]:
    """Required node affinity with every operator, one of two terms, and preferred affinity on top."""
    for number in range(100):
        age = [expression("age", "Gt", "2"), expression("age", "Lt", "7"), expression(RACK, "Exists")]
        other = [expression(ZONE, "In", "a", "b"), expression("disk", "NotIn", "ssd"), expression("x", "DoesNotExist")]
        choice = node_affinity({"matchExpressions": age}, {"matchExpressions": other})
        liking = {"weight": 10, "preference": {"matchExpressions": [expression("disk", "In", "hdd")]}}
        choice["nodeAffinity"][PREFERRED] = [liking]
        yield make_pod("affine", number, affinity=choice)


def named() -> Iterator[Document]:
    """A node by its name."""
    for number in range(60):
        field = expression("metadata.name", "In", f"named-{number % POOLS['named']:03}")
        yield make_pod(
            "named",
            number,
            affinity=node_affinity({"matchFields": [field]}),
            tolerations=in_pool("named")["tolerations"],
        )


def counted() -> Iterator[Document]:
    """An extended resource behind a taint, all of it."""
    for number in range(POOLS["gpu"] * GPUS):
        asked = {"cpu": "40m", GPU: "1"}
        container = {**container_spec("40m"), "resources": {"requests": asked, "limits": {GPU: "1"}}}
        tolerations = [{"key": DEDICATED, "operator": "Exists", "effect": "NoSchedule"}]
        yield make_pod("counted", number, containers=[container], **{**in_pool("gpu"), "tolerations": tolerations})


def ported() -> Iterator[Document]:
    """Host ports behind a taint of NoExecute: the same number by protocol and by address, on every node of the pool."""
    ports: list[dict[str, Any]] = [
        {"port": 8000},
        {"port": 8000, "protocol": "UDP"},
        {"port": 8001, "hostIP": "10.0.0.1"},
        {"port": 8001, "hostIP": "10.0.0.2"},
        {"port": 8002},
    ]
    for number, (port, _) in enumerate(product(ports, range(POOLS["edge"]))):
        yield make_pod("ported", number, containers=with_host_port(**port), **in_pool("edge"))


def cordoned() -> Iterator[Document]:
    """Unschedulable nodes, tolerated."""
    chosen = {"nodeSelector": {POOL: "cordoned"}, "tolerations": [CORDON]}
    return (make_pod("cordoned", number, **chosen) for number in range(60))


def escorted() -> Iterator[Document]:
    """One CPU each: a sidecar of 300m with an init container of 650m, a container of 400m, and an overhead of 50m."""
    sidecar = {**container_spec("300m"), "name": "sidecar", "restartPolicy": "Always"}
    step = {**container_spec("650m"), "name": "step"}
    for number in range(SNUG // 2):
        parts = {"initContainers": [sidecar, step], "containers": [container_spec("400m")], "runtimeClassName": "caged"}
        yield make_pod("escorted", number, **parts, **in_pool("snug"))


def whole() -> Iterator[Document]:
    """One CPU each: pod-level requests of 950m, and an overhead of 50m."""
    for number in range(SNUG // 2):
        room = {"resources": {"requests": {"cpu": "950m"}}, "runtimeClassName": "caged"}
        yield make_pod("whole", number, containers=[container_spec("400m")], **room, **in_pool("snug"))


def close() -> Iterator[Document]:
    """Twelve groups of five, each on one node, whichever of them comes first."""
    for group, number in product(range(12), range(5)):
        own = {"group": f"close-{group}"}
        yield make_pod(
            "close", group * 5 + number, labels=own, affinity=pod_affinity(affinity_term(HOST, own)), **in_pool("close")
        )


def following() -> Iterator[Document]:
    """Four leaders, each with nineteen that must be in its zone and may be there before it."""
    for group in range(4):
        leader = {"leads": f"group-{group}"}
        yield make_pod("leading", group, labels=leader, **ON_MEADOW)
        for number in range(19):
            yield make_pod("following", group * 19 + number, affinity=pod_affinity(affinity_term(ZONE, leader)))


def single() -> Iterator[Document]:
    """No two on a node."""
    affinity = pod_anti_affinity(affinity_term(HOST, {"kind": "single"}))
    return (make_pod("single", number, affinity=affinity) for number in range(100))


def rivals() -> Iterator[Document]:
    """Thirty-three groups of three, over two namespaces picked by label, each group one in a zone."""
    for group, number in product(range(33), range(3)):
        own = {"group": f"rivals-{group}"}
        affinity = pod_anti_affinity(affinity_term(ZONE, own, namespaceSelector={"matchLabels": {"team": "yes"}}))
        where = {"namespace": "red" if number else "blue", "labels": own}
        yield make_pod("rivals", group * 3 + number, **where, affinity=affinity, **ON_MEADOW)


def guarded() -> Iterator[Document]:
    """Forty that bear no noisy pod of another namespace on their node, sixty noisy ones that do not care, and a keep."""
    affinity = pod_anti_affinity(affinity_term(HOST, {"kind": "noisy"}, namespaces=["noisy"]))
    yield from (make_pod("guard", number, affinity=affinity) for number in range(39))
    yield make_pod("guard", "keep", affinity=affinity, **in_pool("keep"))
    yield from (make_pod("noisy", number, namespace="noisy") for number in range(60))


def preferring() -> Iterator[Document]:
    """Preferred affinity and anti-affinity, and soft spread."""
    own = {"kind": "preferring"}
    affinity = {
        "podAffinity": {PREFERRED: [{"weight": 50, "podAffinityTerm": affinity_term(ZONE, {"kind": "plain"})}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 90, "podAffinityTerm": affinity_term(HOST, own)}]},
    }
    spread = [spread_constraint(ZONE, "preferring", hard=False), spread_constraint(HOST, "preferring", hard=False)]
    fields = {"affinity": affinity, "topologySpreadConstraints": spread}
    return (make_pod("preferring", number, **fields) for number in range(80))


def zoned() -> Iterator[Document]:
    """Evenly over the zones of the meadow."""
    spread = [spread_constraint(ZONE, "zoned", minDomains=3)]
    return (make_pod("zoned", number, topologySpreadConstraints=spread, **ON_MEADOW) for number in range(100))


def honouring() -> Iterator[Document]:
    """Over all zones but the vault's, whose taint is honoured: counted in, its emptiness would stop all others."""
    spread = [spread_constraint(ZONE, "honouring", skew=2, nodeTaintsPolicy="Honor")]
    return (make_pod("honouring", number, topologySpreadConstraints=spread) for number in range(100))


def racked() -> Iterator[Document]:
    """Two revisions, each evenly over all racks although only some of their nodes are chosen, and over nodes by wish."""
    for number in range(100):
        hard = spread_constraint(RACK, "racked", nodeAffinityPolicy="Ignore", matchLabelKeys=["revision"])
        spread = {"topologySpreadConstraints": [hard, spread_constraint(HOST, "racked", hard=False)]}
        yield make_pod("racked", number, labels={"revision": "ab"[number % 2]}, nodeSelector={"disk": "ssd"}, **spread)


def local() -> Iterator[Document]:
    """A claim that waits for its pod, and as many disks as claims."""
    for number in range(LOCAL):
        tolerations = in_pool("disks")["tolerations"]
        yield make_pod("local", number, volumes=claim_volume(f"local-{number:03}"), tolerations=tolerations)


def zonal() -> Iterator[Document]:
    """A bound claim whose volume is in one zone, by its label or by its node affinity."""
    return (make_pod("zonal", number, volumes=claim_volume(f"zonal-{number:03}")) for number in range(ZONAL))


def attached() -> Iterator[Document]:
    """As many volumes of a driver as the pool can attach."""
    claims = ((number, claim_volume(f"attached-{number:03}")) for number in range(ATTACHED))
    return (make_pod("attached", number, volumes=volumes, **in_pool("attach")) for number, volumes in claims)


def alone() -> Iterator[Document]:
    """A claim that is for one pod."""
    return (make_pod("alone", number, volumes=claim_volume(f"alone-{number:03}")) for number in range(ALONE))


def ranked() -> Iterator[Document]:
    """Three priorities; there is room for all, so nobody has to go."""
    names = ("urgent", "patient", "humble")
    return (make_pod("ranked", number, priorityClassName=names[number % 3]) for number in range(60))


KINDS: tuple[Callable[[], Iterator[Document]], ...] = (
    *(imaged, selecting, affine, named, counted, ported, cordoned, escorted, whole, close, following, single, rivals),
    *(guarded, preferring, zoned, honouring, racked, local, zonal, attached, alone, ranked),
)


def schedulable_pods() -> list[Document]:
    """All kinds, filled up with plain pods."""
    special = [each for kind in KINDS for each in kind()]
    return [*special, *islice(plain(), PODS - len(special))]
