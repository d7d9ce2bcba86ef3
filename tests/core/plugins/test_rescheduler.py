"""What Rescheduler rejects, how it ranks nodes by real usage, and that its stages reject or warn."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from tests.core.engine_harness import EngineHarness
from tests.core.engine_harness import node as engine_node
from tests.core.engine_harness import pod as engine_pod
from tests.core.plugins.measured_cluster import large, loaded, place_all, points, rejections, with_samples
from trimtab.core.framework.interface import ALL_ROWS, Log, Reject, StageStatus, Warn
from trimtab.core.model.pod import Owner
from trimtab.core.plugins.rescheduler import Rescheduler
from trimtab.core.recorder import MetricsRecorder, StageReport

WEB = pod("web", cpu="100m", memory="100Mi")
STRICT = Rescheduler(strict=True)


def test_thresholds() -> None:
    """Real use above a threshold rejects a node, which an eviction could cure; exactly at it does not."""
    held = loaded(at=(80, 80), cpu=(80.1, 10), memory=(10, 81), both=(90, 90))
    told = rejections(Rescheduler(), WEB, held)
    assert "" == told["at"]
    assert "node(s) used more than 80% of their CPU" == told["cpu"]
    assert "node(s) used more than 80% of their memory" == told["memory"]
    assert "node(s) used more than 80% of their CPU, node(s) used more than 80% of their memory" == told["both"]


def test_maintenance() -> None:
    """A node that is labelled as under maintenance is rejected as unresolvable."""
    label = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    held = cluster(node("a", labels=label), node("b", labels=label | {next(iter(label)): "false"}))
    assert {"a": "! node(s) were under maintenance", "b": ""} == rejections(Rescheduler(), WEB, held)


def test_thresholds_hold_without_data() -> None:
    """A node without metrics is compared by the requests of its pods, strictly above, and the reason says so."""
    held = cluster(
        *(large(name) for name in ("at", "cpu", "full")),
        pod("p1", cpu="8", memory="1Gi", on="at"),
        pod("p2", cpu="8100m", memory="1Gi", on="cpu"),
        pod("p3", cpu="9500m", memory="1Gi", on="full"),
    )
    above = "node(s) had requests for more than 80% of their CPU"
    beyond = "node(s) would have requests for more than 95% of their CPU with the pod"
    assert {"at": "", "cpu": above, "full": f"{above}, {beyond}"} == rejections(Rescheduler(), WEB, held)


def test_measurement_goes_before_requests() -> None:
    """Where a resource is measured its requests do not matter; where the other one is not, they do."""
    held = cluster(large("a"), large("b"), pod("p1", cpu="9", on="a"), pod("p2", cpu="9", memory="9Gi", on="b"))
    told = rejections(Rescheduler(), WEB, with_samples(held, {"a": 10, "b": 10}, {"a": 10}))
    assert {"a": "", "b": "node(s) had requests for more than 80% of their memory"} == told


def test_pods_without_requests_count_for_nothing() -> None:
    """Thresholds compare what was requested, without the defaults that a score assumes for pods that request nothing."""
    held = cluster(large("a"), *(pod(f"p{number}", on="a") for number in range(100)))
    assert {"a": ""} == rejections(Rescheduler(), WEB, held)


def test_a_pod_too_large_for_an_empty_node() -> None:
    """Without data, too, a pod that alone exceeds 95 % of a node is rejected there for good."""
    words = "! node(s) would have requests for more than 95% of their CPU with the pod"
    assert {"a": words} == rejections(Rescheduler(), pod("all", cpu="9900m"), cluster(large("a")))


def test_stages_without_data() -> None:
    """Reserve and PreBind go by requests as the filter does, and their messages say so."""
    held = cluster(large("a"))
    held.assume(pod("one", cpu="9600m", memory="1Mi"), "a")
    refusal = Reject("a would use 96% of its CPU (limit 95%, by requests)", unresolvable=False)
    warning = Warn("NodeNearlyFull", "with this pod a will use 96% of its CPU (limit 80%, by requests)")
    assert (None, refusal) == Rescheduler().reserve(held.view, None, WEB, "a")
    assert warning == Rescheduler().pre_bind(held.view, WEB, "a")


@pytest.mark.parametrize("measured", [{}, {"a": 50}, {"a": 50, "b": 85}])
def test_one_row_as_all_rows(measured: dict[str, int]) -> None:
    """A node's result is the same alone and among all, measured or not."""
    held = cluster(
        *(large(name) for name in "abc"), pod("p1", cpu="8500m", memory="9Gi", on="b"), pod("p2", cpu="5", on="c")
    )
    view = with_samples(held, measured, measured).view
    for each in (WEB, pod("half", cpu="5"), pod("all", cpu="9900m")):
        alone = [Rescheduler().filter(view, each, slice(row, row + 1)).item() for row in range(3)]
        assert Rescheduler().filter(view, each, ALL_ROWS).tolist() == alone


