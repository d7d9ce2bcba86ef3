"""Checks that the cluster's tables, counts and sums agree with its objects, by computing all of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.pod_table import NO_ROW, PodTable
from trimtab.core.cluster.topology.pod_count import Domains, PodCount
from trimtab.core.load.pod_usage import SUMMED
from trimtab.core.load.store import LoadStore
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.tables import Floats


def check_invariants(cluster: Cluster) -> list[str]:
    """One sentence for each value that differs from a fresh computation; empty if everything agrees."""
    checks = (_check_placements, _check_pod_table, _check_topology_counts, _check_load, _check_node_table)
    return [*_check_rows(cluster.node_table), *(error for check in checks for error in check(cluster))]


def _check_rows(table: NodeTable) -> Iterator[str]:
    for row, node in enumerate(table.nodes):
        if table.row.get(node.name) != row:
            yield f"node {node.name} is in row {row} but is looked up in {table.row.get(node.name)}"
    if len(table.row) != len(table.nodes):
        yield f"{len(table.row)} names for {len(table.nodes)} nodes"


def _check_placements(cluster: Cluster) -> Iterator[str]:
    for uid, placement in cluster.placements.items():
        if cluster.on_node.get(placement.node, {}).get(uid) is not placement.pod:
            yield f"pod {uid} is placed on {placement.node} but not among its pods"
        if uid not in cluster.pods:
            yield f"pod {uid} is placed on {placement.node} but not known"
        elif not placement.assumed and cluster.pods[uid] is not placement.pod:
            yield f"pod {uid} is placed on {placement.node} in an outdated version"
    for node, pods in cluster.on_node.items():
        for uid in pods:
            if uid not in cluster.placements or cluster.placements[uid].node != node:
                yield f"pod {uid} is among the pods of {node} but not placed there"
    for uid, pod in cluster.pods.items():
        if pod.holds_resources and (uid not in cluster.placements or cluster.placements[uid].node != pod.node):
            yield f"pod {uid} runs on {pod.node} but does not count there"
    for uid, pod in cluster.nominated.items():
        if cluster.pods.get(uid) is not pod:
            yield f"pod {uid} is nominated to {pod.nominated_node} in an outdated version"


# --- pods


def _check_pod_table(cluster: Cluster) -> Iterator[str]:
    table = cluster.pod_table
    if table.slot.keys() != cluster.placements.keys():
        yield f"slots for {sorted(table.slot)}, placements for {sorted(cluster.placements)}"
        return
    fresh = PodTable()
    for placement in cluster.placements.values():
        fresh.add_pod(placement.pod, cluster.node_table.row.get(placement.node, NO_ROW))
    for uid, slot in table.slot.items():
        held, computed = _pod_row(table, slot), _pod_row(fresh, fresh.slot[uid])
        if held != computed:
            yield f"pod {uid} is in its slot as {held}, computed {computed}"
    if int((table.row != NO_ROW).sum()) != int((fresh.row != NO_ROW).sum()):
        yield "a slot without a pod has a row"


def _pod_row(table: PodTable, slot: int) -> tuple[object, ...]:
    requested = sorted((name, int(amounts[slot])) for name, amounts in table.requested.items() if amounts[slot])
    columns = (table.row, table.not_terminating, table.priority, table.started)
    labels = table.label_sets.sets[table.label_set[slot]]
    terms = [table.affinity_terms.terms[number] for number in table.affinity_terms.term_sets[table.term_set[slot]]]
    return table.pods[slot], labels, terms, *(values.item(slot) for values in columns), requested


# --- topology counts


def _check_topology_counts(cluster: Cluster) -> Iterator[str]:
    counts, nodes, pods = cluster.topology_counts, cluster.node_table, cluster.pod_table
    for count in counts.counts:
        counts.refresh(count)
        if count.weight != count.weigh(0):
            yield f"a count by {count.column} has the weights {count.weight}, computed {count.weigh(0)}"
        rows = _count_by_row(count, nodes, pods)
        if count.rows.tolist() != rows:
            yield f"a count by {count.column} is {count.rows.tolist()}, computed {rows}"
        for domains in count.domains:
            yield from _check_domains(domains, nodes, rows)


def _count_by_row(count: PodCount, nodes: NodeTable, pods: PodTable) -> list[float]:
    rows = [0.0] * len(nodes)
    ids = pods.label_sets if count.column == "label_set" else pods.affinity_terms
    for slot in pods.slot.values():
        pod = pods.pods[slot]
        if pod is not None and pod.node in nodes.row and not (count.skip_terminating and pod.terminating):
            rows[nodes.row[pod.node]] += count.weight.get(ids.id_of(pod), 0)
    return rows


def _check_domains(domains: Domains, nodes: NodeTable, rows: list[float]) -> Iterator[str]:
    key, eligible = domains.key, domains.eligible
    sums: Counter[str | None] = Counter()
    for row, node in enumerate(nodes.nodes):
        if eligible is None or eligible[row]:
            sums[node.labels.get(key.name)] += rows[row]  # type: ignore[assignment]
    for row, node in enumerate(nodes.nodes):
        value = node.labels.get(key.name)
        held = domains.at_rows(slice(row, row + 1)).item()
        if value is not None and held != sums[value]:
            yield f"the domain {key.name}={value} has {held}, computed {sums[value]}"
    total = sum(number for value, number in sums.items() if value is not None)
    if domains.total != total:
        yield f"all domains of {key.name} have {domains.total}, computed {total}"


# --- load


def _check_load(cluster: Cluster) -> Iterator[str]:
    store, pods = cluster.load_store, cluster.pod_table
    in_use = int(store.placed_pods.in_use.sum())
    if store.rows != len(cluster.node_table) or in_use != len(pods.slot):
        yield f"load has {store.rows} nodes and {in_use} pods"
    for uid, slot in pods.slot.items():
        if store.placed_pods.row.item(slot) != pods.row.item(slot):
            yield f"load of pod {uid} is counted in row {store.placed_pods.row.item(slot)}"
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


# --- nodes


def _check_node_table(cluster: Cluster) -> Iterator[str]:
    table, fresh = cluster.node_table, _fresh_node_table(cluster)
    for label, held, computed in (
        ("allocatable", table.allocatable, fresh.allocatable),
        ("requested", table.requested, fresh.requested),
        ("limits", table.limits, fresh.limits),
    ):
        for resource in held.keys() | computed.keys():
            for node in table.nodes:
                ours = held[resource].exact[table.row[node.name]] if resource in held else 0
                theirs = computed[resource].exact[fresh.row[node.name]] if resource in computed else 0
                cell = int(held[resource].array[table.row[node.name]]) if resource in held else 0
                if ours != theirs or cell != min(ours, MAX_AMOUNT):
                    yield f"{label} {resource} of {node.name} is {ours} ({cell} in its cell), computed {theirs}"
    for node in table.nodes:
        yield from _check_row_details(table, fresh, node.name)
    yield from _check_images_and_volumes(table, fresh)


def _check_row_details(table: NodeTable, fresh: NodeTable, name: str) -> Iterator[str]:
    row, other = table.row[name], fresh.row[name]
    node = table.nodes[row]
    for column in ("pod_count", "unschedulable", "name_hash"):
        ours, theirs = getattr(table, column)[row], getattr(fresh, column)[other]
        if ours != theirs:
            yield f"{column} of {name} is {ours}, computed {theirs}"
    for column in ("nonzero_cpu", "nonzero_memory"):
        ours, theirs = getattr(table, column).exact[row], getattr(fresh, column).exact[other]
        if ours != theirs:
            yield f"{column} of {name} is {ours}, computed {theirs}"
    if list(table.taint_sets)[table.taint_set[row]] != node.taints:
        yield f"taints of {name} point at the wrong set"
    for key, labels in table.labels.columns.items():
        if labels.values[labels.ids[row]] != node.labels.get(key):
            yield f"label {key} of {name} is {labels.values[labels.ids[row]]}"
    if table.volume_usage.attachable[row] != fresh.volume_usage.attachable[other]:
        yield f"volumes of {name} are {table.volume_usage.attachable[row]}"
    if _ports(table, row) != _ports(fresh, other):
        yield f"ports of {name} are {_ports(table, row)}, computed {_ports(fresh, other)}"


def _check_images_and_volumes(table: NodeTable, fresh: NodeTable) -> Iterator[str]:
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
        (*key, address): int(counts[row])
        for key, by_address in table.host_ports.taken.items()
        for address, counts in by_address.items()
        if counts[row]
    }


def _fresh_node_table(cluster: Cluster) -> NodeTable:
    fresh = NodeTable()
    for node in cluster.node_table.nodes:
        fresh.add_node(node)
    for placement in cluster.placements.values():
        fresh.add_pod(placement.node, placement.pod)
    return fresh
