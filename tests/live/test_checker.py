"""The checker finds a hand-made violation of each rule, and none where the rule is just satisfied."""

from typing import Any

import pytest

from tests.live.checker import affinity, node_fit, storage
from tests.live.checker.cluster_objects import ClusterObjects
from tests.live.checker.rules import RULES, violations
from tests.live.node_accounting import Document

ZONE, HOST = "zone", "host"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CORDON = "node.kubernetes.io/unschedulable"


def node(name: str, zone: str = "a", allocatable: dict[str, str] | None = None, **spec: Any) -> Document:
    labels = {ZONE: zone, HOST: name, "age": "4", "topology.kubernetes.io/zone": zone}
    room = {"cpu": "2", "pods": "3", **(allocatable or {})}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": room}}


def pod(name: str, on: str, app: str = "web", namespace: str = "default", **spec: Any) -> Document:
    meta = {"name": name, "namespace": namespace, "labels": {"app": app, **spec.pop("labels", {})}}
    return {"metadata": meta, "spec": {"containers": [{}], **({"nodeName": on} if on else {}), **spec}}


def found(*pods: Document, nodes: list[Document] | None = None, **more: Any) -> list[str]:
    """The violations of these pods on n1 (zone a), n2 (zone a) and n3 (zone b)."""
    return violations(ClusterObjects(pods, nodes or [node("n1"), node("n2"), node("n3", "b")], **more))


def rules_broken(*pods: Document, **more: Any) -> set[str]:
    return {each.split(":")[0] for each in found(*pods, **more)}


def on_nodes(*terms: Document) -> Document:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_pod_on_a_missing_node() -> None:
    """Pending and terminated pods do not count; a pod on a node that does not exist is a violation."""
    ended = {**pod("ended", "n9"), "status": {"phase": "Succeeded"}}
    assert set() == rules_broken(pod("waiting", ""), ended)
    assert ["strays: default/stray is on n9, which does not exist"] == found(pod("stray", "n9"))


@pytest.mark.parametrize(
    ("kept", "operator", "values"),
    [
        (True, "In", ["3", "4"]),
        (False, "In", ["3"]),
        (True, "NotIn", ["3"]),
        (False, "NotIn", ["4"]),
        (True, "Exists", []),
        (False, "DoesNotExist", []),
        (True, "Gt", ["3"]),
        (False, "Gt", ["4"]),
        (True, "Lt", ["5"]),
        (False, "Lt", ["4"]),
    ],
)
def test_node_affinity_by_operator(kept: bool, operator: str, values: list[str]) -> None:
    """A required expression that does not match the node is a violation."""
    term = {"matchExpressions": [expression("age", operator, *values)]}
    assert (set() if kept else {"choice"}) == rules_broken(pod("p", "n1", affinity=on_nodes(term)))


@pytest.mark.parametrize(
    ("kept", "spec"),
    [
        (True, {"nodeSelector": {ZONE: "a"}}),
        (False, {"nodeSelector": {ZONE: "b"}}),
        (True, {"affinity": on_nodes({"matchFields": [expression("metadata.name", "In", "n1")]})}),
        (False, {"affinity": on_nodes({"matchFields": [expression("metadata.name", "In", "n2")]})}),
        (False, {"affinity": on_nodes({})}),
        (True, {"affinity": on_nodes({}, {"matchExpressions": [expression("age", "Exists")]})}),
    ],
)
def test_choice_of_nodes(kept: bool, spec: dict[str, Any]) -> None:
    """The selector and one of the terms must match the node; an empty term matches none."""
    assert (set() if kept else {"choice"}) == rules_broken(pod("p", "n1", **spec))


@pytest.mark.parametrize(
    ("kept", "effect", "toleration"),
    [
        (False, "NoSchedule", {"key": "other", "operator": "Exists"}),
        (False, "NoExecute", {"key": "k", "value": "w"}),
        (False, "NoExecute", {"key": "k", "value": "v", "effect": "NoSchedule"}),
        (False, "NoSchedule", {"key": "k"}),
        (True, "NoSchedule", {"key": "k", "value": "v"}),
        (True, "NoExecute", {"key": "k", "operator": "Exists", "effect": "NoExecute"}),
        (True, "NoExecute", {"operator": "Exists"}),
        (True, "PreferNoSchedule", {"key": "other", "operator": "Exists"}),
    ],
)
def test_taints(kept: bool, effect: str, toleration: Document) -> None:
    """A hard taint must be tolerated by key, value and effect; a soft one need not."""
    tainted = [node("n1", taints=[{"key": "k", "value": "v", "effect": effect}])]
    assert (set() if kept else {"taints"}) == rules_broken(pod("p", "n1", tolerations=[toleration]), nodes=tainted)


