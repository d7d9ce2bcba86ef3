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

from trimtab.core.cluster.columns import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.objects import Budget
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Refusal, Unplaceable
from trimtab.core.placing.charged import pairs
from trimtab.core.placing.contract import Bools, Filter, Ints, Kept, Stuck

Indices = NDArray[np.intp]

FITS = -1  # in `by`
NO_VICTIMS = -2
LOWEST = 1 << 31  # added to priorities, so that a sum never rewards a row for having more victims


@dataclass(slots=True)
class DryRun:
    """Per row that was looked at: who refuses it (or FITS, NO_VICTIMS), the code, and how many budgets break.

    `victims` are slots of residents, row by row and the most important first; `at` says to which of `rows` each belongs.
    """

    rows: Indices
    by: Indices
    codes: Ints
    violations: Ints
    victims: Indices
    at: Indices

    def of(self, index: int) -> Indices:
        """Who has to leave the row at this place in `rows`."""
        return self.victims[np.searchsorted(self.at, index) : np.searchsorted(self.at, index, "right")]


def dry_run(view: View, pod: Pod, stuck: Stuck) -> DryRun:
    """Whom the pod would have to displace, on every row whose refusal an eviction could turn round."""
    rows = np.flatnonzero(stuck.codes > 0)
    run = DryRun(
        rows,
        np.full(len(rows), NO_VICTIMS, dtype=np.intp),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(0, dtype=np.intp),
        np.zeros(0, dtype=np.intp),
    )
    lesser = _lesser(view, pod, rows)
    if len(lesser):
        _Rehearsal(view, pod, stuck, run, lesser).play()
    return run


def _lesser(view: View, pod: Pod, rows: Indices) -> Indices:
    """Slots of pods of lower priority on these rows, row by row, the most important first."""
    pods = view.pods
    wanted = np.zeros(view.count + 1, dtype=np.bool_)  # the last cell is for pods on nodes that are not known
    wanted[rows] = True
    slots = np.flatnonzero((pods.priority < pod.priority) & wanted[pods.row])
    started = pods.started[slots]
    # Of equals the one that stood there first; of those that have not started the last, as kube-scheduler has it.
    turn = np.where(np.isinf(started), -slots, slots)
    return slots[np.lexsort((turn, started, (pods.row[slots] << 33) - pods.priority[slots]))]


class _Rehearsal:
    """One dry run in the making; `slots` are pods of lower priority, `at` their places in `rows`, `gone` who has left."""

    def __init__(self, view: View, pod: Pod, stuck: Stuck, run: DryRun, lesser: Indices) -> None:
        self.pod, self.stuck, self.run, self.alone = pod, stuck, run, view
        place = np.zeros(view.count, dtype=np.intp)
        place[run.rows] = np.arange(len(run.rows))
        self.slots, self.at = lesser, place[view.pods.row[lesser]]
        self.gone: Bools = np.ones(len(lesser), dtype=np.bool_)
        self.promised = view.named(stuck.promised)
        self.together = view.with_pods(stuck.promised) if self.promised.any() else None

    def play(self) -> None:
        run = self.run
        here = self.at[_number_within(self.at) == 0]
        run.by[here], run.codes[here] = self._asked(self.stuck.filters, here)
        fits = run.by[self.at] == FITS
        self.slots, self.at, self.gone = self.slots[fits], self.at[fits], self.gone[fits]
        if len(self.slots):
            breaks = _breaking(self.alone, self.slots, self.at)
            turns = self._turns(breaks)
            self._take_back(turns)
            run.violations += np.bincount(self.at[breaks & self.gone], minlength=len(run.rows))
            order = self._order(breaks, turns) if breaks.any() else np.flatnonzero(self.gone)
            run.victims, run.at = self.slots[order], self.at[order]

    def _turns(self, breaks: Bools) -> Indices:
        """When each pod may come back to its row: those that break a budget come first."""
        order = np.lexsort((~breaks, self.at)) if breaks.any() else np.arange(len(self.slots))
        turns = np.empty_like(order)
        turns[order] = _number_within(self.at[order])
        return turns

    def _take_back(self, turns: Indices) -> None:
        filters = tuple(each for each in self.stuck.filters if _heeds_pods(each))
        by_turn = np.argsort(turns, kind="stable")
        for back in np.split(by_turn, np.cumsum(np.bincount(turns))[:-1]):
            self.gone[back] = False
            refused = self._asked(filters, self.at[back])[0] != FITS
            self.gone[back[refused]] = True

    def _order(self, breaks: Bools, turns: Indices) -> Indices:
        """Those who are gone, the most important first; of equals, as kube-scheduler has it, whoever might come back first.

        It takes a pod that has not started for one that starts now, anew at each comparison, so where it sorts a second
        time, which is where only some break a budget, such equals change places.
        """
        pods, rows = self.alone.pods, len(self.run.rows)
        breaking = np.bincount(self.at[breaks], minlength=rows)
        mixed = (breaking > 0) & (breaking < np.bincount(self.at, minlength=rows))
        gone = np.flatnonzero(self.gone)
        again = np.flatnonzero(mixed[self.at[gone]])  # elsewhere they stand in order already
        which = gone[again]
        started, turns = pods.started[self.slots[which]], turns[which]
        turned = np.where(np.isinf(started), -turns, turns)
        gone[again] = which[np.lexsort((turned, started, -pods.priority[self.slots[which]], self.at[which]))]
        return gone

    def _asked(self, filters: Sequence[Filter], places: Indices) -> tuple[Indices, Ints]:
        """What the filters say of these places in `rows` without the pods that are gone; first with the promised pods."""
        rows, leaving = self.run.rows[places], self.slots[self.gone]
        alone = self.alone.without(leaving, self.pod)
        if self.together is None:
            return _first_refusals(alone, self.pod, filters, rows)
        by, codes = _first_refusals(self.together.without(leaving, self.pod), self.pod, filters, rows)
        again = np.flatnonzero((by == FITS) & self.promised[rows])
        by[again], codes[again] = _first_refusals(alone, self.pod, filters, rows[again])
        return by, codes


