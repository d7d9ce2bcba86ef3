"""Little plugins that answer as a test tells them to; they judge nothing by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Reject, Rows, StageResult, StageStatus
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod

Answer = Callable[[Pod, str], StageResult]


def go(pod: Pod, node: str) -> StageResult:
    return StageStatus.SUCCESS


def staged(*answers: StageResult) -> Answer:
    """Gives these answers one after the other, and then Go."""
    left = iter(answers)
    return lambda pod, node: next(left, StageStatus.SUCCESS)


def reserver(name: str, answer: Callable[[Pod], StageStatus | Reject] = lambda pod: StageStatus.SUCCESS) -> Any:
    """Remembers in the cluster whom it has reserved for, in the order of calls; `-` marks what was given back."""

    @dataclass(frozen=True)
    class Reserver:
        requeue_on: ClassVar[Change] = Change.NOTHING

        def reserve(self, view: View, state: Any, pod: Pod, node: str) -> tuple[Any, StageStatus | Reject]:
            return (*(state or ()), pod.name), answer(pod)

        def unreserve(self, state: Any, pod: Pod, node: str) -> Any:
            return (*(state or ()), f"-{pod.name}")

    return _named(Reserver, name)


def permitter(name: str, answer: Answer) -> Any:
    @dataclass(frozen=True)
    class Permitter:
        requeue_on: ClassVar[Change] = Change.NOTHING

        def permit(self, view: View, pod: Pod, node: str) -> StageResult:
            return answer(pod, node)

    return _named(Permitter, name)


def pre_binder(name: str, answer: Answer) -> Any:
    @dataclass(frozen=True)
    class PreBinder:
        requeue_on: ClassVar[Change] = Change.NOTHING

        def pre_bind(self, view: View, pod: Pod, node: str) -> StageResult:
            return answer(pod, node)

    return _named(PreBinder, name)


def filterer(name: str, answer: Callable[[Pod], int]) -> Any:
    """Gives all nodes the same code."""

    @dataclass(frozen=True)
    class Filterer:
        requeue_on: ClassVar[Change] = Change.NOTHING

        def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
            return np.full(len(view.pod_count[rows]), answer(pod), dtype=np.int64)

        def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
            return (f"{name} says {code}",)

    return _named(Filterer, name)


def _named(kind: Any, name: str) -> Any:
    kind.name = name
    return kind()
