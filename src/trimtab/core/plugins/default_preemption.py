"""DefaultPreemption: finds pods of lower priority to evict. The engine performs the preemption.

The dry run covers all nodes at once:

    remove all pods of lower priority from every row ──▶ rows that still reject the pod are out
        └─▶ in rounds, each row reprieves its next pod if the incoming pod still fits ──▶ the pods left out are victims

Pods whose eviction would violate a PodDisruptionBudget are reprieved first, then the others, each from the highest
priority down (priority, then time since the start). One call of the filters serves a round of all rows. Each row is
evaluated as if only its own pods were removed. Where the pod has to yield to nominated pods, it must fit with them and
without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Cacheable, Filter, FilterStatus, Ints, PreemptionCandidate, Reject
from trimtab.core.framework.pod_checks import victims_leaving
from trimtab.core.framework.rejections import count_by_code
from trimtab.core.model.change import Change
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Rejection, Unschedulable
from trimtab.core.model.setting import INT32, ArgumentError, Support, setting

PREEMPTION_NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
FITS, NO_VICTIMS = -1, -2  # in `rejected_by`
PRIORITY_OFFSET = 1 << 31  # added to priorities, so that more victims never lower a row's sum

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class DefaultPreemption:
    """All nodes are always evaluated, so the two limits on the number of candidates are accepted and have no effect."""

    name: ClassVar[str] = "DefaultPreemption"
    requeue_on: ClassVar[Change] = Change.POD_DELETED
    needs_kinds: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets",)

    min_candidate_nodes_percentage: int = setting(
        10, "all nodes are always candidates for preemption; 0 to 100", between=(0, 100), support=Support.IGNORED
    )
    min_candidate_nodes_absolute: int = setting(
        100,
        "all nodes are always candidates for preemption; not both may be 0",
        between=(0, INT32),
        support=Support.IGNORED,
    )

    def __post_init__(self) -> None:
        if self.min_candidate_nodes_percentage == self.min_candidate_nodes_absolute == 0:
            raise ArgumentError("minCandidateNodesAbsolute", "cannot be 0 while minCandidateNodesPercentage is 0")

    def needs_kinds_for(self, pod: Pod) -> bool:
        """No pod needs budgets to find a node; without them nothing is preempted (`core/scheduling/preemption.py`)."""
        return False

    def post_filter(self, view: View, pod: Pod, status: FilterStatus) -> PreemptionCandidate | Reject:
        reason = ineligible_reason(view, pod, status)
        if reason:
            return Reject(reason, unresolvable=False)
        run = dry_run(view, pod, status)
        best = pick_one_node(view, pod, run)
        if best is None:
            return Reject(failure_message(view, pod, status, run).message())
        node = view.nodes[run.rows[best]].name
        return PreemptionCandidate(node, victims(view, run, best), int(run.pdb_violations[best]))


def ineligible_reason(view: View, pod: Pod, status: FilterStatus) -> str:
    """Why the pod may not preempt now; empty when it may."""
    if not pod.may_preempt:
        return PREEMPTION_NEVER
    row = view.row(pod.nominated_node) if pod.nominated_node else None
    if row is None or status.codes[row] < 0:  # the nomination can no longer succeed, so it may try again
        return ""
    return VICTIM_TERMINATING if victims_leaving(view, pod) else ""


@dataclass(slots=True)
class DryRun:
    """Per evaluated row: which filter rejects it (or FITS, NO_VICTIMS), the code, and the number of PDB violations.

    `victims` are slots of the pod table, row by row and highest priority first; `victim_index` is each one's index in
    `rows`.
    """

    rows: Indices
    rejected_by: Indices
    codes: Ints
    pdb_violations: Ints
    victims: Indices
    victim_index: Indices

    def victims_of(self, index: int) -> Indices:
        """The victims of the row at this index in `rows`."""
        return self.victims[
            np.searchsorted(self.victim_index, index) : np.searchsorted(self.victim_index, index, "right")
        ]


def dry_run(view: View, pod: Pod, status: FilterStatus) -> DryRun:
    """The pods to evict on every row whose rejection an eviction could resolve."""
    rows = np.flatnonzero(status.codes > 0)
    run = DryRun(
        rows,
        np.full(len(rows), NO_VICTIMS, dtype=np.intp),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        np.zeros(0, dtype=np.intp),
        np.zeros(0, dtype=np.intp),
    )
    candidates = _lower_priority(view, pod, rows)
    if len(candidates):
        _VictimSearch(view, pod, status, run, candidates).search()
    return run


def _lower_priority(view: View, pod: Pod, rows: Indices) -> Indices:
    """Slots of pods of lower priority on these rows, row by row, highest priority first."""
    pods = view.pod_table
    if not len(rows):
        return np.zeros(0, dtype=np.intp)
    selected = np.zeros(view.count + 1, dtype=np.bool_)  # the last cell is for pods on unknown nodes
    selected[rows] = True
    slots = np.flatnonzero((pods.priority < pod.priority) & selected[pods.row])
    started = pods.started[slots]
    # Ties: the pod placed first; among those that have not started the last one, as in kube-scheduler.
    order = np.where(np.isinf(started), -slots, slots)
    return slots[np.lexsort((order, started, (pods.row[slots] << 33) - pods.priority[slots]))]


class _VictimSearch:
    """State of one dry run: slots of pods of lower priority, their index in `rows`, and which are removed."""

    def __init__(self, view: View, pod: Pod, status: FilterStatus, result: DryRun, lower_priority: Indices) -> None:
        self.pod, self.status, self.result, self.view = pod, status, result, view
        place = np.zeros(view.count, dtype=np.intp)
        place[result.rows] = np.arange(len(result.rows))
        self.slots, self.index = lower_priority, place[view.pod_table.row[lower_priority]]
        self.removed: Bools = np.ones(len(lower_priority), dtype=np.bool_)
        self.has_nominated = view.rows_named(status.nominated)
        self.with_nominated = view.with_pods(status.nominated) if self.has_nominated.any() else None

    def search(self) -> None:
        result = self.result
        rows = self.index[_rank_in_group(self.index) == 0]
        result.rejected_by[rows], result.codes[rows] = self._filter(self.status.filters, rows)
        fits = result.rejected_by[self.index] == FITS
        self.slots, self.index, self.removed = self.slots[fits], self.index[fits], self.removed[fits]
        if len(self.slots):
            violating = _violates_pdb(self.view, self.slots, self.index)
            rounds = self._reprieve_order(violating)
            self._reprieve(rounds)
            result.pdb_violations += np.bincount(self.index[violating & self.removed], minlength=len(result.rows))
            order = self._victim_order(violating, rounds) if violating.any() else np.flatnonzero(self.removed)
            result.victims, result.victim_index = self.slots[order], self.index[order]

    def _reprieve_order(self, violating: Bools) -> Indices:
        """The round in which each pod may return to its row: those that violate a budget come first."""
        order = np.lexsort((~violating, self.index)) if violating.any() else np.arange(len(self.slots))
        rounds = np.empty_like(order)
        rounds[order] = _rank_in_group(self.index[order])
        return rounds

    def _reprieve(self, rounds: Indices) -> None:
        filters = tuple(each for each in self.status.filters if _depends_on_pods(each))
        by_round = np.argsort(rounds, kind="stable")
        for returning in np.split(by_round, np.cumsum(np.bincount(rounds))[:-1]):
            self.removed[returning] = False
            rejected = self._filter(filters, self.index[returning])[0] != FITS
            self.removed[returning[rejected]] = True

    def _victim_order(self, violating: Bools, rounds: Indices) -> Indices:
        """The removed pods, highest priority first; ties as kube-scheduler orders them: in the order of reprieval.

        It treats a pod that has not started as starting now, at each comparison, so where it sorts a second time, which
        is where only some violate a budget, such ties are reversed.
        """
        pods, rows = self.view.pod_table, len(self.result.rows)
        violations = np.bincount(self.index[violating], minlength=rows)
        mixed = (violations > 0) & (violations < np.bincount(self.index, minlength=rows))
        removed = np.flatnonzero(self.removed)
        resorted = np.flatnonzero(mixed[self.index[removed]])  # the others are sorted already
        subset = removed[resorted]
        started, rounds = pods.started[self.slots[subset]], rounds[subset]
        tie_order = np.where(np.isinf(started), -rounds, rounds)
        removed[resorted] = subset[
            np.lexsort((tie_order, started, -pods.priority[self.slots[subset]], self.index[subset]))
        ]
        return removed

    def _filter(self, filters: Sequence[Filter], indices: Indices) -> tuple[Indices, Ints]:
        """Run the filters for these indices in `rows` without the removed pods; first with nominated pods."""
        rows, removed = self.result.rows[indices], self.slots[self.removed]
        view = self.view.without_pods(removed, self.pod)
        if self.with_nominated is None:
            return _run_filters(view, self.pod, filters, rows)
        rejected_by, codes = _run_filters(self.with_nominated.without_pods(removed, self.pod), self.pod, filters, rows)
        recheck = np.flatnonzero((rejected_by == FITS) & self.has_nominated[rows])
        rejected_by[recheck], codes[recheck] = _run_filters(view, self.pod, filters, rows[recheck])
        return rejected_by, codes


def _run_filters(view: View, pod: Pod, filters: Sequence[Filter], rows: Indices) -> tuple[Indices, Ints]:
    rejected_by, codes = np.full(len(rows), FITS, dtype=np.intp), np.zeros(len(rows), dtype=np.int64)
    left = np.arange(len(rows))
    for index, plugin in enumerate(filters):
        result = plugin.filter(view, pod, rows[left])
        rejected = result != 0
        if rejected.any():
            rejected_by[left[rejected]], codes[left[rejected]] = index, result[rejected]
            left = left[~rejected]
        if not len(left):
            break
    return rejected_by, codes


def _depends_on_pods(plugin: Filter) -> bool:
    """Whether pods on the node can change the filter's result; if so it is run in every round."""
    return not isinstance(plugin, Cacheable) or bool(plugin.depends_on & (Change.PODS | Change.PLUGIN_STATE))


