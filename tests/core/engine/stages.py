"""Little plugins that answer as a test tells them to; they judge nothing by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import Go, Ints, Refuse, Rows, Staged

Answer = Callable[[Pod, str], Staged]


def go(pod: Pod, node: str) -> Staged:
    return Go.GO


def staged(*answers: Staged) -> Answer:
    """Gives these answers one after the other, and then Go."""
    left = iter(answers)
    return lambda pod, node: next(left, Go.GO)


def reserver(name: str, answer: Callable[[Pod], Go | Refuse] = lambda pod: Go.GO) -> Any:
    """Remembers in the cluster whom it has reserved for, in the order of calls; `-` marks what was given back."""

    @dataclass(frozen=True)
    class Reserver:
        woken_by: ClassVar[Change] = Change.NOTHING

        def reserve(self, view: View, memory: Any, pod: Pod, node: str) -> tuple[Any, Go | Refuse]:
            return (*(memory or ()), pod.name), answer(pod)

        def unreserve(self, memory: Any, pod: Pod, node: str) -> Any:
            return (*(memory or ()), f"-{pod.name}")

    return _named(Reserver, name)


def permitter(name: str, answer: Answer) -> Any:
    @dataclass(frozen=True)
    class Permitter:
        woken_by: ClassVar[Change] = Change.NOTHING

        def permit(self, view: View, pod: Pod, node: str) -> Staged:
            return answer(pod, node)

    return _named(Permitter, name)


def pre_binder(name: str, answer: Answer) -> Any:
    @dataclass(frozen=True)
    class PreBinder:
        woken_by: ClassVar[Change] = Change.NOTHING

        def pre_bind(self, view: View, pod: Pod, node: str) -> Staged:
            return answer(pod, node)

    return _named(PreBinder, name)


def filterer(name: str, answer: Callable[[Pod], int]) -> Any:
    """Gives all nodes the same code."""

    @dataclass(frozen=True)
    class Filterer:
        woken_by: ClassVar[Change] = Change.NOTHING

        def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
            return np.full(len(view.pod_count[rows]), answer(pod), dtype=np.int64)

        def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
            return (f"{name} says {code}",)

    return _named(Filterer, name)


def _named(kind: Any, name: str) -> Any:
    kind.name = name
    return kind()
