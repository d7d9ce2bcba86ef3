"""Evaluates one pod against all nodes: the verdict of a scheduling cycle, and what the filters said for PostFilter."""

from __future__ import annotations

import numpy as np

from trimtab.core.controllers import EngineState
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing import unmodelled
from trimtab.core.placing.charged import PASSES
from trimtab.core.placing.choose import charges, choose, promised_room
from trimtab.core.placing.contract import Ints, Stuck
from trimtab.core.placing.laps import Laps
from trimtab.core.placing.profile import Profile
from trimtab.core.placing.templates import Templates

INVALID, UNSUPPORTED = ("Unreadable",), ("Unmodelled",)
NOT_EVALUATED = (INVALID, UNSUPPORTED)  # no plugin was called, so preemption cannot help


class Evaluator:
    """The framework applied to the engine's cluster, with the cache of evaluations."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.cache = Templates()

    def evaluate(self, pod: Pod, profile: Profile, timer: Laps) -> Placement | Unplaceable:
        cluster = self.state.cluster
        count = len(cluster.columns)
        if error := pod.spec_fault or pod.spec.fault:
            return Unplaceable(count, note=f"the pod spec is invalid: {error}", plugins=INVALID)
        unsupported = unmodelled.hard(pod)
        if unsupported:
            note = f"Trimtab does not support {' and '.join(unsupported)} yet"
            return Unplaceable(count, note=note, plugins=UNSUPPORTED)
        return choose(cluster.view, pod, profile, self.nominated(), self.cache, timer)

    def nominated(self) -> list[Pod]:
        """Pods with a nominated node; one that holds a place already counts there, and must not count twice."""
        cluster = self.state.cluster
        return [each for each in cluster.nominated.values() if each.uid not in cluster.places]

    def filter_status(self, pod: Pod, profile: Profile) -> Stuck:
        """What the filters said of each node, as they were just called."""
        view = self.state.cluster.view
        nominated = promised_room(view, pod, self.nominated())
        evaluation = self.cache.answers(view, pod, profile)
        if evaluation.refused is not None:
            code = -1 if evaluation.refused[1].final else 1
            return Stuck(profile.filters, np.full(view.count, code, dtype=np.int64), nominated)
        found = charges(view, pod, evaluation, nominated)
        codes: Ints = np.where(found.outside, -1, np.where(found.by == PASSES, 0, found.codes))
        return Stuck(tuple(profile.filters[index] for index in sorted(evaluation.codes)), codes, nominated)
