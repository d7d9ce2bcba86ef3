"""Decides how the pages are served, to whom, and within which limits; leaves what they say to health and metrics.

Plain HTTP without passwords, hence on loopback only; GET only; nothing on the pages can change anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from trimtab.serve.explain import Explaining
from trimtab.serve.health import Health, Verdict
from trimtab.serve.page import MetricsPage

LARGEST_BODY = 1 << 10
LONGEST_LINE = 4 << 10
KEEP_ALIVE = 75.0
LAST_WORDS = 1.0
BACKLOG = 64

Answer = Callable[[web.Request], Awaitable[web.Response]]


def application(health: Health, metrics: MetricsPage, why: Explaining | None = None) -> web.Application:
    """The health pages, /metrics, and what explains decisions where there is an engine that takes them."""
    app = web.Application(client_max_size=LARGEST_BODY)
    app.on_response_prepare.append(_say_little)
    for page in health.pages:
        app.router.add_get(f"/{page}", _whole(health, page), allow_head=False)
        app.router.add_get(f"/{page}/{{name}}", _single(health, page), allow_head=False)
    app.router.add_get("/metrics", _metrics(metrics), allow_head=False)
    if why is not None:
        why.add_to(app)
    return app


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the block; gives the port. OSError when the port is taken."""
    runner = web.AppRunner(
        app,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE,
        shutdown_timeout=LAST_WORDS,
        max_line_size=LONGEST_LINE,
        max_field_size=LONGEST_LINE,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=BACKLOG).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _whole(health: Health, page: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return _response(health.page(page, verbose="verbose" in request.query))

    return answer


def _single(health: Health, page: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        verdict = health.single(page, request.match_info["name"])
        if verdict is None:
            raise web.HTTPNotFound
        return _response(verdict)

    return answer


def _metrics(metrics: MetricsPage) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await metrics.write(), headers={"Content-Type": metrics.content_type})

    return answer


def _response(verdict: Verdict) -> web.Response:
    return web.Response(status=200 if verdict.well else 500, text=verdict.text)


async def _say_little(request: web.Request, response: web.StreamResponse) -> None:
    """Neither which program and version this is, nor anything for a browser to guess or keep."""
    response.headers.popall("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
