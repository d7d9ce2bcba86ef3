"""The pages: health checks, /metrics and further endpoints. They accept GET only and change nothing.

`listener.py` serves them; `apps/serving.py` says which port has which of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from trimtab.serve.gauges import Gauges
from trimtab.serve.health import Health, HealthResult
from trimtab.serve.metrics import PrometheusRecorder

MAX_BODY_BYTES = 1 << 10

RequestHandler = Callable[[web.Request], Awaitable[web.Response]]
RunPage = Callable[[Coroutine[Any, Any, web.StreamResponse]], Awaitable[web.StreamResponse]]


class Endpoints(Protocol):
    """A group of pages that registers its own routes."""

    def register(self, app: web.Application) -> None: ...


class MetricsEndpoint:
    """/metrics: values are collected on the event loop, text is rendered in a thread, one scrape at a time."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, recorder: PrometheusRecorder, gauges: Gauges) -> None:
        self._recorder, self._gauges = recorder, gauges
        self._process = ProcessCollector(registry=None)
        self._lock = asyncio.Lock()

    async def render(self) -> bytes:
        """The page in Prometheus' text format."""
        async with self._lock:
            snapshot = _Snapshot([*self._recorder.families(), *self._gauges.families()], self._process)
            return await asyncio.to_thread(generate_latest, snapshot)


class _Snapshot(Collector):
    """Values collected at one moment, and `process_*` at the time of rendering."""

    def __init__(self, families: list[Metric], process: ProcessCollector) -> None:
        self._families, self._process = families, process

    def collect(self) -> Iterable[Metric]:
        return [*self._families, *self._process.collect()]


def create_app(
    health: Health,
    metrics: MetricsEndpoint | None = None,
    *endpoints: Endpoints,
    middlewares: Iterable[Middleware] = (),
    run_page: RunPage | None = None,
) -> web.Application:
    """The health checks, /metrics if given, and further endpoints. Health checks are answered by the loop that serves.

    `run_page` runs the handler of any other page, on the loop of the engine that it reads.
    """
    if run_page is not None:
        middlewares = (*middlewares, _on_another_loop(health, run_page))
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
    app.on_response_prepare.append(_set_headers)
    for page in health.pages:
        app.router.add_get(f"/{page}", _page_handler(health, page), allow_head=False)
        app.router.add_get(f"/{page}/{{name}}", _check_handler(health, page), allow_head=False)
    if metrics is not None:
        app.router.add_get("/metrics", _metrics_handler(metrics), allow_head=False)
    for each in endpoints:
        each.register(app)
    return app


def _on_another_loop(health: Health, run_page: RunPage) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.lstrip("/").partition("/")[0] in health.pages:
            return await handler(request)
        return await run_page(_answer(request, handler))

    return middleware


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request)


def _page_handler(health: Health, page: str) -> RequestHandler:
    async def handle(request: web.Request) -> web.Response:
        return _response(health.page(page, verbose="verbose" in request.query))

    return handle


def _check_handler(health: Health, page: str) -> RequestHandler:
    async def handle(request: web.Request) -> web.Response:
        result = health.single(page, request.match_info["name"])
        if result is None:
            raise web.HTTPNotFound
        return _response(result)

    return handle


def _metrics_handler(metrics: MetricsEndpoint) -> RequestHandler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=await metrics.render(), headers={"Content-Type": metrics.content_type})

    return handle


def _response(result: HealthResult) -> web.Response:
    return web.Response(status=200 if result.ok else 500, text=result.text)


async def _set_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Hide the program and its version, and forbid content sniffing and caching."""
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
