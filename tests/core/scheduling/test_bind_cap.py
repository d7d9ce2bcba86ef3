"""Who counts against what: caps, promises and measurements, each once."""

from __future__ import annotations

from tests.core.engine_harness import EngineHarness, node, pod
from tests.core.stub_plugins import permitter
from trimtab.core.framework.interface import StageStatus, Wait
from trimtab.core.model.events import SamplesRead
from trimtab.core.model.readings import Reading


def test_pods_that_wait_in_their_stages_do_not_block_others() -> None:
    """With a cap of two binds and two pods waiting to be permitted, a third pod is still decided."""
    waits = permitter("Waits", lambda pod, node: StageStatus.SUCCESS if pod.name == "plain" else Wait(60.0))
    scene = EngineHarness(waits, max_binds_in_flight=2)
    scene.upsert(node("a"), pod("gang-1"), pod("gang-2"))
    assert {} == scene.binds()
    scene.upsert(pod("plain"))
    assert {"plain": "a"} == scene.binds()


def test_a_nominated_pod_that_is_on_its_way_counts_once() -> None:
    """2,000m of room, 1,000m promised to a pod that already flies there: 800m more still fit."""
    scene = EngineHarness()
    scene.upsert(node("a", cpu=2000), pod("first", cpu=1000, nominated_node="a", priority=5))
    assert {"first": "a"} == scene.binds()
    scene.upsert(pod("second", cpu=800))
    assert {"second": "a"} == scene.binds()


def test_a_measurement_that_grows_too_old_is_a_change() -> None:
    """Kept answers that read the load are asked again when a tick takes the trust away."""
    scene = EngineHarness()
    scene.upsert(node("a"))
    scene.handle(SamplesRead((Reading("meter", "cpu", ("a",), (100.0,), (0.0,)),), 0.0))
    columns = scene.engine.cluster.node_table
    before = len(columns.log)
    scene.advance(1.0)
    assert before == len(columns.log)
    scene.advance(1_000.0)
    assert before < len(columns.log)
