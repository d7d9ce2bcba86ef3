"""GpuShare fits pods device by device, remembers who has which, and packs them by one of two strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import asks, cluster, node, pod
from tests.core.plugins.ask_plugin import rejections_in
from tests.core.plugins.measured_cluster import place_all, points
from trimtab.config.plugin_args import build_plugin
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import ALL_ROWS, Reject
from trimtab.core.framework.profile import multipoint
from trimtab.core.framework.resource_amounts import ResourceAmounts
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.gpu_share import GpuShare, TypicalPod
from trimtab.core.plugins.gpu_share.devices import (
    GPU_COUNT,
    GPU_MILLI,
    MODEL_LABEL,
    NO_ALLOCATIONS,
    GpuAllocations,
    GpuRequest,
    Share,
    free_devices,
    gpu_request,
    pinned,
)
from trimtab.laws import cached_equals_fresh

PLUGIN = GpuShare()
DESCENT = "FragmentationGradientDescent"


def gpu_node(name: str, gpus: int, cpu: str = "64", model: str = "T4") -> Node:
    return node(name, cpu=cpu, memory="256Gi", extra={GPU_COUNT: str(gpus)}, labels={MODEL_LABEL: model})


def gpu_pod(name: str, count: int, milli: int = 1000, cpu: str = "1", on: str = "") -> Pod:
    return pod(name, cpu=cpu, extra={GPU_COUNT: str(count), GPU_MILLI: str(milli)}, on=on)


def typical(cpu: int, count: int, milli: int, weight: int = 1, models: tuple[str, ...] = ()) -> TypicalPod:
    requests = (("cpu", cpu), (GPU_COUNT, count), (GPU_MILLI, milli)) if count else (("cpu", cpu),)
    return TypicalPod(ResourceAmounts(requests), models, weight)


def free(held: Cluster, name: str) -> list[int]:
    row = held.view.row(name)
    assert row is not None
    devices: list[int] = free_devices(held.view, PLUGIN._allocations(held.view), slice(row, row + 1))[0].tolist()
    return devices


def observe(held: Cluster, *pods: Pod, plugin: GpuShare = PLUGIN) -> Cluster:
    """As the engine does for each pod that it finds on a node."""
    for each in pods:
        held.upsert_pod(each)
        held.set_plugin_state(plugin.name, plugin.observe_pod(held.plugin_state.get(plugin.name), each, added=True))
    return held


def allocate(held: Cluster, name: str, *shares: tuple[int, int]) -> GpuAllocations:
    """So many thousandths of these devices are in use."""
    allocations = NO_ALLOCATIONS
    for number, (milli, device) in enumerate(shares):
        allocations = allocations.reserved(name, f"s{number}", GpuRequest(1, milli), (device,))
    held.set_plugin_state(PLUGIN.name, allocations)
    return allocations


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ({}, GpuRequest(0, 0)),
        ({GPU_COUNT: "2"}, GpuRequest(2, 1000)),
        ({GPU_MILLI: "300"}, GpuRequest(1, 300)),
        ({GPU_COUNT: "1", GPU_MILLI: "460"}, GpuRequest(1, 460)),
        ({GPU_COUNT: "2", GPU_MILLI: "500"}, GpuRequest(2, 500)),
    ],
)
def test_what_a_pod_asks_for(amounts: dict[str, str], expected: GpuRequest) -> None:
    """One device and all of it, unless the pod says otherwise."""
    assert expected == gpu_request(pod("p", requests=asks(extra=amounts)))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (pod("cpu only", cpu="1"), {"two": "", "none": ""}),
        (gpu_pod("share", 1, 400), {"two": "", "none": f"! Insufficient {GPU_COUNT}"}),
        (gpu_pod("large share", 1, 800), {"two": f"Insufficient {GPU_MILLI}", "none": f"! Insufficient {GPU_COUNT}"}),
        (gpu_pod("one", 1), {"two": f"Insufficient {GPU_MILLI}", "none": f"! Insufficient {GPU_COUNT}"}),
        (gpu_pod("three", 3), {"two": f"! Insufficient {GPU_COUNT}", "none": f"! Insufficient {GPU_COUNT}"}),
        (
            gpu_pod("more than all", 1, 1001),
            {"two": f"! Insufficient {GPU_MILLI}", "none": f"! Insufficient {GPU_MILLI}"},
        ),
        (gpu_pod("two halves", 2, 400), {"two": "", "none": f"! Insufficient {GPU_COUNT}"}),
    ],
)
def test_filter(new: Pod, expected: dict[str, str]) -> None:
    """A device with 500 and one with 600 left take shares of that size; free GPU on two devices is no whole one."""
    held = cluster(gpu_node("two", 2), node("none", cpu="64"))
    allocate(held, "two", (500, 0), (400, 1))
    assert [500, 600] == free(held, "two")
    assert expected == rejections_in(held, PLUGIN, new)


def test_shares_go_to_the_tightest_device() -> None:
    """A share goes where it leaves the least, and whole devices stay whole."""
    held = cluster(gpu_node("a", 3))
    place_all(
        PLUGIN, held, [gpu_pod("p0", 1, 600), gpu_pod("p1", 1, 500), gpu_pod("p2", 1, 400), gpu_pod("p3", 1, 500)]
    )
    assert [0, 0, 1000] == free(held, "a")


def test_a_pod_that_leaves_frees_its_devices() -> None:
    """Undone or deleted; what was never reserved is not freed."""
    held = cluster(gpu_node("a", 2))
    first, second = gpu_pod("p0", 1, 600), gpu_pod("p1", 1, 700)
    place_all(PLUGIN, held, [first, second])
    state = held.plugin_state[PLUGIN.name]
    assert state is PLUGIN.unreserve(state, gpu_pod("other", 1), "a")
    held.set_plugin_state(PLUGIN.name, PLUGIN.unreserve(state, first, "a"))
    assert [1000, 300] == free(held, "a")
    bound = gpu_pod("p1", 1, 700, on="a")
    kept = PLUGIN.observe_pod(held.plugin_state[PLUGIN.name], bound, added=True)
    assert kept is held.plugin_state[PLUGIN.name]
    held.set_plugin_state(PLUGIN.name, PLUGIN.observe_pod(kept, bound, added=False))
    assert [1000, 1000] == free(held, "a")


@settings(deadline=None)
@given(st.permutations([("p0", 1, 600), ("p1", 1, 500), ("p2", 1, 400), ("p3", 2, 1000), ("p4", 1, 300)]))
def test_found_pods_are_packed_in_any_order(found: list[tuple[str, int, int]]) -> None:
    """After a restart the state is the same, in whatever order pods are listed."""
    held = observe(cluster(gpu_node("a", 4)), *(gpu_pod(name, count, milli, on="a") for name, count, milli in found))
    assert [0, 0, 0, 200] == sorted(free(held, "a"))
    assert [0, 0, 0, 200] == free(held, "a")


def test_more_than_there_is_leaves_nothing() -> None:
    """Pods that another scheduler has put on too few devices do not lead to negative amounts."""
    held = observe(cluster(gpu_node("a", 1)), gpu_pod("p0", 1, on="a"), gpu_pod("p1", 1, 300, on="a"))
    assert [0] == free(held, "a")


def test_absurd_requests_of_found_pods() -> None:
    """More devices, and more of each, than any node has take all that there is."""
    huge = pod("huge", extra={GPU_COUNT: "7Ei", GPU_MILLI: "12E"}, on="a")
    held = observe(cluster(gpu_node("a", 4)), huge)
    assert [0, 0, 0, 0] == free(held, "a")
    assert {"a": f"! Insufficient {GPU_MILLI}"} == rejections_in(held, PLUGIN, huge)


def test_nodes_without_pods_are_forgotten() -> None:
    """However many nodes come and go, the state does not grow."""
    held = cluster(*(gpu_node(name, 2) for name in "abc"))
    for name in "abc":
        observe(held, gpu_pod(f"on-{name}", 1, 100 * (1 + ord(name) - ord("a")), on=name))
    state = PLUGIN.observe_pod(held.plugin_state[PLUGIN.name], gpu_pod("on-a", 1, 100, on="a"), added=False)
    held.set_plugin_state(PLUGIN.name, state)
    assert state is not None
    assert {"b", "c"} == set(state.lines) == set(state.shares)
    assert ([1000, 1000], [800, 1000], [700, 1000]) == tuple(free(held, name) for name in "abc")


def test_a_full_node_rejects_the_reservation() -> None:
    """The last check before the pod is bound."""
    held = observe(cluster(gpu_node("a", 1)), gpu_pod("p0", 1, 700, on="a"))
    _, answer = PLUGIN.reserve(held.view, held.plugin_state[PLUGIN.name], gpu_pod("p1", 1, 400), "a")
    assert Reject("a has too little free on its GPUs", unresolvable=False) == answer


def test_what_if_views() -> None:
    """Preemption sees the devices of the pods that it would remove, and nominated pods take theirs."""
    victim = gpu_pod("victim", 1, on="a")
    held = observe(cluster(gpu_node("a", 2)), victim, gpu_pod("p0", 1, 200, on="a"))
    new = gpu_pod("new", 1)
    assert [1] == PLUGIN.filter(held.view, new, ALL_ROWS).tolist()
    without = held.view.without_pods(np.array([held.pod_table.slot[victim.uid]]), new)
    assert [0] == PLUGIN.filter(without, new, ALL_ROWS).tolist()
    promised = held.view.with_pods({"a": [gpu_pod("promised", 1, 900)]}, {"a": [victim]})
    assert [1] == PLUGIN.filter(promised.with_pods({"a": [gpu_pod("share", 1, 100)]}), new, ALL_ROWS).tolist()


def test_nodes_come_and_go() -> None:
    """Devices belong to the node's name, whatever its row."""
    held = observe(cluster(gpu_node("a", 1), gpu_node("b", 1)), gpu_pod("p0", 1, 300, on="b"))
    held.delete_node("a")
    held.upsert_node(gpu_node("c", 2))
    assert ([700], [1000, 1000]) == (free(held, "b"), free(held, "c"))


