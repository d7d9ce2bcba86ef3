"""Proves that what is explained is what would be decided, also where a plugin fails or a promise is being kept."""

from __future__ import annotations

from msgspec.structs import replace

from tests.core.engine_harness import EngineHarness, node, pod
from tests.core.stub_plugins import filterer
from trimtab.config.registry import default_profile
from trimtab.core.framework.explain import Explanation
from trimtab.core.model.events import SamplesRead
from trimtab.core.model.objects import POD_GROUP_LABEL
from trimtab.core.model.pod import Pod, PodSpec, Volume
from trimtab.core.model.readings import Reading
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.plugins.lowest_load import LowestLoad
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import PodExplanation, explain_node, explain_pod

IGNORED = (
    "the label of pod group default/train is ignored, and its pods are scheduled one by one: "
    "enable Coscheduling in profile trimtab"
)
FAILED = "a plugin failed: ZeroDivisionError: by design"


def bad(pod: Pod) -> int:
    if pod.name == "bad":
        raise ZeroDivisionError("by design")
    return 0


def test_a_plugin_that_raises_is_told_and_hides_no_other_pod() -> None:
    """Whoever asks about the pod hears of the fault, and whoever asks about the node hears of the other pods, too."""
    scene = EngineHarness(filterer("Shaky", bad))
    ill = pod("bad")
    scene.upsert(node("a"), ill, pod("web"))
    assert FAILED == explain_pod(scene.engine.controller(Scheduling), ill).verdict
    told = explain_node(scene.engine.controller(Scheduling), "a")
    assert told is not None
    lines = {each.pod: each.line for each in told.waiting}
    assert ((FAILED,), "") == (lines["default/bad"].reasons, lines["default/web"].rejected_by)


def test_a_promise_that_is_being_kept_counts_once() -> None:
    """A pod on its way to the node that it was promised takes its room there, and no second one."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=4000), pod("first", cpu=3000, priority=9, nominated_node="a"))
    assert 1 == len(scene.turn())
    second = pod("second", cpu=500)
    scene.upsert(second)
    assert [""] == [line.rejected_by for line in explain_pod(scene.engine.controller(Scheduling), second).lines]


def explained(scene: EngineHarness, wanted: Pod) -> PodExplanation:
    return explain_pod(scene.engine.controller(Scheduling), scene.engine.cluster.pods[wanted.uid])


def steps(told: PodExplanation) -> list[tuple[float, str, str]]:
    assert told.waiting is not None
    return [(each.at, each.queue, each.cause) for each in told.waiting.steps]


def test_how_a_pod_waited() -> None:
    """Gated, attempted, rejected by which plugin, woken by what, backing off, and bound at last; also after it was bound."""
    scene = EngineHarness(without=("DefaultPreemption",))
    web = pod("web", cpu=3000, scheduling_gates=("hold",))
    scene.upsert(node("a", cpu=1000), web)
    scene.at = 10.0
    open_web = replace(web, scheduling_gates=())
    scene.upsert(open_web)
    scene.turn()
    scene.at = 10.5
    scene.upsert(node("b", cpu=4000))
    assert explained(scene, web).state == "waits (backoff) after 1 attempt(s), because of NodeResourcesFit"
    scene.advance(1.0)
    scene.turn()
    scene.bound(open_web, "b")
    waited = explained(scene, web)
    assert [
        (0.0, "gated", "waiting for scheduling gates: [hold]"),
        (10.0, "active", "the gates were removed"),
        (10.0, "unschedulable", "attempt 1 failed, rejected by NodeResourcesFit"),
        (10.5, "backoff", "a node was added"),
        (11.5, "active", "the back-off is over"),
        (11.5, "left", "it was bound to b"),
    ] == steps(waited)
    assert waited.waiting is not None
    assert (0.0, 11.5, 2) == (waited.waiting.since, waited.waiting.until, waited.waiting.attempts)


def test_a_long_history_keeps_its_first_step_and_the_newest() -> None:
    """A pod that waits for days must not grow without bound."""
    scene = EngineHarness(without=("DefaultPreemption",))
    scene.upsert(node("a", cpu=1000), pod("web", cpu=3000))
    for _ in range(100):
        scene.turn()
        scene.advance(61.0)
    told = steps(explained(scene, pod("web")))
    assert (40, "the pod was seen", 6100.0) == (len(told), told[0][2], told[-1][0])


def two_nodes(recorder: MetricsRecorder | None = None) -> EngineHarness:
    """Measured load prefers b, requests prefer a."""
    scene = EngineHarness(
        LowestLoad(), recorder=recorder, without=("NodeResourcesFit", "NodeResourcesBalancedAllocation")
    )
    scene.upsert(node("a"), node("b"), pod("old", cpu=2000, memory=1 << 32, node="b"))
    shares = ((CPU, (3600.0, 100.0)), (MEMORY, (float(15 << 30), float(1 << 30))))
    readings = tuple(Reading("meter", name, ("a", "b"), values, (0.0, 0.0)) for name, values in shares)
    scene.handle(SamplesRead(readings, 0.0))
    scene.engine.controller(Scheduling).evaluator.stock = default_profile("stock")
    return scene


def test_what_the_stock_profile_would_choose() -> None:
    """Beside our own choice; for a pod whose kinds are not watched it says so instead of guessing."""
    scene = two_nodes()
    scene.upsert(pod("web", cpu=100))
    told = explained(scene, pod("web"))
    assert ("b: best of 2 of 2 nodes", "a: best of 2 of 2 nodes") == (told.verdict, told.stock)
    small = EngineHarness(without=("VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"))
    small.engine.controller(Scheduling).evaluator.stock = default_profile("stock")
    claiming = pod("db", spec=PodSpec(volumes=(Volume("persistentVolumeClaim", "data"),)))
    small.upsert(node("a"), claiming)
    assert explained(small, claiming).stock.startswith("unknown: Volume")


def test_a_label_that_no_plugin_heeds_is_told() -> None:
    """Of every pod of the group, whereas the Event is on the first one alone; with Coscheduling there is nothing to tell."""
    member = pod("web", labels={POD_GROUP_LABEL: "train"})
    for plugins, note in (((), IGNORED), ((Coscheduling(),), "")):
        scene = EngineHarness(*plugins)
        scene.upsert(node("a"), member, pod("other"))
        assert (note, "") == (explained(scene, member).note, explained(scene, pod("other")).note)


class Listener(MetricsRecorder):
    """Wants explanations, and keeps them."""

    def __init__(self) -> None:
        self.told: list[tuple[Explanation, str]] = []
        self.waits: list[tuple[str, float, int, str]] = []

    def wants_explanations(self) -> bool:
        return True

    def explained(self, explanation: Explanation, stock: str) -> None:
        self.told.append((explanation, stock))

    def waited(self, pod: str, seconds: float, attempts: int, steps: str) -> None:
        self.waits.append((pod, seconds, attempts, steps))


def test_each_decision_can_be_explained_as_it_is_made() -> None:
    """The second pod's table has the first one on its node already, and the first one's has not."""
    listener = Listener()
    scene = two_nodes(listener)
    scene.upsert(pod("first", cpu=100), pod("second", cpu=100))
    scene.at = 2.0
    assert {"first": "b", "second": "b"} == scene.binds()
    (first, stock), (second, _) = listener.told
    assert ("default/first", "b", "a: best of 2 of 2 nodes") == (first.pod, first.node, stock)
    totals = [table.rows[0].plugins["LowestLoad"].raw for table in (first, second)]
    assert totals[0] > totals[1]
    assert ("default/first", 2.0, 1, "2.000 s ago active: the pod was seen") == listener.waits[0]
