"""From which nodes volumes can be reached, and where drivers have room for new ones; which volume to take is left open.

Rows are kept by what was asked for until some node comes, goes or changes its labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_selection import matching_any
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement
from trimtab.core.model.storage import (
    NO_PROVISIONER,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

Indices = NDArray[np.intp]
Terms = tuple[NodeSelectorTerm, ...] | None


def labels_version(view: View) -> tuple[int, int]:
    """Equal as long as row numbers and node labels stand."""
    return view.node_table.epoch, view.node_table.label_changes


def rows_of(view: View, terms: tuple[NodeSelectorTerm, ...]) -> Indices:
    """Rows of the nodes that the terms pick."""
    return view.objects.cached(terms, labels_version(view), lambda: np.flatnonzero(matching_any(view, terms)))


class ReachabilityCache:
    """Rows by volume, remembered by name; equal terms give one array, so that its identity stands for the reach."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._all_rows = np.arange(view.count)
        kept: dict[str, tuple[Terms, Indices]] = view.objects.cached("reaches", labels_version(view), dict)
        self._rows_by_volume = kept

    def of(self, volume: PersistentVolume) -> Indices:
        if volume.terms is None:
            return self._all_rows
        known = self._rows_by_volume.get(volume.name)
        if known is None or known[0] is not volume.terms:  # to compare by value would cost more than all else here
            known = self._rows_by_volume[volume.name] = (volume.terms, rows_of(self._view, volume.terms))
        return known[1]


def reachable_nodes(view: View, volume: PersistentVolume) -> Bools | None:
    """The nodes that the volume can be used on; None for all of them."""
    found = None if volume.terms is None else _mask(view, rows_of(view, volume.terms))
    if not volume.in_tree or volume.migrated_terms == volume.terms:
        return found
    moved = migrated_nodes(view, volume.in_tree)
    if not moved.any():
        return found
    there = None if volume.migrated_terms is None else _mask(view, rows_of(view, volume.migrated_terms))
    every = np.ones(view.count, dtype=np.bool_)
    return np.where(moved, every if there is None else there, every if found is None else found)


def migrated_nodes(view: View, plugin: str) -> Bools:
    """Nodes that say that a driver does the work of this plugin there."""

    def named() -> Bools:
        return view.rows_named(name for name, node in view.objects.of_kind(CsiNode).items() if plugin in node.migrated)

    stamp = view.node_table.epoch, view.objects.generation(CsiNode)
    return view.objects.cached(("migrated", plugin), stamp, named)


def is_dynamic(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def allowed_nodes(view: View, storage_class: StorageClass) -> Bools | None:
    """The nodes that the class makes volumes for; None for all of them."""
    return _mask(view, rows_of(view, storage_class.allowed_topologies)) if storage_class.allowed_topologies else None


def nodes_with_capacity(view: View, storage_class: StorageClass, claim: PersistentVolumeClaim) -> Bools | None:
    """The nodes for which the driver says it has room; None where nobody keeps count."""
    driver = view.objects.of_kind(CsiDriver).get(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.tracks_capacity:
        return None
    rows, largest = capacities(view, storage_class.name)
    return _mask(view, rows[largest >= claim.requested])


def capacities(view: View, storage_class: str) -> tuple[Indices, NDArray[np.int64]]:
    """What drivers say they have left for the class: rows, and the largest volume that each could get."""

    def listed() -> tuple[Indices, NDArray[np.int64]]:
        said = view.objects.by_index(CsiStorageCapacity, "storage_class").get(storage_class, {}).values()
        known = [
            (_selected(view, each.topology), each.max_volume_size) for each in said if each.max_volume_size is not None
        ]
        if not known:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        sizes = np.repeat(np.array([size for _, size in known]), [len(rows) for rows, _ in known])
        return np.concatenate([rows for rows, _ in known]), sizes

    stamp = (*labels_version(view), view.objects.generation(CsiStorageCapacity))
    return view.objects.cached(("capacities", storage_class), stamp, listed)


def _selected(view: View, selector: LabelSelector | None) -> Indices:
    """Rows of the nodes that a label selector picks: none without one, all with an empty one."""
    if selector is None or not selector.valid:
        return np.zeros(0, dtype=np.intp)
    if selector.empty:
        return np.arange(view.count)
    equal: Sequence[Requirement] = [Requirement(key, "In", (value,)) for key, value in selector.match_labels]
    return rows_of(view, (NodeSelectorTerm((*equal, *selector.match_expressions)),))


def _mask(view: View, rows: Indices) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    found[rows] = True
    return found
