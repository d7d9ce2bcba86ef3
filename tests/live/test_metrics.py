"""Our metrics and health endpoints next to kube-scheduler's, on one cluster."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tests.serve.exposition import Exposition, MetricShape
from tests.serve.kube_scheduler_metrics import KUBE_SCHEDULER_METRICS
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

STOCK = "default-scheduler"
PROMISE = re.compile(r"\[(STABLE|BETA)\] ")
PLUGINS = "scheduler_plugin_execution_duration_seconds"
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def pods_for(scheduler: str) -> Iterator[Document]:
    """Pods for every outcome: thirty that fit, one too large, one gated."""
    for number in range(30):
        yield pod(f"{scheduler}-{number}", scheduler=scheduler)
    yield pod(f"{scheduler}-big", cpu="900", scheduler=scheduler)
    yield pod(f"{scheduler}-gated", scheduler=scheduler, schedulingGates=[{"name": "example.com/later"}])


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with three nodes and the same pods for either scheduler."""
    with Rig(controlplane_or_skip(), audited=False) as running:
        trimtab_process.install(running)
        running.admin.create_many(node(f"node-{n}") for n in range(3))
        for scheduler in (STOCK, trimtab_process.SCHEDULER):
            running.admin.create_many(pods_for(scheduler))
        yield running


@pytest.fixture(scope="module")
def kube_scheduler(rig: Rig) -> Process:
    """The real one, after it has handled its pods; it flushes plugin metrics once a second."""
    process = rig.start_kube_scheduler()

    def is_done() -> bool:
        page = Exposition(rig.scrape(process))
        return has_settled(page, STOCK) and page.shape(PLUGINS) is not None

    trimtab_process.wait_for(is_done, 60, "kube-scheduler's pods", process)
    return process


@pytest.fixture(scope="module")
def trimtab(rig: Rig) -> Iterator[Process]:
    """Ours, after it has handled its own."""
    process = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(process), 60, "ready", process)
        trimtab_process.wait_for(
            lambda: has_settled(own_page(process), trimtab_process.SCHEDULER), 60, "Trimtab's pods", process
        )
        yield process
    finally:
        process.terminate()


def own_page(trimtab: Process) -> Exposition:
    """Our metrics."""
    return Exposition(trimtab_process.page(trimtab, "/metrics")[1])


def has_settled(page: Exposition, profile: str) -> bool:
    """Whether all pods that fit are bound, and the others are in the right queues."""
    waiting = [page.value("scheduler_pending_pods", queue=queue) for queue in ("unschedulable", "gated")]
    return (
        30 == page.value("scheduler_schedule_attempts_total", result="scheduled", profile=profile) and [1, 1] == waiting
    )


def stable_metrics(page: Exposition) -> dict[str, MetricShape]:
    """The metrics that are STABLE or BETA."""
    offers = {name: page.shape(name) for name in page.families}
    return {name: offer for name, offer in offers.items() if offer is not None and PROMISE.match(offer.help)}


def test_we_have_every_stable_metric_of_kube_scheduler(rig: Rig, kube_scheduler: Process, trimtab: Process) -> None:
    """Each STABLE or BETA series under scheduler_, with the same type, label names and buckets."""
    real, own = Exposition(rig.scrape(kube_scheduler)), own_page(trimtab)
    wanted = [PLUGINS, *(name for name in stable_metrics(real) if name.startswith("scheduler_"))]
    assert set(KUBE_SCHEDULER_METRICS) == set(wanted)
    for name in wanted:
        theirs, mine = real.shape(name), own.shape(name)
        assert theirs is not None, name
        assert mine is not None, name
        assert (theirs.type, theirs.labels, theirs.limits) == (mine.type, mine.labels, mine.limits), name


