"""Decides which wishes about nodes and other pods a pod carries; leaves the rest of the pod to `pods`."""

from __future__ import annotations

from tests.differential.making.dice import Dice, Thing, kept
from tests.differential.making.nodes import HOSTNAME, REGION, ZONE, ZONES

LABELS = {"app": ("web", "db", "job"), "tier": ("front", "back"), "hash": ("a1", "b2")}
NAMESPACES = ("default", "team-a", "team-b")
TOPOLOGIES = (*[ZONE, HOSTNAME] * 4, "rack", "rack", REGION, "nowhere")


def pod_labels(dice: Dice) -> Thing:
    return {key: dice.one(*values) for key, values in LABELS.items() if dice.chance(60)}


def label_selector(dice: Dice) -> Thing | None:
    """None selects nothing, the empty one everything."""
    kind = dice.between(0, 9)
    if kind == 9:
        return dice.one(None, {})
    key = dice.one(*LABELS)
    if kind < 6:
        return {"matchLabels": {key: dice.one(*LABELS[key])}}
    return {"matchExpressions": [pod_expression(dice) for _ in range(dice.between(1, 2))]}


def pod_expression(dice: Dice) -> Thing:
    key, operator = dice.one(*LABELS), dice.one("In", "NotIn", "Exists", "DoesNotExist")
    return kept(key=key, operator=operator, values=dice.some(LABELS[key], 1, 2) if operator.endswith("In") else [])


def node_expression(dice: Dice) -> Thing:
    key = dice.one("disktype", "gen", "rack", ZONE, HOSTNAME)
    operator = dice.one("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if operator in ("Gt", "Lt"):
        return {"key": dice.one("gen", key), "operator": operator, "values": [dice.one("2", "0", "13")]}
    values = dice.some(("ssd", "hdd", "r1", "r2", "1", "node-0", "node-1", *ZONES), 1, 4)
    return kept(key=key, operator=operator, values=values if operator.endswith("In") else [])


def node_term(dice: Dice) -> Thing:
    named = {"key": "metadata.name", "operator": dice.one("In", "NotIn"), "values": [f"node-{dice.between(0, 6)}"]}
    return kept(
        matchExpressions=dice.several(0, 2, lambda: node_expression(dice)),
        matchFields=[named] if dice.chance(20) else [],
    )


def node_affinity(dice: Dice) -> Thing:
    wished = dice.several(0, 3, lambda: {"weight": dice.between(1, 100), "preference": node_term(dice)})
    needed = dice.several(1, 2, lambda: node_term(dice)) if dice.chance(50) else []
    return kept(
        requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": needed} if needed else None,
        preferredDuringSchedulingIgnoredDuringExecution=wished,
    )


def tolerations(dice: Dice) -> list[Thing]:
    return dice.several(0, 3, lambda: toleration(dice))


def toleration(dice: Dice) -> Thing:
    key = dice.one("dedicated", "maint", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", None)
    operator = "Exists" if key is None else dice.one("Exists", "Equal", None)
    value = None if operator == "Exists" else dice.one("a", "b", None)
    effect = dice.one(None, "NoSchedule", "NoExecute", "PreferNoSchedule")
    return kept(key=key, operator=operator, value=value, effect=effect)


def affinity_term(dice: Dice, own: Thing) -> Thing:
    selector, keys = label_selector(dice), {}
    if selector and dice.chance(20):
        keys = {dice.one("matchLabelKeys", "mismatchLabelKeys"): [dice.one(*LABELS)]}
        selector = _merged(selector, keys, own)
    return {
        "topologyKey": dice.one(*TOPOLOGIES),
        **({"labelSelector": selector} if selector is not None else {}),
        **keys,
        **_namespaces(dice),
    }


def _merged(selector: Thing, keys: dict[str, list[str]], own: Thing) -> Thing:
    """As the API server stores it: keys of labels that the pod has are already part of the selector."""
    told = [
        {"key": key, "operator": "In" if kind == "matchLabelKeys" else "NotIn", "values": [own[key]]}
        for kind, named in keys.items()
        for key in named
        if key in own
    ]
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *told]} if told else selector


def _namespaces(dice: Dice) -> Thing:
    listed = {"namespaces": dice.some(NAMESPACES, 1, 2)} if dice.chance(25) else {}
    team = dice.one({}, {"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "Exists"}]})
    return {**listed, **({"namespaceSelector": team} if dice.chance(25) else {})}


def inter_pod(dice: Dice, own: Thing, required: int = 40) -> Thing:
    """Affinity or anti-affinity to pods; both kinds are made alike."""

    def term() -> Thing:
        return affinity_term(dice, own)

    return kept(
        requiredDuringSchedulingIgnoredDuringExecution=dice.several(1, 2, term) if dice.chance(required) else [],
        preferredDuringSchedulingIgnoredDuringExecution=dice.several(
            0, 2, lambda: {"weight": dice.between(1, 100), "podAffinityTerm": term()}
        ),
    )


def spread(dice: Dice, own: Thing) -> Thing:
    """Among pods like itself, mostly."""
    hard = dice.chance(60)
    selector = {"matchLabels": dict(dice.some(list(own.items()), 1, 2))} if dice.chance(60) else label_selector(dice)
    return {
        **kept(
            maxSkew=dice.one(1, 1, 2, 3),
            topologyKey=dice.one(*TOPOLOGIES),
            whenUnsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
            minDomains=dice.between(1, 4) if hard and dice.chance(30) else None,
            nodeAffinityPolicy=dice.one(None, "Honor", "Ignore"),
            nodeTaintsPolicy=dice.one(None, "Honor", "Ignore"),
            matchLabelKeys=[dice.one(*LABELS)] if selector is not None and dice.chance(25) else None,
        ),
        **({"labelSelector": selector} if selector is not None else {}),
    }
