"""Answers "why" over HTTP, from the live engine: pages about one pod and one node as JSON; what they say is the core's.

/explain/pod/NAMESPACE/NAME    how the pod stands, what was decided, the table as of now; ?node=NAME adds that node's line
/explain/node/NAME             what the node has and uses, and what it is to those that wait
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from aiohttp import web
from msgspec.structs import replace

from trimtab.core.engine import Engine
from trimtab.core.model.pod import Pod
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.explain import NodeExplanation, PodExplanation, explain_node, explain_pod

Explanation = TypeVar("Explanation", PodExplanation, NodeExplanation)


class ExplainEndpoints:
    """The pages; asked on the event loop where the engine lives, so that a table is of one moment.

    on_the_wall: the engine's time as people read it.
    """

    def __init__(self, engine: Engine, to_wall_time: Callable[[float], float] = lambda at: at) -> None:
        self._engine, self._to_wall_time = engine, to_wall_time

    def register(self, app: web.Application) -> None:
        app.router.add_get("/explain/pod/{namespace}/{name}", self._pod, allow_head=False)
        app.router.add_get("/explain/node/{name}", self._node, allow_head=False)

    async def _pod(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        pod = self._find(key)
        if pod is None:
            return _error(404, f"no pod {key} is known here: look at its namespace and name")
        return _json(
            self._with_wall_times(
                explain_pod(self._engine.controller(Scheduling), pod, request.query.getall("node", []))
            )
        )

    async def _node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        told = explain_node(self._engine.controller(Scheduling), name)
        return _json(self._with_wall_times(told)) if told is not None else _error(404, f"no node {name} is known here")

    def _with_wall_times(self, told: Explanation) -> Explanation:
        past = tuple(replace(each, at=self._to_wall_time(each.at)) for each in told.past)
        return replace(told, past=past)

    def _find(self, key: str) -> Pod | None:
        """The newest of this name: one that has ended may still be listed beside its successor."""
        found = [pod for pod in self._engine.cluster.pods.values() if pod.key == key]
        return max(found, key=lambda pod: pod.created, default=None)


def _json(told: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(told), content_type="application/json")


def _error(status: int, problem: str) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode({"problem": problem}), content_type="application/json")