def test_label_values_are_those_of_kube_scheduler(rig: Rig, kube_scheduler: Process, trimtab: Process) -> None:
    """For queues, cache types, plugins, extension points and their status."""
    real, own = Exposition(rig.scrape(kube_scheduler)), own_page(trimtab)
    for name, label in (
        ("scheduler_pending_pods", "queue"),
        ("scheduler_cache_size", "type"),
        ("scheduler_schedule_attempts_total", "result"),
        ("scheduler_unschedulable_pods", "plugin"),
        ("scheduler_framework_extension_point_duration_seconds", "extension_point"),
        ("scheduler_framework_extension_point_duration_seconds", "status"),
    ):
        theirs = {sample.labels.get(label) for sample in real.families[name].samples}
        mine = {sample.labels.get(label) for sample in own.families[name].samples}
        assert mine, name
        assert set() == mine - theirs, (name, label)


def test_equal_pods_give_equal_values(rig: Rig, kube_scheduler: Process, trimtab: Process) -> None:
    """With the same pods, both schedulers report the same."""
    real, own = Exposition(rig.scrape(kube_scheduler)), own_page(trimtab)
    for name, labels in (
        ("scheduler_pod_scheduling_sli_duration_seconds_count", {"attempts": "1"}),
        ("scheduler_pod_scheduling_attempts_sum", {}),
        ("scheduler_cache_size", {"type": "nodes"}),
        ("scheduler_pending_pods", {"queue": "active"}),
        ("scheduler_queue_incoming_pods_total", {"queue": "active", "event": "UnschedulablePodAdd"}),
        ("scheduler_queue_incoming_pods_total", {"queue": "unschedulable", "event": "UnschedulablePodAdd"}),
    ):
        assert real.value(name, **labels) is not None, name
        assert real.value(name, **labels) == own.value(name, **labels), name


def test_metrics_outside_of_the_core(trimtab: Process) -> None:
    """Lists and watches per kind, written Events and the lease are in the metrics of the running process."""
    own = own_page(trimtab)
    for kind in ("pods", "nodes"):
        assert (own.value("trimtab_watch_incidents_total", kind=kind, incident="lists") or 0) >= 1
        assert 0 == own.value("trimtab_watch_incidents_total", kind=kind, incident="malformed")
    trimtab_process.wait_for(
        lambda: (own_page(trimtab).value("trimtab_events_total", outcome="written") or 0) >= 31, 20, "Events"
    )
    assert 1 == own.value("leader_election_master_status", name="trimtab")


def test_missing_metrics_are_documented(rig: Rig, kube_scheduler: Process) -> None:
    """Every other STABLE or BETA metric of kube-scheduler is in the document, with the reason."""
    real = Exposition(rig.scrape(kube_scheduler))
    others = [name for name in stable_metrics(real) if not name.startswith("scheduler_")]
    text = DOCUMENT.read_text()
    assert others
    assert [] == [name for name in others if f"`{name}`" not in text]


def test_every_metric_is_documented(trimtab: Process) -> None:
    """Except for those of the process itself."""
    text = DOCUMENT.read_text()
    names = [name for name in own_page(trimtab).families if not name.startswith("process_")]
    assert [] == [name for name in names if f"`{name}`" not in text]


def test_health_endpoints_have_kube_schedulers_format(rig: Rig, kube_scheduler: Process, trimtab: Process) -> None:
    """Line by line for verbose responses, and the same word for short ones."""
    for page in ("livez", "readyz", "healthz"):
        theirs, (status, mine) = (
            rig.scrape(kube_scheduler, f"/{page}?verbose"),
            trimtab_process.page(trimtab, f"/{page}?verbose"),
        )
        form = re.compile(rf"(\[\+\][A-Za-z-]+ ok\n)+{page} check passed\n")
        assert 200 == status
        assert form.fullmatch(theirs)
        assert form.fullmatch(mine)
        assert (200, rig.scrape(kube_scheduler, f"/{page}")) == trimtab_process.page(trimtab, f"/{page}")