def test_unschedulable_nodes() -> None:
    """Only pods that tolerate it may be on a cordoned node."""
    cordoned = [node("n1", unschedulable=True)]
    tolerant = pod("q", "n1", tolerations=[{"key": CORDON, "operator": "Exists"}])
    assert ["cordons: default/p is on n1, which is unschedulable"] == found(pod("p", "n1"), tolerant, nodes=cordoned)


def cpu(amount: str, **more: Any) -> Document:
    return {"resources": {"requests": {"cpu": amount}}, **more}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [cpu("1001m")]},
        {"containers": [cpu("500m")], "initContainers": [cpu("501m", restartPolicy="Always")]},
        {"containers": [cpu("500m")], "initContainers": [cpu("300m", restartPolicy="Always"), cpu("701m")]},
        {"containers": [cpu("500m")], "overhead": {"cpu": "501m"}},
        {"containers": [cpu("500m")], "resources": {"requests": {"cpu": "1001m"}}},
        {"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]},
    ],
)
def test_room(spec: dict[str, Any]) -> None:
    """Sidecars, init containers, overhead and pod-level requests count; a resource that the node lacks is zero."""
    beside = pod("beside", "n1", containers=[cpu("1")])
    assert {"room"} == rules_broken(beside, pod("p", "n1", **spec))
    assert set() == rules_broken(beside, pod("p", "n1", containers=[cpu("1")]))


def test_the_number_of_pods_is_limited() -> None:
    """Three of three pods fit, four do not."""
    assert set() == rules_broken(*(pod(f"p{n}", "n1") for n in range(3)))
    assert ["room: n1 is over: pods 4 of 3"] == found(*(pod(f"p{n}", "n1") for n in range(4)))


def test_host_ports() -> None:
    """The same port twice on a node is a violation, unless protocol or address differ."""

    def holding(name: str, on: str = "n1", **port: Any) -> Document:
        return pod(name, on, containers=[{"ports": [{"hostPort": 80, **port}]}])

    assert {"host_ports"} == rules_broken(holding("p"), holding("q", hostIP="10.0.0.1"))
    assert set() == rules_broken(holding("p"), holding("q", protocol="UDP"), holding("r", "n2"))
    assert set() == rules_broken(holding("p", hostIP="10.0.0.1"), holding("q", hostIP="10.0.0.2"))


def term(key: str = ZONE, app: str = "web", **more: Any) -> Document:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def apart(*terms: Document) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def together(*terms: Document) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


@pytest.mark.parametrize(
    ("kept", "rule", "on"),
    [
        (False, term(), "n2"),
        (True, term(), "n3"),
        (True, term(HOST), "n2"),
        (True, term("nobody-has-it"), "n2"),
        (True, term(app="db"), "n2"),
        (True, {"topologyKey": ZONE}, "n2"),
        (False, term(matchLabelKeys=["track"]), "n2"),
        (True, term(mismatchLabelKeys=["track"]), "n2"),
        (True, term(namespaces=["other"]), "n2"),
    ],
)
def test_anti_affinity(kept: bool, rule: Document, on: str) -> None:
    """A term excludes matching pods from its domain, in both directions."""
    owner = pod("owner", "n1", "db" if rule == term(app="db") else "web", labels={"track": "x"}, **apart(rule))
    other = pod("other", on, labels={"track": "x"})
    assert (set() if kept else {"anti_affinity"}) == rules_broken(owner, other)
    assert (set() if kept else {"anti_affinity"}) == rules_broken(other, owner)


@pytest.mark.parametrize(
    ("kept", "more"),
    [
        (False, {"namespaceSelector": {"matchLabels": {"team": "yes"}}}),
        (True, {"namespaceSelector": {"matchLabels": {"team": "no"}}}),
        (False, {"namespaceSelector": {}}),
        (False, {"namespaces": ["far"]}),
        (True, {"namespaces": ["default"]}),
        (True, {}),
    ],
)
def test_anti_affinity_across_namespaces(kept: bool, more: dict[str, Any]) -> None:
    """A term applies to the namespaces it lists or selects, else to its own."""
    namespaces = [{"metadata": {"name": "far", "labels": {"team": "yes"}}}, {"metadata": {"name": "default"}}]
    pods = pod("owner", "n1", **apart(term(**more))), pod("other", "n2", namespace="far")
    assert (set() if kept else {"anti_affinity"}) == rules_broken(*pods, namespaces=namespaces)


