"""Marks pressed nodes at each tick: compares what the rules want with what nodes carry, and wishes for the difference.

Patches go out for changes alone, and never two for a node at once (`patch_tracker`). While observing, what was said stands in
for what nodes carry, so that each change is said once.
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
from trimtab.core.labelling.rule_values import rule_values
from trimtab.core.load.pressure import CALM, NEW, WORDS, Pressure
from trimtab.core.load.pressure_rules import Labelling, Rule
from trimtab.core.model.instructions import Instruction, LabelNode
from trimtab.core.model.node import Node
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.pending_writes import PendingWrites
from trimtab.core.recorder import MetricsRecorder

NEVER = (-1, -1)  # of changes of labels and taints
CONTESTED_AFTER = 3  # that many times the same was undone: it is no accident
CONTROL_PLANES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class NodePressure(Struct, frozen=True):
    """A node and a rule that is not content with it; no value where nothing is to be believed now."""

    node: str
    rule: str
    state: str
    value: float | None
    since: float


class NodeLabeller:
    """All that is known of pressure and marks; owned by the engine."""

    def __init__(self, settings: Labelling, writes: PendingWrites | None = None) -> None:
        self.settings = settings
        self.pressures = [Pressure(rule) for rule in settings.rules]
        self.managed = managed_labels(settings.rules)
        self.current: list[Ints] = []  # by mark: what nodes carry, or, while observing, what was said
        self.all_labelled = False  # every node that may be marked is
        self._nodes: dict[tuple[str, str], int] = {}
        self._epoch, self._searched = -1, NEVER
        self.patches = PatchTracker(writes if writes is not None else PendingWrites())
        self._stale: tuple[str, ...] = ()
        self._leading = False

    def apply_settings(self, settings: Labelling, at: float) -> NodeLabeller:
        """The same under other rules; a rule that stays as it was keeps what it knows."""
        twin, known = self.copy(), {each.rule: each for each in self.pressures}
        twin.settings, twin.managed, twin._epoch = settings, managed_labels(settings.rules), -1  # all is looked at anew
        twin.pressures = [known.get(rule) or Pressure(rule, len(self._nodes), at) for rule in settings.rules]
        if twin.managed != self.managed or settings.apply != self.settings.apply:
            twin.current = []
        return twin

    def copy(self, writes: PendingWrites | None = None) -> NodeLabeller:
        """The same on other pending writes; on these, to go on under other settings."""
        copied = NodeLabeller(self.settings)
        copied.__dict__.update(self.__dict__)
        copied.pressures = [each.copy() for each in self.pressures]
        copied.current = [each.copy() for each in self.current]
        copied.patches = self.patches.copy(writes if writes is not None else self.patches.writes)
        return copied

    # --- looking

    def tick(self, cluster: Cluster, leading: bool, recorder: MetricsRecorder, at: float) -> list[Instruction]:
        """Look at all nodes; only who leads wishes for anything."""
        view = cluster.view
        self._sync_rows(view, at)
        self._find_stale(view, anew=leading and not self._leading)
        for pressure in self.pressures:
            if leading and not self._leading:  # whoever led before may have judged otherwise: its marks stand first
                pressure.fresh[:] = True
            pressure.adopt(self._labelled_by(pressure.rule), at)
            pressure.look(rule_values(view, pressure.rule), at, self.settings.expire_after)
        self._leading = leading
        if not leading or at < self.patches.paused_until:
            return []
        wanted = self._desired(view, recorder)
        return list(self._patches(view, wanted, recorder, at))

    def _sync_rows(self, view: View, at: float) -> None:
        """Keep in step with the cluster's rows, and with what nodes carry."""
        order: NDArray[np.intp] | None = None
        if view.node_table.epoch != self._epoch:
            order = self._order(view)
            for pressure in self.pressures:
                pressure.reorder(order, at)
            self._epoch, self._searched = view.node_table.epoch, NEVER
        present = [mark.current(view) for mark in self.managed]
        if self.settings.apply or not self.current:
            self.current = present
        elif order is not None:
            said = zip(self.current, present, strict=True)
            self.current = [_reordered(old, new, order) for old, new in said]

    def _find_stale(self, view: View, *, anew: bool) -> None:
        """Whenever nodes come or change labels or taints, and when we begin to lead: who led may have had other rules."""
        changes = view.node_table.label_changes, view.node_table.taint_changes
        if anew or changes != self._searched:
            self._stale = nodes_with_stale(view.nodes, self.managed) if self.settings.apply else ()
            self._searched = changes

    def _order(self, view: View) -> NDArray[np.intp]:
        before, self._nodes = self._nodes, {(node.name, node.uid): row for row, node in enumerate(view.nodes)}
        return np.fromiter((before.get(key, NEW) for key in self._nodes), dtype=np.intp, count=view.count)

    def _labelled_by(self, rule: Rule) -> Bools:
        """Nodes that carry what the rule gives."""
        found = [
            column == mark.value_for(rule)
            for mark, column in zip(self.managed, self.current, strict=True)
            if mark.value_for(rule)
        ]
        return _any(found, len(self._nodes))

    def _desired(self, view: View, recorder: MetricsRecorder) -> list[Ints]:
        rules, shown = self.settings.rules, [pressure.shown for pressure in self.pressures]
        may_be = ~self.excluded(view)
        wanted = [
            np.where(may_be & ~mark.owned_by_others(view), mark.desired(rules, shown, view.count), 0)
            for mark in self.managed
        ]
        marked = _any([column > 0 for column in wanted], view.count)
        eligible = int(np.count_nonzero(may_be))
        crowded = eligible > 1 and eligible == int(np.count_nonzero(marked))
        if crowded and not self.all_labelled:
            recorder.all_under_pressure(eligible)
        self.all_labelled = crowded
        return wanted

    def excluded(self, view: View) -> Bools:
        """Control planes, by the old and the new label, and whatever the settings pick."""
        found = matching(view, NodeSelectorTerm(self.settings.exclude))
        for key in CONTROL_PLANES:
            found |= view.matching_label(Requirement(key, "Exists"))
        return found

    def labelled_nodes(self) -> list[str]:
        """Nodes that carried a mark of the rules at the last look; while observing, those that would."""
        found = _any([column != 0 for column in self.current], len(self._nodes))
        return sorted(name for (name, _), carries in zip(self._nodes, found, strict=True) if carries)

    def under_pressure(self) -> list[NodePressure]:
        """What rules say of nodes that are not calm."""
        names = [name for name, _ in self._nodes]
        return [
            NodePressure(
                names[row], each.rule.name, WORDS[each.state[row]], _finite(each.values[row]), float(each.since[row])
            )
            for each in self.pressures
            for row in np.flatnonzero(each.state != CALM).tolist()
        ]

    # --- wishing

    def _patches(self, view: View, wanted: list[Ints], recorder: MetricsRecorder, at: float) -> Iterator[LabelNode]:
        differs = _any([column != carried for column, carried in zip(wanted, self.current, strict=True)], view.count)
        differs |= view.rows_named(self._stale)
        self.patches.forget_settled(lambda name: (row := view.row(name)) is not None and bool(differs[row]), at)
        nodes, room = view.nodes, self.patches.free_slots
        for row in np.flatnonzero(differs).tolist() if room > 0 else ():
            wish = self._patch(nodes[row], row, wanted) if self.patches.may_patch(nodes[row], at) else None
            if wish is not None:
                self._track(wish, row, wanted, nodes[row], recorder, at)
                yield wish
                room -= 1
            if not room:
                return

    def _track(
        self, instruction: LabelNode, row: int, wanted: list[Ints], node: Node, recorder: MetricsRecorder, at: float
    ) -> None:
        if not instruction.observe_only:
            change = (instruction.labels, instruction.add_taints, tuple(key for _, key in instruction.remove_taints))
            if self.patches.sent(node, change, at) == CONTESTED_AFTER:
                recorder.label_contested(node.name)
            return
        for column, carried in zip(wanted, self.current, strict=True):
            carried[row] = column[row]

    def _patch(self, node: Node, row: int, wanted: list[Ints]) -> LabelNode | None:
        numbers = [(int(column[row]), int(carried[row])) for column, carried in zip(wanted, self.current, strict=True)]
        wish = patch_for(node, self.managed, numbers)
        return None if wish is None else replace(wish, reason=self._reason(row), observe_only=not self.settings.apply)

    def _reason(self, row: int) -> str:
        """What each rule that shows says of the node; a mark that goes needs no reason."""
        return "; ".join(_describe(each, row) for each in self.pressures if each.shown[row]) or "no rule holds any more"


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _describe(pressure: Pressure, row: int) -> str:
    rule, value = pressure.rule, float(pressure.values[row])
    if math.isnan(value):
        return f"{rule.name} held before, and is not measured now"
    return f"{rule.name} is {value:.4g} (marks {rule.direction} {rule.threshold:g}, clears at {rule.clear:g})"


def _any(columns: list[Bools], count: int) -> Bools:
    found = np.zeros(count, dtype=np.bool_)
    for column in columns:
        found |= column
    return found


def _reordered(old: Ints, present: Ints, order: NDArray[np.intp]) -> Ints:
    """What was said of nodes that stay, and what the others carry."""
    new, stays = present.copy(), order != NEW
    new[stays] = old[order[stays]]
    return new
