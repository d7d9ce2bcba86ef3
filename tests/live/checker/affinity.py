"""Rules about other pods: affinity, anti-affinity, spread.

They hold at the end, in clusters to which pods were only added: anti-affinity always; affinity except for the first pod of a
group, which may have come alone; spread because the lowest count only ever rises.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from tests.live.checker.cluster_objects import ClusterObjects, full_name, labels
from tests.live.checker.selectors import (
    node_affinity_matches,
    pod_term_matches,
    required,
    selects,
    untolerated,
    with_label_keys,
)
from tests.live.node_accounting import Document

HARD = "DoNotSchedule"


def anti_affinity(cluster: ClusterObjects) -> Iterator[str]:
    """A pod in a domain that the required anti-affinity of another one excludes, whichever came first."""
    for key, carriers in _by_key(cluster, "podAntiAffinity"):
        nearby = _by_domain(cluster, cluster.bound, key)
        for pod, term in carriers:
            there = nearby.get(cluster.domain(pod, key), ())
            found = (other for other in there if other is not pod and pod_term_matches(cluster, pod, term, other))
            yield from (f"{full_name(pod)} is kept apart from {full_name(other)} by {key}" for other in found)


def _by_key(cluster: ClusterObjects, kind: str) -> Iterator[tuple[str, list[tuple[Document, Document]]]]:
    carried = [(pod, term) for pod in cluster.bound for term in required(pod, kind)]
    for key, found in groupby(sorted(carried, key=_key_of), key=_key_of):
        yield key, list(found)


def _key_of(carried: tuple[Document, Document]) -> str:
    key: str = carried[1]["topologyKey"]
    return key


def _by_domain(cluster: ClusterObjects, pods: Iterable[Document], key: str) -> dict[str | None, list[Document]]:
    """Pods by their domain; those on nodes without the label have none."""
    found: dict[str | None, list[Document]] = defaultdict(list)
    for pod in pods:
        if (domain := cluster.domain(pod, key)) is not None:
            found[domain].append(pod)
    return found


def affinity(cluster: ClusterObjects) -> Iterator[str]:
    """A pod without a match for its required affinity, or a second first pod of a group."""
    for pods, terms in _alike(cluster, "podAffinity"):
        first = pods[0]
        liked = [other for other in cluster.bound if _all_pick(cluster, first, terms, other)]
        founders = [pod for pod in pods if _all_pick(cluster, first, terms, pod)]
        for term in terms:
            nearby = _by_domain(cluster, liked, term["topologyKey"])
            yield from _lonely(cluster, pods, term, nearby, founders)
            yield from _second_founders(first, term, nearby, founders)


def _alike(cluster: ClusterObjects, kind: str) -> Iterator[tuple[list[Document], list[Document]]]:
    """Pods with the same affinity terms, and these terms."""
    groups: dict[str, list[Document]] = defaultdict(list)
    for pod in cluster.bound:
        if terms := required(pod, kind):
            narrow = [(with_label_keys(pod, term), term) for term in terms]
            groups[json.dumps([pod["metadata"]["namespace"], narrow], sort_keys=True)].append(pod)
    return ((pods, required(pods[0], kind)) for pods in groups.values())


def _all_pick(cluster: ClusterObjects, owner: Document, terms: Sequence[Document], other: Document) -> bool:
    return all(pod_term_matches(cluster, owner, term, other) for term in terms)


def _lonely(
    cluster: ClusterObjects,
    pods: Sequence[Document],
    term: Document,
    nearby: dict[str | None, list[Document]],
    founders: Sequence[Document],
) -> Iterator[str]:
    """Pods without a matching pod in their domain; one that matches itself may have been the first."""
    key, may_found = term["topologyKey"], {full_name(pod) for pod in founders}
    for pod in pods:
        domain = cluster.domain(pod, key)
        if domain is None:
            yield f"{full_name(pod)} is on a node without {key}"
        elif full_name(pod) not in may_found and not nearby.get(domain):
            yield f"{full_name(pod)} has none of its required company in {key} {domain}"


def _second_founders(
    first: Document, term: Document, nearby: dict[str | None, list[Document]], founders: Sequence[Document]
) -> Iterator[str]:
    """Domains where all matching pods require the affinity themselves: the first one came alone, so there is at most one."""
    asking = {full_name(pod) for pod in founders}
    founded = sorted(str(domain) for domain, liked in nearby.items() if asking.issuperset(map(full_name, liked)))
    if len(founded) > 1:
        yield f"pods that, like {full_name(first)}, require company founded it in {', '.join(founded)}"


def spread(cluster: ClusterObjects) -> Iterator[str]:
    """A domain that exceeds the maxSkew of a hard spread constraint."""
    for pods, rule in _spreading(cluster):
        first, key = pods[0], rule["topologyKey"]
        nodes = [node for node in cluster.nodes if _counts(first, rule, node)]
        eligible = {node["metadata"]["name"] for node in nodes}
        matching = [pod for pod in cluster.bound if _matches(first, rule, pod) and pod["spec"]["nodeName"] in eligible]
        if {full_name(pod) for pod in matching} - {full_name(pod) for pod in pods}:
            yield f"the spread of {full_name(first)} cannot be judged: others count that do not keep to it"
        sums = Counter({labels(node)[key]: 0 for node in nodes})
        sums.update(labels(cluster.node_of(pod))[key] for pod in matching)
        yield from _skewed(cluster, pods, rule, sums)


def _spreading(cluster: ClusterObjects) -> Iterator[tuple[list[Document], Document]]:
    """Pods with the same hard constraint over the same nodes, and this constraint."""
    groups: dict[str, tuple[list[Document], Document]] = {}
    for pod in cluster.bound:
        for rule in _hard(pod):
            spec = pod["spec"]
            among = [
                spec.get("nodeSelector"),
                (spec.get("affinity") or {}).get("nodeAffinity"),
                spec.get("tolerations"),
            ]
            keys = [
                pod["metadata"]["namespace"],
                with_label_keys(pod, rule),
                rule,
                [each["topologyKey"] for each in _hard(pod)],
            ]
            groups.setdefault(json.dumps([*keys, *among], sort_keys=True), ([], rule))[0].append(pod)
    return iter(groups.values())


def _hard(pod: Document) -> list[Document]:
    rules = pod["spec"].get("topologySpreadConstraints") or ()
    return [rule for rule in rules if rule["whenUnsatisfiable"] == HARD]


def _counts(pod: Document, rule: Document, node: Document) -> bool:
    """Whether the node counts for the constraint."""
    keyed = all(each["topologyKey"] in labels(node) for each in _hard(pod))
    chosen = rule.get("nodeAffinityPolicy") == "Ignore" or node_affinity_matches(pod, node)
    return keyed and chosen and (rule.get("nodeTaintsPolicy") != "Honor" or not untolerated(pod, node))


def _matches(owner: Document, rule: Document, pod: Document) -> bool:
    same = pod["metadata"]["namespace"] == owner["metadata"]["namespace"]
    return same and selects(with_label_keys(owner, rule), labels(pod))


def _skewed(cluster: ClusterObjects, pods: Sequence[Document], rule: Document, sums: Counter[str]) -> Iterator[str]:
    """Domains above maxSkew; with fewer than minDomains the minimum is 0."""
    key, most = rule["topologyKey"], rule["maxSkew"]
    least = min(sums.values(), default=0) if len(sums) >= (rule.get("minDomains") or 1) else 0
    for domain in sorted({str(cluster.domain(pod, key)) for pod in pods}):
        if domain not in sums:
            yield f"{full_name(pods[0])} and its like are in {key} {domain}, which is none to spread over"
        elif sums[domain] - least > most:
            yield f"{key} {domain} holds {sums[domain]} like {full_name(pods[0])}, the emptiest {least}: over {most} apart"
