"""Why this node, and why not that one: the whole table of a decision, computed afresh from the columns when asked for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement
from trimtab.core.placing.answers import Answers
from trimtab.core.placing.charged import PASSES
from trimtab.core.placing.choose import Charges, charges, choose, fresh, left_out, promised_room
from trimtab.core.placing.contract import Bools, Ints, Remarks
from trimtab.core.placing.profile import Profile, plugin_name, points


class Line(Struct, frozen=True):
    """One node of the table: refused by a plugin for reasons, or its weighted scores by plugin and their sum."""

    node: str
    refused_by: str = ""
    reasons: tuple[str, ...] = ()
    final: bool = False
    scores: dict[str, float] = {}
    total: float = 0


class Explanation(Struct, frozen=True):
    """The decision as it would be taken now, in a sentence, and the table behind it, best node first."""

    pod: str
    verdict: str
    node: str
    lines: tuple[Line, ...]


def explain(view: View, pod: Pod, profile: Profile, nominated: Iterable[Pod] = ()) -> Explanation:
    promised = tuple(nominated)
    verdict = choose(view, pod, profile, promised)
    lines = sorted(
        table(view, pod, fresh(view, pod, profile), promised),
        key=lambda line: (bool(line.refused_by), -line.total, line.node),
    )
    if isinstance(verdict, Placement):
        words = f"{verdict.node}: best of {verdict.feasible} of {verdict.nodes} nodes"
        return Explanation(pod.key, words + _remarks(view, pod, profile), verdict.node, tuple(lines))
    return Explanation(pod.key, verdict.message() + _remarks(view, pod, profile), "", tuple(lines))


def _remarks(view: View, pod: Pod, profile: Profile) -> str:
    plugins = {plugin_name(each): each for each in (*profile.filters, *(score.plugin for score in profile.scores))}
    told = ((name, each.remark(view, pod)) for name, each in plugins.items() if isinstance(each, Remarks))
    return "".join(f" ({name}: {words})" for name, words in told if words)


def table(
    view: View, pod: Pod, answers: Answers, nominated: Iterable[Pod] = (), rows: Iterable[int] | None = None
) -> list[Line]:
    """A line per node, in the order of rows; all of them, unless some are named."""
    shown = range(view.count) if rows is None else rows
    if answers.refused is not None:
        plugin, refuse = answers.refused
        return [Line(view.nodes[row].name, plugin, (refuse.reason,), refuse.final) for row in shown]
    charged = charges(view, pod, answers, promised_room(view, pod, nominated))
    weighted = weighted_scores(view, answers, (charged.by == PASSES) & ~charged.outside)
    return [_line(view, row, answers, charged, weighted) for row in shown]


def _line(view: View, row: int, answers: Answers, charged: Charges, weighted: dict[str, Ints]) -> Line:
    name, index = view.nodes[row].name, int(charged.by[row])
    if charged.outside[row]:
        refusal = left_out(answers, 1)
    elif index != PASSES:
        refusal = answers.refusal(view, index, int(charged.codes[row]), 1)
    else:
        parts, cells = answers.profile.parts, {plugin: int(column[row]) for plugin, column in weighted.items()}
        return Line(
            name,
            scores={plugin: points(cell, parts) for plugin, cell in cells.items()},
            total=points(sum(cells.values()), parts),
        )
    return Line(name, refusal.plugin, refusal.reasons, refusal.final)


def weighted_scores(view: View, answers: Answers, feasible: Bools) -> dict[str, Ints]:
    """Normalised scores times weight by plugin, one cell per row, 0 where the row is not feasible."""
    columns: dict[str, Ints] = {}
    rows = np.flatnonzero(feasible)
    for index in (*answers.raw, *answers.among):
        scoring = answers.profile.scores[index]
        raw = answers.raw[index][rows] if index in answers.raw else scoring.plugin.score(view, answers.pod, rows)
        if raw is not None and len(rows):
            column = columns[scoring.name] = np.zeros(view.count, dtype=np.int64)
            column[rows] = scoring.scaled(view, answers.pod, rows, raw)
    return columns
