"""Decides what the labeller's own pages say; leaves who is pressed to the engine, and what else is well to its checks.

/status      `ok`, or 503 and why not: a check fails, or the API server refuses all marks that are wanted
/nodes       who is marked, in the form that dynamic-Scheduler had
/pressure    each node that is not calm: by which rule, how far, since when
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

TYPE = "Label type=presure Nodes"  # the words that its readers look for
SERVICE_UNAVAILABLE = 503
REMEDY = "`trimtab doctor` with this account's kubeconfig says what to do"


class LabellerEndpoints:
    """Asked on the event loop where the engine lives; `to_wall_time` is its time as people read it."""

    def __init__(
        self, engine: Engine, checks: Iterable[Check], to_wall_time: Callable[[float], float] = lambda at: at
    ) -> None:
        self._engine, self._checks, self._to_wall_time = engine, tuple(checks), to_wall_time

    @property
    def _labeller(self) -> NodeLabeller | None:
        return self._engine.controller(Labelling).labeller

    def register(self, app: web.Application) -> None:
        for name, answer in (("status", self._status), ("nodes", self._nodes), ("pressure", self._pressure)):
            app.router.add_get(f"/{name}", answer, allow_head=False)

    async def _status(self, request: web.Request) -> web.Response:
        problems = [f"{check.name}: {problem}" for check in self._checks if (problem := check.run()) is not None]
        problems += [f"marks: all are refused (403): {words}: {REMEDY}" for words in self._rejected_patches()]
        return web.Response(status=SERVICE_UNAVAILABLE if problems else 200, text="\n".join(problems) or "ok")

    def _rejected_patches(self) -> list[str]:
        """In the API server's words; who does not lead writes nothing, and is refused nothing."""
        marking, leads = self._labeller, self._engine.state.term is not None
        return (
            [printable(marking.patches.forbidden)]
            if marking is not None and leads and marking.patches.forbidden
            else []
        )

    async def _nodes(self, request: web.Request) -> web.Response:
        names = self._labeller.labelled_nodes() if self._labeller is not None else []
        return _json({"type": TYPE, "num": len(names), "node_names": names})

    async def _pressure(self, request: web.Request) -> web.Response:
        marking = self._labeller
        if marking is None:
            return _json({"mode": "off", "nodes": []})
        mode = "apply" if marking.settings.apply else "observe"
        nodes = [replace(each, since=self._to_wall_time(each.since)) for each in marking.under_pressure()]
        return _json({"mode": mode, "all_marked": marking.all_labelled, "nodes": nodes})


def _json(told: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(told), content_type="application/json")
