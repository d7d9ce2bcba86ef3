"""Decides how the pages are served, to whom, and within which limits; leaves what they say to health and metrics.

Plain HTTP without passwords, hence on loopback only; GET only; nothing on the pages can change anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from trimtab.serve.explain import ExplainEndpoints
from trimtab.serve.health import Health, HealthResult
from trimtab.serve.metrics_endpoint import MetricsEndpoint

MAX_BODY_BYTES = 1 << 10
MAX_LINE_BYTES = 4 << 10
KEEP_ALIVE = 75.0
SHUTDOWN_TIMEOUT = 1.0
BACKLOG = 64

RequestHandler = Callable[[web.Request], Awaitable[web.Response]]


def create_app(health: Health, metrics: MetricsEndpoint, explain: ExplainEndpoints | None = None) -> web.Application:
    """The health pages, /metrics, and what explains decisions where there is an engine that takes them."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(_set_headers)
    for page in health.pages:
        app.router.add_get(f"/{page}", _page_handler(health, page), allow_head=False)
        app.router.add_get(f"/{page}/{{name}}", _check_handler(health, page), allow_head=False)
    app.router.add_get("/metrics", _metrics_handler(metrics), allow_head=False)
    if explain is not None:
        explain.register(app)
    return app


@asynccontextmanager
async def serve(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the block; gives the port. OSError when the port is taken."""
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE,
        shutdown_timeout=SHUTDOWN_TIMEOUT,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_LINE_BYTES,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _page_handler(health: Health, page: str) -> RequestHandler:
    async def answer(request: web.Request) -> web.Response:
        return _response(health.page(page, verbose="verbose" in request.query))

    return answer


def _check_handler(health: Health, page: str) -> RequestHandler:
    async def answer(request: web.Request) -> web.Response:
        verdict = health.single(page, request.match_info["name"])
        if verdict is None:
            raise web.HTTPNotFound
        return _response(verdict)

    return answer


def _metrics_handler(metrics: MetricsEndpoint) -> RequestHandler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await metrics.render(), headers={"Content-Type": metrics.content_type})

    return answer


def _response(verdict: HealthResult) -> web.Response:
    return web.Response(status=200 if verdict.ok else 500, text=verdict.text)


async def _set_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Neither which program and version this is, nor anything for a browser to guess or keep."""
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
