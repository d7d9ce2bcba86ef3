"""The /explain endpoints: why a pod is on its node or on none, as JSON from the live engine; `trimtab explain` renders it.

/explain/pod/NAMESPACE/NAME    the pod's state, how it waited, past decisions, the node table as of now with raw and
                               normalised scores, and what the stock profile would choose; ?node=NAME adds that node's row
/explain/node/NAME             the node's resources, its pods, how it ranks for pending pods, and, with a rescheduler, why
                               pods leave it or stay
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec.structs import replace

from trimtab.core.engine import Engine
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.explain import NodeOutlook, outlook_steps
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import NodeExplanation, PodExplanation, explain_node, explain_pod, find_pod
from trimtab.core.scheduling.waiting import Waiting

Explanation = TypeVar("Explanation", PodExplanation, NodeExplanation)


class ExplainEndpoints:
    """Runs on the engine's event loop, so that a table shows one moment. `to_wall_time` converts the engine's times."""

    def __init__(self, engine: Engine, to_wall_time: Callable[[float], float] = lambda at: at) -> None:
        self._engine, self._to_wall_time = engine, to_wall_time

    def register(self, app: web.Application) -> None:
        app.router.add_get("/explain/pod/{namespace}/{name}", self._pod, allow_head=False)
        app.router.add_get("/explain/node/{name}", self._node, allow_head=False)

    async def _pod(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        pod = find_pod(self._engine.cluster, key)
        if pod is None:
            return _error(404, f"pod {key} not found: check its namespace and name")
        nodes = request.query.getall("node", [])
        explained = self._with_wall_times(explain_pod(self._engine.controller(Scheduling), pod, nodes))
        waiting = explained.waiting
        return _json(replace(explained, waiting=None if waiting is None else self._waiting(waiting)))

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        found = explain_node(self._engine.controller(Scheduling), name)
        if found is None:
            return _error(404, f"node {name} not found")
        answer = msgspec.to_builtins(self._with_wall_times(found))
        outlook = await self._rescheduling(name)
        return _json(answer if outlook is None else {**answer, "rescheduling": outlook})

    async def _rescheduling(self, name: str) -> NodeOutlook | None:
        """Takes a while on a large cluster, so that others get their turns between its steps."""
        steps = outlook_steps(self._engine.controller(Rescheduling), name)
        if steps is None:
            return None
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: NodeOutlook = end.value
                break
            await asyncio.sleep(0)
        return replace(found, plans=tuple(replace(each, at=self._to_wall_time(each.at)) for each in found.plans))

    def _with_wall_times(self, explanation: Explanation) -> Explanation:
        past = tuple(replace(each, at=self._to_wall_time(each.at)) for each in explanation.past)
        return replace(explanation, past=past)

    def _waiting(self, waiting: Waiting) -> Waiting:
        wall = self._to_wall_time
        return replace(
            waiting,
            since=wall(waiting.since),
            until=None if waiting.until is None else wall(waiting.until),
            steps=tuple(replace(step, at=wall(step.at)) for step in waiting.steps),
        )


def _json(explanation: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(explanation), content_type="application/json")


def _error(status: int, problem: str) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode({"problem": problem}), content_type="application/json")
