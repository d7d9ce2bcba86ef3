"""Results of all plugins of a profile for one pod template and all nodes, and their incremental update.

    cached:   plugins that declare what they depend on; run once (`compute`), then only for changed rows (`update`)
    uncached: all others; run for every pod and all rows, on top of what is cached
    custom:   scores with their own normalisation; run by `choose`, which knows the feasible rows

`compute` and `update` share their code, and a law in `trimtab.laws` says that they agree.
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
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Rejection


class PluginTimer:
    """`record` is called after each plugin ran; the default does nothing."""

    def record(self, point: str, plugin: str) -> None:
        """Attribute the time since the last call to this plugin at this extension point."""


NO_TIMER = PluginTimer()


INFEASIBLE = np.int64(-(1 << 62))
INFEASIBLE_MAX = INFEASIBLE // 2  # at or below this a row is infeasible, whatever scores were added
FULL_UPDATE_FRACTION = 8  # above one changed row in so many, rerunning all rows at once is cheaper
MAX_SCALAR_ROWS = 16  # up to so many rows, plain numbers are cheaper than arrays


class Evaluation:
    """Rejections and scores by row; `base_scores` is the sum of per-node scores, INFEASIBLE where rejected."""

    def __init__(self, profile: Profile, pod: Pod) -> None:
        self.profile, self.pod = profile, pod
        self.pre_filter_rejection: tuple[str, Reject] | None = None
        self.node_subsets: dict[str, NodeSubset] = {}
        self.codes: dict[int, Ints] = {}  # by the filter's index in the profile; absent if it was skipped
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

    # --- cached results, from scratch

    def compute(self, view: View, timer: PluginTimer = NO_TIMER) -> None:
        """Run every plugin for every row."""
        self.codes, self.raw_scores = {}, {}
        self._reasons.clear()
        cached = self.profile.cached
        self._cached_pre_filters, skipped = self._run_pre_filters(view, cached.pre_filters, timer)
        self._cached_filter_ids = self._run_filters(view, cached.filters, skipped, timer)
        self._cached_score_ids = self._run_scores(view, cached.scores, timer)
        self._cached_relative = self._split_relative(self._cached_score_ids)
        self._group_by_dependency()
        self._combine_cached(view)
        self.epoch, self.log_position = view.node_table.epoch, len(view.node_table.log)
        self._run_uncached(view, timer)

    def _run_pre_filters(
        self, view: View, pre_filters: Sequence[tuple[int, PreFilter]], timer: PluginTimer
    ) -> tuple[list[tuple[int, str, Reject | NodeSubset]], set[str]]:
        results: list[tuple[int, str, Reject | NodeSubset]] = []
        skipped: set[str] = set()
        for index, plugin in pre_filters:
            name = plugin_name(plugin)
            match plugin.pre_filter(view, self.pod):
                case PreFilterStatus.SKIP:
                    skipped.add(name)
                case (Reject() | NodeSubset()) as result:
                    results.append((index, name, result))
            timer.record("PreFilter", name)
        return results, skipped

    def _run_filters(self, view: View, filters: Sequence[int], skipped: set[str], timer: PluginTimer) -> list[int]:
        ran = []
        for index in filters:
            self.codes.pop(index, None)  # left from an earlier pod for which it was not skipped
            plugin = self.profile.filters[index]
            name = plugin_name(plugin)
            if name not in skipped:
                self.codes[index] = plugin.filter(view, self.pod, ALL_ROWS)
                ran.append(index)
                timer.record("Filter", name)
        return ran

    def _run_scores(self, view: View, scores: Sequence[int], timer: PluginTimer) -> list[int]:
        ran = []
        for index in scores:
            self.raw_scores.pop(index, None)
            scoring = self.profile.scores[index]
            column = scoring.plugin.score(view, self.pod, ALL_ROWS)
            timer.record("Score", scoring.name)
            if column is not None:
                self.raw_scores[index] = column
                ran.append(index)
        return ran

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
        """Scores that are normalised by the highest, and the constant that all-zero reversed ones add to each node."""
        relative, offset = [], 0
        for index in scores:
            scoring = self.profile.scores[index]
            if not scoring.per_node and self.raw_scores[index].any():
                relative.append(index)
            elif scoring.plugin.normalise is Normalise.LOWER:
                offset += MAX_SCORE * scoring.factor
        return tuple(relative), offset

    def is_current(self, view: View) -> bool:
        """Whether no row has changed since."""
        return self.epoch == view.node_table.epoch and self.log_position == len(view.node_table.log)

    # --- cached results, updated

    def update(self, view: View, pod: Pod, timer: PluginTimer = NO_TIMER) -> None:
        """Rerun what changed since, for a pod with the same signature."""
        nodes = view.node_table
        self.pod = pod
        if self.epoch != nodes.epoch:
            self.compute(view, timer)
            return
        changes = _changes_by_row(nodes.log[self.log_position :])
        self.log_position = len(nodes.log)
        if EVERY_ROW not in changes and len(changes) * FULL_UPDATE_FRACTION > view.count:
            changes = {EVERY_ROW: reduce(or_, changes.values())}
        if changes:
            self._recompute(view, changes, timer)
        self._run_uncached(view, timer)

    def _recompute(self, view: View, changes: dict[int, int], timer: PluginTimer) -> None:
        dirty: set[int] = set()
        rescored: list[int] = []
        for depends_on, (filters, scores) in self._by_dependency.items():
            rows = {row for row, change in changes.items() if change & depends_on}
            if not rows:
                continue
            selected = _selector(rows)
            for index in filters:
                plugin = self.profile.filters[index]
                self.codes[index][selected] = plugin.filter(view, self.pod, selected)
                timer.record("Filter", plugin_name(plugin))
            for index in scores:
                scored = self.profile.scores[index].plugin.score(view, self.pod, selected)
                if scored is not None:  # whether a plugin scores a pod depends on its signature alone
                    self.raw_scores[index][selected] = scored
                timer.record("Score", self.profile.scores[index].name)
            rescored += scores
            dirty |= rows
        self._recombine(view, dirty, rescored)

    def _group_by_dependency(self) -> None:
        """Filters and scores by `depends_on`: many share it, and a placement changes only some of it."""
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

    # --- uncached results, on top

    def _run_uncached(self, view: View, timer: PluginTimer) -> None:
        uncached = self.profile.uncached
        results, skipped = self._run_pre_filters(view, uncached.pre_filters, timer)
        self._merge_pre_filters(results)
        self.rejections, self.base_scores = self._cached_rejections, self._cached_scores
        self.relative, self.offset = self._cached_relative
        if self.pre_filter_rejection is not None or not (uncached.filters or uncached.scores):
            return
        self._reasons = {key: reasons for key, reasons in self._reasons.items() if key[0] not in uncached.filters}
        filters = self._run_filters(view, uncached.filters, skipped, timer)
        scores = self._run_scores(view, uncached.scores, timer)
        self.rejections = self._cached_rejections.with_filters([(index, self.codes[index]) for index in filters])
        self._add_uncached_scores(scores)

    def _merge_pre_filters(self, uncached: list[tuple[int, str, Reject | NodeSubset]]) -> None:
        """The first rejection in the profile's order is the one that is reported."""
        results = (
            sorted((*self._cached_pre_filters, *uncached), key=lambda each: each[0])
            if uncached
            else self._cached_pre_filters
        )
        self.pre_filter_rejection = next(((name, each) for _, name, each in results if isinstance(each, Reject)), None)
        self.node_subsets = {name: each for _, name, each in results if isinstance(each, NodeSubset)}

    def _add_uncached_scores(self, scores: list[int]) -> None:
        if self.rejections is not self._cached_rejections or scores:
            self.base_scores = self._add_scores(scores, self._cached_scores.copy())
            self.base_scores[~self.rejections.passing] = INFEASIBLE
        relative, offset = self._split_relative(scores)
        self.relative, self.offset = (*self.relative, *relative), self.offset + offset

    # --- reasons

    def rejection_summary(self, view: View) -> tuple[Rejection, ...]:
        """Rejected nodes counted by plugin and reason, in the profile's order."""
        return tuple(
            self.rejection(view, index, code, number)
            for (index, code), number in sorted(self.rejections.counts.items())
            if number > 0
        )

    def rejection(self, view: View, index: int, code: int, nodes: int) -> Rejection:
        named_reasons = self._reasons.get((index, code))
        if named_reasons is None:
            plugin = self.profile.filters[index]
            named_reasons = self._reasons[index, code] = (plugin_name(plugin), plugin.reasons(view, self.pod, code))
        name, reasons = named_reasons
        return Rejection(name, reasons, nodes, code < 0)


def _changes_by_row(entries: Sequence[tuple[int, int]]) -> dict[int, int]:
    changes: dict[int, int] = {}
    for change, row in entries:
        changes[row] = changes.get(row, 0) | change
    return changes


def _selector(rows: set[int]) -> Rows:
    """The rows as an index; a slice is much cheaper than an array of one."""
    if EVERY_ROW in rows:
        return ALL_ROWS
    if len(rows) == 1:
        (row,) = rows
        return slice(row, row + 1)
    return np.array([*rows], dtype=np.intp)
