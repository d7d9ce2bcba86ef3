"""Each law can be broken: a plugin that breaks it is caught, and a correct one is not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.build import cluster, node, pod
from trimtab.core.cluster.view import View
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import (
    Ints,
    Normalise,
    Plugin,
    PreFilterResult,
    PreFilterStatus,
    Reject,
    Rows,
)
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.laws import LAWS, Law, cached_equals_fresh, independent_of_node_order, signature_is_complete


@dataclass(frozen=True)
class Honest:
    """Rejects nodes with more than one pod, and likes those with few."""

    name: ClassVar[str] = "Honest"
    requeue_on: ClassVar[Change] = Change.PODS
    depends_on: ClassVar[Change] = Change.PODS
    normalise: ClassVar[Normalise] = Normalise.LOWER

    def signature(self, pod: Pod) -> Hashable:
        return ()

    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]:
        return (queued_at,)

    def pre_enqueue(self, pod: Pod) -> str | None:
        return "not yet" if pod.scheduling_gates else None

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        return PreFilterStatus.SUCCESS

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.where(view.pod_count > 1, 1, 0)[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("too full",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return view.pod_count[rows].copy()


class OtherType(Honest):
    def score(self, view: View, pod: Pod, rows: Rows) -> Any:
        return view.pod_count[rows] * 0.5


class OtherLength(Honest):
    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.zeros(view.count, dtype=np.int64)


class Meddler(Honest):
    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        view.pod_count[0] += 1
        return np.zeros(len(view.pod_count[rows]), dtype=np.int64)


class Moody(Honest):
    calls: ClassVar[list[int]] = []

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        self.calls.append(1)
        return np.full(len(view.pod_count[rows]), len(self.calls), dtype=np.int64)


class Relative(Honest):
    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return view.pod_count[rows] + len(view.pod_count[rows])


class Mute(Honest):
    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ()


class MuteAhead(Honest):
    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        return Reject(" ")


class MuteGate(Honest):
    def pre_enqueue(self, pod: Pod) -> str | None:
        return ""


class Skipper(Honest):
    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        return PreFilterStatus.SKIP


class Giant(Honest):
    normalise: ClassVar[Normalise] = Normalise.NONE

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return view.pod_count[rows] * 101


class Disordered(Honest):
    def queue_sort_key(self, pod: Pod, queued_at: float) -> tuple[float, ...]:
        return (float("nan"),)


class Concealing(Honest):
    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return view.pod_count[rows] + len(pod.name)


class Unreading(Honest):
    depends_on: ClassVar[Change] = Change.LABELS


class FirstRow(Honest):
    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.minimum(np.arange(view.count), 1)[rows]


NODES = [node("a"), node("b"), node("c")]
CLUSTER: tuple[Node | Pod, ...] = (*NODES, *(pod(f"on-{number}", on="c") for number in range(3)))

BREAKERS = [
    ("int64_columns", OtherType()),
    ("int64_columns", OtherLength()),
    ("cluster_unchanged", Meddler()),
    ("deterministic", Moody()),
    ("some_rows_match_all", Relative()),
    ("rejections_have_reasons", Mute()),
    ("rejections_have_reasons", MuteAhead()),
    ("rejections_have_reasons", MuteGate()),
    ("skip_passes_all_nodes", Skipper()),
    ("scores_in_range", Giant()),
    ("sort_key_is_numeric", Disordered()),
]
BY_NAME = {law.__name__: law for law in LAWS}


@pytest.mark.parametrize("law", LAWS)
def test_honest(law: Law) -> None:
    """An honest plugin breaks no law."""
    assert [] == list(law(Honest(), cluster(*CLUSTER).view, pod("web")))


@pytest.mark.parametrize(
    ("law", "plugin"), BREAKERS, ids=lambda each: each if isinstance(each, str) else type(each).__name__
)
def test_broken(law: str, plugin: Plugin) -> None:
    """A plugin that breaks the law is named in a sentence."""
    found = list(BY_NAME[law](plugin, cluster(*CLUSTER).view, pod("web")))
    assert found
    assert all(sentence.startswith(plugin.name) for sentence in found)


def test_every_law_has_a_breaker() -> None:
    """Every law has a plugin that breaks it."""
    assert set(BY_NAME) == {law for law, _ in BREAKERS}


@pytest.mark.parametrize(("plugin", "caught"), [(Honest(), False), (Concealing(), True)])
def test_signature(plugin: Plugin, caught: bool) -> None:
    """A plugin whose signature is incomplete is caught."""
    view = cluster(*CLUSTER).view
    assert caught == bool(list(signature_is_complete(plugin, view, pod("web"), pod("longer"))))


@pytest.mark.parametrize(("plugin", "caught"), [(Honest(), False), (Unreading(), True)])
def test_kept(plugin: Plugin, caught: bool) -> None:
    """A plugin with an incomplete `depends_on` is caught when such a change happens."""
    held, kept, profile = cluster(*CLUSTER), EvaluationCache(), multipoint("one", [(plugin, 1)])
    assert [] == list(cached_equals_fresh(held, pod("web"), profile, kept))
    held.upsert_pod(pod("new", on="a"))
    assert caught == bool(list(cached_equals_fresh(held, pod("web"), profile, kept)))


@pytest.mark.parametrize(("plugin", "caught"), [(Honest(), False), (FirstRow(), True)])
def test_order(plugin: Plugin, caught: bool) -> None:
    """A plugin that depends on row numbers is caught when nodes are added in another order."""
    profile = multipoint("one", [(plugin, 1)])
    assert caught == bool(list(independent_of_node_order(cluster(*CLUSTER), NODES[::-1], pod("web"), profile)))