def test_explained_without_data() -> None:
    """The note of an explanation says which nodes are compared by requests, in score and thresholds."""
    held = with_samples(cluster(large("a"), large("b")), {"a": 10}, {"a": 10})
    note = "1 of 2 nodes without cpu metrics, 1 of 2 nodes without memory metrics: scored by requests"
    assert f"{note}, and compared with thresholds by requests" == Rescheduler().explain_note(held.view, WEB)
    assert "" == STRICT.explain_note(held.view, WEB)


def test_overfull_with_the_pod() -> None:
    """A node that the pod would fill above 95 % is rejected, for good where it would fill an empty one."""
    words = "node(s) would use more than 95% of their CPU with the pod"
    held = loaded(low=(10, 10), mid=(60, 10))
    assert {"low": "", "mid": words} == rejections(Rescheduler(), pod("half", cpu="5", memory="1Mi"), held)
    assert {"low": f"! {words}", "mid": f"! {words}"} == rejections(Rescheduler(), pod("all", cpu="9900m"), held)


def test_an_eviction_helps() -> None:
    """A node that is too full passes in the picture without the pod that makes it so."""
    held = loaded(a=(70, 10))
    held.assume(pod("big", cpu="2", memory="1Mi"), "a")
    slots = np.array([held.pod_table.slot["uid-big"]])
    views = (held.view, held.view.without_pods(slots, WEB))
    assert [[1], [0]] == [Rescheduler().filter(view, WEB, ALL_ROWS).tolist() for view in views]


def test_daemon_pods_are_not_held_back() -> None:
    """Load does not keep a DaemonSet's pod from its only node; maintenance does."""
    daemon = replace(WEB, owner=Owner("DaemonSet", "agent", "uid"))
    assert {"hot": ""} == rejections(Rescheduler(), daemon, loaded(hot=(99, 99)))


def test_off() -> None:
    """With the optimisation switched off nothing is rejected or scored, and with prevention off there is no warning."""
    off = Rescheduler(enable_scheduling_optimization=False, enable_preventive_rescheduling=False)
    held = loaded(hot=(99, 99))
    assert ({"hot": ""}, None) == (rejections(off, WEB, held), off.score(held.view, WEB, slice(None)))
    assert (None, StageStatus.SUCCESS) == off.reserve(held.view, None, WEB, "hot")
    assert StageStatus.SUCCESS == off.pre_bind(held.view, WEB, "hot")


def test_scores_keep_their_order() -> None:
    """The less is used the better, also among nodes with so little load that the original could not tell them apart."""
    told = points(
        Rescheduler(), WEB, loaded(a=(1, 1), b=(5, 5), c=(9, 9), d=(29, 29), e=(31, 31), f=(70, 70), g=(100, 100))
    )
    assert sorted(told.values(), reverse=True) == list(told.values())
    assert len(set(told.values())) == len(told)
    assert 3.0 > told["d"] - told["e"]  # no cliff at 30 %
    assert 0.0 == told["g"]


def test_without_data_by_requests() -> None:
    """A node without data counts what its pods ask for."""
    held = cluster(large("a"), large("b"), pod("big", cpu="5", memory="5Gi", on="a"))
    told = points(Rescheduler(), WEB, with_samples(held, {"b": 20}, {"b": 20}))
    assert told["b"] > told["a"] > 0


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [(0, 0, 100), (10, 10, 100), (29, 29, 81), (30, 30, 70), (29, 30, 70), (50, 20, 62), (100, 100, 0)],
)
def test_strict_scores(cpu: int, memory: int, expected: int) -> None:
    """The original: requests over capacity, a bonus below 30 % of both, and a cut at 100."""
    taken = pod("taken", cpu=f"{cpu * 100}m", memory=f"{memory * 100}Mi", on="a")
    held = cluster(node("a", cpu="10", memory="10000Mi"), *([taken] if cpu else []))
    assert {"a": expected} == points(STRICT, WEB, held)


def test_strict_filter() -> None:
    """With `strict` requests alone count, whatever the real usage."""
    held = with_samples(cluster(large("a"), large("b"), pod("big", cpu="9", on="a")), {"b": 99}, {"b": 99})
    assert {"a": "node(s) used more than 80% of their CPU", "b": ""} == rejections(STRICT, WEB, held)