def _rank_in_group(groups: Indices) -> Indices:
    """0, 1, 2, … within each run of equal numbers."""
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))


def _violates_pdb(view: View, slots: Indices, at: Indices) -> Bools:
    """Whose eviction violates a budget if all are evicted in this order; each row has the whole budget to itself."""
    violating = np.zeros(len(slots), dtype=np.bool_)
    budgets = view.objects.of_kind(PodDisruptionBudget)
    if not budgets:
        return violating
    by_class = np.argsort(view.pod_table.label_set[slots], kind="stable")
    classes = view.pod_table.label_set[slots][by_class]
    for budget in budgets.values():
        covered = _covered_by_pdb(view, budget, slots, classes, by_class)
        if len(covered):
            violating[covered[_rank_in_group(at[covered]) >= budget.disruptions_allowed]] = True
    return violating


def _covered_by_pdb(
    view: View, budget: PodDisruptionBudget, slots: Indices, classes: Indices, by_class: Indices
) -> Indices:
    """Which of the slots the budget covers, in their order, except those it already counts as disrupted."""
    selected = [
        by_class[np.searchsorted(classes, number) : np.searchsorted(classes, number, "right")]
        for number in _selected_label_classes(view, budget)
    ]
    covered = np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *selected]))
    if not budget.disrupted_pods:
        return covered
    pods = view.pod_table.pods
    return covered[[pods[slot].name not in budget.disrupted_pods for slot in slots[covered].tolist()]]


