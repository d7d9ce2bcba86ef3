"""Evaluations cached by profile and pod signature, least recently used out.

The cache is only as correct as plugins' declarations: the laws compare cached results with fresh ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from trimtab.core.cluster.view import View
from trimtab.core.framework.evaluation import NO_TIMER, Evaluation, PluginTimer
from trimtab.core.framework.interface import Cacheable
from trimtab.core.framework.profile import Profile
from trimtab.core.model.pod import Pod

CAPACITY = 256


class EvaluationCache:
    """Evaluations by profile and signature; also counts hits and misses."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._evaluations: OrderedDict[Hashable, Evaluation] = OrderedDict()
        self._latest: Evaluation | None = None
        self._plugins: dict[Profile, tuple[Cacheable, ...]] = {}

    def evaluate(self, view: View, pod: Pod, profile: Profile, timer: PluginTimer = NO_TIMER) -> Evaluation:
        key = (profile, self.signature(pod, profile))
        evaluation = self._latest = self._evaluations.get(key)
        if evaluation is None:
            self.misses += 1
            evaluation = self._evaluations[key] = self._latest = Evaluation(profile, pod)
            evaluation.compute(view, timer)
            if len(self._evaluations) > self.capacity:
                self._evaluations.popitem(last=False)
            return evaluation
        self.hits += 1
        self._evaluations.move_to_end(key)
        evaluation.update(view, pod, timer)
        return evaluation

    def latest(self, view: View, pod: Pod, profile: Profile) -> Evaluation:
        """The evaluation that was made last, if it is this pod's and no row has changed since; else a new one."""
        made = self._latest
        if made is not None and made.pod is pod and made.profile is profile and made.is_current(view):
            return made
        return self.evaluate(view, pod, profile)

    def signature(self, pod: Pod, profile: Profile) -> Hashable:
        signers = self._plugins.get(profile)
        if signers is None:
            signers = self._plugins[profile] = _cacheable(profile)
        return tuple(signer.signature(pod) for signer in signers)

    def clear(self) -> None:
        self._evaluations.clear()
        self._latest = None
        self._plugins.clear()


def _cacheable(profile: Profile) -> tuple[Cacheable, ...]:
    plugins = (*profile.pre_filters, *profile.filters, *(scoring.plugin for scoring in profile.scores))
    return tuple({id(plugin): plugin for plugin in plugins if isinstance(plugin, Cacheable)}.values())
