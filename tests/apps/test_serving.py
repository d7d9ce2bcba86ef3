"""Which pages each port has, and what happens to ports that cannot be opened."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.serve.small_cluster import SmallCluster
from trimtab.apps.serving import Pages, Ports
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.serve.client_ca import LookupFailed
from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.gauges import Gauges
from trimtab.serve.health import Health
from trimtab.serve.http import MetricsEndpoint
from trimtab.serve.labels import LabellerEndpoints
from trimtab.serve.listener import CannotListen
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.serve.options import Address, AuthenticationOptions, SecureServing, Serving
from trimtab.serve.serving_certificate import CertificateError
from trimtab.serve.status import StatusPage

NOBODY = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")
PATHS = ("/livez", "/readyz", "/healthz", "/metrics", "/explain/node/one", "/status", "/nodes")
HEALTH = {"/livez", "/readyz", "/healthz"}


def pages() -> Pages:
    recorder = PrometheusRecorder()
    engine = SmallCluster(recorder).engine
    metrics = MetricsEndpoint(recorder, Gauges(engine))
    return Pages(Health(), metrics, (ExplainEndpoints(engine),), (StatusPage(()), LabellerEndpoints(engine)))


def at(host: str = "127.0.0.1") -> Address:
    return Address(host, 0, "--flag")


@asynccontextmanager
async def opened(serving: Serving, credentials: Credentials = NOBODY) -> AsyncIterator[str]:
    """The one port of this, as a URL on loopback."""
    with closing(Ports(serving, credentials)) as ports:
        (made,) = ports._sockets.values()
        scheme = "http" if serving.secure is None else "https"
        async with ports.serve(pages()):
            yield f"{scheme}://127.0.0.1:{made.getsockname()[1]}"


async def found(base: str) -> dict[str, int]:
    """The status of every page."""
    async with ClientSession() as client:

        async def status(path: str) -> int:
            async with client.get(base + path, ssl=False) as response:
                return response.status

        return dict(zip(PATHS, await asyncio.gather(*map(status, PATHS)), strict=True))


@pytest.mark.parametrize(
    ("serving", "expected"),
    [
        (Serving(loopback=at()), {*PATHS}),
        (Serving(health=at("0.0.0.0")), HEALTH),
        (Serving(status=at("0.0.0.0")), {*HEALTH, "/status", "/nodes"}),
    ],
)
async def test_pages_of_plain_ports(serving: Serving, expected: set[str]) -> None:
    """All on loopback; elsewhere only health checks, and what dynamic-Scheduler served: never /metrics or /explain."""
    async with opened(serving) as base:
        assert {path: 200 if path in expected else 404 for path in PATHS} == await found(base)


async def test_pages_of_the_secure_port() -> None:
    """The labeller's pages need a right, too; without an API server nobody can have one."""
    secure = SecureServing(at(), authentication=AuthenticationOptions(skip_lookup=True))
    async with opened(Serving(secure=secure)) as base:
        assert {path: 200 if path in HEALTH else 401 for path in PATHS} == await found(base)


async def test_junk_as_the_clusters_client_ca_is_no_reason_to_end(caplog: pytest.LogCaptureFixture) -> None:
    """It is a failed lookup, which is tolerated unless a flag says otherwise."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"data": {"client-ca-file": "junk"}} if request.method == "GET" else {})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as api_server:
        server = str(api_server.make_url("")).rstrip("/")
        credentials = Credentials(ClusterConfig(server=server), UserConfig(), "test")
        async with opened(Serving(secure=SecureServing(at())), credentials) as base:
            assert {path: 200 if path in HEALTH else 401 for path in PATHS} == await found(base)
        assert "client CA lookup failed" in caplog.text and "--client-ca-file" not in caplog.text
        strict = SecureServing(at(), authentication=AuthenticationOptions(tolerate_lookup_failure=False))
        with pytest.raises(
            LookupFailed, match="the ConfigMap kube-system/extension-apiserver-authentication is not a PEM"
        ):
            async with opened(Serving(secure=strict), credentials):
                pass


async def test_an_open_status_page_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Once, as a warning."""
    async with opened(Serving(status=at("0.0.0.0"))):
        pass
    lines = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert ["anybody who can connect may read the status, without TLS: address=0.0.0.0:0"] == lines


def test_a_taken_port_closes_the_others() -> None:
    """Nothing is half open."""
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        free, used = other.getsockname()[1], taken.getsockname()[1]
        other.close()
        with pytest.raises(CannotListen, match=f"cannot serve on 127.0.0.1:{used}: Address already in use"):
            Ports(Serving(at()._replace(port=free), health=at()._replace(port=used)), NOBODY)
        socket.create_server(("127.0.0.1", free)).close()


def test_a_client_ca_that_cannot_be_read() -> None:
    """The flag is named."""
    secure = SecureServing(at(), authentication=AuthenticationOptions(client_ca_file="/nonexistent"))
    with pytest.raises(CertificateError, match="the client CA of --client-ca-file /nonexistent cannot be read"):
        Ports(Serving(secure=secure), NOBODY)
