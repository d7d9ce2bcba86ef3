"""InterPodAffinity: keeps pods near those they must be near to and far from those they must not, and likes what they prefer.

It cuts both ways: a pod that stands keeps others off by its own required anti-affinity, and what it prefers counts too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.topology.counts import Floats, Key, chosen
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import (
    MAX_SCORE,
    Ahead,
    Bools,
    Ints,
    Normalise,
    Prefiltered,
    Refuse,
    Rows,
    by_table,
    passes_somewhere,
)
from trimtab.core.placing.pod_terms import Standing, Terms, terms_of

NOT_NEAR, NOT_FAR, KEPT_OFF = -1, 1, 2
_WORDS = {
    NOT_NEAR: "node(s) didn't match pod affinity rules",
    NOT_FAR: "node(s) didn't match pod anti-affinity rules",
    KEPT_OFF: "node(s) didn't satisfy existing pods anti-affinity rules",
}


@dataclass(frozen=True, slots=True)
class InterPodAffinity:
    """`hard_pod_affinity_weight` is what a standing pod's required affinity to this one is worth in scores."""

    name: ClassVar[str] = "InterPodAffinity"
    woken_by: ClassVar[Change] = (
        Change.PODS | Change.NODE_ADDED | Change.NODE_GONE | Change.LABELS | Change.NAMESPACES | Change.SELF
    )
    watches: ClassVar[tuple[str, ...]] = ("namespaces",)
    normalise: ClassVar[Normalise] = Normalise.AMONG

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            raise ValueError("hard pod affinity weight must be 0 to 100")

    def prefilter(self, view: View, pod: Pod) -> Prefiltered:
        terms = self._terms(view, pod)
        if terms is not None and terms.fault:
            return Refuse(f"parsing pod: {terms.fault}")
        if terms is None or not (terms.near or terms.far or _any(view, terms.kept_off)):
            return Ahead.SKIP
        return Ahead.GO

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        terms = self._terms(view, pod)
        kept_off = _held_any(view, terms.kept_off, rows) if terms is not None else None
        far = _held_any(view, terms.far, rows) if terms is not None else None
        if kept_off is None and far is None:
            found = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        elif kept_off is None:
            found = far.astype(np.int64)  # type: ignore[union-attr]
        else:
            found = np.multiply(kept_off, KEPT_OFF, dtype=np.int64)
            found = found if far is None else np.where(far, NOT_FAR, found)
        return np.where(_near(view, terms, rows), found, NOT_NEAR) if terms is not None and terms.near else found

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return (_WORDS[code],)

    def wakes(self, view: View, pod: Pod, change: Change, rows: Rows) -> bool:
        return passes_somewhere(self, view, pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        """What stands in the node's domains, times what it is worth."""
        affinity = pod.spec.affinity
        if self.ignore_preferred_terms_of_existing_pods and not (
            affinity is not None and (affinity.pods.preferred or affinity.anti_pods.preferred)
        ):
            return None
        terms = self._terms(view, pod)
        if terms is None or not _any(view, terms.worth):
            return None
        by_key: dict[int, tuple[Key, Floats]] = {}
        for standing in terms.worth:
            key, worth = standing.domains.key, standing.domains.counts * standing.worth
            by_key[id(key)] = (key, worth + by_key[id(key)][1] if id(key) in by_key else worth)
        columns = [_by_row(key, worth, rows) for key, worth in by_key.values()]
        return columns[0] if len(columns) == 1 else reduce(np.add, columns)

    def scaled(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        if not raw.size:
            return raw
        lowest, highest = int(raw.min()), int(raw.max())
        if lowest == highest:
            return np.zeros_like(raw)
        span = highest - lowest
        return by_table(raw, lowest, highest, lambda each: ((each - lowest) / span * MAX_SCORE).astype(np.int64))

    def _terms(self, view: View, pod: Pod) -> Terms | None:
        return terms_of(view, pod, self.hard_pod_affinity_weight)


def _any(view: View, standings: tuple[Standing, ...]) -> bool:
    """Whether anything of it stands in a domain."""
    for standing in standings:
        view.census.current(standing.count)
    return any(standing.domains.inside for standing in standings)


def _by_row(key: Key, worth: Floats, rows: Rows) -> Ints:
    """Worth by domain, or by row where each row is its own, as whole numbers for these rows."""
    if key.alone:
        found: Ints = chosen(worth, rows).astype(np.int64)
        return found if key.everywhere else np.where(chosen(key.present, rows), found, 0)
    table = worth.astype(np.int64)
    table[ABSENT] = 0
    return table.take(chosen(key.ids, rows), mode="clip")


def _held_any(view: View, standings: tuple[Standing, ...], rows: Rows) -> Bools | None:
    return reduce(np.logical_or, [_held(view, standing, rows) for standing in standings]) if standings else None


def _held(view: View, standing: Standing, rows: Rows) -> Bools:
    """Rows in whose domain something of it stands."""
    view.census.current(standing.count)
    if view.moved is None:
        return standing.domains.above(0.0, rows)
    own = chosen(view.census.moved(standing.count, view.moved), rows)
    held: Bools = (standing.domains.at(rows) + own > 0.0) & chosen(standing.domains.key.present, rows)
    return held


def _near(view: View, terms: Terms, rows: Rows) -> Bools:
    """Rows whose domains all hold pods that all terms pick; or any with all keys, for the first of a group."""
    held: Bools = reduce(np.logical_and, [_held(view, standing, rows) for standing in terms.near])
    inside = sum(standing.domains.inside for standing in terms.near)
    if not terms.like_me or (inside and view.moved is None):
        return held
    present = [chosen(standing.domains.key.present, rows) for standing in terms.near]
    labelled: Bools = reduce(np.logical_and, present)
    if view.moved is None:
        return labelled
    own = chosen(view.census.moved(terms.near[0].count, view.moved), rows)
    keys = np.sum(present, axis=0, dtype=np.float64)
    first: Bools = inside + own * keys == 0.0
    return held | (labelled & first)
