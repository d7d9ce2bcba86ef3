"""Where a scheduler of another process could place a pod: the nodes that kube-scheduler may choose, whatever its luck.

kube-scheduler picks one of the nodes with the highest score at random. In clusters of 100 nodes and more it scores a sample
of the feasible nodes only, so a node can also be chosen because all better ones are not in the sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.core.framework.interface import Ints
from trimtab.core.tables import Bools, Index

MIN_SAMPLE = 100
MIN_PERCENTAGE, MAX_ADAPTIVE, NODES_PER_PERCENT = 5, 50, 125
PAIRS_AT_ONCE = 1 << 20


class NodeScores(NamedTuple):
    """Of the nodes that pass all filters; `considered` counts those that no PreFilter excluded.

    `total` is the score if all of them are scored. It is the sum of `absolute`, which does not depend on the sample, and of
    scores that are normalised by it: each of `relative` rises with one of these.
    """

    rows: Index
    total: Ints
    absolute: Ints
    relative: tuple[Ints, ...]
    considered: int


def sample_size(nodes: int, percentage: int) -> int:
    """How many feasible nodes kube-scheduler scores (`numFeasibleNodesToFind`); 0 percent is its adaptive default."""
    if nodes < MIN_SAMPLE:
        return nodes
    share = percentage or max(MAX_ADAPTIVE - nodes // NODES_PER_PERCENT, MIN_PERCENTAGE)
    return max(nodes * share // 100, MIN_SAMPLE)


def could_choose(scores: NodeScores, percentage: int) -> Index:
    """The rows that could be chosen, those with the highest score first."""
    size = sample_size(scores.considered, percentage)
    if size >= len(scores.rows):
        chosen = scores.total == scores.total.max(initial=0)
    else:  # the best of a sample is any node that enough others do not beat
        chosen = len(scores.rows) - _beaten_by(scores) >= size
    rows = scores.rows[chosen]
    return np.asarray(rows[np.argsort(-scores.total[chosen], kind="stable")])


def _beaten_by(scores: NodeScores) -> Ints:
    """By row: how many others have a higher score in every sample."""
    varying = [each for each in scores.relative if len(each) and each.min() != each.max()]
    if not varying:
        return len(scores.rows) - np.searchsorted(np.sort(scores.absolute), scores.absolute, side="right")
    at_once = max(PAIRS_AT_ONCE // max(len(scores.rows), 1), 1)
    parts = range(0, len(scores.rows), at_once)
    return np.concatenate([_surely_higher(scores.absolute, varying, slice(at, at + at_once)) for at in parts])


def _surely_higher(absolute: Ints, relative: list[Ints], part: slice) -> Ints:
    """Higher by what is absolute, and not lower in any score that the sample scales: that may count for much or little."""
    higher: Bools = absolute > absolute[part, None]
    for each in relative:
        higher &= each >= each[part, None]
    return np.asarray(higher.sum(axis=1))
