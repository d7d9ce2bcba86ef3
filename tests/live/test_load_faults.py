"""A real Prometheus that stops, hangs, has nothing to say, or talks nonsense: one look later pods are placed by requests, and
one look after it is back by measurements again.

A worker stands just below what would close it, so the two differ: by measurements it gets no pod, by requests its share.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.live import product
from tests.live.metering import scene as stage
from tests.live.metering.garbage import Garbage
from tests.live.metering.metered import Metered
from tests.live.metering.scene import CALM, WORKERS
from tools.controlplane.process import Process

pytestmark = pytest.mark.live

HOT, FULL = "node-2", 0.79
# The source is asked every second and given one to answer; the rest is for a busy machine. That one look is enough is shown
# on a clock that stands still between looks (tests/sources/test_polling.py).
ONE_LOOK = 40.0
FAILURES = 'trimtab_source_failures_total{source="prom/nodeMemory"}'
SERIAL = itertools.count()


@pytest.fixture(scope="module")
def scene() -> Iterator[Metered]:
    """Node-exporters alone: what cAdvisor said last is shown by Prometheus for five minutes, with its time."""
    with stage.measured_cluster(pages=("node",)) as running:
        running.exporters.set(HOT, memory=FULL)
        yield running


@pytest.fixture(scope="module")
def trimtab(scene: Metered) -> Iterator[Process]:
    """One process for all faults: it must live through each of them."""
    own = stage.asking(scene, {"metrics": ["nodeCPU", "nodeMemory"]})
    process = product.start(scene.rig, own=own, profiles=[stage.profile("MemRealUsage")])
    with stage.ending_well(process):
        yield process


@pytest.fixture(autouse=True)
def sighted(scene: Metered, trimtab: Process) -> Iterator[None]:
    """Before each fault and after it the load is known, and pods keep off the node that has most of it."""
    keeps_off(scene, trimtab)
    yield
    keeps_off(scene, trimtab)
    stage.empty(scene)


def keeps_off(scene: Metered, trimtab: Process) -> None:
    product.wait_for(lambda: sees(trimtab, HOT, FULL), ONE_LOOK, "the load of the full node", trimtab)
    product.wait_for(lambda: all(sees(trimtab, each) for each in WORKERS if each != HOT), ONE_LOOK, "the rest", trimtab)
    assert 0 == thirty(scene, trimtab)


def sees(trimtab: Process, node: str, share: float = CALM) -> bool:
    return bool(1 == stage.use(trimtab, node)["trust"]) and stage.knows_memory(trimtab, node, share)


def thirty(scene: Metered, trimtab: Process) -> int:
    """Place thirty pods, and say how many of them went to the full node."""
    prefix = f"p{next(SERIAL)}"
    stage.burst(scene, prefix, 30, cpu="10m", memory="64Mi")
    return stage.placed(scene, prefix, 30, trimtab)[HOT]


def goes_by_requests(scene: Metered, trimtab: Process, before: float) -> None:
    """Within one look nothing is believed any more, which is told, and pods are placed all the same."""
    product.wait_for(lambda: 0 == stage.use(trimtab, HOT)["trust"], ONE_LOOK, "nothing believed", trimtab)
    product.wait_for(lambda: before < stage.counted(trimtab, FAILURES), ONE_LOOK, "the failure told", trimtab)
    assert (None, None) == tuple(stage.use(trimtab, HOT)[each] for each in ("latest", "expected"))
    assert 0 < thirty(scene, trimtab)


def test_stopped(scene: Metered, trimtab: Process) -> None:
    """Nobody listens at the address; `trimtab explain` says that nothing is to be believed."""
    before = stage.counted(trimtab, FAILURES)
    scene.prometheus.kill()
    try:
        goes_by_requests(scene, trimtab, before)
        said = product.trimtab("explain", f"node/{HOT}", "--address", trimtab.url.removeprefix("http://"))
        assert "not known measured (not to be believed), not known expected" in said
    finally:
        scene.prometheus.start()


def test_hung(scene: Metered, trimtab: Process) -> None:
    """Connections are taken and nobody answers: its patience is one second."""
    before = stage.counted(trimtab, FAILURES)
    scene.prometheus.pause()
    try:
        goes_by_requests(scene, trimtab, before)
    finally:
        scene.prometheus.resume()


def test_empty(scene: Metered, trimtab: Process) -> None:
    """It answers, but there is nothing to tell: all exporters have stopped.

    A Prometheus takes series for gone only when it has scraped them itself: one that was restarted begins with that after
    some seconds, and until then shows what it has on disk.
    """
    ages = "time() - timestamp(node_memory_MemTotal_bytes)"
    scene.prometheus.seen(ages, lambda found: len(found) == len(scene.exporters.names) and max(found.values()) < 2)
    before = stage.counted(trimtab, FAILURES)
    for name in scene.exporters.names:
        scene.exporters.fail(name)
    try:
        goes_by_requests(scene, trimtab, before)
    finally:
        for name in scene.exporters.names:
            scene.exporters.heal(name)


def test_garbage(scene: Metered, trimtab: Process) -> None:
    """Somebody else answers there: pages, halves, wrong types, times that have not come; none of it is ever believed."""
    before = stage.counted(trimtab, FAILURES)
    scene.prometheus.kill()
    try:
        with Garbage(scene.prometheus.url) as garbage:
            goes_by_requests(scene, trimtab, before)
            product.wait_for(garbage.all_told, 60, "all nonsense told", trimtab)
            assert 0 == stage.use(trimtab, HOT)["trust"]
    finally:
        scene.prometheus.start()
    assert "fault of our own" not in trimtab.log.read_text()
