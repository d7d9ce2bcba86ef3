"""What every plugin of a profile says about one kind of pod, for all nodes, and how to bring that up to date row by row.

Built once from nothing (`ask`), it is afterwards only mended (`refresh`): the rows that changed since are asked again, of
the plugins that care. Both paths go through the same code, and a law says that they agree. Which node is best is left to
`choose`; whose answers may be kept is said in `contract`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.columns import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Refusal
from trimtab.core.placing.contract import ALL, MAX_SCORE, Ahead, Filter, Ints, Normalise, Only, Refuse, Rows
from trimtab.core.placing.laps import NO_LAPS, Laps
from trimtab.core.placing.profile import Profile, plugin_name

PASSES = np.int16(np.iinfo(np.int16).max)
NEVER = np.int64(-(1 << 62))
MANY = 8  # from one row in so many on, asking all rows at once is cheaper
FEW = 16  # up to so many rows, plain numbers are cheaper than arrays


class Answers:
    """Codes per filter, the first filter to refuse each row, and score columns; `ready` is what scores by row alone."""

    def __init__(self, profile: Profile, pod: Pod) -> None:
        self.profile = profile
        self.pod = pod
        self.refused: tuple[str, Refuse] | None = None
        self.only: dict[str, Only] = {}
        self.filters: tuple[Filter, ...] = ()
        self.codes: list[Ints] = []
        self.by: NDArray[np.int16] = np.zeros(0, dtype=np.int16)
        self.charged: Ints = np.zeros(0, dtype=np.int64)
        self.counts: Counter[tuple[int, int]] = Counter()
        self.raw: dict[int, Ints] = {}
        self.ready: Ints = np.zeros(0, dtype=np.int64)
        self.relative: tuple[int, ...] = ()
        self.by_row: tuple[int, ...] = ()
        self.constant = 0
        self.epoch = -1
        self.position = 0
        self._words: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
        self._readers: dict[int, tuple[list[int], list[int]]] = {}

    # --- built from nothing

    def ask(self, view: View, laps: Laps = NO_LAPS) -> None:
        """Put every question for every row."""
        skipped = self._look_ahead(view, laps)
        self._words.clear()  # they go by the filter's number, and another one may be skipped now
        self.filters = tuple(each for each in self.profile.filters if plugin_name(each) not in skipped)
        self.codes = []
        for plugin in self.filters:
            self.codes.append(plugin.filter(view, self.pod, ALL))
            laps.mark("Filter", plugin_name(plugin))
        self.raw = {}
        for index, scoring in enumerate(self.profile.scores):
            column = scoring.plugin.score(view, self.pod, ALL)
            laps.mark("Score", scoring.name)
            if column is not None:
                self.raw[index] = column
        self._charge_all(view)
        self._sort_scores()
        self._sort_readers()
        self.ready = np.full(view.count, NEVER)
        self._add_up(ALL)
        self.epoch, self.position = view.columns.epoch, len(view.columns.log)

    def _look_ahead(self, view: View, laps: Laps) -> set[str]:
        skipped: set[str] = set()
        self.refused, self.only = None, {}
        for plugin in self.profile.prefilters:
            name = plugin_name(plugin)
            match plugin.prefilter(view, self.pod):
                case Ahead.SKIP:
                    skipped.add(name)
                case Refuse() as refuse if self.refused is None:
                    self.refused = (name, refuse)
                case Only() as only:
                    self.only[name] = only
            laps.mark("PreFilter", name)
        return skipped

    def _charge_all(self, view: View) -> None:
        self.by = np.full(view.count, PASSES)
        self.charged = np.zeros(view.count, dtype=np.int64)
        self.counts = Counter()
        for index in self._charge(ALL):
            values, numbers = np.unique(self.charged[self.by == index], return_counts=True)
            self.counts.update({(index, int(v)): int(n) for v, n in zip(values, numbers, strict=True)})

    def _charge(self, rows: Rows) -> list[int]:
        """Each refused row is charged to the first filter, in the profile's order, that refused it; who refused any."""
        refusers = []
        first = np.full(len(self.by[rows]), PASSES)
        charged = np.zeros(len(first), dtype=np.int64)
        for index in range(len(self.codes) - 1, -1, -1):
            codes = self.codes[index][rows]
            refused = codes != 0
            if refused.any():
                first[refused] = index
                charged[refused] = codes[refused]
                refusers.append(index)
        self.by[rows], self.charged[rows] = first, charged
        return refusers

    def _sort_scores(self) -> None:
        """Scores that are scaled by the highest count only where some node has one; all zeros add the same to each."""
        self.constant = 0
        relative = []
        for index, column in self.raw.items():
            scoring = self.profile.scores[index]
            if not scoring.by_row and column.any():
                relative.append(index)
            elif scoring.plugin.normalise is Normalise.LOWER:
                self.constant += MAX_SCORE * scoring.weight
        self.relative = tuple(relative)
        self.by_row = tuple(index for index in self.raw if self.profile.scores[index].by_row)

    def _add_up(self, rows: Rows) -> None:
        total = np.zeros(len(self.by[rows]), dtype=np.int64)
        for index in self.by_row:
            weight = self.profile.scores[index].weight
            total += self.raw[index][rows] * weight if weight != 1 else self.raw[index][rows]
        total[self.by[rows] != PASSES] = NEVER
        self.ready[rows] = total

    # --- brought up to date

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
        if not self.profile.keeps_all:
            self.ask(view, laps)  # an undeclared plugin may skip, refuse or score anything for the next pod
        elif touched:
            self._ask_again(view, touched, laps)

    def _ask_again(self, view: View, touched: dict[int, int], laps: Laps) -> None:
        dirty: set[int] = set()
        rescored: list[int] = []
        for reads, (filters, scores) in self._readers.items():
            rows = {row for row, change in touched.items() if change & reads}
            if not rows:
                continue
            at = _selector(rows)
            for index in filters:
                self.codes[index][at] = self.filters[index].filter(view, self.pod, at)
                laps.mark("Filter", plugin_name(self.filters[index]))
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
        for index, plugin in enumerate(self.filters):
            self._reader(plugin)[0].append(index)
        for index in self.raw:
            self._reader(self.profile.scores[index].plugin)[1].append(index)

    def _reader(self, plugin: object) -> tuple[list[int], list[int]]:
        return self._readers.setdefault(self.profile.reads.get(plugin_name(plugin), 0), ([], []))

    def _redo(self, view: View, dirty: set[int], rescored: list[int]) -> None:
        if any(not self.profile.scores[index].by_row for index in rescored):
            self._sort_scores()
        if EVERY_ROW in dirty or len(dirty) > FEW:
            self._charge_all(view)
            self._add_up(ALL)
        else:
            for row in dirty:
                self._redo_row(row)

    def _redo_row(self, row: int) -> None:
        """What `_charge` and `_add_up` do, for one row and without arrays."""
        held = int(self.by[row])
        if held != PASSES:
            self.counts[held, int(self.charged[row])] -= 1
        for index, codes in enumerate(self.codes):
            code = codes.item(row)
            if code:
                self.by[row], self.charged[row], self.ready[row] = index, code, NEVER
                self.counts[index, code] += 1
                return
        self.by[row], self.charged[row] = PASSES, 0
        scores = self.profile.scores
        self.ready[row] = sum(self.raw[index].item(row) * scores[index].weight for index in self.by_row)

    # --- put into words

    def refusals(self, view: View) -> tuple[Refusal, ...]:
        """Refused nodes by plugin and reason, in the profile's order."""
        return tuple(
            self.refusal(view, index, code, number)
            for (index, code), number in sorted(self.counts.items())
            if number > 0
        )

    def refusal(self, view: View, index: int, code: int, nodes: int) -> Refusal:
        words = self._words.get((index, code))
        if words is None:
            plugin = self.filters[index]
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
