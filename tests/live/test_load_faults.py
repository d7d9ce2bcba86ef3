"""A real Prometheus that stops, hangs, is empty, or returns garbage: its last samples hold until they are too old.

Then pods are placed by requests, and one poll after its recovery by measured load again. One worker is just below its
threshold, so the two differ: by measured load it gets no pod, by requests its share. Samples age within seconds here, but for
one process, `patient`, which has the default ages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.invalid_responses import InvalidResponses
from tests.live.metering.load_scenario import IDLE_LOAD, WORKERS
from tests.live.metering.metered_cluster import MeteredCluster
from tools.controlplane.objects import pod
from tools.controlplane.process import Process

pytestmark = pytest.mark.live

HOT, FULL = "node-2", 0.79
# The source is asked every second and given one to answer; the rest is for a busy machine. That one look is enough is shown
# on a clock that stands still between looks (tests/sources/test_poller.py).
ONE_POLL = 40.0
FAILURES = 'trimtab_source_failures_total{source="prom/nodeMemory"}'
SERIAL = itertools.count()
PATIENT = "patient"
METRICS = {"metrics": ["nodeCPU", "nodeMemory"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Node-exporters only: Prometheus shows the last values of cAdvisor for five minutes, with their timestamps."""
    with stage.measured_cluster(pages=("node",)) as running:
        running.exporters.set(HOT, memory=FULL)
        yield running


@pytest.fixture(scope="module")
def trimtab(cluster: MeteredCluster) -> Iterator[Process]:
    """One process for all faults, which must survive each of them."""
    own = stage.prometheus_config(cluster, METRICS, load={"freshFor": "5s", "staleAfter": "12s"})
    process = trimtab_process.start(cluster.rig, own=own, profiles=[stage.profile("MemRealUsage")])
    with stage.ready_process(process):
        yield process


@pytest.fixture
def patient(cluster: MeteredCluster) -> Iterator[Process]:
    """Another scheduler beside the first."""
    process = trimtab_process.start(
        cluster.rig,
        PATIENT,
        own=stage.prometheus_config(cluster, METRICS),
        profiles=[stage.profile("MemRealUsage") | {"schedulerName": PATIENT}],
        leaderElection={"leaderElect": False},
    )
    with stage.ready_process(process):
        yield process


@pytest.fixture(autouse=True)
def with_metrics(cluster: MeteredCluster, trimtab: Process) -> Iterator[None]:
    """Before and after each fault the load is known, and pods avoid the fullest node."""
    assert_avoids_full_node(cluster, trimtab)
    yield
    assert_avoids_full_node(cluster, trimtab)
    stage.delete_pods(cluster)


def assert_avoids_full_node(cluster: MeteredCluster, trimtab: Process) -> None:
    trimtab_process.wait_for(lambda: knows_usage(trimtab, HOT, FULL), ONE_POLL, "the load of the full node", trimtab)
    trimtab_process.wait_for(
        lambda: all(knows_usage(trimtab, each) for each in WORKERS if each != HOT), ONE_POLL, "the rest", trimtab
    )
    assert 0 == place_thirty(cluster, trimtab)


def knows_usage(trimtab: Process, node: str, share: float = IDLE_LOAD) -> bool:
    return bool(1 == stage.resource_use(trimtab, node)["trust"]) and stage.knows_memory(trimtab, node, share)


def place_thirty(cluster: MeteredCluster, trimtab: Process) -> int:
    """Place thirty pods; the number of them on the full node."""
    prefix = f"p{next(SERIAL)}"
    stage.burst(cluster, prefix, 30, cpu="10m", memory="64Mi")
    return stage.placed(cluster, prefix, 30, trimtab)[HOT]


def assert_scheduled_by_requests(cluster: MeteredCluster, trimtab: Process, before: float) -> None:
    """Soon no sample is trusted, which is reported, and pods are placed nevertheless."""
    trimtab_process.wait_for(
        lambda: 0 == stage.resource_use(trimtab, HOT)["trust"], ONE_POLL, "nothing believed", trimtab
    )
    trimtab_process.wait_for(
        lambda: before < stage.metric_value(trimtab, FAILURES), ONE_POLL, "the failure reported", trimtab
    )
    assert (None, None) == tuple(stage.resource_use(trimtab, HOT)[each] for each in ("latest", "expected"))
    assert 0 < place_thirty(cluster, trimtab)


def test_the_last_samples_hold(cluster: MeteredCluster, patient: Process) -> None:
    """Prometheus is killed, and nine pods arrive: none goes to the fullest node, which is empty by requests."""
    trimtab_process.wait_for(lambda: knows_usage(patient, HOT, FULL), ONE_POLL, "the load of the full node", patient)
    cluster.prometheus.kill()
    try:
        trimtab_process.wait_for(lambda: stage.metric_value(patient, FAILURES), ONE_POLL, "the failure", patient)
        names = [f"nine-{number}" for number in range(9)]
        cluster.rig.admin.create_many(pod(name, scheduler=PATIENT, cpu="10m", memory="64Mi") for name in names)
        assert 0 == stage.placed(cluster, "nine", 9, patient)[HOT]
        assert stage.knows_memory(patient, HOT, FULL)
    finally:
        cluster.prometheus.start()


def test_stopped(cluster: MeteredCluster, trimtab: Process) -> None:
    """Connections are refused; `trimtab explain` says that no sample is trusted."""
    before = stage.metric_value(trimtab, FAILURES)
    cluster.prometheus.kill()
    try:
        assert_scheduled_by_requests(cluster, trimtab, before)
        said = trimtab_process.trimtab("explain", f"node/{HOT}", "--address", trimtab.url.removeprefix("http://"))
        assert "unknown measured (not trusted), unknown expected" in said
    finally:
        cluster.prometheus.start()


def test_hung(cluster: MeteredCluster, trimtab: Process) -> None:
    """Connections are accepted and nothing responds; the timeout is one second."""
    before = stage.metric_value(trimtab, FAILURES)
    cluster.prometheus.pause()
    try:
        assert_scheduled_by_requests(cluster, trimtab, before)
    finally:
        cluster.prometheus.resume()


def test_empty(cluster: MeteredCluster, trimtab: Process) -> None:
    """It answers, but there is nothing to tell: all exporters have stopped.

    A Prometheus takes series for gone only when it has scraped them itself: one that was restarted begins with that after
    some seconds, and until then shows what it has on disk.
    """
    ages = "time() - timestamp(node_memory_MemTotal_bytes)"
    cluster.prometheus.wait_for(
        ages, lambda found: len(found) == len(cluster.exporters.names) and max(found.values()) < 2
    )
    before = stage.metric_value(trimtab, FAILURES)
    for name in cluster.exporters.names:
        cluster.exporters.fail(name)
    try:
        assert_scheduled_by_requests(cluster, trimtab, before)
    finally:
        for name in cluster.exporters.names:
            cluster.exporters.heal(name)


def test_garbage(cluster: MeteredCluster, trimtab: Process) -> None:
    """Another server responds with pages, fragments, wrong types, future times; none of it is ever used."""
    before = stage.metric_value(trimtab, FAILURES)
    cluster.prometheus.kill()
    try:
        with InvalidResponses(cluster.prometheus.url) as garbage:
            assert_scheduled_by_requests(cluster, trimtab, before)
            trimtab_process.wait_for(garbage.all_sent_twice, 60, "all bodies sent", trimtab)
            assert 0 == stage.resource_use(trimtab, HOT)["trust"]
    finally:
        cluster.prometheus.start()
    assert "internal error" not in trimtab.log.read_text()