def test_best_fit_prefers_the_fuller_node() -> None:
    """By CPU and GPU that is left, relative to 128 cores and 8 devices."""
    held = cluster(gpu_node("full", 2, cpu="8"), gpu_node("cpu", 2), gpu_node("gpu", 8, cpu="8"))
    scores = points(PLUGIN, gpu_pod("p", 1, cpu="8"), held)
    assert {"full": 93, "cpu": 71, "gpu": 56} == {name: int(score) for name, score in scores.items()}


def test_descent_keeps_whole_devices_for_those_who_need_them() -> None:
    """A share goes to the opened device of one node, although another node is fuller."""
    plugin = GpuShare(DESCENT, typical_pods=(typical(1000, 1, 1000, 5), typical(1000, 1, 300, 2)))
    held = observe(cluster(gpu_node("opened", 8), gpu_node("whole", 1, cpu="4")), gpu_pod("p", 1, 600, on="opened"))
    scores = points(plugin, gpu_pod("new", 1, 300), held)
    assert scores["opened"] > scores["whole"]


def test_descent_chooses_the_device() -> None:
    """Where the workload can use 400 but not 300, the share goes to the device with 700 left, not to that with 600."""
    plugin = GpuShare(DESCENT, typical_pods=(typical(0, 1, 400),))
    held = cluster(gpu_node("a", 2))
    allocations = allocate(held, "a", (400, 0), (300, 1))
    held.set_plugin_state(plugin.name, plugin.reserve(held.view, allocations, gpu_pod("new", 1, 300), "a")[0])
    assert [600, 400] == free(held, "a")


