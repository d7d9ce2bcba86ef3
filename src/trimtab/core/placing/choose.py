"""One pod, one profile, one view: the best node, or why there is none. Keeps no state of its own; assumes nothing.

Room that is promised to nominated pods of equal or higher priority is respected as kube-scheduler does it: a node must
pass with them and without them, and a refusal with them is the one that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.columns import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement, Ranked, Refusal, Unplaceable
from trimtab.core.placing.answers import NEVER, REFUSED, Answers
from trimtab.core.placing.charged import PASSES, pairs
from trimtab.core.placing.contract import ALL, Ints, Rows
from trimtab.core.placing.laps import NO_LAPS, Laps
from trimtab.core.placing.profile import Profile, Ties, points
from trimtab.core.placing.templates import Templates

Promised = Mapping[str, Sequence[Pod]]

SHOWN = 5
LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


def choose(
    view: View,
    pod: Pod,
    profile: Profile,
    nominated: Iterable[Pod] = (),
    kept: Templates | None = None,
    laps: Laps = NO_LAPS,
) -> Placement | Unplaceable:
    """Ask all plugins about all nodes, and take the best; `kept` lets answers serve for pods of the same template."""
    if not view.count:
        return Unplaceable(0)
    answers = kept.answers(view, pod, profile, laps) if kept is not None else fresh(view, pod, profile, laps)
    if answers.refused is not None:
        plugin, refuse = answers.refused
        return Unplaceable(view.count, note=refuse.reason, plugins=(plugin,))
    ready, refusals = _narrowed(view, pod, answers, nominated)
    total = with_relative(view, answers, ready)
    top = int(total.argmax())
    if total[top] <= REFUSED:
        refusers = (*answers.only, *(each.plugin for each in refusals))
        return Unplaceable(view.count, refusals, plugins=tuple(dict.fromkeys(refusers)))
    row = _nominated_row(view, pod, total)
    if row is None:
        row = tie_break(view, pod, profile, total == total[top])
    return _placement(view, row, total, answers, refusals)


def fresh(view: View, pod: Pod, profile: Profile, laps: Laps = NO_LAPS) -> Answers:
    answers = Answers(profile, pod)
    answers.ask(view, laps)
    return answers


def with_relative(view: View, answers: Answers, ready: Ints) -> Ints:
    """Add the scores that depend on which nodes are feasible."""
    if not answers.relative and not answers.among:
        return ready
    total, pod = ready.copy(), answers.pod
    feasible = ready > REFUSED
    rows: Rows = ALL if feasible.all() else np.flatnonzero(feasible)
    if not len(ready[rows]):
        return ready
    for index in answers.relative:
        total[rows] += answers.profile.scores[index].scaled(view, pod, rows, answers.raw[index][rows])
    for index in answers.among:
        scoring = answers.profile.scores[index]
        raw = scoring.plugin.score(view, pod, rows)
        if raw is not None:
            total[rows] += scoring.scaled(view, pod, rows, raw)
    return total


def tie_break(view: View, pod: Pod, profile: Profile, best: NDArray[np.bool_]) -> int:
    """One of the equally good nodes, whatever the order in which nodes were learnt of."""
    if profile.ties is Ties.NAME:
        return min(map(int, np.flatnonzero(best)), key=lambda row: view.nodes[row].name)
    return int(np.where(best, view.name_hash ^ np.uint64(name_hash(pod.uid)), LAST).argmin())


class Charges(NamedTuple):
    """Per row: the filter that refuses it (PASSES for none), its code, and whether a prefilter leaves the row out."""

    by: NDArray[np.int16]
    codes: Ints
    outside: NDArray[np.bool_]


def charges(view: View, pod: Pod, answers: Answers, promised: Promised) -> Charges:
    """Who refuses which node, once nominations and prefilters are taken into account."""
    by, codes, outside = answers.charged.by.copy(), answers.charged.codes.copy(), _outside(view, answers)
    if promised:
        _respect(view, pod, answers, promised, by, codes)
    by[outside] = PASSES
    return Charges(by, codes, outside)


def left_out(answers: Answers, nodes: int) -> Refusal:
    """What is told of the nodes that a prefilter leaves out."""
    names = " ".join(sorted(answers.only))
    return Refusal(names, (f"node(s) didn't satisfy plugin(s) [{names}]",), nodes, True)


def _narrowed(view: View, pod: Pod, answers: Answers, nominated: Iterable[Pod]) -> tuple[Ints, tuple[Refusal, ...]]:
    """Scores with the nodes taken out that nominations or a prefilter forbid, and all refusals in words."""
    promised = promised_room(view, pod, nominated)
    if not promised and not answers.only:
        return answers.ready, answers.refusals(view)
    by, codes, outside = charges(view, pod, answers, promised)
    ready = answers.ready.copy()
    ready[outside | (by != PASSES)] = NEVER
    told = [
        answers.refusal(view, int(index), int(code), int(number))
        for (index, code), number in sorted(pairs(by, codes).items())
    ]
    return ready, (*told, *([left_out(answers, int(outside.sum()))] if outside.any() else ()))


def promised_room(view: View, pod: Pod, nominated: Iterable[Pod]) -> Promised:
    """Pods by the node that they were promised, as far as this pod has to wait for them."""
    promised: dict[str, list[Pod]] = {}
    for other in nominated:
        if other.uid != pod.uid and other.priority >= pod.priority and view.row(other.nominated) is not None:
            promised.setdefault(other.nominated, []).append(other)
    return promised


def _respect(view: View, pod: Pod, answers: Answers, promised: Promised, by: NDArray[np.int16], charged: Ints) -> None:
    """Ask about the promised nodes once more, as if the nominated pods were there; mends `by` and `charged`."""
    overlay = view.with_pods(promised)
    rows = np.array([view.columns.row[node] for node in promised], dtype=np.intp)
    for index in sorted(answers.codes, reverse=True):
        codes = answers.profile.filters[index].filter(overlay, pod, rows)
        hit = rows[codes != 0]
        by[hit], charged[hit] = index, codes[codes != 0]


def _outside(view: View, answers: Answers) -> NDArray[np.bool_]:
    outside = np.zeros(view.count, dtype=np.bool_)
    for only in answers.only.values():
        outside |= ~view.named(only.nodes)
    return outside


def _nominated_row(view: View, pod: Pod, total: Ints) -> int | None:
    """The node that was cleared for this pod goes before all others, if it will still do."""
    row = view.row(pod.nominated) if pod.nominated else None
    return row if row is not None and total[row] > REFUSED else None


def _placement(view: View, row: int, total: Ints, answers: Answers, refusals: tuple[Refusal, ...]) -> Placement:
    feasible = view.count - sum(refusal.nodes for refusal in refusals)
    constant, parts = answers.constant, answers.profile.parts
    return Placement(
        node=view.nodes[row].name,
        total=points(total.item(row) + constant, parts),
        feasible=feasible,
        nodes=view.count,
        best=tuple(
            Ranked(view.nodes[each].name, points(total.item(each) + constant, parts)) for each in _best(total, row)
        ),
        refusals=refusals,
    )


def _best(total: Ints, chosen: int) -> list[int]:
    """The chosen row and the few next best; `total` is given back as it was."""
    rows, held = [chosen], [total[chosen]]
    total[chosen] = NEVER
    for _ in range(min(SHOWN, len(total)) - 1):
        row = int(total.argmax())
        if total[row] <= REFUSED:
            break
        rows.append(row)
        held.append(total[row])
        total[row] = NEVER
    total[rows] = held
    return rows
