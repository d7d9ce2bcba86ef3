"""The labeller's endpoints.

/status      `ok`, or 503 and the reasons: a check fails, or the API server rejects all patches
/nodes       the labelled nodes, in dynamic-Scheduler's format
/pressure    each node that is not calm: by which rule, its value, since when
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web
from msgspec.structs import replace

from trimtab.config.diagnostics import printable
from trimtab.core.engine import Engine
from trimtab.core.labelling.controller import Labelling
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.serve.health import Check

TYPE = "Label type=presure Nodes"  # spelt as dynamic-Scheduler's clients expect it
SERVICE_UNAVAILABLE = 503
REMEDY = "run `trimtab doctor` with this account's kubeconfig for the remedy"


class LabellerEndpoints:
    """Runs on the engine's event loop. `to_wall_time` converts the engine's times."""

    def __init__(
        self, engine: Engine, checks: Iterable[Check], to_wall_time: Callable[[float], float] = lambda at: at
    ) -> None:
        self._engine, self._checks, self._to_wall_time = engine, tuple(checks), to_wall_time

    @property
    def _labeller(self) -> NodeLabeller | None:
        return self._engine.controller(Labelling).labeller

    def register(self, app: web.Application) -> None:
        for name, handler in (("status", self._status), ("nodes", self._nodes), ("pressure", self._pressure)):
            app.router.add_get(f"/{name}", handler, allow_head=False)

    async def _status(self, request: web.Request) -> web.Response:
        problems = [f"{check.name}: {reason}" for check in self._checks if (reason := check.run()) is not None]
        if message := self._forbidden():
            problems.append(f"labels: the API server rejects all patches (403): {message}: {REMEDY}")
        return web.Response(status=SERVICE_UNAVAILABLE if problems else 200, text="\n".join(problems) or "ok")

    def _forbidden(self) -> str:
        """The API server's message while it rejects all patches; a standby sends none."""
        labeller, leads = self._labeller, self._engine.state.term is not None
        return printable(labeller.patches.forbidden) if labeller is not None and leads else ""

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
