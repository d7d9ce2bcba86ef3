"""The HTTP server: addresses, methods and headers."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.serve.exposition import Exposition
from tests.serve.small_cluster import SmallCluster
from trimtab.serve.gauges import Gauges
from trimtab.serve.health import Check, Health
from trimtab.serve.http import MetricsEndpoint, create_app
from trimtab.serve.listener import CannotListen, listen, serve
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.serve.options import Address

ANY = Address("127.0.0.1", 0, "--serve")


@pytest.fixture
async def base() -> AsyncIterator[str]:
    """The address of a server that is alive and not ready."""
    recorder = PrometheusRecorder()
    metrics = MetricsEndpoint(recorder, Gauges(SmallCluster(recorder).engine))
    health = Health(ready=(Check("watches-synced", lambda: "no"),))
    async with serve(create_app(health, metrics), listen(ANY)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A plain client."""
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok"),
        ("/healthz", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/readyz", 500, "[+]ping ok\n[-]watches-synced failed: reason withheld\nreadyz check failed\n"),
        ("/readyz/ping", 200, "ok"),
        ("/readyz/watches-synced", 500, "internal server error: reason withheld\n"),
        ("/readyz/nothing", 404, "404: Not Found"),
        ("/", 404, "404: Not Found"),
    ],
)
async def test_pages(base: str, client: aiohttp.ClientSession, path: str, status: int, text: str) -> None:
    """Each page has Kubernetes' status and text."""
    async with client.get(base + path) as response:
        assert (status, text) == (response.status, await response.text())
        assert "text/plain; charset=utf-8" == response.headers["Content-Type"]


async def test_the_metrics_page_is_what_prometheus_reads(base: str, client: aiohttp.ClientSession) -> None:
    """The page bears the content type of Prometheus' text format and can be parsed as such."""
    async with client.get(base + "/metrics") as response:
        assert "text/plain; version=0.0.4; charset=utf-8" == response.headers["Content-Type"]
        page = Exposition(await response.text())
    assert 2 == page.value("scheduler_cache_size", type="nodes")


async def test_scrapes_at_once_are_all_answered(base: str, client: aiohttp.ClientSession) -> None:
    """Twenty readers at the same time each get a whole page."""

    async def scrape() -> float | None:
        async with client.get(base + "/metrics") as response:
            return Exposition(await response.text()).value("scheduler_cache_size", type="nodes")

    assert [2.0] * 20 == await asyncio.gather(*(scrape() for _ in range(20)))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
async def test_nothing_but_get(base: str, client: aiohttp.ClientSession, method: str) -> None:
    """Every other method is rejected on every page."""
    for path in ("/metrics", "/livez", "/readyz/ping"):
        async with client.request(method, base + path) as response:
            assert 405 == response.status


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/nothing"])
async def test_headers_give_nothing_away(base: str, client: aiohttp.ClientSession, path: str) -> None:
    """No header has the program or its version; sniffing and caching are forbidden."""
    async with client.get(base + path) as response:
        assert "Server" not in response.headers
        assert "nosniff" == response.headers["X-Content-Type-Options"]
        assert "no-store" == response.headers["Cache-Control"]


async def test_long_headers_are_refused(base: str, client: aiohttp.ClientSession) -> None:
    """A header beyond the limit is a bad request, and the server goes on."""
    async with client.get(base + "/livez", headers={"X-Long": "x" * 9000}) as response:
        assert 400 == response.status
    async with client.get(base + "/livez") as response:
        assert 200 == response.status


async def test_a_taken_port_is_named_with_its_flag(base: str) -> None:
    """The error has the address, the system's reason and the flag."""
    taken = ANY._replace(port=int(base.rpartition(":")[2]))
    with pytest.raises(CannotListen, match=f"cannot serve on {taken}: Address already in use. Choose another --serve"):
        listen(taken)
