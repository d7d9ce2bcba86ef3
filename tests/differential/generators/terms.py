"""Random constraints on nodes and other pods."""

from __future__ import annotations

from tests.differential.generators.nodes import HOSTNAME, REGION, ZONE, ZONES
from tests.differential.generators.rng import JsonObject, Rng, without_empty

LABELS = {"app": ("web", "db", "job"), "tier": ("front", "back"), "hash": ("a1", "b2")}
NAMESPACES = ("default", "team-a", "team-b")
TOPOLOGIES = (*[ZONE, HOSTNAME] * 4, "rack", "rack", REGION, "nowhere")


def pod_labels(rng: Rng) -> JsonObject:
    return {key: rng.one(*values) for key, values in LABELS.items() if rng.chance(60)}


def label_selector(rng: Rng) -> JsonObject | None:
    """None matches nothing, an empty one everything."""
    kind = rng.between(0, 9)
    if kind == 9:
        return rng.one(None, {})
    key = rng.one(*LABELS)
    if kind < 6:
        return {"matchLabels": {key: rng.one(*LABELS[key])}}
    return {"matchExpressions": [pod_expression(rng) for _ in range(rng.between(1, 2))]}


def pod_expression(rng: Rng) -> JsonObject:
    key, operator = rng.one(*LABELS), rng.one("In", "NotIn", "Exists", "DoesNotExist")
    return without_empty(
        key=key, operator=operator, values=rng.some(LABELS[key], 1, 2) if operator.endswith("In") else []
    )


def node_expression(rng: Rng) -> JsonObject:
    key = rng.one("disktype", "gen", "rack", ZONE, HOSTNAME)
    operator = rng.one("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if operator in ("Gt", "Lt"):
        return {"key": rng.one("gen", key), "operator": operator, "values": [rng.one("2", "0", "13")]}
    values = rng.some(("ssd", "hdd", "r1", "r2", "1", "node-0", "node-1", *ZONES), 1, 4)
    return without_empty(key=key, operator=operator, values=values if operator.endswith("In") else [])


def node_term(rng: Rng) -> JsonObject:
    named = {"key": "metadata.name", "operator": rng.one("In", "NotIn"), "values": [f"node-{rng.between(0, 6)}"]}
    return without_empty(
        matchExpressions=rng.several(0, 2, lambda: node_expression(rng)),
        matchFields=[named] if rng.chance(20) else [],
    )


def node_affinity(rng: Rng) -> JsonObject:
    wished = rng.several(0, 3, lambda: {"weight": rng.between(1, 100), "preference": node_term(rng)})
    needed = rng.several(1, 2, lambda: node_term(rng)) if rng.chance(50) else []
    return without_empty(
        requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": needed} if needed else None,
        preferredDuringSchedulingIgnoredDuringExecution=wished,
    )


def tolerations(rng: Rng) -> list[JsonObject]:
    return rng.several(0, 3, lambda: toleration(rng))


def toleration(rng: Rng) -> JsonObject:
    key = rng.one("dedicated", "maint", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", None)
    operator = "Exists" if key is None else rng.one("Exists", "Equal", None)
    value = None if operator == "Exists" else rng.one("a", "b", None)
    effect = rng.one(None, "NoSchedule", "NoExecute", "PreferNoSchedule")
    return without_empty(key=key, operator=operator, value=value, effect=effect)


def affinity_term(rng: Rng, own: JsonObject) -> JsonObject:
    selector, keys = label_selector(rng), {}
    if selector and rng.chance(20):
        keys = {rng.one("matchLabelKeys", "mismatchLabelKeys"): [rng.one(*LABELS)]}
        selector = _merged(selector, keys, own)
    return {
        "topologyKey": rng.one(*TOPOLOGIES),
        **({"labelSelector": selector} if selector is not None else {}),
        **keys,
        **_namespaces(rng),
    }


def _merged(selector: JsonObject, keys: dict[str, list[str]], own: JsonObject) -> JsonObject:
    """As the API server stores it: with the pod's own values of matchLabelKeys merged into the selector."""
    told = [
        {"key": key, "operator": "In" if kind == "matchLabelKeys" else "NotIn", "values": [own[key]]}
        for kind, named in keys.items()
        for key in named
        if key in own
    ]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *told]} if told else selector


def _namespaces(rng: Rng) -> JsonObject:
    listed = {"namespaces": rng.some(NAMESPACES, 1, 2)} if rng.chance(25) else {}
    team = rng.one({}, {"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "Exists"}]})
    return {**listed, **({"namespaceSelector": team} if rng.chance(25) else {})}


def inter_pod(rng: Rng, own: JsonObject, required: int = 40) -> JsonObject:
    """Pod affinity or anti-affinity."""

    def term() -> JsonObject:
        return affinity_term(rng, own)

    return without_empty(
        requiredDuringSchedulingIgnoredDuringExecution=rng.several(1, 2, term) if rng.chance(required) else [],
        preferredDuringSchedulingIgnoredDuringExecution=rng.several(
            0, 2, lambda: {"weight": rng.between(1, 100), "podAffinityTerm": term()}
        ),
    )


def spread(rng: Rng, own: JsonObject) -> JsonObject:
    """Mostly over pods with its own labels."""
    hard = rng.chance(60)
    selector = {"matchLabels": dict(rng.some(list(own.items()), 1, 2))} if rng.chance(60) else label_selector(rng)
    return {
        **without_empty(
            maxSkew=rng.one(1, 1, 2, 3),
            topologyKey=rng.one(*TOPOLOGIES),
            whenUnsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
            minDomains=rng.between(1, 4) if hard and rng.chance(30) else None,
            nodeAffinityPolicy=rng.one(None, "Honor", "Ignore"),
            nodeTaintsPolicy=rng.one(None, "Honor", "Ignore"),
            matchLabelKeys=[rng.one(*LABELS)] if selector is not None and rng.chance(25) else None,
        ),
        **({"labelSelector": selector} if selector is not None else {}),
    }
