"""Keeps answers between pods of one template; what a template is, plugins say by what they sign. Bounded, least used out.

Correct by construction only as far as plugins declare truly: the laws compare kept answers with fresh ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.answers import Answers
from trimtab.core.placing.contract import Kept
from trimtab.core.placing.laps import NO_LAPS, Laps
from trimtab.core.placing.profile import Profile

HOT = 256


class Templates:
    """Answers by profile and signature; also counts hits and misses."""

    def __init__(self, hot: int = HOT) -> None:
        self.hot = hot
        self.hits = 0
        self.misses = 0
        self._answers: OrderedDict[Hashable, Answers] = OrderedDict()
        self._signers: dict[Profile, tuple[Kept, ...]] = {}

    def answers(self, view: View, pod: Pod, profile: Profile, laps: Laps = NO_LAPS) -> Answers:
        key = (profile, self.signature(pod, profile))
        answers = self._answers.get(key)
        if answers is None:
            self.misses += 1
            answers = self._answers[key] = Answers(profile, pod)
            answers.ask(view, laps)
            if len(self._answers) > self.hot:
                self._answers.popitem(last=False)
            return answers
        self.hits += 1
        self._answers.move_to_end(key)
        answers.refresh(view, pod, laps)
        return answers

    def signature(self, pod: Pod, profile: Profile) -> Hashable:
        signers = self._signers.get(profile)
        if signers is None:
            signers = self._signers[profile] = _signers(profile)
        return tuple(signer.signs(pod) for signer in signers)

    def clear(self) -> None:
        self._answers.clear()
        self._signers.clear()


def _signers(profile: Profile) -> tuple[Kept, ...]:
    asked = (*profile.prefilters, *profile.filters, *(scoring.plugin for scoring in profile.scores))
    return tuple({id(plugin): plugin for plugin in asked if isinstance(plugin, Kept)}.values())
