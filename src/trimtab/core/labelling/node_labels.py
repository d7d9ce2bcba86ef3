"""What can be seen on a node of a rule's finding, as columns of numbers: 0 for nothing, else which value; how the one becomes
the other is a wish, and when it is made is left to `marking`.

Keys under our prefix are ours whatever their value, so a value that no rule gives is replaced or taken away. Of `status`
only our one value is ours: where somebody else uses that key, the node is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.view import View
from trimtab.core.load.pressure_rules import LEGACY_KEY, LEGACY_VALUE, PREFIX, Rule
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

UNKNOWN_VALUE = -1  # a value of ours that no rule gives


@dataclass(frozen=True, slots=True)
class ManagedLabel:
    """One label key with its values, in the order of the rules that give them, or one soft taint (its value is empty)."""

    key: str
    values: tuple[str, ...] = ("",)
    taint: bool = False

    def value_for(self, rule: Rule) -> int:
        """The number of the value that this rule gives, 0 when it gives none."""
        if self.taint:
            return int(rule.taint == self.key)
        return self.values.index(rule.label[1]) + 1 if rule.label is not None and rule.label[0] == self.key else 0

    def desired(self, rules: Sequence[Rule], shown: Sequence[Bools], count: int) -> Ints:
        """Any rule is enough; of several values the one that the file names first counts."""
        found = np.zeros(count, dtype=np.int64)
        for number in range(len(self.values), 0, -1):
            for rule, pressed in zip(rules, shown, strict=True):
                if self.value_for(rule) == number:
                    found[pressed] = number
        return found

    def current(self, view: View) -> Ints:
        """What the watch shows."""
        if self.taint:
            carried = [any(is_soft(each, self.key) for each in taints) for taints in view.taint_sets]
            return np.asarray(carried, dtype=np.int64)[view.taint_set]
        found = np.zeros(view.count, dtype=np.int64)
        if self.key.startswith(PREFIX):
            found[view.matching_label(Requirement(self.key, "Exists"))] = UNKNOWN_VALUE
        for number, value in enumerate(self.values, 1):
            found[view.matching_label(Requirement(self.key, "In", (value,)))] = number
        return found

    def owned_by_others(self, view: View) -> Bools:
        """Nodes where the key is in somebody else's use."""
        if self.taint or self.key.startswith(PREFIX):
            return np.zeros(view.count, dtype=np.bool_)
        others = view.matching_label(Requirement(self.key, "NotIn", self.values))
        return others & view.matching_label(Requirement(self.key, "Exists"))


def managed_labels(rules: Iterable[Rule]) -> tuple[ManagedLabel, ...]:
    """Every key once, with all values that some rule gives it."""
    labels: dict[str, dict[str, None]] = {}
    taints: dict[str, None] = {}
    for rule in rules:
        if rule.label is not None:
            labels.setdefault(rule.label[0], {})[rule.label[1]] = None
        if rule.taint:
            taints[rule.taint] = None
    return (
        *(ManagedLabel(key, tuple(values)) for key, values in labels.items()),
        *(ManagedLabel(key, taint=True) for key in taints),
    )


def is_soft(taint: Taint, key: str) -> bool:
    return taint.key == key and taint.effect == PREFER_NO_SCHEDULE


def nodes_with_stale(nodes: Iterable[Node], marks: Sequence[ManagedLabel]) -> tuple[str, ...]:
    """Names of nodes that carry anything that `strays` would take away; most carry nothing under our prefix at all."""
    marked = [node for node in nodes if node.taints or PREFIX in " ".join(node.labels)]
    return tuple(node.name for node in marked if any(stale(node, marks)))


def stale(node: Node, marks: Sequence[ManagedLabel]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Keys of labels and places of taints under our prefix that no rule knows any more.

    None where no rule uses the prefix: then they may be those of another program like this one.
    """
    if not any(mark.key.startswith(PREFIX) for mark in marks):
        return (), ()
    keys = {mark.key for mark in marks if not mark.taint}
    soft = {mark.key for mark in marks if mark.taint}
    labels = tuple(key for key in node.labels if key.startswith(PREFIX) and key not in keys)
    places = tuple(at for at, each in enumerate(node.taints) if _is_ours(each) and each.key not in soft)
    return labels, places


def patch_for(node: Node, marks: Sequence[ManagedLabel], numbers: Iterable[tuple[int, int]]) -> LabelNode | None:
    """The wish that turns what the node carries into what is wanted of it, both by mark (wanted first), and takes strays
    away; None where nothing differs."""
    stray_labels, stray_places = stale(node, marks)
    labels: list[tuple[str, str | None]] = [(key, None) for key in stray_labels]
    taints, places = list[Taint](), list(stray_places)
    for mark, (wanted, carried) in zip(marks, numbers, strict=True):
        if wanted == carried:
            continue
        if not mark.taint:
            labels.append((mark.key, mark.values[wanted - 1] if wanted else None))
        elif wanted:
            taints.append(Taint(mark.key, "", PREFER_NO_SCHEDULE))
        else:
            places += [at for at, each in enumerate(node.taints) if is_soft(each, mark.key)]
    if not (labels or taints or places):
        return None
    if labels and not node.labels:  # a place for labels has to be made first
        taints, places = [], []
    put_off = tuple((at, node.taints[at].key) for at in sorted(places))
    return LabelNode(
        node.name, node.uid, node.version, tuple(labels), tuple(taints), put_off, has_no_taints=not node.taints
    )


def removal_patch(node: Node, legacy: bool) -> LabelNode | None:
    """The wish for a node without any mark of ours, whichever rule gave it; None where it carries none."""
    labels = tuple((key, None) for key in node.labels if key.startswith(PREFIX))
    if legacy and node.labels.get(LEGACY_KEY) == LEGACY_VALUE:
        labels = (*labels, (LEGACY_KEY, None))
    places = tuple((at, each.key) for at, each in enumerate(node.taints) if _is_ours(each))
    if not labels and not places:
        return None
    return LabelNode(node.name, node.uid, node.version, labels, remove_taints=places, reason="no labeller is left")


def _is_ours(taint: Taint) -> bool:
    return taint.effect == PREFER_NO_SCHEDULE and taint.key.startswith(PREFIX)
