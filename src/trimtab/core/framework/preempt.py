"""Where room could be made and by whose leaving: a dry run over all rows at once, and the choice among them; evicts nobody.

    all pods of lower priority leave every row ──▶ rows that still refuse are out
        └─▶ round by round each row takes its next pod back, if the newcomer still fits ──▶ who is left are the victims

Pods whose leaving would break a disruption budget are taken back first, then the others, each from the most important
down (priority, then time since the start). One question to the filters serves a round of all rows. Each row is looked at
as if only its own pods had moved. Where the newcomer must leave room for pods promised to a node, it has to fit with them
and without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Cacheable, Filter, FilterStatus, Ints
from trimtab.core.framework.rejections import count_by_code
from trimtab.core.model.change import Change
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Rejection, Unschedulable

Indices = NDArray[np.intp]

FITS = -1  # in `by`
NO_VICTIMS = -2
PRIORITY_OFFSET = 1 << 31  # added to priorities, so that a sum never rewards a row for having more victims


@dataclass(slots=True)
class DryRun:
    """Per row that was looked at: who refuses it (or FITS, NO_VICTIMS), the code, and how many budgets break.

    `victims` are slots of residents, row by row and the most important first; `at` says to which of `rows` each belongs.
    """

    rows: Indices
    rejected_by: Indices
    codes: Ints
    pdb_violations: Ints
    victims: Indices
    victim_index: Indices

    def victims_of(self, index: int) -> Indices:
        """Who has to leave the row at this place in `rows`."""
        return self.victims[
            np.searchsorted(self.victim_index, index) : np.searchsorted(self.victim_index, index, "right")
        ]


def dry_run(view: View, pod: Pod, status: FilterStatus) -> DryRun:
    """Whom the pod would have to displace, on every row whose refusal an eviction could turn round."""
    rows = np.flatnonzero(status.codes > 0)
    run = DryRun(
        rows,
        np.full(len(rows), NO_VICTIMS, dtype=np.intp),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(0, dtype=np.intp),
        np.zeros(0, dtype=np.intp),
    )
    lesser = _lower_priority(view, pod, rows)
    if len(lesser):
        _VictimSearch(view, pod, status, run, lesser).search()
    return run


def _lower_priority(view: View, pod: Pod, rows: Indices) -> Indices:
    """Slots of pods of lower priority on these rows, row by row, the most important first."""
    pods = view.pod_table
    wanted = np.zeros(view.count + 1, dtype=np.bool_)  # the last cell is for pods on nodes that are not known
    wanted[rows] = True
    slots = np.flatnonzero((pods.priority < pod.priority) & wanted[pods.row])
    started = pods.started[slots]
    # Of equals the one that stood there first; of those that have not started the last, as kube-scheduler has it.
    turn = np.where(np.isinf(started), -slots, slots)
    return slots[np.lexsort((turn, started, (pods.row[slots] << 33) - pods.priority[slots]))]


class _VictimSearch:
    """One dry run in the making; `slots` are pods of lower priority, `at` their places in `rows`, `gone` who has left."""

    def __init__(self, view: View, pod: Pod, status: FilterStatus, result: DryRun, lower_priority: Indices) -> None:
        self.pod, self.status, self.result, self.view = pod, status, result, view
        place = np.zeros(view.count, dtype=np.intp)
        place[result.rows] = np.arange(len(result.rows))
        self.slots, self.index = lower_priority, place[view.pod_table.row[lower_priority]]
        self.removed: Bools = np.ones(len(lower_priority), dtype=np.bool_)
        self.has_nominated = view.rows_named(status.nominated)
        self.with_nominated = view.with_pods(status.nominated) if self.has_nominated.any() else None

    def search(self) -> None:
        run = self.result
        here = self.index[_rank_in_group(self.index) == 0]
        run.rejected_by[here], run.codes[here] = self._filter(self.status.filters, here)
        fits = run.rejected_by[self.index] == FITS
        self.slots, self.index, self.removed = self.slots[fits], self.index[fits], self.removed[fits]
        if len(self.slots):
            breaks = _violates_pdb(self.view, self.slots, self.index)
            turns = self._reprieve_order(breaks)
            self._reprieve(turns)
            run.pdb_violations += np.bincount(self.index[breaks & self.removed], minlength=len(run.rows))
            order = self._victim_order(breaks, turns) if breaks.any() else np.flatnonzero(self.removed)
            run.victims, run.victim_index = self.slots[order], self.index[order]

    def _reprieve_order(self, breaks: Bools) -> Indices:
        """When each pod may come back to its row: those that break a budget come first."""
        order = np.lexsort((~breaks, self.index)) if breaks.any() else np.arange(len(self.slots))
        turns = np.empty_like(order)
        turns[order] = _rank_in_group(self.index[order])
        return turns

    def _reprieve(self, turns: Indices) -> None:
        filters = tuple(each for each in self.status.filters if _depends_on_pods(each))
        by_turn = np.argsort(turns, kind="stable")
        for back in np.split(by_turn, np.cumsum(np.bincount(turns))[:-1]):
            self.removed[back] = False
            refused = self._filter(filters, self.index[back])[0] != FITS
            self.removed[back[refused]] = True

    def _victim_order(self, breaks: Bools, turns: Indices) -> Indices:
        """Those who are gone, the most important first; of equals, as kube-scheduler has it, whoever might come back first.

        It takes a pod that has not started for one that starts now, anew at each comparison, so where it sorts a second
        time, which is where only some break a budget, such equals change places.
        """
        pods, rows = self.view.pod_table, len(self.result.rows)
        breaking = np.bincount(self.index[breaks], minlength=rows)
        mixed = (breaking > 0) & (breaking < np.bincount(self.index, minlength=rows))
        gone = np.flatnonzero(self.removed)
        again = np.flatnonzero(mixed[self.index[gone]])  # elsewhere they stand in order already
        which = gone[again]
        started, turns = pods.started[self.slots[which]], turns[which]
        turned = np.where(np.isinf(started), -turns, turns)
        gone[again] = which[np.lexsort((turned, started, -pods.priority[self.slots[which]], self.index[which]))]
        return gone

    def _filter(self, filters: Sequence[Filter], places: Indices) -> tuple[Indices, Ints]:
        """What the filters say of these places in `rows` without the pods that are gone; first with the promised pods."""
        rows, leaving = self.result.rows[places], self.slots[self.removed]
        alone = self.view.without_pods(leaving, self.pod)
        if self.with_nominated is None:
            return _run_filters(alone, self.pod, filters, rows)
        by, codes = _run_filters(self.with_nominated.without_pods(leaving, self.pod), self.pod, filters, rows)
        again = np.flatnonzero((by == FITS) & self.has_nominated[rows])
        by[again], codes[again] = _run_filters(alone, self.pod, filters, rows[again])
        return by, codes


def _run_filters(view: View, pod: Pod, filters: Sequence[Filter], rows: Indices) -> tuple[Indices, Ints]:
    by, codes = np.full(len(rows), FITS, dtype=np.intp), np.zeros(len(rows), dtype=np.int64)
    left = np.arange(len(rows))
    for index, plugin in enumerate(filters):
        answer = plugin.filter(view, pod, rows[left])
        refused = answer != 0
        if refused.any():
            by[left[refused]], codes[left[refused]] = index, answer[refused]
            left = left[~refused]
        if not len(left):
            break
    return by, codes


def _depends_on_pods(plugin: Filter) -> bool:
    """Whether pods that come and go can change the filter's mind; it is asked in every round."""
    return not isinstance(plugin, Cacheable) or bool(plugin.depends_on & (Change.PODS | Change.PLUGIN_STATE))


