"""Which pods share cached results, what is recomputed after a change, and that the cache is bounded."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tests.build import cluster, node, pod
from trimtab.config.registry import default_profile
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import choose
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.framework.profile import Profile, multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod

PROFILE = default_profile("default")
ASKED: list[int] = []
NODES = [node(f"node-{number:02}") for number in range(20)]


@dataclass(frozen=True)
class Watched:
    """Passes every node, and records for how many it was called."""

    name: ClassVar[str] = "Watched"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.PODS

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        answer = np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        ASKED.append(len(answer))
        return answer

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("never",)


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (pod("b", cpu="1"), True),
        (pod("b", cpu="1", priority=7, labels={"app": "b"}, namespace="other"), True),
        (pod("b", cpu="2"), False),
        (pod("b", cpu="1", images=["db"]), False),
        (pod("b", cpu="1", ports=[80]), False),
        (pod("b", cpu="1", selector={}), False),
        (pod("b", cpu="1", tolerations=[""]), False),
    ],
)
def test_what_a_template_is(other: Pod, shared: bool) -> None:
    """Pods share answers when no plugin of the profile can tell them apart."""
    kept, view = EvaluationCache(), cluster(node("a")).view
    choose(view, pod("a", cpu="1"), PROFILE, cache=kept)
    choose(view, other, PROFILE, cache=kept)
    assert (int(shared), 2 - int(shared)) == (kept.hits, kept.misses)


def asked_after(step: Node | Pod | None) -> list[int]:
    """For how many rows the plugin is called after this change."""
    held, kept, profile = cluster(*NODES), EvaluationCache(), multipoint("watched", [(Watched(), 1)])
    choose(held.view, pod("a"), profile, cache=kept)
    if isinstance(step, Node):
        held.upsert_node(step)
    elif step is not None:
        held.upsert_pod(step)
    ASKED.clear()
    choose(held.view, pod("b"), profile, cache=kept)
    return list(ASKED)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (None, []),
        (pod("new", on="node-03"), [1]),
        (pod("new", on="nowhere"), []),
        (node("node-03", labels={"a": "b"}), []),
        (node("another"), [21]),
    ],
)
def test_only_what_changed(step: Node | Pod | None, rows: list[int]) -> None:
    """Only rows with a change in `depends_on` are recomputed; a new node invalidates all."""
    assert rows == asked_after(step)


def test_profiles_apart() -> None:
    """Answers for one profile never serve another, even when both have the same plugins."""
    kept, view = EvaluationCache(), cluster(node("a")).view
    twins: list[Profile] = [default_profile("one"), default_profile("two")]
    for profile in twins:
        choose(view, pod("a"), profile, cache=kept)
    assert (0, 2) == (kept.hits, kept.misses)


def test_bounded() -> None:
    """Beyond the bound the template that was not used for longest goes."""
    kept, view = EvaluationCache(capacity=2), cluster(node("a")).view
    for cpu in ("1", "2", "1", "3", "1", "2"):
        choose(view, pod("a", cpu=cpu), PROFILE, cache=kept)
    assert (2, 4) == (kept.hits, kept.misses)
