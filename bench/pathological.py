"""Objects that the API server admits (up to 1.5 MB) and that nobody should write: none of them may hold up the rest.

A case is the objects of one kind of excess in the order in which they appear, by the number of entries: as many as fit into
an object, and as many as are evaluated (`wire/limits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bench.large_objects import (
    PREFERRED,
    STRANGE,
    Case,
    apart,
    budget,
    claim,
    container,
    keys,
    labels,
    lines,
    near,
    node_terms,
    node_with,
    owned,
    placed,
    pod_group,
    pod_term,
    preferred_terms,
    replica_set,
    required_terms,
    selecting_no_app,
    service,
    spread,
    spreading,
    storage_class,
    strange_pod,
    taints,
    tolerating,
    urgent,
    volume_with,
    with_claims,
    with_images,
    with_metadata,
    with_ports,
    with_resources,
)
from bench.workloads import HOSTNAME, ZONE
from trimtab.wire import limits


class Excess(NamedTuple):
    """How the objects are made, how many entries fit into 1.5 MB, and how many are evaluated (0: all of them)."""

    make: Callable[[int], Case]
    most: int
    evaluated: int = 0


ALL_PODS = {"matchExpressions": lines(["nobody"], "DoesNotExist")}
CASES: Mapping[str, Excess] = {
    "nodeSelector by keys that no node has": Excess(
        lambda n: [strange_pod(nodeSelector=labels(n))], 90_000, limits.MAX_NODE_SELECTOR
    ),
    "nodeSelector by the keys of one node": Excess(
        lambda n: [node_with(labels=labels(n)), strange_pod(nodeSelector=labels(n))], 90_000, limits.MAX_NODE_SELECTOR
    ),
    "node that lacks one label of a nodeSelector": Excess(
        lambda n: [strange_pod(nodeSelector=labels(n)), node_with(labels=labels(n - 1))],
        90_000,
        limits.MAX_NODE_SELECTOR,
    ),
    "node terms by keys that no node has": Excess(
        lambda n: [required_terms(*(lines([key]) for key in keys(n)))], 20_000, limits.MAX_NODE_REQUIREMENTS // 2
    ),
    "node terms by values that no node has": Excess(
        lambda n: [required_terms(*(lines([ZONE], "In", [key]) for key in keys(n)))],
        15_000,
        limits.MAX_NODE_REQUIREMENTS // 2,
    ),
    "node terms that contradict themselves": Excess(
        lambda n: [
            required_terms(*([*lines([ZONE], "NotIn", ["zone-0"]), *lines([ZONE], "In", ["zone-0"])] for _ in range(n)))
        ],
        8_000,
        limits.MAX_NODE_REQUIREMENTS // 3,
    ),
    "node term of lines that every node matches": Excess(
        lambda n: [required_terms(lines([ZONE] * n, "NotIn", ["nowhere"]))], 15_000, limits.MAX_NODE_REQUIREMENTS - 1
    ),
    "node term of numbers to compare": Excess(
        lambda n: [required_terms(lines([HOSTNAME] * n, "Gt", ["1"]))], 20_000, limits.MAX_NODE_REQUIREMENTS - 1
    ),
    "node term of many values": Excess(
        lambda n: [required_terms(lines([ZONE], "In", [*keys(n - 1), "zone-0"]))], 120_000, limits.MAX_NODE_VALUES
    ),
    "node terms by name": Excess(
        lambda n: [
            strange_pod(
                affinity=node_terms(
                    [{"matchFields": lines(["metadata.name"], "In", [f"node-{i:05d}"])} for i in range(n)]
                )
            )
        ],
        12_000,
        limits.MAX_NODE_REQUIREMENTS // 2,
    ),
    "preferred node terms that every node matches": Excess(
        lambda n: [preferred_terms(*(lines([ZONE]) for _ in range(n)))], 10_000, limits.MAX_NODE_REQUIREMENTS // 2
    ),
    "tolerations beside as many taints": Excess(
        lambda n: [node_with(taints=taints(n)), tolerating(n)], 25_000, limits.MAX_TOLERATIONS
    ),
    "taints beside as many tolerations": Excess(
        lambda n: [tolerating(n), node_with(taints=taints(n))], 25_000, limits.MAX_TOLERATIONS
    ),
    "spread by keys that no node has": Excess(
        lambda n: [spreading([spread(key, hard=True) for key in keys(n)])], 10_000, limits.MAX_SPREAD
    ),
    "soft spread by keys that no node has": Excess(
        lambda n: [spreading([spread(key, hard=False) for key in keys(n)])], 10_000, limits.MAX_SPREAD
    ),
    "spread by the keys of one node": Excess(
        lambda n: [node_with(labels=labels(n)), spreading([spread(key, hard=True) for key in keys(n)])],
        10_000,
        limits.MAX_SPREAD,
    ),
    "spread by a selector of many values": Excess(
        lambda n: [spreading([spread(ZONE, hard=True, matchExpressions=lines(["app"], "In", keys(n)))])],
        120_000,
        limits.MAX_SELECTOR_VALUES,
    ),
    "spread by a selector of many lines": Excess(
        lambda n: [spreading([spread(ZONE, hard=True, **selecting_no_app(n))])], 25_000, limits.MAX_SELECTOR_LINES
    ),
    "affinity by keys that no node has": Excess(
        lambda n: [near([pod_term(key) for key in keys(n)])], 15_000, limits.MAX_POD_TERMS
    ),
    "affinity to the pods of many apps": Excess(
        lambda n: [near([pod_term(ZONE, matchLabels={"app": key}) for key in keys(n)])], 12_000, limits.MAX_POD_TERMS
    ),
    "anti-affinity by the keys of one node": Excess(
        lambda n: [node_with(labels=labels(n)), apart([pod_term(key) for key in keys(n)])],
        15_000,
        limits.MAX_POD_TERMS,
    ),
    "anti-affinity to the pods of many apps": Excess(
        lambda n: [apart([pod_term(ZONE, matchLabels={"app": key}) for key in keys(n)])], 12_000, limits.MAX_POD_TERMS
    ),
    "anti-affinity to all pods, again and again": Excess(
        lambda n: [apart([pod_term(ZONE, matchExpressions=lines([key], "DoesNotExist")) for key in keys(n)])],
        10_000,
        limits.MAX_POD_TERMS,
    ),
    "anti-affinity by a selector of many lines": Excess(
        lambda n: [apart([pod_term(ZONE, **selecting_no_app(n))])], 25_000, limits.MAX_SELECTOR_LINES
    ),
    "anti-affinity in many namespaces": Excess(
        lambda n: [apart([{**pod_term(ZONE), "namespaces": keys(n)}])], 120_000, limits.MAX_SELECTOR_VALUES
    ),
    "preferred affinity to the pods of many apps": Excess(
        lambda n: [near([pod_term(HOSTNAME, matchLabels={"app": key}) for key in keys(n)], PREFERRED)],
        10_000,
        limits.MAX_POD_TERMS,
    ),
    "running pod with anti-affinity by many keys": Excess(
        lambda n: [placed(apart([pod_term(key, **ALL_PODS) for key in keys(n)]))], 10_000, limits.MAX_POD_TERMS
    ),
    "running pod with anti-affinity to many apps": Excess(
        lambda n: [placed(apart([pod_term(ZONE, matchExpressions=lines([key])) for key in keys(n)]))],
        10_000,
        limits.MAX_POD_TERMS,
    ),
    "running pod that prefers the keys of one node": Excess(
        lambda n: [
            node_with(labels=labels(n)),
            placed(near([pod_term(key, **ALL_PODS) for key in keys(n)], PREFERRED)),
        ],
        10_000,
        limits.MAX_POD_TERMS,
    ),
    "containers": Excess(
        lambda n: [strange_pod(containers=[container(i) for i in range(n)])], 40_000, limits.MAX_CONTAINERS
    ),
    "host ports": Excess(lambda n: [with_ports(n)], 30_000, limits.MAX_PORTS),
    "host ports of a running pod": Excess(lambda n: [placed(with_ports(n)), with_ports(n)], 30_000, limits.MAX_PORTS),
    "requested resources": Excess(lambda n: [with_resources(n)], 25_000, limits.MAX_RESOURCES),
    "requested resources of a running pod": Excess(lambda n: [placed(with_resources(n))], 25_000),
    "claims that do not exist": Excess(lambda n: [with_claims(*keys(n))], 15_000, limits.MAX_VOLUMES),
    "disks": Excess(
        lambda n: [strange_pod(volumes=[{"name": key, "gcePersistentDisk": {"pdName": key}} for key in keys(n)])],
        20_000,
        limits.MAX_VOLUMES,
    ),
    "labels of a pod": Excess(lambda n: [strange_pod(labels=labels(n))], 90_000, limits.MAX_LABELS),
    "labels of a running pod": Excess(lambda n: [placed(strange_pod(labels=labels(n)))], 90_000),
    "owners": Excess(
        lambda n: [
            with_metadata(
                strange_pod(),
                ownerReferences=[{"apiVersion": "v1", "kind": "Job", "name": key, "uid": key} for key in keys(n)],
            )
        ],
        20_000,
    ),
    "scheduling gates": Excess(lambda n: [strange_pod(schedulingGates=[{"name": key} for key in keys(n)])], 60_000),
    "urgent pod with soft spread": Excess(
        lambda n: [urgent(spreading([spread(key, hard=False) for key in keys(n)]))], 10_000, limits.MAX_SPREAD
    ),
    "urgent pod with anti-affinity": Excess(
        lambda n: [urgent(apart([pod_term(ZONE, matchLabels={"app": key}) for key in keys(n)]))],
        12_000,
        limits.MAX_POD_TERMS,
    ),
    "labels of a node": Excess(lambda n: [node_with(labels=labels(n))], 90_000),
    "soft taints of a node": Excess(lambda n: [node_with(taints=taints(n, "PreferNoSchedule"))], 25_000),
    "images of a node": Excess(lambda n: [with_images(node_with(), n)], 20_000),
    "resources of a node": Excess(
        lambda n: [node_with(extended={f"example.com/{key}": "1" for key in keys(n)})], 25_000
    ),
    "annotations of a node": Excess(
        lambda n: [with_metadata(node_with(), annotations=dict.fromkeys(keys(n), "v" * 100))], 12_000
    ),
    "node terms of a volume": Excess(
        lambda n: [
            storage_class(),
            volume_with([{"matchExpressions": lines([ZONE], "In", [key])} for key in keys(n)]),
            claim(),
            with_claims(STRANGE),
        ],
        15_000,
        limits.MAX_NODE_REQUIREMENTS // 2,
    ),
    "selector of a claim": Excess(
        lambda n: [storage_class(), volume_with([]), claim(selector=selecting_no_app(n)), with_claims(STRANGE)],
        25_000,
        limits.MAX_SELECTOR_LINES,
    ),
    "lines of a disruption budget": Excess(
        lambda n: [budget(**selecting_no_app(n)), urgent(strange_pod())], 25_000, limits.MAX_SELECTOR_LINES
    ),
    "labels of a disruption budget": Excess(
        lambda n: [budget(matchLabels=labels(n)), urgent(strange_pod())], 90_000, limits.MAX_SELECTOR_LINES
    ),
    "labels of a service": Excess(lambda n: [service(labels(n)), strange_pod()], 90_000, limits.MAX_SELECTOR_LINES),
    "lines of a replica set": Excess(
        lambda n: [replica_set(**selecting_no_app(n)), owned(strange_pod())], 25_000, limits.MAX_SELECTOR_LINES
    ),
    "resources of a pod group": Excess(
        lambda n: [pod_group(n), strange_pod(labels={"scheduling.x-k8s.io/pod-group": STRANGE})],
        40_000,
        limits.MAX_RESOURCES,
    ),
}


def cases() -> Iterator[tuple[str, Case]]:
    """All cases, beyond the limits and within them."""
    for name, each in CASES.items():
        for count in {each.most, each.evaluated} - {0}:
            yield f"{name}: {count:,}", each.make(count)