def _selected_label_classes(view: View, budget: PodDisruptionBudget) -> list[int]:
    """Label sets that the budget selects. As in kube-scheduler, an empty selector or label set never matches."""
    selector, classes = budget.selector, view.pod_table.label_sets
    if selector is None or selector.empty or not selector.valid:
        return []
    candidates = classes.candidates(selector.match_labels[0]) if selector.match_labels else range(len(classes))
    matches = selector.matcher()
    return [
        number
        for number in candidates
        if (found := classes.sets[number])[0] == budget.namespace and found[1] and matches(found[1])
    ]


def pick_one_node(view: View, pod: Pod, run: DryRun) -> int | None:
    """The index in `rows` of the least harmful candidate, by kube-scheduler's criteria; None without candidates."""
    pods = view.pod_table
    if not len(run.victims):
        return None
    first = np.flatnonzero(_rank_in_group(run.victim_index) == 0)
    indices, counts = run.victim_index[first], np.diff(np.append(first, len(run.victim_index)))
    priority = pods.priority[run.victims]
    best = np.arange(len(indices))
    for criterion in (
        run.pdb_violations[indices],
        priority[first],
        np.add.reduceat(priority + PRIORITY_OFFSET, first),
        counts,
        -pods.started[run.victims[first]],
        view.name_hash[run.rows[indices]] ^ np.uint64(name_hash(pod.uid)),
    ):
        best = best[criterion[best] == criterion[best].min()]
        if len(best) == 1:
            break
    return int(indices[best[0]])


def victims(view: View, run: DryRun, place: int) -> tuple[Pod, ...]:
    """The victims on the row at this index in `rows`, highest priority first."""
    pods = view.pod_table.pods
    return tuple(pod for slot in run.victims_of(place).tolist() if (pod := pods[slot]) is not None)


def failure_message(view: View, pod: Pod, status: FilterStatus, run: DryRun) -> Unschedulable:
    """Why preemption helps on no row, counted by reason."""
    rejections = [
        Rejection(
            "", ("No preemption victims found for incoming pod",), int((run.rejected_by == NO_VICTIMS).sum()), True
        )
    ]
    rejected = run.rejected_by >= 0
    for (index, code), nodes in count_by_code(run.rejected_by[rejected], run.codes[rejected]).items():
        rejections.append(Rejection("", status.filters[index].reasons(view, pod, code), nodes, code < 0))
    rejections.append(Rejection("", ("Preemption is not helpful for scheduling",), view.count - len(run.rows), True))
    return Unschedulable(view.count, tuple(each for each in rejections if each.nodes))