def _rank_in_group(groups: Indices) -> Indices:
    """0, 1, 2, … within each run of equal numbers."""
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))


def _violates_pdb(view: View, slots: Indices, at: Indices) -> Bools:
    """Whose leaving breaks a budget, if all leave their row in this order; each row has the whole budget to itself."""
    breaks = np.zeros(len(slots), dtype=np.bool_)
    budgets = view.objects.of_kind(PodDisruptionBudget)
    if not budgets:
        return breaks
    by_class = np.argsort(view.pod_table.label_class[slots], kind="stable")
    classes = view.pod_table.label_class[slots][by_class]
    for budget in budgets.values():
        covered = _covered_by_pdb(view, budget, slots, classes, by_class)
        if len(covered):
            breaks[covered[_rank_in_group(at[covered]) >= budget.disruptions_allowed]] = True
    return breaks


def _covered_by_pdb(
    view: View, budget: PodDisruptionBudget, slots: Indices, classes: Indices, by_class: Indices
) -> Indices:
    """Which of the slots the budget is about, in their order; those whose eviction it has counted already are not."""
    picked = [
        by_class[np.searchsorted(classes, number) : np.searchsorted(classes, number, "right")]
        for number in _selected_label_classes(view, budget)
    ]
    found = np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *picked]))
    if not budget.disrupted_pods:
        return found
    pods = view.pod_table.pods
    return found[[pods[slot].name not in budget.disrupted_pods for slot in slots[found].tolist()]]


