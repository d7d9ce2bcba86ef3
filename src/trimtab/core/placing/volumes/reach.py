"""From which nodes volumes can be reached, and where drivers have room for new ones; which volume to take is left open.

Rows are kept by what was asked for until some node comes, goes or changes its labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.selecting import matching_any
from trimtab.core.cluster.view import View
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
from trimtab.core.placing.contract import Bools

Indices = NDArray[np.intp]
Terms = tuple[NodeSelectorTerm, ...] | None


def labelling(view: View) -> tuple[int, int]:
    """Equal as long as row numbers and node labels stand."""
    return view.columns.epoch, view.columns.relabelled


def rows_of(view: View, terms: tuple[NodeSelectorTerm, ...]) -> Indices:
    """Rows of the nodes that the terms pick."""
    return view.objects.derived(terms, labelling(view), lambda: np.flatnonzero(matching_any(view, terms)))


class Reaches:
    """Rows by volume, remembered by name; equal terms give one array, so that its identity stands for the reach."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._everywhere = np.arange(view.count)
        kept: dict[str, tuple[Terms, Indices]] = view.objects.derived("reaches", labelling(view), dict)
        self._kept = kept

    def of(self, volume: PersistentVolume) -> Indices:
        if volume.terms is None:
            return self._everywhere
        known = self._kept.get(volume.name)
        if known is None or known[0] is not volume.terms:  # to compare by value would cost more than all else here
            known = self._kept[volume.name] = (volume.terms, rows_of(self._view, volume.terms))
        return known[1]


def reachable(view: View, volume: PersistentVolume) -> Bools | None:
    """The nodes that the volume can be used on; None for all of them."""
    found = None if volume.terms is None else _at(view, rows_of(view, volume.terms))
    if not volume.in_tree or volume.migrated_terms == volume.terms:
        return found
    moved = migrated(view, volume.in_tree)
    if not moved.any():
        return found
    there = None if volume.migrated_terms is None else _at(view, rows_of(view, volume.migrated_terms))
    every = np.ones(view.count, dtype=np.bool_)
    return np.where(moved, every if there is None else there, every if found is None else found)


def migrated(view: View, plugin: str) -> Bools:
    """Nodes that say that a driver does the work of this plugin there."""

    def named() -> Bools:
        return view.named(name for name, node in view.objects.of(CsiNode).items() if plugin in node.migrated)

    stamp = view.columns.epoch, view.objects.edition(CsiNode)
    return view.objects.derived(("migrated", plugin), stamp, named)


def makes_volumes(given: StorageClass) -> bool:
    return given.provisioner not in ("", NO_PROVISIONER)


def allowed(view: View, given: StorageClass) -> Bools | None:
    """The nodes that the class makes volumes for; None for all of them."""
    return _at(view, rows_of(view, given.allowed)) if given.allowed else None


def enough(view: View, given: StorageClass, claim: PersistentVolumeClaim) -> Bools | None:
    """The nodes for which the driver says it has room; None where nobody keeps count."""
    driver = view.objects.of(CsiDriver).get(given.provisioner)
    if claim.requested is None or driver is None or not driver.tracks_capacity:
        return None
    rows, largest = capacities(view, given.name)
    return _at(view, rows[largest >= claim.requested])


def capacities(view: View, storage_class: str) -> tuple[Indices, NDArray[np.int64]]:
    """What drivers say they have left for the class: rows, and the largest volume that each could get."""

    def listed() -> tuple[Indices, NDArray[np.int64]]:
        said = view.objects.by(CsiStorageCapacity, "storage_class").get(storage_class, {}).values()
        known = [(_selected(view, each.topology), each.largest) for each in said if each.largest is not None]
        if not known:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int64)
        sizes = np.repeat(np.array([size for _, size in known]), [len(rows) for rows, _ in known])
        return np.concatenate([rows for rows, _ in known]), sizes

    stamp = (*labelling(view), view.objects.edition(CsiStorageCapacity))
    return view.objects.derived(("capacities", storage_class), stamp, listed)


def _selected(view: View, selector: LabelSelector | None) -> Indices:
    """Rows of the nodes that a label selector picks: none without one, all with an empty one."""
    if selector is None or not selector.sound:
        return np.zeros(0, dtype=np.intp)
    if selector.empty:
        return np.arange(view.count)
    equal: Sequence[Requirement] = [Requirement(key, "In", (value,)) for key, value in selector.match_labels]
    return rows_of(view, (NodeSelectorTerm((*equal, *selector.match_expressions)),))


def _at(view: View, rows: Indices) -> Bools:
    found = np.zeros(view.count, dtype=np.bool_)
    found[rows] = True
    return found
