"""Why this node, and why not that one: the whole table of a decision, computed afresh from the columns when asked for."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.answers import PASSES, Answers
from trimtab.core.placing.choose import choose, fresh
from trimtab.core.placing.contract import Ints, normalised
from trimtab.core.placing.profile import Profile, plugin_name


class Line(Struct, frozen=True):
    """One node of the table: refused by a plugin for reasons, or its weighted scores by plugin and their sum."""

    node: str
    refused_by: str = ""
    reasons: tuple[str, ...] = ()
    final: bool = False
    scores: dict[str, int] = {}
    total: int = 0


class Explanation(Struct, frozen=True):
    """The decision as it would be taken now, in a sentence, and the table behind it, best node first."""

    pod: str
    verdict: str
    node: str
    lines: tuple[Line, ...]


def explain(view: View, pod: Pod, profile: Profile, nominated: Iterable[Pod] = ()) -> Explanation:
    verdict = choose(view, pod, profile, nominated)
    answers = fresh(view, pod, profile)
    lines = sorted(table(view, answers), key=lambda line: (bool(line.refused_by), -line.total, line.node))
    node = getattr(verdict, "node", "")
    words = verdict.message() if not node else f"{node}: best of {verdict.feasible} of {verdict.nodes} nodes"  # type: ignore[union-attr]
    return Explanation(pod.key, words, node, tuple(lines))


def table(view: View, answers: Answers) -> list[Line]:
    """A line per node, in the order of rows."""
    weighted = weighted_scores(answers)
    lines = []
    for row, node in enumerate(view.nodes):
        index = int(answers.by[row])
        if index == PASSES:
            scores = {name: int(column[row]) for name, column in weighted.items()}
            lines.append(Line(node.name, scores=scores, total=sum(scores.values())))
        else:
            code = int(answers.charged[row])
            words = answers.filters[index].reasons(view, answers.pod, code)
            lines.append(Line(node.name, plugin_name(answers.filters[index]), words, code < 0))
    return lines


def weighted_scores(answers: Answers) -> dict[str, Ints]:
    """Normalised scores times weight by plugin, one cell per row, 0 where the row was refused."""
    feasible = answers.by == PASSES
    columns: dict[str, Ints] = {}
    for index, raw in answers.raw.items():
        scoring = answers.profile.scores[index]
        column = raw * 0
        column[feasible] = normalised(scoring.plugin.normalise, raw[feasible]) * scoring.weight
        columns[scoring.name] = column
    return columns
