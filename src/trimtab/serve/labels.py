"""The labeller's endpoints.

/nodes       the labelled nodes, in dynamic-Scheduler's format
/pressure    each node that is not calm: by which rule, its value, since when
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web
from msgspec.structs import replace

from trimtab.config.diagnostics import printable
from trimtab.core.engine import Engine
from trimtab.core.labelling.controller import Labelling
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.serve.health import Check

TYPE = "Label type=presure Nodes"  # spelt as dynamic-Scheduler's clients expect it
REMEDY = "run `trimtab doctor` with this account's kubeconfig for the remedy"


def patches_check(engine: Engine) -> Check:
    """Fails while the API server rejects all patches, with its message; a standby sends none."""

    def run() -> str | None:
        labeller, leads = engine.controller(Labelling).labeller, engine.state.term is not None
        message = printable(labeller.patches.forbidden) if labeller is not None and leads else ""
        return f"the API server rejects all patches (403): {message}: {REMEDY}" if message else None

    return Check("labels", run)


class LabellerEndpoints:
    """Runs on the engine's event loop. `to_wall_time` converts the engine's times."""

    def __init__(self, engine: Engine, to_wall_time: Callable[[float], float] = lambda at: at) -> None:
        self._engine, self._to_wall_time = engine, to_wall_time

    @property
    def _labeller(self) -> NodeLabeller | None:
        return self._engine.controller(Labelling).labeller

    def register(self, app: web.Application) -> None:
        for name, handler in (("nodes", self._nodes), ("pressure", self._pressure)):
            app.router.add_get(f"/{name}", handler, allow_head=False)

    async def _nodes(self, request: web.Request) -> web.Response:
        names = self._labeller.labelled_nodes() if self._labeller is not None else []
        return _json({"type": TYPE, "num": len(names), "node_names": names})

    async def _pressure(self, request: web.Request) -> web.Response:
        labeller = self._labeller
        if labeller is None:
            return _json({"mode": "off", "nodes": []})
        mode = "apply" if labeller.settings.apply else "observe"
        nodes = [replace(each, since=self._to_wall_time(each.since)) for each in labeller.under_pressure()]
        return _json({"mode": mode, "all_marked": labeller.all_labelled, "nodes": nodes})


def _json(document: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), content_type="application/json")
