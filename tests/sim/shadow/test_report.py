"""The report of a shadow: what it says, and how the next start goes on from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from tests.build import node, pod
from tests.sim.shadow.test_shadow import World
from trimtab.core.model.events import SamplesRead
from trimtab.core.model.readings import Reading, Subject
from trimtab.sim.shadow.report import FollowedPolicy, ReportError, encode_report, make_report, resume
from trimtab.sim.shadow.shadow import Shadow

POLICY = FollowedPolicy("policy.yaml", ("policy",), "digest")


def world() -> World:
    """One pod that would be elsewhere, measured for a minute."""
    found = World(node("a", cpu="4"), node("b", cpu="2"))
    found.see(pod("web", cpu="1", on="b", uid="web"))
    readings = (
        Reading("prom/n", "cpu", ("a", "b"), (400.0, 1800.0), (found.now,) * 2),
        Reading("prom/p", "cpu", ("default/web",), (1000.0,), (found.now,), Subject.PODS),
    )
    found.put(SamplesRead(readings, found.now))
    found.shadow.measure(found.now)
    found.shadow.measure(found.now + 60)
    return found


def encoded(shadow: Shadow, **more: Any) -> bytes:
    return encode_report(make_report(shadow, POLICY, 1.0, 9.0, 8.0, finished=True, **more))


def test_the_document() -> None:
    """Counts, both sides of the load, and each difference; no state of the engine."""
    found = json.loads(encoded(world().shadow))
    assert ("trimtab.dev/v1alpha1", "ShadowReport", 8.0, True) == (
        found["apiVersion"],
        found["kind"],
        found["watchedSeconds"],
        found["finished"],
    )
    summary = found["summary"]
    assert (1, 0, 1, 1) == (summary["decided"], summary["same"], summary["different"], summary["late"])
    cpu = summary["load"]["cpu"]
    assert {"hotNodeMinutes": {"80": 1.0, "90": 1.0, "100": 0.0}, "spread": 0.4, "peak": 0.9, "peakNode": "b"} == cpu[
        "real"
    ]
    assert ({"80": 0.0, "90": 0.0, "100": 0.0}, 0.4) == (cpu["shadow"]["hotNodeMinutes"], cpu["shadow"]["peak"])
    assert ["cpu"] == [*summary["load"]]
    assert [("default/web", "different", "b", "a")] == [
        (each["pod"], each["comparison"], each["real"], each["shadow"]) for each in found["differences"]
    ]


def test_without_measurements_there_is_no_load() -> None:
    """Absent, not 0."""
    found = World(node("a"))
    assert "load" not in json.loads(encoded(found.shadow))["summary"]


def test_going_on() -> None:
    """Counts, load and the pods that would be elsewhere are taken over; the time in between is not measured."""
    before, after = world().shadow, World(node("a", cpu="4"), node("b", cpu="2"), synced=False)
    found = resume(after.shadow, encoded(before), POLICY)
    assert 8.0 == found.watched_seconds
    after.see(pod("web", cpu="1", on="b", uid="web"))
    after.sync()
    after.shadow.measure(after.now)
    assert {"web"} == {*after.shadow.moved}
    assert json.loads(encoded(before))["summary"] == json.loads(encoded(after.shadow))["summary"] | {"unmeasured": 0}


def test_pods_that_went_meanwhile_are_forgotten() -> None:
    """Once the first list is complete, and not before."""
    after = World(node("a"), synced=False)
    resume(after.shadow, encoded(world().shadow), POLICY)
    after.shadow.measure(after.now)
    assert {"web"} == {*after.shadow.moved}
    after.sync()
    after.shadow.measure(after.now)
    assert {} == after.shadow.moved


WHOLE = json.loads(encoded(world().shadow))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `policy`"),
        (
            json.dumps({**WHOLE, "kind": "ClusterSnapshot"}).encode(),
            "kind 'ClusterSnapshot' of 'trimtab.dev/v1alpha1' is not",
        ),
        (json.dumps({**WHOLE, "apiVersion": "trimtab.dev/v2"}).encode(), "of 'trimtab.dev/v2' is not 'ShadowReport'"),
        (json.dumps({**WHOLE, "state": {"counts": {"same": "x"}}}).encode(), "state.counts.same: Expected `int`"),
        (b'{"a":' * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str) -> None:
    """With the field; nothing of the shadow changes."""
    found = World(node("a")).shadow
    with pytest.raises(ReportError) as raised:
        resume(found, content, POLICY)
    assert message in str(raised.value) and 0 == found.counts.decided


def test_another_policy_is_refused() -> None:
    """Its counts would be added to those of this one."""
    with pytest.raises(ReportError, match=r"policy: it is the report of another policy \(policy.yaml\)"):
        resume(World(node("a")).shadow, encoded(world().shadow), FollowedPolicy("b.yaml", ("b",), "other"))
    with pytest.raises(ReportError, match=r"policy\.cumulative: it is the report of a shadow without --cumulative"):
        resume(World(node("a")).shadow, encoded(world().shadow), structs.replace(POLICY, cumulative=True))
