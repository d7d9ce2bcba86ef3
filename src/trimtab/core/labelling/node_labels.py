"""The labels and taints that rules put on nodes: what each node carries, what it should carry, and the patch between them.

Per managed key a column of numbers: 0 for absent, else which value. Keys under our prefix are ours whatever their value,
so a value that no rule gives is replaced or removed. Of `status` only our one value is ours: where another client uses that
key, the node is left alone.
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
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint, is_soft

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

UNKNOWN_VALUE = -1  # of a key of ours, that no rule gives


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

    def desired(self, rules: Sequence[Rule], pressures: Sequence[Bools], count: int) -> Ints:
        """One rule is enough; of several values the one that the file names first counts."""
        found = np.zeros(count, dtype=np.int64)
        for number in range(len(self.values), 0, -1):
            for rule, visible in zip(rules, pressures, strict=True):
                if self.value_for(rule) == number:
                    found[visible] = number
        return found

    def current(self, view: View) -> Ints:
        """What nodes carry, as the watch shows it."""
        if self.taint:
            present = [any(is_soft(each, self.key) for each in taints) for taints in view.taint_sets]
            return np.asarray(present, dtype=np.int64)[view.taint_set]
        found = np.zeros(view.count, dtype=np.int64)
        if self.key.startswith(PREFIX):
            found[view.matching_label(Requirement(self.key, "Exists"))] = UNKNOWN_VALUE
        for number, value in enumerate(self.values, 1):
            found[view.matching_label(Requirement(self.key, "In", (value,)))] = number
        return found

    def owned_by_others(self, view: View) -> Bools:
        """Nodes where another client uses the key."""
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


def nodes_with_stale(nodes: Iterable[Node], managed: Sequence[ManagedLabel]) -> tuple[str, ...]:
    """Names of nodes with anything that `stale` would remove; most carry nothing under our prefix at all."""
    candidates = [node for node in nodes if node.taints or PREFIX in " ".join(node.labels)]
    return tuple(node.name for node in candidates if any(stale(node, managed)))


def stale(node: Node, managed: Sequence[ManagedLabel]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Keys of labels and positions of taints under our prefix that no rule gives any more.

    None where no rule uses the prefix: then they may belong to another labeller.
    """
    if not any(label.key.startswith(PREFIX) for label in managed):
        return (), ()
    keys = {label.key for label in managed if not label.taint}
    soft = {label.key for label in managed if label.taint}
    labels = tuple(key for key in node.labels if key.startswith(PREFIX) and key not in keys)
    positions = tuple(i for i, each in enumerate(node.taints) if _is_managed(each) and each.key not in soft)
    return labels, positions


def patch_for(node: Node, managed: Sequence[ManagedLabel], numbers: Iterable[tuple[int, int]]) -> LabelNode | None:
    """The patch from what the node carries to what it should carry (per managed label: desired, current), which also
    removes what is stale; None where nothing differs."""
    stale_labels, stale_taints = stale(node, managed)
    labels: list[tuple[str, str | None]] = [(key, None) for key in stale_labels]
    taints, positions = list[Taint](), list(stale_taints)
    for label, (desired, current) in zip(managed, numbers, strict=True):
        if desired == current:
            continue
        if not label.taint:
            labels.append((label.key, label.values[desired - 1] if desired else None))
        elif desired:
            taints.append(Taint(label.key, "", PREFER_NO_SCHEDULE))
        else:
            positions += [i for i, each in enumerate(node.taints) if is_soft(each, label.key)]
    if not (labels or taints or positions):
        return None
    if labels and not node.labels:  # the patch has to create the labels first
        taints, positions = [], []
    removed = tuple((i, node.taints[i].key) for i in sorted(positions))
    return LabelNode(
        node.name, node.uid, node.version, tuple(labels), tuple(taints), removed, has_no_taints=not node.taints
    )


def removal_patch(node: Node, legacy: bool) -> LabelNode | None:
    """The patch that removes every label and taint of ours, whichever rule gave it; None where there is none."""
    labels = tuple((key, None) for key in node.labels if key.startswith(PREFIX))
    if legacy and node.labels.get(LEGACY_KEY) == LEGACY_VALUE:
        labels = (*labels, (LEGACY_KEY, None))
    taints = tuple((i, each.key) for i, each in enumerate(node.taints) if _is_managed(each))
    if not labels and not taints:
        return None
    return LabelNode(node.name, node.uid, node.version, labels, remove_taints=taints, reason="no labeller is left")


def _is_managed(taint: Taint) -> bool:
    return taint.effect == PREFER_NO_SCHEDULE and taint.key.startswith(PREFIX)
