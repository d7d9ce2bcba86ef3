"""Decides, against the real kube-scheduler, whether our metrics and health pages are read as its own are."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.live.built import built
from tests.serve.exposition import Exposition, Offered
from tests.serve.golden import PROMISED
from tests.serve.small_cluster import live_through_everything
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig
from trimtab.serve.health import Health, true
from trimtab.serve.http import application, serving
from trimtab.serve.metrics import PrometheusTally
from trimtab.serve.page import MetricsPage
from trimtab.serve.readings import Readings

pytestmark = pytest.mark.live

PROMISE = re.compile(r"\[(STABLE|BETA)\] ")
PLUGINS = "scheduler_plugin_execution_duration_seconds"
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with three nodes, and pods of every fate: bound, too big, gated."""
    with Rig(built(), audited=False) as running:
        running.admin.create_many(node(f"node-{n}") for n in range(3))
        running.admin.create_many(pod(f"pod-{n}") for n in range(30))
        running.admin.create(pod("big", cpu="900"))
        running.admin.create(pod("gated", schedulingGates=[{"name": "example.com/later"}]))
        yield running


@pytest.fixture(scope="module")
def kube_scheduler(rig: Rig) -> Process:
    """The real one, after it has dealt with every pod."""
    process = rig.start_kube_scheduler()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        bound = [each for each in rig.admin.list("/api/v1/pods") if each["spec"].get("nodeName")]
        page = Exposition(rig.scrape(process))
        unplaced = page.value("scheduler_pending_pods", queue="unschedulable")
        # Its plugins' times are written down once a second, apart from the rest.
        if len(bound) == 30 and unplaced == 1 and page.offered(PLUGINS):
            return process
        time.sleep(0.2)
    raise TimeoutError(process.log_tail())


@pytest.fixture
async def ours() -> AsyncIterator[str]:
    """The address of our own pages, after the small cluster's pods have met the same fates."""
    tally = PrometheusTally()
    cluster = live_through_everything(tally)
    ready = (true("watches-synced", lambda: not cluster.engine.unsynced, "a first list is missing"),)
    app = application(Health(ready=ready), MetricsPage(tally, Readings(cluster.engine)))
    async with serving(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}"


async def fetched(url: str) -> str:
    """The text of a page that is well."""
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        assert 200 == response.status
        return await response.text()


def promised(page: Exposition) -> dict[str, Offered]:
    """What the page promises: the metrics that it calls STABLE or BETA."""
    offers = {name: page.offered(name) for name in page.families}
    return {name: offer for name, offer in offers.items() if offer is not None and PROMISE.match(offer.help)}


async def test_every_promised_metric_of_kube_scheduler_is_ours(rig: Rig, kube_scheduler: Process, ours: str) -> None:
    """Each STABLE or BETA series under scheduler_ has its type, its label names and its buckets on our page, too."""
    real, own = Exposition(rig.scrape(kube_scheduler)), Exposition(await fetched(f"{ours}/metrics"))
    wanted = [PLUGINS, *(name for name in promised(real) if name.startswith("scheduler_"))]
    assert set(PROMISED) == set(wanted)
    for name in wanted:
        theirs, mine = real.offered(name), own.offered(name)
        assert theirs is not None
        assert mine is not None, name
        assert theirs[0] == mine[0], name
        assert theirs[2:] == mine[2:], name


async def test_label_values_are_kube_scheduler_s_words(rig: Rig, kube_scheduler: Process, ours: str) -> None:
    """Queues, results, extension points and events that we name are ones that kube-scheduler names as well."""
    real, own = Exposition(rig.scrape(kube_scheduler)), Exposition(await fetched(f"{ours}/metrics"))
    for name, label in (
        ("scheduler_pending_pods", "queue"),
        ("scheduler_cache_size", "type"),
        ("scheduler_unschedulable_pods", "plugin"),
        ("scheduler_framework_extension_point_duration_seconds", "extension_point"),
        ("scheduler_framework_extension_point_duration_seconds", "status"),
        ("scheduler_pod_scheduling_sli_duration_seconds", "attempts"),
    ):
        theirs = {sample.labels.get(label) for sample in real.families[name].samples}
        mine = {sample.labels.get(label) for sample in own.families[name].samples}
        assert mine, name
        assert set() == mine - theirs, (name, label)


async def test_what_is_promised_and_not_ours_is_explained(rig: Rig, kube_scheduler: Process) -> None:
    """Every other STABLE or BETA metric on kube-scheduler's page is named in the document, with the reason why not."""
    real = Exposition(rig.scrape(kube_scheduler))
    others = [name for name in promised(real) if not name.startswith("scheduler_")]
    text = DOCUMENT.read_text()
    assert others
    assert [] == [name for name in others if f"`{name}`" not in text]


async def test_health_pages_have_kube_scheduler_s_form(rig: Rig, kube_scheduler: Process, ours: str) -> None:
    """Line by line the verbose pages have the same form, and the short ones the same word."""
    for page in ("livez", "readyz", "healthz"):
        theirs, mine = rig.scrape(kube_scheduler, f"/{page}?verbose"), await fetched(f"{ours}/{page}?verbose")
        form = re.compile(rf"(\[\+\][a-z-]+ ok\n)+{page} check passed\n")
        assert form.fullmatch(theirs)
        assert form.fullmatch(mine)
        assert rig.scrape(kube_scheduler, f"/{page}") == await fetched(f"{ours}/{page}")
