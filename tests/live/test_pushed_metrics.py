"""Values that a Pushgateway or a textfile exposes for ever are as old as their measurement, on a real Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.live.prometheus_source import NAMES, ages, prometheus_source, read_until, values_by_name
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.prometheus import Prometheus, Target
from trimtab.config.trimtab.settings import BuiltinMetric, QuerySettings

pytestmark = pytest.mark.live

METRIC = "k8_node_cgroups_mem_available"
STARTED = time.time()
# Seconds since the measurement of each node: the last script stopped running ten minutes ago.
MEASURED = dict(zip(NAMES, (2.0, 30.0, 600.0), strict=True))


def by_the_script(node: str, at: float) -> str:
    """What a textfile of memory-available.sh holds."""
    return f'{METRIC}{{node="{node}"}} 2000\n{METRIC}_timestamp_seconds{{node="{node}"}} {at}\n'


def by_a_push(node: str, at: float) -> str:
    """What a Pushgateway exposes of a script that does not tell the time, such as dynamic-Scheduler's."""
    group = f'job="CollectK8sCgroupsMem",instance="{node}"'
    return f"{METRIC}{{{group}}} 2000\npush_time_seconds{{{group}}} {at}\n"


PAGES = {"/textfile": by_the_script, "/pushed": by_a_push}
NODE_LABELS = {"/textfile": "node", "/pushed": "exported_instance"}


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = "".join(PAGES[self.path](node, STARTED - age) for node, age in MEASURED.items()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  the name is the parent's


@pytest.fixture(scope="module", params=PAGES)
def scraped(request: pytest.FixtureRequest) -> Iterator[tuple[Prometheus, str]]:
    """A Prometheus that scrapes one page, and its label with the node's name; clashing labels are `exported_…`."""
    binaries = controlplane_or_skip()
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = Target(f"127.0.0.1:{server.server_port}", request.param, job="gateway")
        with Prometheus([target], binaries=binaries) as running:
            yield running, NODE_LABELS[request.param]
        server.shutdown()


OWN = QuerySettings(name="room", query=METRIC)


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        ("memory.available", {"metrics": (BuiltinMetric.MEMORY_AVAILABLE,)}),
        ("room", {"metrics": (), "queries": (OWN,)}),
    ],
    ids=["the default query", "a rule's own selector"],
)
async def test_a_value_is_as_old_as_its_measurement(
    scraped: tuple[Prometheus, str], metric: str, settings: dict[str, object]
) -> None:
    """Not as old as the scrape; every node has its own age."""
    prometheus, label = scraped
    async with prometheus_source(prometheus, node_label=label, **settings) as source:
        scrape = await read_until(source, lambda each: set(NAMES) == set(values_by_name(each, metric)))
    elapsed = time.time() - STARTED
    assert {name: pytest.approx(age + elapsed, abs=2) for name, age in MEASURED.items()} == ages(scrape, metric)
