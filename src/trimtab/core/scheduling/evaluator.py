"""Evaluates one pod against all nodes: the verdict of a scheduling cycle, and what the filters said for PostFilter."""

from __future__ import annotations

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.controllers import EngineState
from trimtab.core.framework.choose import choose, final_rejections, nominated_by_node
from trimtab.core.framework.evaluation import PluginTimer
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.explain import explain
from trimtab.core.framework.forbidden_kinds import pod_waits_for
from trimtab.core.framework.interface import FilterStatus, Ints
from trimtab.core.framework.pod_checks import unsupported_features
from trimtab.core.framework.profile import Profile
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Placement, Unschedulable

# The names are label values of a metric.
INVALID, UNSUPPORTED, FORBIDDEN = ("Unreadable",), ("Unmodelled",), ("Forbidden",)
NOT_WATCHED = "no plugin of our profiles needs it, so it is not watched"
NOT_EVALUATED = (INVALID, UNSUPPORTED, FORBIDDEN)  # no plugin was called, so preemption cannot help


class Evaluator:
    """The framework applied to the engine's cluster, with the cache of evaluations."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.cache = EvaluationCache()
        self.stock: Profile | None = None  # kube-scheduler's own profile, to compare with

    def evaluate(self, pod: Pod, profile: Profile, timer: PluginTimer) -> Placement | Unschedulable:
        excluded = self.not_evaluated(pod, profile)
        recorder = self.state.recorder
        if excluded is None and recorder.wants_explanations() and recorder.explains(pod.key):
            told = explain(self.state.cluster.view, pod, profile, self.nominated())
            recorder.explained(told, self.stock_choice(self.state.cluster.view, pod))
        return excluded or choose(self.state.cluster.view, pod, profile, self.nominated(), self.cache, timer)

    def not_evaluated(self, pod: Pod, profile: Profile) -> Unschedulable | None:
        """The verdict on a pod for which no plugin is called; None for all others."""
        count = len(self.state.cluster.node_table)
        if error := pod.spec_error or pod.spec.error:
            return Unschedulable(count, note=f"the pod spec is invalid: {error}", plugins=INVALID)
        unsupported = unsupported_features(pod)
        if unsupported:
            note = f"Trimtab does not support {' and '.join(unsupported)} yet"
            return Unschedulable(count, note=note, plugins=UNSUPPORTED)
        if reason := self.waits_for_kind(pod, profile):
            return Unschedulable(count, note=reason, plugins=FORBIDDEN)
        return None

    def stock_choice(self, view: View, pod: Pod) -> str:
        """What the stock profile would choose, in a sentence; empty if there is none to compare with."""
        if self.stock is None:
            return ""
        watched = self.state.settings.kinds
        unwatched = {kind: NOT_WATCHED for kind in self.stock.needed_kinds if kind not in watched}
        if reason := pod_waits_for(pod, self.stock, unwatched | self.state.forbidden):
            return f"unknown: {reason}"
        verdict = choose(view, pod, self.stock, self.nominated())
        if isinstance(verdict, Unschedulable):
            return verdict.message()
        return f"{verdict.node}: best of {verdict.feasible} of {verdict.nodes} nodes"

    def waits_for_kind(self, pod: Pod, profile: Profile) -> str:
        """Which kind the pod needs that may not be listed, and why not; empty if it needs none."""
        forbidden = self.state.forbidden
        return pod_waits_for(pod, profile, forbidden) if forbidden else ""

    def nominated(self) -> list[Pod]:
        """Pods with a nominated node; one that holds a place already counts there, and must not count twice."""
        cluster = self.state.cluster
        nominated = (each for each in cluster.nominated.values() if each.uid not in cluster.placements)
        return [*nominated, *cluster.reserved.values()]

    def filter_status(self, pod: Pod, profile: Profile) -> FilterStatus:
        """What the filters said of each node, as they were just called."""
        view = self.state.cluster.view
        nominated = nominated_by_node(view, pod, self.nominated())
        evaluation = self.cache.latest(view, pod, profile)
        if evaluation.pre_filter_rejection is not None:
            code = -1 if evaluation.pre_filter_rejection[1].unresolvable else 1
            return FilterStatus(profile.filters, np.full(view.count, code, dtype=np.int64), nominated)
        codes: Ints = evaluation.rejections.codes.copy()
        if nominated or evaluation.node_subsets:
            found = final_rejections(view, pod, evaluation, nominated)
            codes = np.where(found.excluded, -1, np.where(found.rejected_by == PASSES, 0, found.codes))
        return FilterStatus(tuple(profile.filters[index] for index in sorted(evaluation.codes)), codes, nominated)
