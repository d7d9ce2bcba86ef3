"""A plan of a snapshot: what is moved, what is known of it, and when nothing is planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.apps.plan.hot_cluster import COLD, CPU, HOT, PODS, UID, history_of, hot_cluster, running, usage_of
from tests.sim.snapshot_clusters import TAKEN, replica, used
from tests.wire.json_objects import Json
from trimtab.apps.plan.make import NothingPlanned, PlannedMoves, make_plan, moment_of, settings_for
from trimtab.config.configuration import Configuration
from trimtab.config.kube_scheduler import default_configuration
from trimtab.config.registry import default_profile
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.settings import Settings
from trimtab.sim.snapshot_document import Sample, Usage
from trimtab.sim.snapshot_file import read_snapshot


def planned(folder: Path, pods: tuple[Json, ...] = PODS, settings: Any = None, **options: Any) -> PlannedMoves:
    file = hot_cluster(folder, pods, **options)
    return make_plan(read_snapshot(file), settings or settings_for(default_configuration(), {}))


def configured(**fields: Any) -> Configuration:
    default = default_configuration()
    return replace(default, settings=replace(default.settings, rescheduling=ReschedulingSettings(**fields)))


def test_a_pod_leaves_the_hot_node(tmp_path: Path) -> None:
    """One move is enough to be below the limit; the pod is identified by UID and resourceVersion, the cluster by a UID."""
    found = planned(tmp_path)
    (move,) = found.plan.moves
    assert (HOT, COLD, "ResourceOptimization") == (move.source, move.target, move.strategy)
    assert ({move.uid: 41}, UID, 2, 5) == (found.versions, found.cluster, found.nodes, found.pods)
    assert (TAKEN.timestamp(), ()) == (found.at, found.notes)


def test_the_hottest_nodes(tmp_path: Path) -> None:
    """Before and after the moves, by what the moved pods were measured to use."""
    cpu, memory = planned(tmp_path).hottest
    assert ("cpu", 0.8, HOT, HOT, 1, 0) == (
        *(cpu.resource, cpu.limit, cpu.before.node, cpu.after.node),
        *(cpu.over_before, cpu.over_after),
    )
    assert pytest.approx((0.95, 0.725)) == (cpu.before.usage, cpu.after.usage)
    assert ("memory", 0.9, HOT, COLD) == (memory.resource, memory.limit, memory.before.node, memory.after.node)


def test_pending_pods_stay_pending(tmp_path: Path) -> None:
    """Only the rescheduler gets turns: a pod that waits for a node does not take the room of a moved one."""
    assert 1 == len(planned(tmp_path, (*PODS, replica("new", cpu="3500m"))).plan.moves)


def test_nothing_is_carried_out() -> None:
    """Whatever the configuration says."""
    found = settings_for(configured(mode=Mode.AUTO, max_moves=7), {}).rescheduling
    assert found is not None and (Mode.OBSERVE, 7) == (found.mode, found.max_moves)


def test_profiles() -> None:
    """The stock profile for default-scheduler, those of the configuration, and those of other schedulers before both."""
    plain = settings_for(configured(), {})
    assert (["trimtab"], {"default-scheduler"}) == ([each.name for each in plain.profiles], plain.other_schedulers)
    other = default_profile("default-scheduler")
    found = settings_for(configured(), {"default-scheduler": other, "batch": default_profile("batch")})
    assert ["trimtab"] == [each.name for each in found.profiles]
    assert other is found.any_profile_of("default-scheduler")
    assert {"default-scheduler", "batch"} == found.other_schedulers


def test_pods_of_our_profiles_are_ours() -> None:
    """Also if ours is called default-scheduler; a file of that scheduler says that it is not."""
    ours = replace(default_configuration(), settings=Settings((default_profile("default-scheduler"),)))
    assert frozenset() == settings_for(ours, {}).other_schedulers
    found = settings_for(ours, {"default-scheduler": default_profile("default-scheduler")})
    assert {"default-scheduler"} == found.other_schedulers


def test_the_scheduler_must_not_choose_a_full_node(tmp_path: Path) -> None:
    """kube-scheduler would take the pod back where most is free by requests, however hot that is."""
    large = running("calm", COLD, owner="owner-of-calm")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    found = planned(tmp_path, (*PODS[:-1], large))
    assert () == found.plan.moves
    assert "default-scheduler could choose n-1, where it is now" in {each.reason for each in found.plan.refusals}


def test_pods_of_an_unknown_scheduler_are_noted(tmp_path: Path) -> None:
    """They are not moved, because nobody knows where they fit."""
    pods = tuple(running(f"web-{number}", HOT, schedulerName="batch") for number in range(4))
    found = planned(tmp_path, pods)
    assert () == found.plan.moves
    assert (
        "4 pods of the scheduler batch are not moved: name its file with --scheduler-config batch=FILE",
    ) == found.notes
    known = settings_for(default_configuration(), {"batch": default_profile("batch")})
    assert 1 == len(planned(tmp_path, pods, known).plan.moves)


def test_the_history_counts(tmp_path: Path) -> None:
    """A node that is hot now and was calm for hours gains less by a move than one that was hot all the time."""
    calm = {**CPU, **{f"web-{number}": 300.0 for number in range(4)}}
    hot, brief = planned(tmp_path), planned(tmp_path, history=history_of(PODS, cpu=calm))
    assert brief.plan.penalty_before < hot.plan.penalty_before


def test_without_history(tmp_path: Path) -> None:
    """The newest samples decide, and a note says so."""
    found = planned(tmp_path, history=None)
    assert 1 == len(found.plan.moves)
    assert ("there is no history of usage, so only the newest samples count",) == found.notes


def test_an_unknown_node_is_noted(tmp_path: Path) -> None:
    """Up to half of the nodes may be without samples; pods neither leave nor join these."""
    usage = usage_of(PODS)
    found = planned(tmp_path, usage=Usage({HOT: usage.nodes[HOT]}, usage.pods))
    note = "the usage of 1 of 2 nodes is unknown (1 without samples): pods neither leave nor join them"
    assert ((), (note,)) == (found.plan.moves, found.notes)


STALE = Sample(TAKEN.timestamp() - 301, 3000.0, 1e9)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"usage": None}, "nothing was measured: name a metric source"),
        ({"usage": Usage({}, {"shop/calm": used(5)})}, "nothing was measured: name a metric source"),
        ({"usage": Usage({HOT: used(5)}, {})}, "no pod was measured"),
        (
            {"usage": Usage({HOT: STALE}, {"shop/calm": used(5)})},
            "the usage of 2 of 2 nodes is unknown (1 with samples that are older than 5m, or invalid, 1 without samples), "
            "more than load.mostMissing (0.5) allows",
        ),
        ({"missing": ("poddisruptionbudgets", "volumeattachments")}, "poddisruptionbudgets could not be listed: grant"),
    ],
)
def test_nothing_is_planned(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    """Where metrics are missing or stale, or what guards and filters read could not be listed."""
    with pytest.raises(NothingPlanned) as caught:
        planned(tmp_path, **options)
    assert str(caught.value).startswith(reason)


def test_the_time_of_a_plan(tmp_path: Path) -> None:
    """The newest sample, which is read after the lists; but no sample can put a plan far into the future."""
    later, far = (Usage({HOT: Sample(TAKEN.timestamp() + seconds)}, {}) for seconds in (20.0, 86400.0))
    assert 20.0 == moment_of(read_snapshot(hot_cluster(tmp_path, usage=later))) - TAKEN.timestamp()
    assert 600.0 == moment_of(read_snapshot(hot_cluster(tmp_path, usage=far))) - TAKEN.timestamp()
    assert 0.0 == moment_of(read_snapshot(hot_cluster(tmp_path, usage=None))) - TAKEN.timestamp()
