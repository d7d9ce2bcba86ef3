"""The node labeller: compares what nodes carry with what the rules want at every tick, and patches the difference.

A node is patched only when something changes, and never twice at once (`patch_tracker`). In observe mode the patches that
were logged stand in for what nodes carry, so that each change is logged once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.node_selection import matching
from trimtab.core.cluster.view import View
from trimtab.core.labelling.node_labels import Bools, Ints, managed_labels, nodes_with_stale, patch_for
from trimtab.core.labelling.patch_tracker import PatchTracker
from trimtab.core.load.pressure import CALM, NEW_ROW, STATE_NAMES, Pressure
from trimtab.core.load.pressure_rules import MEMORY_AVAILABLE, Denominator, LabellingSettings, Rule
from trimtab.core.model.instructions import Instruction, LabelNode
from trimtab.core.model.node import Node
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.pending_writes import PendingWrites
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.tables import Floats

NEVER = (-1, -1)  # counts of label and taint changes
CONTESTED_AFTER = 3  # repeats of one patch: another client keeps reverting it
CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class NodePressure(Struct, frozen=True):
    """A node that is not calm by a rule; no value where no sample is trusted now."""

    node: str
    rule: str
    state: str
    value: float | None
    since: float


class NodeLabeller:
    """Pressure by rule, and the labels that follow from it."""

    def __init__(self, settings: LabellingSettings, writes: PendingWrites | None = None) -> None:
        self.settings = settings
        self.pressures = [Pressure(rule) for rule in settings.rules]
        self.managed = managed_labels(settings.rules)
        self.current: list[Ints] = []  # per managed label: what nodes carry or, in observe mode, would
        self.all_labelled = False  # every eligible node is
        self._nodes: dict[tuple[str, str], int] = {}
        self._epoch, self._searched = -1, NEVER
        self.patches = PatchTracker(writes if writes is not None else PendingWrites())
        self._stale: tuple[str, ...] = ()
        self._leading = False

    def apply_settings(self, settings: LabellingSettings, now: float) -> NodeLabeller:
        """The same under other rules; a rule that did not change keeps its state."""
        copied, known = self.copy(), {each.rule: each for each in self.pressures}
        copied.settings, copied.managed = settings, managed_labels(settings.rules)
        copied._epoch = -1  # read all rows again
        copied.pressures = [known.get(rule) or Pressure(rule, len(self._nodes), now) for rule in settings.rules]
        if copied.managed != self.managed or settings.apply != self.settings.apply:
            copied.current = []
        return copied

    def copy(self, writes: PendingWrites | None = None) -> NodeLabeller:
        """A copy on these pending writes, or on the same ones."""
        copied = NodeLabeller(self.settings)
        copied.__dict__.update(self.__dict__)
        copied.pressures = [each.copy() for each in self.pressures]
        copied.current = [each.copy() for each in self.current]
        copied.patches = self.patches.copy(writes if writes is not None else self.patches.writes)
        return copied

    # --- comparing

    def tick(self, cluster: Cluster, leading: bool, recorder: MetricsRecorder, now: float) -> list[Instruction]:
        """Update the pressure of all nodes; only the leader patches any."""
        view = cluster.view
        self._sync_rows(view, now)
        self._find_stale(view, force=leading and not self._leading)
        for pressure in self.pressures:
            if leading and not self._leading:  # the labels of the leader before count first
                pressure.unseen[:] = True
            pressure.inherit_labels(self._labelled_by(pressure.rule), now)
            pressure.update(rule_values(view, pressure.rule), now, self.settings.expire_after)
        self._leading = leading
        if not leading or now < self.patches.paused_until:
            return []
        desired = self._desired(view, recorder)
        return list(self._patches(view, desired, recorder, now))

    def _sync_rows(self, view: View, now: float) -> None:
        """Follow the cluster's row order, and what nodes carry."""
        order: NDArray[np.intp] | None = None
        if view.node_table.epoch != self._epoch:
            order = self._order(view)
            for pressure in self.pressures:
                pressure.reorder(order, now)
            self._epoch, self._searched = view.node_table.epoch, NEVER
        present = [label.current(view) for label in self.managed]
        if self.settings.apply or not self.current:
            self.current = present
        elif order is not None:
            pairs = zip(self.current, present, strict=True)
            self.current = [_reordered(old, new, order) for old, new in pairs]

    def _find_stale(self, view: View, *, force: bool) -> None:
        """Search when labels or taints changed, and on becoming leader: the leader before may have had other rules."""
        changes = view.node_table.label_changes, view.node_table.taint_changes
        if force or changes != self._searched:
            self._stale = nodes_with_stale(view.nodes, self.managed) if self.settings.apply else ()
            self._searched = changes

    def _order(self, view: View) -> NDArray[np.intp]:
        before, self._nodes = self._nodes, {(node.name, node.uid): row for row, node in enumerate(view.nodes)}
        return np.fromiter((before.get(key, NEW_ROW) for key in self._nodes), dtype=np.intp, count=view.count)

    def _labelled_by(self, rule: Rule) -> Bools:
        """Nodes that carry the label of this rule."""
        found = [
            column == label.value_for(rule)
            for label, column in zip(self.managed, self.current, strict=True)
            if label.value_for(rule)
        ]
        return _any(found, len(self._nodes))

    def _desired(self, view: View, recorder: MetricsRecorder) -> list[Ints]:
        rules, visible = self.settings.rules, [pressure.visible for pressure in self.pressures]
        eligible = ~self.excluded(view)
        desired = [
            np.where(eligible & ~label.owned_by_others(view), label.desired(rules, visible, view.count), 0)
            for label in self.managed
        ]
        labelled = int(np.count_nonzero(_any([column > 0 for column in desired], view.count)))
        count = int(np.count_nonzero(eligible))
        all_labelled = count > 1 and count == labelled
        if all_labelled and not self.all_labelled:
            recorder.all_under_pressure(count)
        self.all_labelled = all_labelled
        return desired

    def excluded(self, view: View) -> Bools:
        """Control-plane nodes, by the old and the new label, and those that the settings exclude."""
        found = matching(view, NodeSelectorTerm(self.settings.exclude))
        for key in CONTROL_PLANES:
            found |= view.matching_label(Requirement(key, "Exists"))
        return found

    def labelled_nodes(self) -> list[str]:
        """Nodes with a label of the rules as of the last tick; in observe mode, those that would have one."""
        found = _any([column != 0 for column in self.current], len(self._nodes))
        return sorted(name for (name, _), carries in zip(self._nodes, found, strict=True) if carries)

    def under_pressure(self) -> list[NodePressure]:
        """The nodes that are not calm, by rule."""
        names = [name for name, _ in self._nodes]
        return [
            NodePressure(
                names[row],
                each.rule.name,
                STATE_NAMES[each.state[row]],
                _finite(each.values[row]),
                float(each.since[row]),
            )
            for each in self.pressures
            for row in np.flatnonzero(each.state != CALM).tolist()
        ]

    # --- patching

    def _patches(self, view: View, desired: list[Ints], recorder: MetricsRecorder, now: float) -> Iterator[LabelNode]:
        differs = _any([column != current for column, current in zip(desired, self.current, strict=True)], view.count)
        differs |= view.rows_named(self._stale)
        self.patches.forget_settled(lambda name: (row := view.row(name)) is not None and bool(differs[row]), now)
        nodes, slots = view.nodes, self.patches.free_slots
        for row in np.flatnonzero(differs).tolist() if slots > 0 else ():
            patch = self._patch(nodes[row], row, desired) if self.patches.may_patch(nodes[row], now) else None
            if patch is not None:
                self._track(patch, row, desired, nodes[row], recorder, now)
                yield patch
                slots -= 1
            if not slots:
                return

    def _track(
        self, patch: LabelNode, row: int, desired: list[Ints], node: Node, recorder: MetricsRecorder, now: float
    ) -> None:
        if not patch.observe_only:
            change = (patch.labels, patch.add_taints, tuple(key for _, key in patch.remove_taints))
            if self.patches.sent(node, change, now) == CONTESTED_AFTER:
                recorder.label_contested(node.name)
            return
        for column, current in zip(desired, self.current, strict=True):
            current[row] = column[row]

    def _patch(self, node: Node, row: int, desired: list[Ints]) -> LabelNode | None:
        numbers = [(int(column[row]), int(current[row])) for column, current in zip(desired, self.current, strict=True)]
        patch = patch_for(node, self.managed, numbers)
        return None if patch is None else replace(patch, reason=self._reason(row), observe_only=not self.settings.apply)

    def _reason(self, row: int) -> str:
        """The values behind each rule that holds; a removed label needs no reason."""
        return (
            "; ".join(_describe(each, row) for each in self.pressures if each.visible[row]) or "no rule holds any more"
        )


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _describe(pressure: Pressure, row: int) -> str:
    rule, value = pressure.rule, float(pressure.values[row])
    if math.isnan(value):
        return f"{rule.name} held before and is not measured now"
    return f"{rule.name} is {value:.4g} (labels {rule.direction} {rule.threshold:g}, clears at {rule.clear:g})"


