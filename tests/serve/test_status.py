"""/debug/cache shows versions by kind and UID, in the form that `trimtab doctor --compare` reads."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from trimtab.kube.informers import KindView
from trimtab.serve.status import CachePage


async def test_what_the_process_knows() -> None:
    """Every kind with its path, its version and its objects."""
    app = web.Application()
    CachePage(lambda: [KindView("nodes", "/api/v1/nodes", 50, {"u-a": 7})]).register(app)
    async with TestClient(TestServer(app)) as client:
        answer = await (await client.get("/debug/cache")).json()
    nodes = {"kind": "nodes", "path": "/api/v1/nodes", "version": 50, "objects": {"u-a": 7}}
    assert {"kinds": [nodes]} == answer
