"""Checks that the cluster's tables, counts and sums agree with its objects, by computing all of them again.

That takes seconds in a large cluster, so a live process checks in slices: some nodes (`check_nodes`), some pods
(`check_pods`) or one of `CLUSTER_CHECKS` at a time. Each slice compares what is there at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.pod_count import Domains, PodCount
from trimtab.core.load.pod_usage import SUMMED
from trimtab.core.load.store import LoadStore
from trimtab.core.model.node import Node
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.tables import NO_ROW, Floats

MAX_NAMED = 10  # pods in one sentence


def check_invariants(cluster: Cluster) -> list[str]:
    """One sentence for each value that differs from a fresh computation; empty if everything agrees."""
    checks = (*CLUSTER_CHECKS, _check_weights, _check_images_and_volumes)
    whole = [error for check in checks for error in check(cluster)]
    return [*whole, *check_pods(cluster, pod_uids(cluster)), *check_nodes(cluster, node_names(cluster))]


def node_names(cluster: Cluster) -> list[str]:
    """All nodes, and those that pods are bound to although they do not exist."""
    return [*cluster.node_table.row, *(name for name in cluster.on_node if name not in cluster.node_table.row)]


def pod_uids(cluster: Cluster) -> list[str]:
    """All pods, and those that have a placement or a nomination although they do not exist."""
    return [*(cluster.pods | cluster.placements | cluster.nominated)]


def check_nodes(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """What concerns these nodes and the pods on them alone."""
    checks = (_check_pods_on, _check_slots, _check_topology_counts, _check_node_table)
    return [error for check in checks for error in check(cluster, names)]


# --- the whole cluster


def _check_rows(cluster: Cluster) -> Iterator[str]:
    table = cluster.node_table
    for row, node in enumerate(table.nodes):
        if table.row.get(node.name) != row:
            yield f"node {node.name} is in row {row} but is looked up in {table.row.get(node.name)}"
    if len(table.row) != len(table.nodes):
        yield f"{len(table.row)} names for {len(table.nodes)} nodes"


def _check_slot_count(cluster: Cluster) -> Iterator[str]:
    table, placements = cluster.pod_table, cluster.placements
    if table.slot.keys() != placements.keys():
        differ = sorted(table.slot.keys() ^ placements.keys())[:MAX_NAMED]
        yield f"slots for {len(table.slot)} pods, placements for {len(placements)}; only one of both has {differ}"
        return
    rows = cluster.node_table.row
    if int((table.row != NO_ROW).sum()) != sum(placement.node in rows for placement in placements.values()):
        yield "a slot without a pod has a row"


# --- pods


def check_pods(cluster: Cluster, uids: Sequence[str]) -> list[str]:
    """What concerns these pods alone."""
    checks = (_check_placements, _check_nominations, _check_load_rows)
    return [error for check in checks for error in check(cluster, uids)]


def _check_placements(cluster: Cluster, uids: Sequence[str]) -> Iterator[str]:
    for uid in uids:
        pod, placement = cluster.pods.get(uid), cluster.placements.get(uid)
        if pod is not None and pod.holds_resources and (placement is None or placement.node != pod.node):
            yield f"pod {uid} runs on {pod.node} but does not count there"
        if placement is None:
            continue
        if cluster.on_node.get(placement.node, {}).get(uid) is not placement.pod:
            yield f"pod {uid} is placed on {placement.node} but not among its pods"
        if pod is None:
            yield f"pod {uid} is placed on {placement.node} but not known"
        elif not placement.assumed and pod is not placement.pod:
            yield f"pod {uid} is placed on {placement.node} in an outdated version"


def _check_nominations(cluster: Cluster, uids: Sequence[str]) -> Iterator[str]:
    for uid in uids if cluster.nominated else ():
        nominated = cluster.nominated.get(uid)
        if nominated is not None and cluster.pods.get(uid) is not nominated:
            yield f"pod {uid} is nominated to {nominated.nominated_node} in an outdated version"


def _check_load_rows(cluster: Cluster, uids: Sequence[str]) -> Iterator[str]:
    load, pods = cluster.load_store.placed_pods, cluster.pod_table
    for slot, uid in ((pods.slot[uid], uid) for uid in uids if uid in pods.slot):
        if load.row.item(slot) != pods.row.item(slot):
            yield f"load of pod {uid} is counted in row {load.row.item(slot)}"


def _check_pods_on(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        for uid in cluster.on_node.get(name, ()):
            if uid not in cluster.placements or cluster.placements[uid].node != name:
                yield f"pod {uid} is among the pods of {name} but not placed there"


def _check_slots(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    table, fresh = cluster.pod_table, PodTable()
    for name in names:
        for uid, pod in cluster.on_node.get(name, {}).items():
            if uid not in table.slot:
                continue  # the number of slots differs, too
            slot = fresh.add_pod(pod, cluster.node_table.row.get(name, NO_ROW))
            held, computed = _pod_row(table, table.slot[uid]), _pod_row(fresh, slot)
            if held != computed:
                yield f"pod {uid} is in its slot as {held}, computed {computed}"


def _pod_row(table: PodTable, slot: int) -> tuple[object, ...]:
    requested = sorted((name, each.exact[slot]) for name, each in table.requested.items() if slot in each.exact)
    columns = (table.row, table.not_terminating, table.priority, table.started)
    labels = table.label_sets.sets[table.label_set[slot]]
    terms = [table.affinity_terms.terms[number] for number in table.affinity_terms.term_sets[table.term_set[slot]]]
    return table.pods[slot], labels, terms, *(values.item(slot) for values in columns), requested


# --- topology counts


def _check_topology_counts(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    counts, nodes = cluster.topology_counts, cluster.node_table
    known = [name for name in names if name in nodes.row]
    rows = [nodes.row[name] for name in known]
    for count in counts.counts:
        counts.refresh(count)
        by_row, computed = count.rows.copy(), [_count_on(cluster, count, name) for name in known]
        if (held := by_row[rows].tolist()) != computed:
            yield f"a count by {count.column} is {held}, computed {computed}"
        by_row[rows] = computed
        for domains in count.domains:
            yield from _check_domains(domains, nodes, by_row)


def _count_on(cluster: Cluster, count: PodCount, name: str) -> float:
    ids = cluster.pod_table.label_sets if count.column == "label_set" else cluster.pod_table.affinity_terms
    pods = [pod for pod in cluster.on_node.get(name, {}).values() if not (count.skip_terminating and pod.terminating)]
    return float(sum(count.weight.get(ids.id_of(pod), 0) for pod in pods))


def _check_domains(domains: Domains, nodes: NodeTable, by_row: Floats) -> Iterator[str]:
    key, fresh = domains.key, Domains(by_row, domains.key, domains.eligible)
    held, computed = domains.at_rows(slice(None)), fresh.at_rows(slice(None))
    for row in np.flatnonzero((held != computed) & key.present).tolist():
        value = nodes.nodes[row].labels.get(key.name)
        yield f"the domain {key.name}={value} has {held[row]}, computed {computed[row]}"
    if domains.total != fresh.total:
        yield f"all domains of {key.name} have {domains.total}, computed {fresh.total}"


def _check_weights(cluster: Cluster) -> Iterator[str]:
    for count in cluster.topology_counts.counts:
        cluster.topology_counts.refresh(count)
        if count.weight != count.weigh(0):
            yield f"a count by {count.column} has the weights {count.weight}, computed {count.weigh(0)}"


# --- load


def _check_load(cluster: Cluster) -> Iterator[str]:
    store, pods = cluster.load_store, cluster.pod_table
    in_use = int(store.placed_pods.in_use.sum())
    if store.rows != len(cluster.node_table) or in_use != len(pods.slot):
        yield f"load has {store.rows} nodes and {in_use} pods"
    yield from check_load_sums(store)


def check_load_sums(store: LoadStore) -> Iterator[str]:
    """Contributions of pods, and the sums by row."""
    slots = np.flatnonzero(store.placed_pods.in_use)
    for name, accounting in store.accounting.items():
        amount = 1e-9 * accounting.precision_limit
        variance = 100 * amount**2
        slack = np.array([amount, variance, amount, variance, amount, amount, amount])[:, np.newaxis]
        held = np.array([getattr(accounting.pods, line)[slots] for line in (*SUMMED, "in_node_sample")])
        fresh = np.array(accounting.account_all(slots, store.placed_pods))
        if _differ(held, fresh, slack):
            yield f"pods contribute {held.tolist()} in {name}, computed {fresh.tolist()}"
        held = np.array([getattr(accounting.totals, line) for line in SUMMED])
        fresh = np.array(accounting.sums_by_row(slots, store.placed_pods, store.terminated_pods))
        if _differ(held, fresh, slack[:-1]):
            yield f"load of {name} is {held.tolist()} by row, computed {fresh.tolist()}"


def _differ(held: Floats, fresh: Floats, slack: Floats) -> bool:
    """By more than the order of summation and past subtractions explain; NaN always differs."""
    return not bool((np.abs(held - fresh) <= slack + 1e-6 * np.abs(fresh)).all())


CLUSTER_CHECKS: tuple[Callable[[Cluster], Iterable[str]], ...] = (
    _check_rows,
    _check_slot_count,
    _check_load,
)


# --- nodes


def _check_node_table(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    table = cluster.node_table
    nodes = [table.nodes[table.row[name]] for name in names if name in table.row]
    fresh, taint_sets = _fresh_node_table(cluster, nodes), list(table.taint_sets)
    for label, held, computed in (
        ("allocatable", table.allocatable, fresh.allocatable),
        ("requested", table.requested, fresh.requested),
        ("limits", table.limits, fresh.limits),
    ):
        for resource in held.keys() | computed.keys():
            for node in nodes:
                ours = held[resource].exact.get(table.row[node.name], 0) if resource in held else 0
                theirs = computed[resource].exact.get(fresh.row[node.name], 0) if resource in computed else 0
                cell = int(held[resource].array[table.row[node.name]]) if resource in held else 0
                if ours != theirs or cell != min(ours, MAX_AMOUNT):
                    yield f"{label} {resource} of {node.name} is {ours} ({cell} in its cell), computed {theirs}"
    if table.labels.nodes_with_key != Counter(key for node in table.nodes for key in node.labels):
        yield "the numbers of nodes with each label key differ from a fresh count"
    for node in nodes:
        if taint_sets[table.taint_set[table.row[node.name]]] != node.taints:
            yield f"taints of {node.name} point at the wrong set"
        yield from _check_row_details(table, fresh, node.name)


def _check_row_details(table: NodeTable, fresh: NodeTable, name: str) -> Iterator[str]:
    row, other = table.row[name], fresh.row[name]
    node = table.nodes[row]
    for column in ("pod_count", "unschedulable", "name_hash"):
        ours, theirs = getattr(table, column)[row], getattr(fresh, column)[other]
        if ours != theirs:
            yield f"{column} of {name} is {ours}, computed {theirs}"
    for column in ("nonzero_cpu", "nonzero_memory"):
        ours, theirs = getattr(table, column).exact.get(row, 0), getattr(fresh, column).exact.get(other, 0)
        if ours != theirs:
            yield f"{column} of {name} is {ours}, computed {theirs}"
    for key, labels in table.labels.columns.items():
        if labels.values[labels.ids[row]] != node.labels.get(key):
            yield f"label {key} of {name} is {labels.values[labels.ids[row]]}"
    if table.volume_usage.attachable[row] != fresh.volume_usage.attachable[other]:
        yield f"volumes of {name} are {table.volume_usage.attachable[row]}"
    if _ports(table, row) != _ports(fresh, other):
        yield f"ports of {name} are {_ports(table, row)}, computed {_ports(fresh, other)}"


def _check_images_and_volumes(cluster: Cluster) -> Iterator[str]:
    table, fresh = cluster.node_table, _fresh_node_table(cluster, cluster.node_table.nodes)
    for name in cluster.on_node.keys() - table.row.keys():  # volumes of these count, too
        for pod in cluster.on_node[name].values():
            fresh.add_pod(name, pod)
    for name in ("pods", "claims", "disks"):
        if getattr(table.volume_usage, name) != getattr(fresh.volume_usage, name):
            yield f"{name} with volumes differ from a fresh count"
    if table.images != fresh.images:
        yield "images differ from a fresh count"
    for image, (rows, sizes) in table.image_columns.items():
        held = {table.nodes[row].name: size for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)}
        if held != table.images.get(image):
            yield f"columns of the image {image} are {held}"


def _ports(table: NodeTable, row: int) -> dict[tuple[str, int, str], int]:
    return {
        (*key, address): counts[row]
        for key, by_address in table.host_ports.taken.items()
        for address, counts in by_address.items()
        if row in counts
    }


def _fresh_node_table(cluster: Cluster, nodes: Iterable[Node]) -> NodeTable:
    fresh = NodeTable()
    for node in nodes:
        fresh.add_node(node)
        for pod in cluster.on_node.get(node.name, {}).values():
            fresh.add_pod(node.name, pod)
    return fresh
