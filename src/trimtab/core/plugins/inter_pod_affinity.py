"""InterPodAffinity: keeps pods near those they must be near to and far from those they must not, and likes what they prefer.

It cuts both ways: a pod that stands keeps others off by its own required anti-affinity, and what it prefers counts too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.labels import ABSENT
from trimtab.core.cluster.topology.counts import Floats, Key
from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import MAX_SCORE, Ahead, Bools, Ints, Normalise, Prefiltered, Refuse, Rows
from trimtab.core.placing.pod_terms import Tally, Terms, term_fault, terms_of

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
        if words := term_fault(pod):
            return Refuse(f"parsing pod: {words}")
        terms = self._terms(view, pod)
        if terms is None or not (terms.near or terms.far or _any(view, terms.kept_off)):
            return Ahead.SKIP
        return Ahead.GO

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        terms = self._terms(view, pod)
        found = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        if terms is None:
            return found
        for tally in terms.kept_off:
            found = np.where(_held(view, tally, rows), KEPT_OFF, found)
        for tally in terms.far:
            found = np.where(_held(view, tally, rows), NOT_FAR, found)
        return np.where(_near(view, terms, rows), found, NOT_NEAR) if terms.near else found

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return (_WORDS[code],)

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
        for tally in terms.worth:
            key = tally.domains.key
            worth = tally.domains.by_domain() * tally.worth
            by_key[id(key)] = (key, worth + by_key[id(key)][1] if id(key) in by_key else worth)
        total = np.zeros(len(view.pod_count[rows]))
        for key, table in by_key.values():
            table[ABSENT] = 0.0
            total += table.take(key.ids[rows])
        return total.astype(np.int64)

    def scaled(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        if not raw.size:
            return raw
        lowest = int(raw.min())
        span = int(raw.max()) - lowest
        if not span:
            return np.zeros_like(raw)
        return ((raw - lowest) / span * float(MAX_SCORE)).astype(np.int64)

    def _terms(self, view: View, pod: Pod) -> Terms | None:
        return terms_of(view, pod, self.hard_pod_affinity_weight)


def _any(view: View, tallies: tuple[Tally, ...]) -> bool:
    """Whether anything of it stands in a domain."""
    for tally in tallies:
        view.census.current(tally.count)
    return any(tally.domains.inside for tally in tallies)


def _held(view: View, tally: Tally, rows: Rows) -> Bools:
    """Rows in whose domain something of it stands."""
    view.census.current(tally.count)
    if view.moved is None:
        return tally.domains.above(0.0, rows)
    own = view.census.moved(tally.count, view.moved)[rows]
    return (tally.domains.at(rows) + own > 0.0) & tally.domains.key.present[rows]


def _near(view: View, terms: Terms, rows: Rows) -> Bools:
    """Rows whose domains all hold pods that all terms pick; or any with all keys, for the first of a group."""
    held: Bools = np.logical_and.reduce([_held(view, tally, rows) for tally in terms.near])
    if not terms.like_me:
        return held
    labelled: Bools = np.logical_and.reduce([tally.domains.key.present[rows] for tally in terms.near])
    inside = sum(tally.domains.inside for tally in terms.near)
    if view.moved is None:
        return labelled if not inside else held
    keys = sum(tally.domains.key.present[rows].astype(np.float64) for tally in terms.near)
    first: Bools = inside + view.census.moved(terms.near[0].count, view.moved)[rows] * keys == 0.0
    return held | (labelled & first)
