"""What a process says about itself.

/status         `ok`, or 503 and the reason of each check that fails
/debug/cache    what it knows of the cluster, as resourceVersions by kind and UID; `trimtab doctor --compare` reads it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec
from aiohttp import web

from trimtab.kube.informers import KindView
from trimtab.serve.health import Check

SERVICE_UNAVAILABLE = 503


class StatusPage:
    """Runs on the engine's event loop, and for callers that may know reasons, unlike the health checks."""

    def __init__(self, checks: Iterable[Check]) -> None:
        self._checks = tuple(checks)

    def register(self, app: web.Application) -> None:
        app.router.add_get("/status", self._show, allow_head=False)

    async def _show(self, request: web.Request) -> web.Response:
        problems = [f"{check.name}: {reason}" for check in self._checks if (reason := check.run()) is not None]
        return web.Response(status=SERVICE_UNAVAILABLE if problems else 200, text="\n".join(problems) or "ok")


class CachePage:
    """`view` reads the informers' stores: the dictionaries are copied on the event loop, and the text is made in a thread."""

    def __init__(self, view: Callable[[], Sequence[KindView]]) -> None:
        self._view = view
        self._lock = asyncio.Lock()

    def register(self, app: web.Application) -> None:
        app.router.add_get("/debug/cache", self._show, allow_head=False)

    async def _show(self, request: web.Request) -> web.Response:
        async with self._lock:
            body = await asyncio.to_thread(msgspec.json.encode, {"kinds": self._view()})
        return web.Response(body=body, content_type="application/json")
