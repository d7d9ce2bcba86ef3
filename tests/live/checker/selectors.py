"""Selectors, node terms and tolerations, implemented for the checker alone."""

from collections.abc import Iterator, Mapping, Sequence

from tests.live.checker.cluster_objects import ClusterObjects, labels
from tests.live.node_accounting import Document

Labels = Mapping[str, str]
HARD_EFFECTS = ("NoSchedule", "NoExecute")
CORDON: Document = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def selects(selector: Document | None, found: Labels) -> bool:
    """Whether a label selector matches; None matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    same = all(found.get(key) == value for key, value in wanted.items())
    return same and all(requirement_matches(each, found) for each in selector.get("matchExpressions") or ())


def requirement_matches(expression: Document, found: Labels) -> bool:
    """Whether one requirement of a label or node selector matches these labels."""
    key: str = expression["key"]
    values: Sequence[str] = expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return found.get(key) in values
        case "NotIn":
            return found.get(key) not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
        case "Gt":
            return key in found and int(found[key]) > int(values[0])
        case "Lt":
            return key in found and int(found[key]) < int(values[0])
    raise ValueError(f"unknown operator: {expression}")


def term_matches(term: Document, node: Document) -> bool:
    """Whether a node selector term matches; an empty one matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    known = {"metadata.name": node["metadata"]["name"]}
    true = all(requirement_matches(each, labels(node)) for each in expressions) and all(
        requirement_matches(each, known) for each in fields
    )
    return bool(expressions or fields) and true


def any_term_matches(selector: Document | None, node: Document) -> bool:
    """Whether one of the terms matches the node; without a selector, every node does."""
    return selector is None or any(term_matches(each, node) for each in selector["nodeSelectorTerms"])


def node_affinity_matches(pod: Document, node: Document) -> bool:
    """Whether the pod's node selector and required node affinity match."""
    chosen = pod["spec"].get("nodeSelector") or {}
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return all(labels(node).get(key) == value for key, value in chosen.items()) and any_term_matches(required, node)


def tolerates(pod: Document, taint: Document) -> bool:
    """Whether the pod tolerates the taint."""
    return any(_covers(each, taint) for each in pod["spec"].get("tolerations") or ())


def _covers(toleration: Document, taint: Document) -> bool:
    operator, key = toleration.get("operator") or "Equal", toleration.get("key") or ""
    if operator not in ("Equal", "Exists"):
        raise ValueError(f"unknown operator: {toleration}")
    same_value = operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
    same_effect = (toleration.get("effect") or taint["effect"]) == taint["effect"]
    return same_effect and same_value and (key == taint["key"] or (not key and operator == "Exists"))


def untolerated(pod: Document, node: Document) -> list[Document]:
    """The taints with NoSchedule or NoExecute that the pod does not tolerate."""
    taints = node["spec"].get("taints") or ()
    return [each for each in taints if each["effect"] in HARD_EFFECTS and not tolerates(pod, each)]


def with_label_keys(owner: Document, rule: Document) -> Document | None:
    """The selector with the requirements of matchLabelKeys and mismatchLabelKeys."""
    selector: Document | None = rule.get("labelSelector")
    if selector is None:
        return None
    added = [*_added(owner, rule, "matchLabelKeys", "In"), *_added(owner, rule, "mismatchLabelKeys", "NotIn")]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}


def _added(owner: Document, rule: Document, field: str, operator: str) -> Iterator[Document]:
    own = labels(owner)
    keys: Sequence[str] = rule.get(field) or ()
    return ({"key": key, "operator": operator, "values": [own[key]]} for key in keys if key in own)


def pod_term_matches(cluster: ClusterObjects, owner: Document, term: Document, other: Document) -> bool:
    """Whether a pod (anti-)affinity term matches the other pod, by namespace and labels."""
    return namespace_matches(cluster, owner, term, other["metadata"]["namespace"]) and selects(
        with_label_keys(owner, term), labels(other)
    )


def namespace_matches(cluster: ClusterObjects, owner: Document, term: Document, namespace: str) -> bool:
    """Whether the term includes this namespace: listed, selected, or else the owner's own."""
    listed, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not listed and selector is None:
        return bool(namespace == owner["metadata"]["namespace"])
    return namespace in listed or selects(selector, cluster.labels_of_namespace.get(namespace, {}))


def required(pod: Document, kind: str) -> list[Document]:
    """The required terms of `podAffinity` or `podAntiAffinity`."""
    rules = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