def test_affinity_to_others() -> None:
    """The other pod must be in the same domain and namespace."""
    owner, needs = pod("owner", "n1", "db", **together(term())), {"affinity"}
    assert set() == rules_broken(owner, pod("web", "n2"))
    assert needs == rules_broken(owner, pod("web", "n3"))
    assert needs == rules_broken(owner, pod("web", "n2", namespace="far"))
    assert needs == rules_broken(pod("owner", "n1", "db", **together(term("nobody-has-it"))), pod("web", "n2"))
    assert needs == rules_broken(owner)


def test_affinity_with_several_terms() -> None:
    """One other pod must match all terms, in the domain of each."""
    both = together(term(), {"topologyKey": HOST, "labelSelector": {"matchLabels": {"tier": "front"}}})
    owner, company = pod("owner", "n1", "db", **both), {"tier": "front"}
    assert set() == rules_broken(owner, pod("web", "n1", labels=company))
    assert {"affinity"} == rules_broken(owner, pod("web", "n2", labels=company))
    assert {"affinity"} == rules_broken(owner, pod("web", "n1"), pod("tool", "n1", "tool", labels=company))


def test_affinity_to_itself() -> None:
    """The first pod may come alone; all others that match must join it."""
    first, second, third, fourth = (
        pod(f"p{n}", on, **together(term())) for n, on in enumerate(("n1", "n2", "n3", "n3"))
    )
    assert set() == rules_broken(first)
    assert set() == rules_broken(first, second)
    assert {"affinity"} == rules_broken(first, third)
    assert {"affinity"} == rules_broken(first, second, third, fourth)
    assert set() == rules_broken(first, second, third, fourth, pod("anchor", "n3"))


def spread(key: str = ZONE, skew: int = 1, **more: Any) -> dict[str, Any]:
    chosen = {"matchLabels": {"app": "web"}}
    rule = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": chosen}
    return {"topologySpreadConstraints": [{**rule, **more}]}


def spreading(*places: str, pod_fields: dict[str, Any] | None = None, **rule: Any) -> list[Document]:
    fields = {**spread(**rule), **(pod_fields or {})}
    return [pod(f"p{n}", on, **fields) for n, on in enumerate(places)]


@pytest.mark.parametrize(
    ("kept", "places", "rule"),
    [
        (True, "n1", {}),
        (False, "n1 n2", {}),
        (True, "n1 n2", {"skew": 2}),
        (True, "n1 n2", {"whenUnsatisfiable": "ScheduleAnyway"}),
        (True, "n1 n2 n3", {}),
        (False, "n1 n2 n2 n3", {}),
        (True, "n1 n3", {"minDomains": 3}),
        (False, "n1 n2 n3 n3", {"minDomains": 3}),
        (True, "n1 n2", {"key": HOST}),
        (False, "n1 n2 n2", {"key": HOST}),
        (False, "n1", {"key": "nobody-has-it"}),
    ],
)
def test_spread(kept: bool, places: str, rule: dict[str, Any]) -> None:
    """No domain exceeds the minimum by more than maxSkew; with fewer than minDomains the minimum is 0."""
    assert (set() if kept else {"spread"}) == rules_broken(*spreading(*places.split(), **rule))


def test_node_inclusion_policies() -> None:
    """nodeAffinityPolicy and nodeTaintsPolicy decide which nodes count."""
    choosing = {"nodeSelector": {ZONE: "a"}}
    assert set() == rules_broken(*spreading("n1", "n2", pod_fields=choosing))
    assert {"spread"} == rules_broken(*spreading("n1", "n2", pod_fields=choosing, nodeAffinityPolicy="Ignore"))
    barred = [node("n1"), node("n2"), node("n3", "b", taints=[{"key": "k", "effect": "NoSchedule"}])]
    assert {"spread"} == rules_broken(*spreading("n1", "n2"), nodes=barred)
    assert set() == rules_broken(*spreading("n1", "n2", nodeTaintsPolicy="Honor"), nodes=barred)