def _any(columns: list[Bools], count: int) -> Bools:
    found = np.zeros(count, dtype=np.bool_)
    for column in columns:
        found |= column
    return found


def _reordered(old: Ints, present: Ints, order: NDArray[np.intp]) -> Ints:
    """Keep what was logged for nodes that stay; others are as they are."""
    new, stays = present.copy(), order != NEW_ROW
    new[stays] = old[order[stays]]
    return new


def rule_values(view: View, rule: Rule) -> Floats:
    """What the rule compares with its threshold, per node: shares as fractions, amounts in the units of requests; NaN where
    no sample is trusted."""
    if rule.metric in (CPU, MEMORY):
        return _share(view, rule.metric, _usage(view, rule), rule.denominator)
    if rule.metric == MEMORY_AVAILABLE:
        return _share(view, MEMORY, memory_available(view, rule), rule.denominator)
    return view.load.custom(rule.metric)[: view.count]


def memory_available(view: View, rule: Rule) -> Floats:
    """memory.available as the kubelet computes it: capacity less working set, unless a source measures it."""
    computed = _available_amount(view, MEMORY, Denominator.CAPACITY) - _usage(view, rule)
    measured = view.load.custom(MEMORY_AVAILABLE)[: view.count]
    return np.where(np.isnan(measured), computed, measured)


def _usage(view: View, rule: Rule) -> Floats:
    resource = CPU if rule.metric == CPU else MEMORY
    found = (
        view.load.recent_mean(resource, rule.average_seconds) if rule.average_seconds else view.load.latest(resource)
    )
    return found[: view.count]


def _share(view: View, resource: str, amounts: Floats, of: Denominator) -> Floats:
    return amounts if of is Denominator.NONE else amounts / _available_amount(view, resource, of)


def _available_amount(view: View, resource: str, of: Denominator) -> Floats:
    """NaN for a node that reports none: a share of nothing is undefined."""
    amounts = view.allocatable(resource) if of is Denominator.ALLOCATABLE else view.capacity(resource)
    return np.where(amounts > 0, amounts.astype(np.float64), np.nan)
