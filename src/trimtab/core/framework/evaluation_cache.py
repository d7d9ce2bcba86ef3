"""Keeps answers between pods of one template; what a template is, plugins say by what they sign. Bounded, least used out.

Correct by construction only as far as plugins declare truly: the laws compare kept answers with fresh ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from trimtab.core.cluster.view import View
from trimtab.core.framework.evaluation import Evaluation
from trimtab.core.framework.interface import Cacheable
from trimtab.core.framework.profile import Profile
from trimtab.core.framework.timing import NO_TIMER, PluginTimer
from trimtab.core.model.pod import Pod

CAPACITY = 256


class EvaluationCache:
    """Answers by profile and signature; also counts hits and misses."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._evaluations: OrderedDict[Hashable, Evaluation] = OrderedDict()
        self._plugins: dict[Profile, tuple[Cacheable, ...]] = {}

    def evaluate(self, view: View, pod: Pod, profile: Profile, timer: PluginTimer = NO_TIMER) -> Evaluation:
        key = (profile, self.signature(pod, profile))
        answers = self._evaluations.get(key)
        if answers is None:
            self.misses += 1
            answers = self._evaluations[key] = Evaluation(profile, pod)
            answers.compute(view, timer)
            if len(self._evaluations) > self.capacity:
                self._evaluations.popitem(last=False)
            return answers
        self.hits += 1
        self._evaluations.move_to_end(key)
        answers.update(view, pod, timer)
        return answers

    def signature(self, pod: Pod, profile: Profile) -> Hashable:
        signers = self._plugins.get(profile)
        if signers is None:
            signers = self._plugins[profile] = _cacheable(profile)
        return tuple(signer.signature(pod) for signer in signers)

    def clear(self) -> None:
        self._evaluations.clear()
        self._plugins.clear()


def _cacheable(profile: Profile) -> tuple[Cacheable, ...]:
    asked = (*profile.pre_filters, *profile.filters, *(scoring.plugin for scoring in profile.scores))
    return tuple({id(plugin): plugin for plugin in asked if isinstance(plugin, Cacheable)}.values())
