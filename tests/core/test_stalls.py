"""No object that the API server admits holds up the others: the work of each single step is bounded.

Work is counted in function calls, which is the same on every machine: ten thousand take a few milliseconds. What a call
does to all rows at once costs little; `make bench` has the CPU time at 5,000 nodes.
"""

import json
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.large_objects import MAX_BYTES, Case, Json, strange_pod
from bench.pathological import CASES
from bench.stall_meter import StallMeter
from tools.controlplane.objects import pod
from trimtab.core.model.instructions import Bind, SetUnschedulable
from trimtab.wire.decoding import Malformed

NODES, RUNNING = 60, 60
MAX_CALLS = 300_000  # of a step that takes in, or drops, each entry of an object once
MAX_CALLS_OF_A_TURN = 150_000  # many of which look at all rows


class CallCounter:
    """A clock for `StallMeter` that shows how many functions were called so far."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> float:
        return self.calls

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1


@pytest.fixture(scope="module")
def counter() -> CallCounter:
    return CallCounter()


@pytest.fixture(scope="module")
def cluster(counter: CallCounter) -> StallMeter:
    return StallMeter(NODES, RUNNING, clock=counter)


@pytest.fixture
def meter(cluster: StallMeter, counter: CallCounter) -> Iterator[StallMeter]:
    """Counts while the test runs."""
    before = sys.getprofile()
    sys.setprofile(counter.count)
    yield cluster
    sys.setprofile(before)


def sizes() -> list[tuple[str, int]]:
    return [(name, count) for name, each in CASES.items() for count in (each.most, each.evaluated) if count]


@pytest.mark.parametrize(("name", "count"), sizes())
def test_the_work_of_each_step_is_bounded(name: str, count: int, meter: StallMeter) -> None:
    """While it is decoded, decided and parked, when nodes and pods change beside it, and when it is deleted."""
    case = CASES[name].make(count)
    assert max(map(size, case)) <= MAX_BYTES
    outputs = meter.run(case)
    assert {} == too_long(meter)
    if count > CASES[name].evaluated > 0:
        assert any(
            f"at most {CASES[name].evaluated:,}" in error or "at most" in error for error in errors(outputs, case)
        )
    assert is_bound(meter)


def test_an_event_names_the_field_and_the_number(meter: StallMeter) -> None:
    """As the condition does; how far the limit is exceeded is there, too."""
    outputs = meter.run([strange_pod(nodeSelector={f"k{i}": "v" for i in range(20_000)})])
    (told,) = {each.message for each in outputs if isinstance(each, SetUnschedulable)}
    assert "spec.nodeSelector: 20,000 labels, and at most 10,000 are evaluated; use fewer" in told


def test_parked_pods_cost_nothing_more(meter: StallMeter) -> None:
    """A node that is added or relabelled is compared with them row by row, and with the larger ones not at all."""
    case = CASES["node terms by keys that no node has"]
    parked = [named(case.make(count)[0], f"{count}-{i}") for i in range(10) for count in (case.most, case.evaluated)]
    for each in parked:
        meter.upsert(each)
    meter.turns()
    meter.seconds.clear()
    meter.disturb()
    assert meter.seconds["handle Node"] <= 10 * 4 * case.evaluated
    for each in parked:
        meter.delete(each)


KEYS = st.sampled_from(["kubernetes.io/hostname", "topology.kubernetes.io/zone", "k1", "k2", ""])
VALUES = st.sampled_from(["zone-1", "node-00001", "v", "1", ""])
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
COUNTS = st.sampled_from([0, 1, 7, 100, 101, 1_000, 10_001])


@st.composite
def excesses(draw: st.DrawFn) -> Json:
    """A pod with several lists, each of any length."""
    key, value = draw(KEYS), draw(VALUES)
    line = {"key": key, "operator": draw(OPERATORS), "values": [value] * draw(st.sampled_from([0, 1, 1_000]))}
    own = {**line, "key": "app", "operator": draw(st.sampled_from(["In", "NotIn", "Exists"]))}
    term = {"topologyKey": key, "labelSelector": {"matchExpressions": [own]}}
    spread = {"topologyKey": key, "maxSkew": 1, "labelSelector": {}, "whenUnsatisfiable": "DoNotSchedule"}
    lists = {
        "nodeSelector": {f"{key}{i}": value for i in range(draw(COUNTS))},
        "tolerations": [{"key": key, "operator": "Equal", "value": value}] * draw(COUNTS),
        "topologySpreadConstraints": [{**spread, "topologyKey": f"{key}{i}"} for i in range(draw(COUNTS))],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [line] * draw(st.integers(1, 3))}] * draw(COUNTS)
                }
            },
            draw(st.sampled_from(["podAffinity", "podAntiAffinity"])): {
                "requiredDuringSchedulingIgnoredDuringExecution": [term] * draw(COUNTS)
            },
        },
    }
    return strange_pod(**{name: lists[name] for name in draw(st.sets(st.sampled_from(sorted(lists)), min_size=1))})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(excesses())
def test_any_pod(cluster: StallMeter, counter: CallCounter, document: Json) -> None:
    """Several excesses at once, and invalid ones."""
    sys.setprofile(counter.count)
    try:
        cluster.run([document])
        assert {} == too_long(cluster)
        assert is_bound(cluster)
    finally:
        sys.setprofile(None)


def too_long(meter: StallMeter) -> dict[str, float]:
    """Steps with more calls than they may have."""
    most = {"turn": MAX_CALLS_OF_A_TURN}
    return {step: calls for step, calls in meter.seconds.items() if calls > most.get(step, MAX_CALLS)}


def size(document: Json) -> int:
    return len(json.dumps(document, separators=(",", ":")))


def named(document: Json, name: str) -> Json:
    return {**document, "metadata": {**document["metadata"], "name": name}}


def errors(outputs: list[Any], case: Case) -> list[str]:
    told = [each.message for each in outputs if isinstance(each, SetUnschedulable)]
    ignored = [each.error for each in outputs if isinstance(each, Malformed)]
    running = any(each.get("spec", {}).get("nodeName") for each in case)  # nobody is told of those
    return told + ignored + (["at most"] if running else [])


def is_bound(meter: StallMeter) -> bool:
    """Whether a plain pod gets a node."""
    plain = pod("plain")
    meter.upsert(plain)
    bound = any(isinstance(each, Bind) for each in meter.turns())
    meter.delete(plain)
    return bound
