"""Counts everything again from the objects and says where the columns differ; repairs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.pod_table import NO_ROW, PodTable
from trimtab.core.cluster.topology.recount import miscounted
from trimtab.core.model.resources import MAX_AMOUNT


def check_invariants(cluster: Cluster) -> list[str]:
    """Sentences, one for each cell that is not what a fresh count gives; none when all is well."""
    parts = (
        _check_placements(cluster),
        _check_pod_table(cluster),
        _check_topology_counts(cluster),
        _check_load(cluster),
        _check_node_table(cluster),
    )
    return [*_check_rows(cluster.node_table), *(fault for part in parts for fault in part)]


def _check_rows(columns: NodeTable) -> Iterator[str]:
    for row, node in enumerate(columns.nodes):
        if columns.row.get(node.name) != row:
            yield f"node {node.name} stands in row {row} but is looked up in {columns.row.get(node.name)}"
    if len(columns.row) != len(columns.nodes):
        yield f"{len(columns.row)} names for {len(columns.nodes)} nodes"


def _check_placements(cluster: Cluster) -> Iterator[str]:
    for uid, place in cluster.placements.items():
        if cluster.on_node.get(place.node, {}).get(uid) is not place.pod:
            yield f"pod {uid} is placed on {place.node} but not among its pods"
        if uid not in cluster.pods:
            yield f"pod {uid} is placed on {place.node} but not known"
        elif not place.assumed and cluster.pods[uid] is not place.pod:
            yield f"pod {uid} is held on {place.node} as it was, not as it is"
    for node, pods in cluster.on_node.items():
        for uid in pods:
            if uid not in cluster.placements or cluster.placements[uid].node != node:
                yield f"pod {uid} is among the pods of {node} but not placed there"
    for uid, pod in cluster.pods.items():
        if pod.holds_resources and (uid not in cluster.placements or cluster.placements[uid].node != pod.node):
            yield f"pod {uid} runs on {pod.node} but does not count there"
    for uid, pod in cluster.nominated.items():
        if cluster.pods.get(uid) is not pod:
            yield f"pod {uid} is nominated to {pod.nominated_node} as it was, not as it is"


def _check_pod_table(cluster: Cluster) -> Iterator[str]:
    residents = cluster.pod_table
    if residents.slot.keys() != cluster.placements.keys():
        yield f"slots for {sorted(residents.slot)}, places for {sorted(cluster.placements)}"
        return
    fresh = PodTable()
    for place in cluster.placements.values():
        fresh.add_pod(place.pod, cluster.node_table.row.get(place.node, NO_ROW))
    for uid, slot in residents.slot.items():
        ours, theirs = _pod_row(residents, slot), _pod_row(fresh, fresh.slot[uid])
        if ours != theirs:
            yield f"pod {uid} stands in its slot as {ours}, counted {theirs}"
    if int((residents.row != NO_ROW).sum()) != int((fresh.row != NO_ROW).sum()):
        yield "a slot without a pod has a row"


def _check_topology_counts(cluster: Cluster) -> Iterator[str]:
    return miscounted(cluster.topology_counts, cluster.node_table, cluster.pod_table)


def _check_load(cluster: Cluster) -> Iterator[str]:
    load, residents = cluster.load, cluster.pod_table
    standing = {uid: load.placed_pods.row.item(slot) for uid, slot in residents.slot.items()}
    if load.rows != len(cluster.node_table) or int(load.placed_pods.taken.sum()) != len(standing):
        yield f"load is kept for {load.rows} nodes and {int(load.placed_pods.taken.sum())} pods"
    for uid, row in standing.items():
        if row != residents.row.item(residents.slot[uid]):
            yield f"load of pod {uid} is counted in row {row}"
    yield from load.miscounted()


def _pod_row(residents: PodTable, slot: int) -> tuple[object, ...]:
    asked = sorted((name, int(column[slot])) for name, column in residents.requested.items() if column[slot])
    columns = (residents.row, residents.live, residents.priority, residents.started)
    kind = residents.label_sets.sets[residents.label_class[slot]]
    terms = [
        residents.affinity_terms.terms[number] for number in residents.affinity_terms.term_sets[residents.carrier[slot]]
    ]
    return residents.pods[slot], kind, terms, *(column.item(slot) for column in columns), asked


def _check_node_table(cluster: Cluster) -> Iterator[str]:
    fresh = _recount(cluster)
    columns = cluster.node_table
    for label, held, counted in (
        ("allocatable", columns.allocatable, fresh.allocatable),
        ("requested", columns.requested, fresh.requested),
        ("limited", columns.limits, fresh.limits),
    ):
        for resource in held.keys() | counted.keys():
            for node in columns.nodes:
                ours = held[resource].exact[columns.row[node.name]] if resource in held else 0
                theirs = counted[resource].exact[fresh.row[node.name]] if resource in counted else 0
                cell = int(held[resource].array[columns.row[node.name]]) if resource in held else 0
                if ours != theirs or cell != min(ours, MAX_AMOUNT):
                    yield f"{label} {resource} of {node.name} is {ours} ({cell} in its cell), counted {theirs}"
    yield from _check_row_details(columns, fresh)


def _check_row_details(columns: NodeTable, fresh: NodeTable) -> Iterator[str]:
    for node in columns.nodes:
        row, other = columns.row[node.name], fresh.row[node.name]
        for name in ("pod_count", "unschedulable", "name_hash"):
            ours, theirs = getattr(columns, name)[row], getattr(fresh, name)[other]
            if ours != theirs:
                yield f"{name} of {node.name} is {ours}, counted {theirs}"
        if columns.nonzero_cpu.exact[row] != fresh.nonzero_cpu.exact[other]:
            yield f"scored cpu of {node.name} is {columns.nonzero_cpu.exact[row]}"
        if columns.nonzero_memory.exact[row] != fresh.nonzero_memory.exact[other]:
            yield f"scored memory of {node.name} is {columns.nonzero_memory.exact[row]}"
        if list(columns.taint_sets)[columns.taint_set[row]] != node.taints:
            yield f"taints of {node.name} point at the wrong set"
        for key, column in columns.labels.columns.items():
            if column.values[column.ids[row]] != node.labels.get(key):
                yield f"label {key} of {node.name} is {column.values[column.ids[row]]}"
        if columns.volume_usage.attachable[row] != fresh.volume_usage.attachable[other]:
            yield f"volumes of {node.name} are {columns.volume_usage.attachable[row]}"
        if _ports(columns, row) != _ports(fresh, other):
            yield f"ports of {node.name} are {_ports(columns, row)}, counted {_ports(fresh, other)}"
    for name in ("pods", "claims", "disks"):
        if getattr(columns.volume_usage, name) != getattr(fresh.volume_usage, name):
            yield f"{name} with volumes differ from a fresh count"
    if columns.images != fresh.images:
        yield "images differ from a fresh count"
    for image, (rows, sizes) in columns.image_columns.items():
        held = {columns.nodes[row].name: size for row, size in zip(rows.tolist(), sizes.tolist(), strict=True)}
        if held != columns.images.get(image):
            yield f"cells of the image {image} are {held}"


def _ports(columns: NodeTable, row: int) -> dict[tuple[str, int, str], int]:
    return {
        (*key, address): int(counts[row])
        for key, by_address in columns.host_ports.taken.items()
        for address, counts in by_address.items()
        if counts[row]
    }


def _recount(cluster: Cluster) -> NodeTable:
    fresh = NodeTable()
    for node in cluster.node_table.nodes:
        fresh.add_node(node)
    for place in cluster.placements.values():
        fresh.add_pod(place.node, place.pod)
    return fresh
