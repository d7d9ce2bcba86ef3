"""Which nodes can reach a volume, and where CSI drivers have capacity for new ones.

Rows are cached by selector until a node is added, removed or relabelled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_selection import matching_any
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools
from trimtab.core.framework.volumes import migrated_nodes
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement
from trimtab.core.model.storage import (
    NO_PROVISIONER,
    CsiDriver,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

Indices = NDArray[np.intp]
Terms = tuple[NodeSelectorTerm, ...] | None


def labels_version(view: View) -> tuple[int, int]:
    """Changes whenever row numbers or node labels do."""
    return view.node_table.epoch, view.node_table.label_changes


def rows_of(view: View, terms: tuple[NodeSelectorTerm, ...]) -> Indices:
    """Rows of the nodes that the terms select."""
    return view.objects.cached(terms, labels_version(view), lambda: np.flatnonzero(matching_any(view, terms)))


class ReachabilityCache:
    """Rows by volume name; equal terms share one array, so its identity stands for the set of nodes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._all_rows = np.arange(view.count)
        cached: dict[str, tuple[Terms, Indices]] = view.objects.cached("reaches", labels_version(view), dict)
        self._rows_by_volume = cached

    def of(self, volume: PersistentVolume) -> Indices:
        if volume.terms is None:
            return self._all_rows
        cached = self._rows_by_volume.get(volume.name)
        if cached is None or cached[0] is not volume.terms:  # comparing by value would cost more than all the rest
            cached = self._rows_by_volume[volume.name] = (volume.terms, rows_of(self._view, volume.terms))
        return cached[1]


def reachable_nodes(view: View, volume: PersistentVolume) -> Bools | None:
    """The nodes that can use the volume; None for all of them."""
    nodes = None if volume.terms is None else _mask(view, rows_of(view, volume.terms))
    if not volume.in_tree or volume.migrated_terms == volume.terms:
        return nodes
    migrated = migrated_nodes(view, volume.in_tree)
    if not migrated.any():
        return nodes
    migrated_to = None if volume.migrated_terms is None else _mask(view, rows_of(view, volume.migrated_terms))
    all_nodes = np.ones(view.count, dtype=np.bool_)
    return np.where(migrated, all_nodes if migrated_to is None else migrated_to, all_nodes if nodes is None else nodes)


def is_dynamic(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def allowed_nodes(view: View, storage_class: StorageClass) -> Bools | None:
    """The nodes of the class's allowedTopologies; None for all of them."""
    return _mask(view, rows_of(view, storage_class.allowed_topologies)) if storage_class.allowed_topologies else None


def nodes_with_capacity(view: View, storage_class: StorageClass, claim: PersistentVolumeClaim) -> Bools | None:
    """The nodes for which the driver reports enough capacity; None where capacity is not tracked."""
    driver = view.objects.of_kind(CsiDriver).get(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.tracks_capacity:
        return None
    rows, largest = capacities(view, storage_class.name)
    return _mask(view, rows[largest >= claim.requested])


def capacities(view: View, storage_class: str) -> tuple[Indices, NDArray[np.int64]]:
    """The capacity that drivers report for the class: rows, and the largest volume that each could get."""

    def listed() -> tuple[Indices, NDArray[np.int64]]:
        reported = view.objects.by_index(CsiStorageCapacity, "storage_class").get(storage_class, {}).values()
        with_size = [
            (_selected(view, each.topology), each.max_volume_size)
            for each in reported
            if each.max_volume_size is not None
        ]
        if not with_size:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        sizes = np.repeat(np.array([size for _, size in with_size]), [len(rows) for rows, _ in with_size])
        return np.concatenate([rows for rows, _ in with_size]), sizes

    stamp = (*labels_version(view), view.objects.generation(CsiStorageCapacity))
    return view.objects.cached(("capacities", storage_class), stamp, listed)


def _selected(view: View, selector: LabelSelector | None) -> Indices:
    """Rows of the nodes that a label selector matches: none without one, all with an empty one."""
    if selector is None or not selector.valid:
        return np.zeros(0, dtype=np.intp)
    if selector.empty:
        return np.arange(view.count)
    equal: Sequence[Requirement] = [Requirement(key, "In", (value,)) for key, value in selector.match_labels]
    return rows_of(view, (NodeSelectorTerm((*equal, *selector.match_expressions)),))


def _mask(view: View, rows: Indices) -> Bools:
    mask = np.zeros(view.count, dtype=np.bool_)
    mask[rows] = True
    return mask
