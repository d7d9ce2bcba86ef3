"""Who counts against what: caps, promises and measurements, each once."""

from __future__ import annotations

from tests.core.engine.scene import Scene, node, pod
from tests.core.engine.stages import permitter
from trimtab.core.model.event import SamplesRead
from trimtab.core.model.sample import Reading
from trimtab.core.placing.contract import Go, Wait


def test_pods_that_wait_in_their_stages_do_not_block_others() -> None:
    """With a cap of two binds and two pods waiting to be permitted, a third pod is still decided."""
    waits = permitter("Waits", lambda pod, node: Go.GO if pod.name == "plain" else Wait(60.0))
    scene = Scene(waits, max_binds_in_flight=2)
    scene.sees(node("a"), pod("gang-1"), pod("gang-2"))
    assert {} == scene.binds()
    scene.sees(pod("plain"))
    assert {"plain": "a"} == scene.binds()


def test_a_nominated_pod_that_is_on_its_way_counts_once() -> None:
    """2,000m of room, 1,000m promised to a pod that already flies there: 800m more still fit."""
    scene = Scene()
    scene.sees(node("a", cpu=2000), pod("first", cpu=1000, nominated="a", priority=5))
    assert {"first": "a"} == scene.binds()
    scene.sees(pod("second", cpu=800))
    assert {"second": "a"} == scene.binds()


def test_a_measurement_that_grows_too_old_is_a_change() -> None:
    """Kept answers that read the load are asked again when a tick takes the trust away."""
    scene = Scene()
    scene.sees(node("a"))
    scene.tells(SamplesRead((Reading("meter", "cpu", ("a",), (100.0,), (0.0,)),), 0.0))
    columns = scene.engine.cluster.columns
    before = len(columns.log)
    scene.later(1.0)
    assert before == len(columns.log)
    scene.later(1_000.0)
    assert before < len(columns.log)
