"""What every plugin of a profile says about one kind of pod, for all nodes, and how to bring that up to date.

    kept:     plugins that declare what they depend on; asked once (`ask`), then only about rows that changed (`refresh`)
    changing: all others; asked for every pod, about all rows, on top of what is kept
    among:    scores that hold only among the feasible rows; asked by `choose`, which knows them

Both paths go through the same code, and a law says that they agree. Which node is best is left to `choose`; whose answers
may be kept is said in `contract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from trimtab.core.cluster.node_table import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import (
    ALL_ROWS,
    MAX_SCORE,
    Ints,
    NodeSubset,
    Normalise,
    PreFilter,
    PreFilterStatus,
    Reject,
    Rows,
)
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.framework.rejections import Rejections
from trimtab.core.framework.timing import NO_TIMER, PluginTimer
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Rejection

INFEASIBLE = np.int64(-(1 << 62))
INFEASIBLE_MAX = INFEASIBLE // 2  # at or below this a row is refused, whatever scores were added to NEVER
FULL_UPDATE_FRACTION = 8  # from one row in so many on, asking all rows at once is cheaper
MAX_SCALAR_ROWS = 16  # up to so many rows, plain numbers are cheaper than arrays


class Evaluation:
    """Who refuses which row, and score columns; `ready` is what scores by row alone, NEVER where a row is refused."""

    def __init__(self, profile: Profile, pod: Pod) -> None:
        self.profile, self.pod = profile, pod
        self.pre_filter_rejection: tuple[str, Reject] | None = None
        self.node_subsets: dict[str, NodeSubset] = {}
        self.codes: dict[int, Ints] = {}  # by the filter's number in the profile; absent where it is skipped
        self.raw_scores: dict[int, Ints] = {}
        self.rejections = Rejections.empty(0)
        self.base_scores: Ints = np.zeros(0, dtype=np.int64)
        self.relative: tuple[int, ...] = ()
        self.custom_scores: tuple[int, ...] = profile.custom_scores
        self.offset = 0
        self.epoch = -1
        self.log_position = 0
        self._cached_pre_filters: list[tuple[int, str, Reject | NodeSubset]] = []
        self._cached_rejections = Rejections.empty(0)
        self._cached_scores: Ints = self.base_scores
        self._cached_filter_ids: list[int] = []
        self._cached_score_ids: list[int] = []
        self._cached_relative: tuple[tuple[int, ...], int] = ((), 0)
        self._reasons: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
        self._by_dependency: dict[int, tuple[list[int], list[int]]] = {}

    # --- what is kept, from nothing

    def compute(self, view: View, timer: PluginTimer = NO_TIMER) -> None:
        """Put every question for every row."""
        self.codes, self.raw_scores = {}, {}
        self._reasons.clear()
        kept = self.profile.cached
        self._cached_pre_filters, skipped = self._run_pre_filters(view, kept.pre_filters, timer)
        self._cached_filter_ids = self._run_filters(view, kept.filters, skipped, timer)
        self._cached_score_ids = self._run_scores(view, kept.scores, timer)
        self._cached_relative = self._split_relative(self._cached_score_ids)
        self._group_by_dependency()
        self._combine_cached(view)
        self.epoch, self.log_position = view.node_table.epoch, len(view.node_table.log)
        self._run_uncached(view, timer)

    def _run_pre_filters(
        self, view: View, prefilters: Sequence[tuple[int, PreFilter]], timer: PluginTimer
    ) -> tuple[list[tuple[int, str, Reject | NodeSubset]], set[str]]:
        found: list[tuple[int, str, Reject | NodeSubset]] = []
        skipped: set[str] = set()
        for index, plugin in prefilters:
            name = plugin_name(plugin)
            match plugin.pre_filter(view, self.pod):
                case PreFilterStatus.SKIP:
                    skipped.add(name)
                case (Reject() | NodeSubset()) as said:
                    found.append((index, name, said))
            timer.record("PreFilter", name)
        return found, skipped

    def _run_filters(self, view: View, filters: Sequence[int], skipped: set[str], timer: PluginTimer) -> list[int]:
        asked = []
        for index in filters:
            self.codes.pop(index, None)  # of an earlier pod, for which it was not skipped
            plugin = self.profile.filters[index]
            name = plugin_name(plugin)
            if name not in skipped:
                self.codes[index] = plugin.filter(view, self.pod, ALL_ROWS)
                asked.append(index)
                timer.record("Filter", name)
        return asked

    def _run_scores(self, view: View, scores: Sequence[int], timer: PluginTimer) -> list[int]:
        asked = []
        for index in scores:
            self.raw_scores.pop(index, None)
            scoring = self.profile.scores[index]
            column = scoring.plugin.score(view, self.pod, ALL_ROWS)
            timer.record("Score", scoring.name)
            if column is not None:
                self.raw_scores[index] = column
                asked.append(index)
        return asked

    def _combine_cached(self, view: View) -> None:
        self._cached_rejections = Rejections.of(
            [(index, self.codes[index]) for index in self._cached_filter_ids], view.count
        )
        self._cached_scores = self._add_scores(self._cached_score_ids, np.zeros(view.count, dtype=np.int64))
        self._cached_scores[~self._cached_rejections.passing] = INFEASIBLE

    def _add_scores(self, scores: Sequence[int], total: Ints) -> Ints:
        for index in scores:
            scoring = self.profile.scores[index]
            if scoring.per_node:
                total += self.raw_scores[index] * scoring.factor if scoring.factor != 1 else self.raw_scores[index]
        return total

    def _split_relative(self, scores: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Scores that are scaled by the highest, and what those that are all zeros add to each node."""
        relative, constant = [], 0
        for index in scores:
            scoring = self.profile.scores[index]
            if not scoring.per_node and self.raw_scores[index].any():
                relative.append(index)
            elif scoring.plugin.normalise is Normalise.LOWER:
                constant += MAX_SCORE * scoring.factor
        return tuple(relative), constant

    # --- what is kept, brought up to date

    def update(self, view: View, pod: Pod, timer: PluginTimer = NO_TIMER) -> None:
        """Ask again what changed since, for a pod with the same signature."""
        columns = view.node_table
        self.pod = pod
        if self.epoch != columns.epoch:
            self.compute(view, timer)
            return
        touched = _changes_by_row(columns.log[self.log_position :])
        self.log_position = len(columns.log)
        if EVERY_ROW not in touched and len(touched) * FULL_UPDATE_FRACTION > view.count:
            touched = {EVERY_ROW: reduce(or_, touched.values())}
        if touched:
            self._recompute(view, touched, timer)
        self._run_uncached(view, timer)

    def _recompute(self, view: View, touched: dict[int, int], timer: PluginTimer) -> None:
        dirty: set[int] = set()
        rescored: list[int] = []
        for reads, (filters, scores) in self._by_dependency.items():
            rows = {row for row, change in touched.items() if change & reads}
            if not rows:
                continue
            at = _selector(rows)
            for index in filters:
                plugin = self.profile.filters[index]
                self.codes[index][at] = plugin.filter(view, self.pod, at)
                timer.record("Filter", plugin_name(plugin))
            for index in scores:
                fresh = self.profile.scores[index].plugin.score(view, self.pod, at)
                if fresh is not None:  # having no opinion depends on the pod alone: whoever had one still has
                    self.raw_scores[index][at] = fresh
                timer.record("Score", self.profile.scores[index].name)
            rescored += scores
            dirty |= rows
        self._recombine(view, dirty, rescored)

    def _group_by_dependency(self) -> None:
        """Filters and scores by what they read: most read the same, and only some of it changes with a placement."""
        self._by_dependency = {}
        for index in self._cached_filter_ids:
            self._dependency_group(self.profile.filters[index])[0].append(index)
        for index in self._cached_score_ids:
            self._dependency_group(self.profile.scores[index].plugin)[1].append(index)

    def _dependency_group(self, plugin: object) -> tuple[list[int], list[int]]:
        return self._by_dependency.setdefault(self.profile.depends_on[plugin_name(plugin)], ([], []))

    def _recombine(self, view: View, dirty: set[int], rescored: list[int]) -> None:
        if any(not self.profile.scores[index].per_node for index in rescored):
            self._cached_relative = self._split_relative(self._cached_score_ids)
        if EVERY_ROW in dirty or len(dirty) > MAX_SCALAR_ROWS:
            self._combine_cached(view)
        else:
            for row in dirty:
                self._recombine_row(row)

    def _recombine_row(self, row: int) -> None:
        """What `_combine_cached` does, for one row and without arrays."""
        passes = self._cached_rejections.recompute_row(
            row, ((index, self.codes[index]) for index in self._cached_filter_ids)
        )
        self._cached_scores[row] = self._row_score(row) if passes else INFEASIBLE

    def _row_score(self, row: int) -> int:
        scores = self.profile.scores
        return sum(
            self.raw_scores[index].item(row) * scores[index].factor
            for index in self._cached_score_ids
            if scores[index].per_node
        )

    # --- what changes from pod to pod, on top

    def _run_uncached(self, view: View, timer: PluginTimer) -> None:
        changing = self.profile.uncached
        ahead, skipped = self._run_pre_filters(view, changing.pre_filters, timer)
        self._merge_pre_filters(ahead)
        self.rejections, self.base_scores = self._cached_rejections, self._cached_scores
        self.relative, self.offset = self._cached_relative
        if self.pre_filter_rejection is not None or not (changing.filters or changing.scores):
            return
        self._reasons = {key: words for key, words in self._reasons.items() if key[0] not in changing.filters}
        filters = self._run_filters(view, changing.filters, skipped, timer)
        scores = self._run_scores(view, changing.scores, timer)
        self.rejections = self._cached_rejections.with_filters([(index, self.codes[index]) for index in filters])
        self._add_uncached_scores(scores)

    def _merge_pre_filters(self, changing: list[tuple[int, str, Reject | NodeSubset]]) -> None:
        """The first refusal in the profile's order is the one that is told."""
        said = (
            sorted((*self._cached_pre_filters, *changing), key=lambda each: each[0])
            if changing
            else self._cached_pre_filters
        )
        self.pre_filter_rejection = next(((name, each) for _, name, each in said if isinstance(each, Reject)), None)
        self.node_subsets = {name: each for _, name, each in said if isinstance(each, NodeSubset)}

    def _add_uncached_scores(self, scores: list[int]) -> None:
        if self.rejections is not self._cached_rejections or scores:
            self.base_scores = self._add_scores(scores, self._cached_scores.copy())
            self.base_scores[~self.rejections.passing] = INFEASIBLE
        relative, constant = self._split_relative(scores)
        self.relative, self.offset = (*self.relative, *relative), self.offset + constant

    # --- put into words

    def rejection_summary(self, view: View) -> tuple[Rejection, ...]:
        """Refused nodes by plugin and reason, in the profile's order."""
        return tuple(
            self.rejection(view, index, code, number)
            for (index, code), number in sorted(self.rejections.counts.items())
            if number > 0
        )

    def rejection(self, view: View, index: int, code: int, nodes: int) -> Rejection:
        words = self._reasons.get((index, code))
        if words is None:
            plugin = self.profile.filters[index]
            words = self._reasons[index, code] = (plugin_name(plugin), plugin.reasons(view, self.pod, code))
        return Rejection(words[0], words[1], nodes, code < 0)


def _changes_by_row(entries: Sequence[tuple[int, int]]) -> dict[int, int]:
    touched: dict[int, int] = {}
    for change, row in entries:
        touched[row] = touched.get(row, 0) | change
    return touched


def _selector(rows: set[int]) -> Rows:
    """The rows as an index; a slice is a good deal cheaper than an array of one."""
    if EVERY_ROW in rows:
        return ALL_ROWS
    if len(rows) == 1:
        (row,) = rows
        return slice(row, row + 1)
    return np.array([*rows], dtype=np.intp)