def test_reserve_refuses_above_95_percent() -> None:
    """The pod counts on its node already when it is reserved; when that is too much it has to look again."""
    held = loaded(a=(90, 10))
    held.assume(pod("one", cpu="400m", memory="1Mi"), "a")
    assert (None, StageStatus.SUCCESS) == Rescheduler().reserve(held.view, None, WEB, "a")
    held.assume(pod("two", cpu="200m", memory="1Mi"), "a")
    refusal = Reject("a would use 96% of its CPU (limit 95%)", unresolvable=False)
    assert (None, refusal) == Rescheduler().reserve(held.view, None, WEB, "a")


def test_nothing_leaks() -> None:
    """A thousand pods that come and go leave the node as it was."""
    held = loaded(a=(50, 50))
    before = points(Rescheduler(), WEB, held)
    for number in range(1000):
        passing = pod(f"p{number}", cpu="1", memory="1Gi")
        held.assume(passing, "a")
        memory, _ = Rescheduler().reserve(held.view, None, passing, "a")
        assert memory is None
        held.forget(passing.uid)
    assert before == points(Rescheduler(), WEB, held)


def test_warning_before_the_bind() -> None:
    """A node that ends up above a threshold causes a warning; the pod is bound all the same."""
    held = loaded(a=(79, 10), b=(10, 10))
    held.assume(pod("one", cpu="300m", memory="1Mi"), "a")
    warning = Warn("NodeNearlyFull", "with this pod a will use 82% of its CPU (limit 80%)")
    warned, noted = (Rescheduler().pre_bind(held.view, WEB, each) for each in ("a", "b"))
    assert warning == warned and isinstance(warned, Warn) and isinstance(noted, Log)
    limits = (("cpu_limit_percent", 80.0), ("memory_limit_percent", 80.0))
    assert limits == warned.figures[2:] == noted.figures[2:]
    assert [("predicted_cpu_percent", 82), ("predicted_memory_percent", 10)] == [
        (name, round(figure)) for name, figure in warned.figures[:2]
    ]


class Reports(MetricsRecorder):
    """Keeps what stages say."""

    def __init__(self) -> None:
        self.seen: list[StageReport] = []

    def stage_reported(self, report: StageReport) -> None:
        self.seen.append(report)


def test_what_the_stages_predict_is_reported() -> None:
    """Reserve refuses a node with the figures; PreBind warns with them, and the pod is bound all the same."""
    recorder = Reports()
    scene = EngineHarness(Rescheduler(strict=True), recorder=recorder)
    room = {"cpu": 10_000, "memory": 10 << 30}
    capacity = (("cpu", 10_000), ("memory", 10 << 30))
    scene.upsert(engine_node("a", **room, capacity=capacity), engine_pod("old", cpu=7900, node="a", phase="Running"))
    scene.upsert(engine_pod("large", cpu=1900))
    assert {} == scene.binds()
    scene.upsert(engine_pod("small", cpu=500))
    assert {"small": "a"} == scene.binds()
    assert [("Reserve", "rejected", "default/large"), ("PreBind", "warned", "default/small")] == [
        (each.stage, each.result, each.pod) for each in recorder.seen
    ]
    assert [98.0, 84.0] == [pytest.approx(dict(each.figures)["predicted_cpu_percent"]) for each in recorder.seen]


def test_a_burst_spreads() -> None:
    """Equal pods on equal nodes differ by at most one while no sample shows any of them."""
    held = loaded(a=(20, 20), b=(20, 20), c=(20, 20))
    gone = place_all(Rescheduler(), held, [pod(f"p{number}", cpu="100m", memory="100Mi") for number in range(20)])
    assert {6, 7} == {gone.count(name) for name in "abc"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu_threshold": 0.0}, "cpuThreshold: 0 is not above 0 and at most 100"),
        ({"memory_threshold": 101.0}, "memoryThreshold: 101 is not above 0"),
        ({"cpu_score_weight": 1.5}, "cpuScoreWeight: 1.5 is not between 0 and 1"),
        ({"cpu_score_weight": 0.0, "memory_score_weight": 0.0}, "both 0"),
        ({"load_balance_bonus": 51.0}, "loadBalanceBonus: 51 is not between 0 and 50"),
        ({"enabled_strategies": ("Magic",)}, "'Magic' is not one of LoadBalancing"),
        ({"max_reschedule_pods": 0}, "maxReschedulePods"),
    ],
)
def test_nonsense_is_refused(fields: dict[str, object], words: str) -> None:
    """Arguments out of range are named, with what is allowed."""
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        Rescheduler(**fields)  # type: ignore[arg-type]
