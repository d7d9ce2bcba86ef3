"""A kind that may not be listed stops the pods that need it, with a message, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.engine_harness import EngineHarness, node, of_kind, pod, profile
from trimtab.core.model.events import KindForbidden, LeaseAcquired, ObjectUpserted, SettingsRead, Synced
from trimtab.core.model.instructions import EmitEvent, Instruction, Preempt, SetUnschedulable
from trimtab.core.model.objects import POD_GROUP_LABEL, PodGroup
from trimtab.core.model.pod import PodSpec, Volume
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.recording import snapshot
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import explain_pod
from trimtab.core.settings import Settings

PROBLEM = 'list: 403 User "alice" cannot list them; grant it to alice'
MEMBER = pod("member", cpu=100, labels={POD_GROUP_LABEL: "train"})
CLAIMING = pod("claiming", cpu=100, spec=PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),)))
PLAIN = pod("plain", cpu=100)
VOLUME_KINDS = ("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csinodes", "csidrivers")


def scene_without(*kinds: str, plugins: tuple[Any, ...] = (Coscheduling(),)) -> EngineHarness:
    """Leading, with every kind listed but these, which are forbidden."""
    scene = EngineHarness(*plugins, ready=False)
    needed = scene.engine.state.settings.kinds
    scene.engine.state.unsynced = set(needed)
    scene.handle(*(Synced(kind, 0.0) for kind in needed if kind not in kinds))
    scene.handle(*(KindForbidden(kind, PROBLEM, 0.0) for kind in kinds), LeaseAcquired(1, 0.0))
    scene.upsert(node("a", 1000))
    return scene


def condition(wishes: list[Instruction], name: str) -> str:
    return next(wish.message for wish in of_kind(SetUnschedulable, wishes) if wish.name == name)


def test_members_of_a_gang_wait_for_pod_groups() -> None:
    """Event and condition name plugin, kind and what the server said; plain pods are bound; the permission ends it."""
    scene = scene_without("podgroups")
    scene.upsert(MEMBER, PLAIN)
    wishes = scene.turn()
    assert ["plain"] == [wish.name for wish in wishes if type(wish).__name__ == "Bind"]
    message = f"0/1 nodes are available: Coscheduling needs podgroups, which this scheduler cannot list: {PROBLEM}."
    assert message == condition(wishes, "member")
    assert message in [wish.note for wish in of_kind(EmitEvent, wishes)]
    group = PodGroup(name="train", namespace="default", uid="uid-train", version=7, min_member=1)
    scene.at = 20.0
    scene.handle(ObjectUpserted(group, 20.0), Synced("podgroups", 20.0))
    assert {"member": "a"} == scene.binds()


@pytest.mark.parametrize("kind", VOLUME_KINDS)
def test_pods_with_volumes_wait_for_each_kind_of_storage(kind: str) -> None:
    """One of the kinds is enough; pods without volumes are bound."""
    scene = scene_without(kind)
    scene.upsert(CLAIMING, PLAIN)
    wishes = scene.turn()
    assert ["plain"] == [wish.name for wish in wishes if type(wish).__name__ == "Bind"]
    assert f"needs {kind}, which this scheduler cannot list: {PROBLEM}." in condition(wishes, "claiming")


def test_nothing_is_preempted_without_budgets() -> None:
    """Pods that fit are bound; one that would have to preempt says why it does not, and does so with the permission."""
    scene = scene_without("poddisruptionbudgets")
    scene.upsert(pod("lesser", cpu=900, node="a", started=5.0), PLAIN, pod("urgent", cpu=900, priority=10))
    wishes = scene.turn()
    assert [] == of_kind(Preempt, wishes)
    assert f"preemption: poddisruptionbudgets cannot be listed: {PROBLEM}" in condition(wishes, "urgent")
    scene.at = 20.0
    scene.handle(Synced("poddisruptionbudgets", 20.0))
    assert ["lesser"] == [wish.name for wish in of_kind(Preempt, scene.turn())]


@pytest.mark.parametrize("kind", ["namespaces", "services", "replicasets"])
def test_where_any_pod_may_need_the_kind_nothing_is_decided(kind: str) -> None:
    """Anti-affinity of running pods, and spreading by default, concern pods that say nothing of either."""
    scene = scene_without(kind)
    scene.upsert(PLAIN)
    assert {} == scene.binds()
    scene.handle(Synced(kind, 1.0))
    assert {"plain": "a"} == scene.binds()


def test_a_permission_that_is_revoked_stops_the_pods_that_need_it() -> None:
    """What was listed before grows old; where any pod may need it, everything stops."""
    scene = EngineHarness(Coscheduling())
    scene.upsert(node("a", 1000))
    scene.handle(KindForbidden("podgroups", PROBLEM, 1.0))
    scene.upsert(MEMBER, PLAIN)
    assert {"plain": "a"} == scene.binds()
    scene.handle(KindForbidden("namespaces", PROBLEM, 2.0))
    assert not scene.engine.state.may_decide


def test_a_plugin_that_is_disabled_ends_the_wait_for_its_kind() -> None:
    """As the remedy says; enabled again, it waits again until the kind is listed."""
    scene = scene_without("namespaces", plugins=())
    before = scene.engine.state.settings
    without = Settings((profile(without=("InterPodAffinity",)),))
    scene.upsert(PLAIN)
    scene.handle(SettingsRead(without, 1.0))
    assert {"plain": "a"} == scene.binds()
    scene.handle(SettingsRead(before, 2.0))
    assert not scene.engine.state.may_decide
    scene.handle(Synced("namespaces", 3.0))
    assert scene.engine.state.may_decide


def test_a_kind_that_is_needed_again_was_listed_before() -> None:
    """From one file to another and back: its informer ran all the time, so nothing waits for a new list."""
    scene = scene_without(plugins=())
    before = scene.engine.state.settings
    scene.handle(SettingsRead(Settings((profile(without=("InterPodAffinity",)),)), 1.0), SettingsRead(before, 2.0))
    assert scene.engine.state.may_decide


def test_a_fork_and_a_snapshot_know_what_is_forbidden() -> None:
    """Both decide as the engine itself."""
    scene = scene_without("podgroups")
    assert {"podgroups": PROBLEM} == scene.engine.fork().state.forbidden
    forbidden = [event for event in snapshot(scene.engine, 1.0) if isinstance(event, KindForbidden)]
    assert [KindForbidden("podgroups", PROBLEM, 1.0)] == forbidden


def test_explain_says_what_the_pod_waits_for() -> None:
    """The same as its condition, instead of a node that it would get."""
    scene = scene_without("podgroups")
    scene.upsert(MEMBER)
    shown = explain_pod(scene.engine.controller(Scheduling), scene.engine.cluster.pods[MEMBER.uid])
    assert "Coscheduling needs podgroups, which this scheduler cannot list" in shown.verdict
