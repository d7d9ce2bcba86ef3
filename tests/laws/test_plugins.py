"""The laws of plugins, for every built-in plugin, alone and together, on any cluster and after any changes."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import build
from tests.laws.cluster_strategies import NAMES, Step, clusters, measure_all, pods, resize, steps
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE, default_profile
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.invariants import check_invariants
from trimtab.core.cluster.view import View
from trimtab.core.framework import evaluation
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.explain import explain
from trimtab.core.framework.interface import (
    ALL_ROWS,
    Cacheable,
    Filter,
    Ints,
    NeedsKindsForSomePods,
    Normalise,
    Plugin,
    PreFilterResult,
    PreFilterStatus,
    Rows,
    Score,
)
from trimtab.core.framework.profile import Profile, TieBreak, multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.plugins.load_aware_scheduling.prod_usage import _Sums, is_prod, prod_usage
from trimtab.laws import LAWS, cached_equals_fresh, independent_of_node_order, signature_is_complete

OFTEN = settings(max_examples=60, deadline=None)
STEP_BY_STEP = settings(max_examples=30, deadline=None)  # each example asks all profiles after each of its steps

RESOURCES: list[dict[str, object]] = [
    {"name": "cpu", "weight": 3},
    {"name": "nvidia.com/gpu", "weight": 5},
    {"name": "ephemeral-storage"},
]
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 70, "score": 10}, {"utilization": 100, "score": 3}]
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Exists"}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    ],
}
# Arguments that lead through other code than the defaults do.
ARGUMENTS: list[tuple[str, dict[str, object]]] = [
    ("TargetLoadPacking", {"strict": True}),
    ("LowestLoad", {"strict": True}),
    ("LoadAwareScheduling", {"strict": True}),
    ("Dynamic", {"strict": True}),
    ("Usage", {"strict": True}),
    ("CpuRealUsage", {"strict": True}),
    ("LoadVariationRiskBalancing", {"strict": True}),
    ("LowRiskOverCommitment", {"strict": True}),
    (
        "LoadAwareScheduling",
        {
            "prodUsageThresholds": {"cpu": 40, "memory": 60},
            "scoreAccordingProdUsage": True,
            "prodUsageIncludeSys": True,
        },
    ),
    ("GpuShare", {"scoringStrategy": "FragmentationGradientDescent"}),
    (
        "GpuShare",
        {
            "scoringStrategy": "FragmentationGradientDescent",
            "typicalPods": [
                {"requests": {"cpu": "1", "alibabacloud.com/gpu-milli": "700"}, "weight": 3},
                {"requests": {"cpu": "100m", "alibabacloud.com/gpu-count": "4"}, "models": ["x"]},
            ],
        },
    ),
    ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": RESOURCES}}),
    (
        "NodeResourcesFit",
        {
            "ignoredResourceGroups": ["example.com"],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": RESOURCES,
                "requestedToCapacityRatio": {"shape": SHAPE},
            },
        },
    ),
    ("NodeResourcesBalancedAllocation", {"resources": [{"name": each["name"], "weight": 1} for each in RESOURCES]}),
    ("NodeAffinity", {"addedAffinity": ADDED}),
]
ONLY = os.environ.get("PLUGIN", "")  # one plugin's laws alone, while it is being written
PLUGINS: list[Plugin] = [
    *(kind() for name, kind in IN_TREE.items() if ONLY in ("", name)),
    *(build_plugin(name, IN_TREE[name], args) for name, args in ARGUMENTS if ONLY in ("", name)),
]
assert PLUGINS, f"PLUGIN={ONLY} is no built-in plugin"


@dataclass(frozen=True, slots=True)
class Crowd:
    """Declares nothing, and reads all nodes for each: its results may not be cached, and must still be right."""

    name: ClassVar[str] = "Crowd"
    requeue_on: ClassVar[Change] = Change.PODS
    normalise: ClassVar[Normalise] = Normalise.HIGHER

    def pre_filter(self, view: View, pod: Pod) -> PreFilterResult:
        return PreFilterStatus.SUCCESS if int(view.pod_count.sum()) % 3 == 0 else PreFilterStatus.SKIP

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        crowded = int(view.pod_count.sum()) % 3 == 0
        return np.where(crowded & (view.pod_count > 0), 1, 0)[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("a third of all times is a crowd",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        return (view.pod_count * len(pod.labels))[rows]


def weighted(*changed: Plugin) -> list[tuple[Plugin, int]]:
    """The default plugins, some of them replaced, behind those that are not among them."""
    plugins: dict[str, Plugin] = {plugin.name: plugin for plugin in changed if plugin.name not in IN_TREE}
    plugins |= {name: IN_TREE[name]() for name in DEFAULT_PLUGINS if name in IN_TREE}
    plugins |= {plugin.name: plugin for plugin in changed}
    return [(plugin, DEFAULT_PLUGINS.get(name, 0) or 1) for name, plugin in plugins.items()]


PROFILES = [
    default_profile("default"),
    default_profile("by name", TieBreak.NAME),
    multipoint("other arguments", weighted(*PLUGINS[-3:])),
    multipoint("undeclared", weighted(Crowd())),
    *(multipoint(plugin.name, [(plugin, 2)]) for plugin in PLUGINS),  # alone, where no other can hide its mistakes
]


# Their answers depend on other pods, or on claims and volumes, and not on one row and the pod alone; or on its UID.
ASKED_ANEW = {
    "InterPodAffinity",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "Random",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
}


def test_all_plugins_declare() -> None:
    """Every built-in plugin that evaluates nodes independently declares `depends_on`, so that its results are cached."""
    judges = [plugin for plugin in PLUGINS if isinstance(plugin, Filter | Score)]
    expected = {each for each in ASKED_ANEW if ONLY in ("", each)}
    assert expected == {plugin.name for plugin in judges if not isinstance(plugin, Cacheable)}


@OFTEN
@given(cluster=clusters(), pod=pods())
def test_laws(cluster: Cluster, pod: Pod) -> None:
    """Every plugin keeps every law on any cluster, for any pod."""
    assert [] == [breach for plugin in PLUGINS for law in LAWS for breach in law(plugin, cluster.view, pod)]


@OFTEN
@given(cluster=clusters(), pod=pods(), other=pods(), data=st.data())
def test_signatures(cluster: Cluster, pod: Pod, other: Pod, data: st.DataObject) -> None:
    """Pods that a plugin signs alike get the same answers, however much they differ otherwise."""
    parts = data.draw(st.sets(st.sampled_from(sorted(set(PodSpec.__struct_fields__)))))
    spec = replace(other.spec, **{part: getattr(pod.spec, part) for part in parts})
    alike = replace(other, spec=spec, requests=data.draw(st.sampled_from((pod.requests, other.requests))))
    assert [] == [breach for plugin in PLUGINS for breach in signature_is_complete(plugin, cluster.view, pod, alike)]


@OFTEN
@given(cluster=clusters(), pod=pods(), data=st.data())
def test_node_order(cluster: Cluster, pod: Pod, data: st.DataObject) -> None:
    """The decision is the same in whatever order nodes were learnt of."""
    order = data.draw(st.permutations(cluster.node_table.nodes))
    assert [] == [breach for profile in PROFILES for breach in independent_of_node_order(cluster, order, pod, profile)]


@STEP_BY_STEP
@given(
    cluster=clusters(),
    changes=st.lists(steps(), min_size=1, max_size=12),
    asked=st.lists(pods(), min_size=1, max_size=4),
    hot=st.integers(1, 80),
    few=st.sampled_from((0, evaluation.MAX_SCALAR_ROWS)),
    many=st.sampled_from((1, evaluation.FULL_UPDATE_FRACTION)),
)
def test_kept_as_fresh(cluster: Cluster, changes: list[Step], asked: list[Pod], hot: int, few: int, many: int) -> None:
    """However a cluster changes, its columns are what a recount gives, and cached results equal fresh ones."""
    kept = EvaluationCache(hot)
    # Which way of mending is the cheapest depends on these numbers; each way must be right on its own.
    with patch.multiple(evaluation, MAX_SCALAR_ROWS=few, FULL_UPDATE_FRACTION=many):
        for at, step in enumerate(changes, start=1):
            step(cluster, at)
            assert [] == check_invariants(cluster)
            for pod in asked[at % 2 :]:  # not each pod each time, so that several changes pile up
                breaches = {
                    profile.name: list(cached_equals_fresh(cluster, pod, profile, kept)) for profile in PROFILES
                }
                assert {} == {name: found for name, found in breaches.items() if found}


def stale_after_resizing(cluster: Cluster, pod: Pod, profiles: list[Profile], times: float) -> list[str]:
    """What is cached wrongly while measured nodes become larger or smaller, one after the other."""
    kept, found = EvaluationCache(), list[str]()
    measure_all(cluster, 1)
    for at in range(1, len(cluster.node_table.nodes) + 2):
        for profile in profiles:
            found += [f"{profile.name}: {each}" for each in cached_equals_fresh(cluster, pod, profile, kept)]
        resize(cluster, times, at + 1)
    return found


@STEP_BY_STEP
@given(cluster=clusters(), pod=pods(), times=st.sampled_from((0.25, 0.5, 2.0, 4.0)))
def test_resized_nodes(cluster: Cluster, pod: Pod, times: float) -> None:
    """A share of a node depends on its size as well as on its load: who reads one declares both."""
    with patch.object(evaluation, "FULL_UPDATE_FRACTION", 1):
        assert [] == stale_after_resizing(cluster, pod, PROFILES, times)


@dataclass(frozen=True, slots=True)
class Forgetful:
    """Reads shares of allocatable memory, and does not say that it depends on that."""

    name: ClassVar[str] = "Forgetful"
    requeue_on: ClassVar[Change] = Change.LOAD
    depends_on: ClassVar[Change] = Change.LOAD

    def signature(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return np.where(view.used_share("memory") > 0.7, 1, 0)[rows]

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("too little memory is left",)


def test_a_forgotten_dependency_is_found() -> None:
    """On any cluster with two measured nodes, by halving one of them."""
    held = build.cluster(build.node("a"), build.node("b"))
    with patch.object(evaluation, "FULL_UPDATE_FRACTION", 1):
        assert stale_after_resizing(held, build.pod("web"), [multipoint("forgetful", [(Forgetful(), 1)])], 0.5)


@OFTEN
@given(cluster=clusters(), changes=st.lists(steps(), min_size=1, max_size=12))
def test_prod_use_is_kept_as_fresh(cluster: Cluster, changes: list[Step]) -> None:
    """What prod pods use is mended row by row to just what a cluster that has kept nothing sums up, of just those pods."""
    for at, step in enumerate(changes, start=1):
        step(cluster, at)
        kept, fresh = (prod_usage(each.view, ALL_ROWS, True) for each in (cluster, cluster.fork()))
        assert np.array_equal(fresh, kept, equal_nan=True)
        sums = _Sums(cluster.view)
        for uid, slot in cluster.pod_table.slot.items():
            assert is_prod(cluster.pods[uid]) == sums.is_prod(slot) == sums.prod(np.array([slot]))[0]


@OFTEN
@given(cluster=clusters(), pod=pods(), promised=pods(), node=st.sampled_from(NAMES))
def test_explained_as_decided(cluster: Cluster, pod: Pod, promised: Pod, node: str) -> None:
    """An explanation's table names the node that was chosen as one of the best, and rejects all when none was."""
    nominated = replace(promised, uid="other", nominated_node=node)
    for profile in PROFILES:
        told = explain(cluster.view, pod, profile, [nominated])
        feasible = {line.node: line.total for line in told.rows if not line.rejected_by}
        assert bool(told.node) == bool(feasible)
        assert max(feasible.values(), default=0) == feasible.get(told.node, 0)
        assert all(line.reasons for line in told.rows if line.rejected_by)


@OFTEN
@given(st.data())
def test_pods_that_do_not_need_a_kind_get_the_same_answers_without_it(data: st.DataObject) -> None:
    """Else a pod would be scheduled wrongly while listing the kind is forbidden."""
    cluster, pod = data.draw(clusters()), data.draw(pods())
    plain = replace(pod, labels={}, spec=replace(pod.spec, volumes=()))
    for plugin in PLUGINS:
        if isinstance(plugin, NeedsKindsForSomePods) and isinstance(plugin, Filter):
            assert not plugin.needs_kinds_for(plain)
            without = cluster.fork()
            for each in [each for each in without.objects if each.kind in plugin.needs_kinds]:
                without.delete_object(each.kind, each.key, each.uid, each.version + 1)
            answers = [plugin.filter(seen.view, plain, ALL_ROWS).tolist() for seen in (cluster, without)]
            assert answers[0] == answers[1]
