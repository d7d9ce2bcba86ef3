"""`make bench-move` without a cluster: what it replays, what it measures, and how it configures the reschedulers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.move.compressed_trimtab import COMPRESSED, compress
from bench.move.replay import Replay, is_eviction, received_at
from bench.move.reschedulers import descheduler_policy, trimtab_document
from bench.move.table import BEGIN, END, markdown, write_into
from bench.move.timescale import TimeScale
from bench.move.turn import Result
from bench.move.workload import CORES, NODES, Place, Workload
from tests.live.metering.exporters import Exporters
from trimtab.config.kube_scheduler import parse

Json = dict[str, Any]
APP = "app-00"


def running(name: str, node: str, ready: bool = True, leaving: bool = False, app: str = APP) -> Json:
    """A pod as the API server lists it."""
    meta = {"uid": f"uid-{name}", "name": name, "labels": {"app": app}}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {**meta, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {})},
        "spec": {"nodeName": node},
        "status": {"conditions": [condition]},
    }


@dataclass(frozen=True)
class OneApplication(Workload):
    """Three pods of one Deployment, which use 3, 4 and 5 cores."""

    seed: int = 1
    usage: dict[int, float] = field(default_factory=lambda: {0: 3.0, 1: 4.0, 2: 5.0})

    @property
    def places(self) -> list[Place]:
        return [(APP, number) for number in self.usage]

    def cores(self, place: Place, seconds: float) -> float:
        return self.usage[place[1]]


def replay_of(places: dict[str, Place]) -> tuple[Replay, Exporters]:
    """A replay on machines that nobody scrapes."""
    machines = Exporters(f"node-{number}" for number in range(NODES))
    workload = OneApplication()
    object.__setattr__(workload, "applications", (SimpleNamespace(name=APP, replicas=3, memory=1 << 20),))
    cluster = SimpleNamespace(machines=machines, scale=TimeScale(10))
    return Replay(cast(Any, cluster), workload, "bench", places), machines


def used_on(machines: Exporters, node: str) -> list[float]:
    return sorted(usage.cpu for usage in machines._exporters[node].machine.pods.values())


def test_one_seed_gives_one_world() -> None:
    """All turns of a round have the same pods on the same nodes with the same usage; two nodes are empty."""
    one, again, other = Workload(1), Workload(1), Workload(2)
    assert 150 == len(one.places) == len(one.first_nodes)
    assert one.first_nodes == again.first_nodes
    assert NODES - 2 == len({*one.first_nodes.values()})
    at = [one.cores(place, 1500) for place in one.places]
    assert at == [again.cores(place, 1500) for place in one.places]
    assert at != [other.cores(place, 1500) for place in one.places]


def test_some_nodes_run_hot_but_the_cluster_does_not() -> None:
    """There is something to do, and room to do it."""
    workload = Workload(1)
    used: Counter[str] = Counter()
    for place, node in workload.first_nodes.items():
        used[node] += round(workload.cores(place, 1500) * 1000)
    hot = [node for node, millicores in used.items() if millicores > 800 * CORES]
    assert 2 <= len(hot) < NODES - 5
    assert used.total() < 0.8 * NODES * CORES * 1000


def test_heat_and_missing_pods_are_summed_over_time() -> None:
    """Two pods with 7 of 8 cores make their node hot; one of three pods is missing."""
    replay, _ = replay_of({"a": (APP, 0), "b": (APP, 1), "c": (APP, 2)})
    replay.step([running("a", "node-0"), running("b", "node-0"), running("c", "node-1", ready=False)], 60, 30)
    replay.step([running("a", "node-0"), running("d", "node-2"), running("c", "node-1")], 90, 15)
    assert (30.0, 30.0) == (replay.measures.hot_node_seconds, replay.measures.lost_pod_seconds)


def test_a_replacement_goes_on_with_the_load_of_the_pod_that_left() -> None:
    """Also on another node; the old machine is idle then, and the move is counted for the place."""
    replay, machines = replay_of({"a": (APP, 0), "b": (APP, 1), "c": (APP, 2)})
    before = [running("a", "node-0"), running("b", "node-1"), running("c", "node-2")]
    replay.step(before, 0, 1)
    replay.step([*before[:2], running("c", "node-2", leaving=True), running("new", "node-3", ready=False)], 1, 1)
    assert ([], []) == (used_on(machines, "node-2"), used_on(machines, "node-3"))
    replay.step([*before[:2], running("new", "node-3")], 2, 1)
    assert [5.0] == used_on(machines, "node-3")
    assert {(APP, 2): 1} == replay.measures.moved
    replay.step([*before[:2], running("newer", "node-4")], 3, 1)
    assert {(APP, 2): 2} == replay.measures.moved


def test_a_replacement_that_is_ready_first_waits_for_the_load() -> None:
    """A further replica adds no load, and no ready pod is missing while both are there."""
    replay, machines = replay_of({"a": (APP, 0), "b": (APP, 1), "c": (APP, 2)})
    pods = [running("a", "node-0"), running("b", "node-1"), running("c", "node-2")]
    replay.step(pods, 0, 1)
    replay.step([*pods, running("new", "node-3")], 1, 1)
    assert [] == used_on(machines, "node-3")
    replay.step([*pods[1:], running("new", "node-3")], 2, 1)
    assert [3.0] == used_on(machines, "node-3")
    assert (0.0, 1) == (replay.measures.lost_pod_seconds, replay.measures.moved.total())


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ({}, True),
        ({"responseStatus": {"code": 429}}, False),
        ({"requestURI": "/api/v1/namespaces/bench/pods/a/eviction?dryRun=All"}, False),
        ({"objectRef": {"resource": "pods", "subresource": "eviction", "namespace": "other"}}, False),
        ({"objectRef": {"resource": "pods", "subresource": "binding", "namespace": "bench"}}, False),
    ],
)
def test_evictions_are_those_that_the_api_server_has_carried_out(change: Json, counted: bool) -> None:
    """Neither refused ones nor dry runs count, nor those of another turn."""
    event = {
        "verb": "create",
        "objectRef": {"resource": "pods", "subresource": "eviction", "namespace": "bench", "name": "a"},
        "requestURI": "/api/v1/namespaces/bench/pods/a/eviction",
        "responseStatus": {"code": 201},
    }
    assert counted == is_eviction({**event, **change}, "bench")


def test_evictions_after_the_end_are_told_from_those_before() -> None:
    """By the time at which the API server got the request."""
    assert 1767225600.25 == received_at({"requestReceivedTimestamp": "2026-01-01T00:00:00.250000Z"})


def test_both_get_the_same_times() -> None:
    """Divided by the speed: CPU as a rate over two minutes for both."""
    policy, ours = descheduler_policy("http://x", TimeScale(15), 50, 80), trimtab_document("http://x", TimeScale(15))
    args = policy["profiles"][0]["pluginConfig"][1]["args"]
    assert "[8s]" in args["metricsUtilization"]["prometheus"]["query"]
    assert "8s" == ours["sources"][0]["prometheus"]["rateWindow"]
    assert ("20s", "120s") == (ours["rescheduling"]["interval"], ours["rescheduling"]["cooldown"])


def test_trimtabs_times_are_its_defaults() -> None:
    """At a speed of 1 the file changes nothing but the mode."""
    document = trimtab_document("http://x", TimeScale(1))
    plain = {**document, "load": {}, "rescheduling": {"mode": "auto"}}
    written, default = (parse(json.dumps(each), "bench.yaml").settings for each in (document, plain))
    assert default.rescheduling == written.rescheduling
    assert default.load == written.load


def test_compressed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants that no setting changes are divided, too."""
    before = {}
    for module, names in COMPRESSED.items():
        for name in names:
            before[module, name] = value = getattr(import_module(module), name)
            monkeypatch.setattr(import_module(module), name, value)  # put back at the end
    compress(15)
    assert {key: value / 15 for key, value in before.items()} == {
        (module, name): getattr(import_module(module), name) for module, name in before
    }


def test_the_table_replaces_the_one_in_the_page(tmp_path: Path) -> None:
    """What is around it stays, and means have a digit more."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    results = {"nobody": [Result(10, 0, 0, 0, 0)], "x": [Result(1, 2, 3, 4, 1000), Result(2, 2, 3, 4, 1001)]}
    write_into(page, markdown(results))
    lines = page.read_text().splitlines()
    assert ("before", BEGIN, END, "after") == (lines[0], lines[1], lines[-2], lines[-1])
    assert ["| nobody | 10 | 0 | 0 | 0 | 0 |", "| x | 1.5 | 2.0 | 3.0 | 4.0 | 1,000.5 |"] == lines[4:6]


def test_a_page_without_a_place_for_the_table(tmp_path: Path) -> None:
    """It is not overwritten."""
    page = tmp_path / "page.md"
    page.write_text("something else\n")
    with pytest.raises(SystemExit, match="has no place for the table"):
        write_into(page, "table")
    assert "something else\n" == page.read_text()