def _first_refusals(view: View, pod: Pod, filters: Sequence[Filter], rows: Indices) -> tuple[Indices, Ints]:
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


def _heeds_pods(plugin: Filter) -> bool:
    """Whether pods that come and go can change the filter's mind; it is asked in every round."""
    return not isinstance(plugin, Kept) or bool(plugin.reads & (Change.PODS | Change.MEMORY))


def _number_within(groups: Indices) -> Indices:
    """0, 1, 2, … within each run of equal numbers."""
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))


def _breaking(view: View, slots: Indices, at: Indices) -> Bools:
    """Whose leaving breaks a budget, if all leave their row in this order; each row has the whole budget to itself."""
    breaks = np.zeros(len(slots), dtype=np.bool_)
    budgets = view.objects.of(Budget)
    if not budgets:
        return breaks
    by_class = np.argsort(view.pods.label_class[slots], kind="stable")
    classes = view.pods.label_class[slots][by_class]
    for budget in budgets.values():
        covered = _covered(view, budget, slots, classes, by_class)
        if len(covered):
            breaks[covered[_number_within(at[covered]) >= budget.allowed]] = True
    return breaks


def _covered(view: View, budget: Budget, slots: Indices, classes: Indices, by_class: Indices) -> Indices:
    """Which of the slots the budget is about, in their order; those whose eviction it has counted already are not."""
    picked = [
        by_class[np.searchsorted(classes, number) : np.searchsorted(classes, number, "right")]
        for number in _classes(view, budget)
    ]
    found = np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *picked]))
    if not budget.disrupted:
        return found
    pods = view.pods.pods
    return found[[pods[slot].name not in budget.disrupted for slot in slots[found].tolist()]]


def _classes(view: View, budget: Budget) -> list[int]:
    """Classes of labels that the budget selects. Unlike elsewhere, an empty selector selects nothing, nor are bare pods."""
    selector, classes = budget.selector, view.pods.classes
    if selector is None or selector.empty or not selector.sound:
        return []
    near = classes.with_pair.get(selector.match_labels[0], ()) if selector.match_labels else range(len(classes))
    held = ((number, *classes.held[number]) for number in near)
    return [at for at, namespace, labels in held if namespace == budget.namespace and labels and selector.picks(labels)]


def chosen(view: View, pod: Pod, run: DryRun) -> int | None:
    """The place in `rows` where least harm is done; None when no row can be had."""
    pods = view.pods
    if not len(run.victims):
        return None
    first = np.flatnonzero(_number_within(run.at) == 0)
    places, number = run.at[first], np.diff(np.append(first, len(run.at)))
    priority = pods.priority[run.victims]
    left = np.arange(len(places))
    for harm in (
        run.violations[places],
        priority[first],
        np.add.reduceat(priority + LOWEST, first),
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
    pods = view.pods.pods
    return tuple(pod for slot in run.of(place).tolist() if (pod := pods[slot]) is not None)


def refusals(view: View, pod: Pod, stuck: Stuck, run: DryRun) -> Unplaceable:
    """Why no row can be had, counted by reason."""
    told = [Refusal("", ("No preemption victims found for incoming pod",), int((run.by == NO_VICTIMS).sum()), True)]
    refused = run.by >= 0
    for (index, code), nodes in pairs(run.by[refused], run.codes[refused]).items():
        told.append(Refusal("", stuck.filters[index].reasons(view, pod, code), nodes, code < 0))
    told.append(Refusal("", ("Preemption is not helpful for scheduling",), view.count - len(run.rows), True))
    return Unplaceable(view.count, tuple(each for each in told if each.nodes))