def test_spread_with_match_label_keys() -> None:
    """Each revision is spread on its own."""
    rule = spread(matchLabelKeys=["revision"])
    first, second, third = (
        pod(name, on, labels={"revision": revision}, **rule)
        for name, on, revision in (("p", "n1", "old"), ("q", "n2", "new"), ("r", "n2", "old"))
    )
    assert set() == rules_broken(first, second)
    assert {"spread"} == rules_broken(first, third)


def test_spread_that_cannot_be_checked_is_reported() -> None:
    """If pods without the constraint count, the final state proves nothing."""
    assert ["spread: the spread of default/p0 cannot be judged: others count that do not keep to it"] == found(
        *spreading("n1"), pod("other", "n3")
    )


def claim(name: str = "c", volume: str = "v", mode: str = "ReadWriteOnce", phase: str = "Bound") -> Document:
    spec = {"accessModes": [mode], "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def volume(name: str = "v", owner: str = "uid-c", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    fields = {"capacity": {"storage": "1Gi"}, "claimRef": {"uid": owner}, **spec}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": fields}


def using(name: str, on: str, *claims: str) -> Document:
    return pod(name, on, volumes=[{"persistentVolumeClaim": {"claimName": each}} for each in claims or ("c",)])


@pytest.mark.parametrize(
    ("kept", "claims", "volumes"),
    [
        (True, [claim()], [volume()]),
        (False, [], [volume()]),
        (False, [claim(volume="")], [volume()]),
        (False, [claim()], []),
        (False, [claim(phase="Pending")], [volume()]),
        (False, [claim()], [volume(owner="uid-of-another")]),
        (False, [claim()], [volume(capacity={"storage": "1000Mi"})]),
        (False, [claim()], [volume(storageClassName="fast")]),
    ],
)
def test_claims(kept: bool, claims: list[Document], volumes: list[Document]) -> None:
    """A bound pod's claim is bound to a volume that is large enough, of its class, and its own."""
    assert (set() if kept else {"claimed"}) == rules_broken(using("p", "n1"), claims=claims, volumes=volumes)


@pytest.mark.parametrize(("broken", "on"), [(set(), "n1"), ({"reach"}, "n3")])
def test_node_affinity_of_volumes(broken: set[str], on: str) -> None:
    """The volume's node affinity must match the pod's node."""
    terms = [{"matchExpressions": [expression(ZONE, "In", "a")]}]
    there = volume(nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    assert broken == rules_broken(using("p", on), claims=[claim()], volumes=[there])


@pytest.mark.parametrize(("broken", "zones"), [(set(), "a"), (set(), "b__a"), ({"zones"}, "b")])
def test_zones_of_volumes(broken: set[str], zones: str) -> None:
    """The pod must be in a zone of the volume's labels."""
    there = volume(labels={"topology.kubernetes.io/zone": zones})
    assert broken == rules_broken(using("p", "n1"), claims=[claim()], volumes=[there])


@pytest.mark.parametrize(("broken", "mode"), [(set(), "ReadWriteMany"), ({"sharing"}, "ReadWriteOncePod")])
def test_read_write_once_pod(broken: set[str], mode: str) -> None:
    """A second pod with such a claim is a violation, on any node."""
    pods = using("p", "n1"), using("q", "n3")
    assert broken == rules_broken(*pods, claims=[claim(mode=mode)], volumes=[volume()])


@pytest.mark.parametrize(("broken", "most"), [(set(), 2), ({"limits"}, 1)])
def test_limits_of_drivers(broken: set[str], most: int) -> None:
    """A node must not exceed the volume limit of a driver."""
    volumes = [volume(v, f"uid-{c}", csi={"driver": "d", "volumeHandle": v}) for v, c in (("v", "c"), ("w", "e"))]
    limit = {"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": most}}]}}
    pods = using("p", "n1", "c"), using("q", "n1", "e"), using("r", "n1", "e")
    assert broken == rules_broken(*pods, claims=[claim(), claim("e", "w")], volumes=volumes, csi_nodes=[limit])


def test_every_rule_is_checked() -> None:
    """Every rule of the checker's modules is in RULES."""
    modules = (node_fit, affinity, storage)
    public = {
        name
        for module in modules
        for name, thing in vars(module).items()
        if callable(thing) and getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    assert public - {"Use", "uses"} == {rule.__name__ for rule in RULES}