def _selected_label_classes(view: View, budget: PodDisruptionBudget) -> list[int]:
    """Classes of labels that the budget selects. Unlike elsewhere, an empty selector selects nothing, nor are bare pods."""
    selector, classes = budget.selector, view.pod_table.label_sets
    if selector is None or selector.empty or not selector.valid:
        return []
    near = classes.with_pair.get(selector.match_labels[0], ()) if selector.match_labels else range(len(classes))
    held = ((number, *classes.sets[number]) for number in near)
    return [
        at for at, namespace, labels in held if namespace == budget.namespace and labels and selector.matches(labels)
    ]


def pick_one_node(view: View, pod: Pod, run: DryRun) -> int | None:
    """The place in `rows` where least harm is done; None when no row can be had."""
    pods = view.pod_table
    if not len(run.victims):
        return None
    first = np.flatnonzero(_rank_in_group(run.victim_index) == 0)
    places, number = run.victim_index[first], np.diff(np.append(first, len(run.victim_index)))
    priority = pods.priority[run.victims]
    left = np.arange(len(places))
    for harm in (
        run.pdb_violations[places],
        priority[first],
        np.add.reduceat(priority + PRIORITY_OFFSET, first),
        number,
        -pods.started[run.victims[first]],
        view.name_hash[run.rows[places]] ^ np.uint64(name_hash(pod.uid)),
    ):
        left = left[harm[left] == harm[left].min()]
        if len(left) == 1:
            break
    return int(places[left[0]])


def victims(view: View, run: DryRun, place: int) -> tuple[Pod, ...]:
    """The pods that have to leave the row at this place in `rows`, the most important first."""
    pods = view.pod_table.pods
    return tuple(pod for slot in run.victims_of(place).tolist() if (pod := pods[slot]) is not None)


def failure_message(view: View, pod: Pod, status: FilterStatus, run: DryRun) -> Unschedulable:
    """Why no row can be had, counted by reason."""
    told = [
        Rejection(
            "", ("No preemption victims found for incoming pod",), int((run.rejected_by == NO_VICTIMS).sum()), True
        )
    ]
    refused = run.rejected_by >= 0
    for (index, code), nodes in count_by_code(run.rejected_by[refused], run.codes[refused]).items():
        told.append(Rejection("", status.filters[index].reasons(view, pod, code), nodes, code < 0))
    told.append(Rejection("", ("Preemption is not helpful for scheduling",), view.count - len(run.rows), True))
    return Unschedulable(view.count, tuple(each for each in told if each.nodes))