def test_descent_scores_a_node_without_gpus_alone_as_beside_others() -> None:
    """A share fits on neither: the score of one does not depend on how many devices the other has."""
    plugin = GpuShare(DESCENT, typical_pods=(typical(1000, 1, 700),))
    none, small = gpu_node("none", 0), gpu_node("small", 1)
    share = gpu_pod("new", 1, 700)
    beside = observe(cluster(none, small), gpu_pod("p", 1, 600, on="small"))
    assert points(plugin, share, cluster(none))["none"] == points(plugin, share, beside)["none"]


def test_descent_knows_models() -> None:
    """GPUs of a model that the workload cannot use are fragments already, so pods without a wish go there first."""
    plugin = GpuShare(DESCENT, typical_pods=(typical(1000, 1, 1000, 1, ("A100",)),))
    held = cluster(gpu_node("t4", 4), gpu_node("a100", 4, model="A100"))
    scores = points(plugin, gpu_pod("any", 1), held)
    assert scores["t4"] > scores["a100"]


def test_descent_learns_from_the_pods_seen() -> None:
    """Without typical pods, the pods observed so far are the workload; the note says when there are none."""
    plugin = GpuShare(DESCENT)
    held = cluster(gpu_node("opened", 8), gpu_node("whole", 1, cpu="4"), gpu_node("elsewhere", 8))
    assert plugin.explain_note(held.view, gpu_pod("new", 1))
    observe(held, gpu_pod("p", 1, 600, on="opened"), plugin=plugin)
    observe(held, *(gpu_pod(f"w{number}", 1, on="elsewhere") for number in range(5)), plugin=plugin)
    assert "" == plugin.explain_note(held.view, gpu_pod("new", 1))
    scores = points(plugin, gpu_pod("new", 1, 300), held)
    assert scores["opened"] > scores["whole"]


