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

from trimtab.core.cluster.columns import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Refusal
from trimtab.core.placing.charged import Charged
from trimtab.core.placing.contract import ALL, MAX_SCORE, Ahead, Ints, Normalise, Only, Prefilter, Refuse, Rows
from trimtab.core.placing.laps import NO_LAPS, Laps
from trimtab.core.placing.profile import Profile, plugin_name

NEVER = np.int64(-(1 << 62))
REFUSED = NEVER // 2  # at or below this a row is refused, whatever scores were added to NEVER
MANY = 8  # from one row in so many on, asking all rows at once is cheaper
FEW = 16  # up to so many rows, plain numbers are cheaper than arrays


class Answers:
    """Who refuses which row, and score columns; `ready` is what scores by row alone, NEVER where a row is refused."""

    def __init__(self, profile: Profile, pod: Pod) -> None:
        self.profile, self.pod = profile, pod
        self.refused: tuple[str, Refuse] | None = None
        self.only: dict[str, Only] = {}
        self.codes: dict[int, Ints] = {}  # by the filter's number in the profile; absent where it is skipped
        self.raw: dict[int, Ints] = {}
        self.charged = Charged.nobody(0)
        self.ready: Ints = np.zeros(0, dtype=np.int64)
        self.relative: tuple[int, ...] = ()
        self.among: tuple[int, ...] = profile.among
        self.constant = 0
        self.epoch = -1
        self.position = 0
        self._kept_ahead: list[tuple[int, str, Refuse | Only]] = []
        self._kept = Charged.nobody(0)
        self._kept_ready: Ints = self.ready
        self._kept_filters: list[int] = []
        self._kept_scores: list[int] = []
        self._kept_relative: tuple[tuple[int, ...], int] = ((), 0)
        self._words: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
        self._readers: dict[int, tuple[list[int], list[int]]] = {}

    # --- what is kept, from nothing

    def ask(self, view: View, laps: Laps = NO_LAPS) -> None:
        """Put every question for every row."""
        self.codes, self.raw = {}, {}
        self._words.clear()
        kept = self.profile.kept
        self._kept_ahead, skipped = self._look_ahead(view, kept.prefilters, laps)
        self._kept_filters = self._ask_filters(view, kept.filters, skipped, laps)
        self._kept_scores = self._ask_scores(view, kept.scores, laps)
        self._kept_relative = self._sorted_scores(self._kept_scores)
        self._sort_readers()
        self._add_up(view)
        self.epoch, self.position = view.columns.epoch, len(view.columns.log)
        self._ask_changing(view, laps)

    def _look_ahead(
        self, view: View, prefilters: Sequence[tuple[int, Prefilter]], laps: Laps
    ) -> tuple[list[tuple[int, str, Refuse | Only]], set[str]]:
        found: list[tuple[int, str, Refuse | Only]] = []
        skipped: set[str] = set()
        for index, plugin in prefilters:
            name = plugin_name(plugin)
            match plugin.prefilter(view, self.pod):
                case Ahead.SKIP:
                    skipped.add(name)
                case (Refuse() | Only()) as said:
                    found.append((index, name, said))
            laps.mark("PreFilter", name)
        return found, skipped

    def _ask_filters(self, view: View, filters: Sequence[int], skipped: set[str], laps: Laps) -> list[int]:
        asked = []
        for index in filters:
            self.codes.pop(index, None)  # of an earlier pod, for which it was not skipped
            plugin = self.profile.filters[index]
            name = plugin_name(plugin)
            if name not in skipped:
                self.codes[index] = plugin.filter(view, self.pod, ALL)
                asked.append(index)
                laps.mark("Filter", name)
        return asked

    def _ask_scores(self, view: View, scores: Sequence[int], laps: Laps) -> list[int]:
        asked = []
        for index in scores:
            self.raw.pop(index, None)
            scoring = self.profile.scores[index]
            column = scoring.plugin.score(view, self.pod, ALL)
            laps.mark("Score", scoring.name)
            if column is not None:
                self.raw[index] = column
                asked.append(index)
        return asked

    def _add_up(self, view: View) -> None:
        self._kept = Charged.of([(index, self.codes[index]) for index in self._kept_filters], view.count)
        self._kept_ready = self._sum(self._kept_scores, np.zeros(view.count, dtype=np.int64))
        self._kept_ready[~self._kept.passing] = NEVER

    def _sum(self, scores: Sequence[int], total: Ints) -> Ints:
        for index in scores:
            scoring = self.profile.scores[index]
            if scoring.by_row:
                total += self.raw[index] * scoring.factor if scoring.factor != 1 else self.raw[index]
        return total

    def _sorted_scores(self, scores: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Scores that are scaled by the highest, and what those that are all zeros add to each node."""
        relative, constant = [], 0
        for index in scores:
            scoring = self.profile.scores[index]
            if not scoring.by_row and self.raw[index].any():
                relative.append(index)
            elif scoring.plugin.normalise is Normalise.LOWER:
                constant += MAX_SCORE * scoring.factor
        return tuple(relative), constant

    # --- what is kept, brought up to date

    def refresh(self, view: View, pod: Pod, laps: Laps = NO_LAPS) -> None:
        """Ask again what changed since, for a pod with the same signature."""
        columns = view.columns
        self.pod = pod
        if self.epoch != columns.epoch:
            self.ask(view, laps)
            return
        touched = _touched(columns.log[self.position :])
        self.position = len(columns.log)
        if EVERY_ROW not in touched and len(touched) * MANY > view.count:
            touched = {EVERY_ROW: reduce(or_, touched.values())}
        if touched:
            self._ask_again(view, touched, laps)
        self._ask_changing(view, laps)

    def _ask_again(self, view: View, touched: dict[int, int], laps: Laps) -> None:
        dirty: set[int] = set()
        rescored: list[int] = []
        for reads, (filters, scores) in self._readers.items():
            rows = {row for row, change in touched.items() if change & reads}
            if not rows:
                continue
            at = _selector(rows)
            for index in filters:
                plugin = self.profile.filters[index]
                self.codes[index][at] = plugin.filter(view, self.pod, at)
                laps.mark("Filter", plugin_name(plugin))
            for index in scores:
                fresh = self.profile.scores[index].plugin.score(view, self.pod, at)
                if fresh is not None:  # having no opinion depends on the pod alone: whoever had one still has
                    self.raw[index][at] = fresh
                laps.mark("Score", self.profile.scores[index].name)
            rescored += scores
            dirty |= rows
        self._redo(view, dirty, rescored)

    def _sort_readers(self) -> None:
        """Filters and scores by what they read: most read the same, and only some of it changes with a placement."""
        self._readers = {}
        for index in self._kept_filters:
            self._reader(self.profile.filters[index])[0].append(index)
        for index in self._kept_scores:
            self._reader(self.profile.scores[index].plugin)[1].append(index)

    def _reader(self, plugin: object) -> tuple[list[int], list[int]]:
        return self._readers.setdefault(self.profile.reads[plugin_name(plugin)], ([], []))

    def _redo(self, view: View, dirty: set[int], rescored: list[int]) -> None:
        if any(not self.profile.scores[index].by_row for index in rescored):
            self._kept_relative = self._sorted_scores(self._kept_scores)
        if EVERY_ROW in dirty or len(dirty) > FEW:
            self._add_up(view)
        else:
            for row in dirty:
                self._redo_row(row)

    def _redo_row(self, row: int) -> None:
        """What `_add_up` does, for one row and without arrays."""
        passes = self._kept.redo(row, ((index, self.codes[index]) for index in self._kept_filters))
        self._kept_ready[row] = self._row_score(row) if passes else NEVER

    def _row_score(self, row: int) -> int:
        scores = self.profile.scores
        return sum(
            self.raw[index].item(row) * scores[index].factor for index in self._kept_scores if scores[index].by_row
        )

    # --- what changes from pod to pod, on top

    def _ask_changing(self, view: View, laps: Laps) -> None:
        changing = self.profile.changing
        ahead, skipped = self._look_ahead(view, changing.prefilters, laps)
        self._sum_up_ahead(ahead)
        self.charged, self.ready = self._kept, self._kept_ready
        self.relative, self.constant = self._kept_relative
        if self.refused is not None or not (changing.filters or changing.scores):
            return
        self._words = {key: words for key, words in self._words.items() if key[0] not in changing.filters}
        filters = self._ask_filters(view, changing.filters, skipped, laps)
        scores = self._ask_scores(view, changing.scores, laps)
        self.charged = self._kept.also([(index, self.codes[index]) for index in filters])
        self._score_changing(scores)

    def _sum_up_ahead(self, changing: list[tuple[int, str, Refuse | Only]]) -> None:
        """The first refusal in the profile's order is the one that is told."""
        said = sorted((*self._kept_ahead, *changing), key=lambda each: each[0]) if changing else self._kept_ahead
        self.refused = next(((name, each) for _, name, each in said if isinstance(each, Refuse)), None)
        self.only = {name: each for _, name, each in said if isinstance(each, Only)}

    def _score_changing(self, scores: list[int]) -> None:
        if self.charged is not self._kept or scores:
            self.ready = self._sum(scores, self._kept_ready.copy())
            self.ready[~self.charged.passing] = NEVER
        relative, constant = self._sorted_scores(scores)
        self.relative, self.constant = (*self.relative, *relative), self.constant + constant

    # --- put into words

    def refusals(self, view: View) -> tuple[Refusal, ...]:
        """Refused nodes by plugin and reason, in the profile's order."""
        return tuple(
            self.refusal(view, index, code, number)
            for (index, code), number in sorted(self.charged.counts.items())
            if number > 0
        )

    def refusal(self, view: View, index: int, code: int, nodes: int) -> Refusal:
        words = self._words.get((index, code))
        if words is None:
            plugin = self.profile.filters[index]
            words = self._words[index, code] = (plugin_name(plugin), plugin.reasons(view, self.pod, code))
        return Refusal(words[0], words[1], nodes, code < 0)


def _touched(entries: Sequence[tuple[int, int]]) -> dict[int, int]:
    touched: dict[int, int] = {}
    for change, row in entries:
        touched[row] = touched.get(row, 0) | change
    return touched


def _selector(rows: set[int]) -> Rows:
    """The rows as an index; a slice is a good deal cheaper than an array of one."""
    if EVERY_ROW in rows:
        return ALL
    if len(rows) == 1:
        (row,) = rows
        return slice(row, row + 1)
    return np.array([*rows], dtype=np.intp)