def test_random_devices() -> None:
    """By a hash of the pod's UID: the same in every run, and not always the tightest."""
    plugin, held = GpuShare(device_selection="Random"), cluster(gpu_node("a", 8))
    chosen = {
        plugin.reserve(held.view, None, gpu_pod(f"p{number}", 1, 100), "a")[0].of("a")[0].devices  # type: ignore[union-attr]
        for number in range(100)
    }
    assert 8 == len(chosen)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1000)), max_size=12))
def test_packing_never_overfills_a_device(requests: list[tuple[int, int]]) -> None:
    """Whatever is found on a node, no device has more than it holds, and each pod has as many as it asked for."""
    packed = pinned([Share(f"p{number}", GpuRequest(*each)) for number, each in enumerate(requests)])
    used: dict[int, int] = {}
    for share in packed:
        assert share.request.gpus == len({*share.devices})
        for device in share.devices:
            used[device] = used.get(device, 0) + share.request.milli
    assert 1000 >= max(used.values(), default=0)


@settings(deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.integers(0, 5)), max_size=40),
    strategy=st.sampled_from(("BestFit", DESCENT)),
)
def test_cached_results_follow_the_devices(steps: list[tuple[int, str, int]], strategy: str) -> None:
    """The state of a node's devices changes only with its pods, so what is cached until then equals fresh results."""
    plugin = GpuShare(strategy, typical_pods=(typical(1000, 1, 1000), typical(1000, 1, 300), typical(0, 0, 0)))
    held, cache, profile = (
        cluster(*(gpu_node(name, 2) for name in "abc")),
        EvaluationCache(),
        multipoint("p", [(plugin, 1)]),
    )
    wanted = [gpu_pod("w0", 1), gpu_pod("w1", 1, 300), gpu_pod("w2", 2), pod("w3", cpu="1")]
    for number, (action, name, which) in enumerate(steps):
        new = replace(wanted[which % 4], uid=f"uid-{number}", name=f"p{number}", version=number)
        before = held.plugin_state.get(plugin.name)
        if action < 2 and plugin.filter(held.view, new, ALL_ROWS)[held.view.node_table.row[name]] == 0:
            held.upsert_pod(new)
            held.assume(new, name)
            held.set_plugin_state(plugin.name, plugin.reserve(held.view, before, new, name)[0])
        elif action == 2:
            observe(held, replace(new, node=name, phase="Running"), plugin=plugin)
        elif action > 2 and held.placements:
            placed = [*held.placements.values()][which % len(held.placements)].pod
            held.delete_pod(placed.uid)
            held.set_plugin_state(plugin.name, plugin.observe_pod(before, placed, added=False))
        for each in wanted:
            assert [] == list(cached_equals_fresh(held, each, profile, cache))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"scoring_strategy": "Worst"}, "scoringStrategy: 'Worst' is not one of BestFit, FragmentationGradientDescent"),
        ({"device_selection": "First"}, "deviceSelection: 'First' is not one of BestFit, Random"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], error: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(ValueError, match=error):
        GpuShare(**arguments)


def test_arguments_from_a_file() -> None:
    """Typical pods are written with requests, as pods are."""
    requests = {"cpu": "4", GPU_COUNT: "1", GPU_MILLI: "460"}
    arguments = {"scoringStrategy": DESCENT, "typicalPods": [{"requests": requests, "weight": 3}]}
    plugin = build_plugin("GpuShare", GpuShare, arguments)
    assert isinstance(plugin, GpuShare)
    assert [(typical(4000, 1, 460).kind, 3)] == [(each.kind, each.weight) for each in plugin.typical_pods]
