"""Adds a replica to a workload for the replacement of a pod, and takes it back; each is a few requests in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trimtab.core.model.events import SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge, StartSurge
from trimtab.wire.decoding import read_status
from trimtab.wire.outcomes import CONFLICT, NOT_FOUND, OK, REQUEST_TIMEOUT, TOO_MANY_REQUESTS, Reply
from trimtab.wire.quota import quotas_request
from trimtab.wire.requests import Request
from trimtab.wire.surge import (
    Obstacle,
    Workload,
    autoscaler_obstacle,
    autoscalers_request,
    decode_workload,
    deletion_cost_request,
    end_request,
    quota_obstacle,
    start_request,
    workload_obstacle,
    workload_request,
)

Send = Callable[[Request], Awaitable[Reply]]
TOO_LATE = "it waited for too long to be sent"
CONFLICTS = 5  # in a row


async def start_surge(surge: StartSurge, send: Send, now: Callable[[], float]) -> SurgeDone | SurgeFailed:
    """Unless the workload, an autoscaler, a GitOps tool or a quota speaks against it, or reading them took too long."""
    reply = await send(workload_request(surge))
    workload = decode_workload(reply.body) if reply.status == OK else None
    if workload is None:
        # What was not sent says why by itself, such as that moves are paused.
        why = f"{surge.kind} {surge.workload} cannot be read: {reply.message}" if reply.sent else reply.message
        return SurgeFailed(surge.uid, why, now(), impossible=_is_refusal(reply))
    if workload.surge_for == surge.uid:
        return SurgeDone(surge.uid, now())
    obstacle = workload_obstacle(workload) or await _obstacle_around(surge, workload, send)
    if obstacle is not None:
        return SurgeFailed(surge.uid, obstacle.reason, now(), impossible=obstacle.lasts)
    if now() > surge.until:
        return SurgeFailed(surge.uid, TOO_LATE, now())
    return _outcome(surge, await send(start_request(surge, workload)), now())


async def _obstacle_around(surge: StartSurge, workload: Workload, send: Send) -> Obstacle | None:
    autoscalers = await send(autoscalers_request(surge))
    if autoscalers.status != OK:
        return _unreadable("HorizontalPodAutoscalers", autoscalers)
    quotas = await send(quotas_request(surge.namespace))
    if quotas.status != OK:
        return _unreadable("quotas", quotas)
    return autoscaler_obstacle(surge, autoscalers.body) or quota_obstacle(workload, quotas.body)


def _unreadable(kind: str, reply: Reply) -> Obstacle:
    return Obstacle(f"the {kind} of its namespace cannot be listed: {reply.message}", _is_refusal(reply))


async def end_surge(surge: EndSurge, send: Send, now: Callable[[], float]) -> SurgeDone | SurgeFailed:
    """Try again after a conflict: the workload's status changes at the moment when the replacement is ready."""
    reply = await _end(surge, send, now())
    for _ in range(CONFLICTS):
        if not isinstance(reply, Reply) or reply.status != CONFLICT:
            break
        reply = await _end(surge, send, now())
    return _outcome(surge, reply, now()) if isinstance(reply, Reply) else reply


async def _end(surge: EndSurge, send: Send, now: float) -> Reply | SurgeDone | SurgeFailed:
    """The answer to the update; a workload that is gone, or has no further replica for this pod, needs none."""
    reply = await send(workload_request(surge))
    if reply.status == NOT_FOUND and read_status(reply.body).reason == "NotFound":
        return SurgeDone(surge.uid, now, ended=True)
    workload = decode_workload(reply.body) if reply.status == OK else None
    if workload is None:
        return SurgeFailed(surge.uid, reply.message, now, unknown=True)
    if workload.surge_for != surge.uid:
        return SurgeDone(surge.uid, now, ended=True)
    if surge.leaves:
        marked = await send(deletion_cost_request(surge))
        if marked.status not in (OK, NOT_FOUND):
            return SurgeFailed(surge.uid, marked.message, now)
    return await send(end_request(surge, workload))


def _outcome(surge: StartSurge | EndSurge, reply: Reply, now: float) -> SurgeDone | SurgeFailed:
    """Of the request that changes the workload."""
    if reply.status == OK:
        return SurgeDone(surge.uid, now, ended=isinstance(surge, EndSurge))
    unknown = not reply.not_applied
    return SurgeFailed(surge.uid, reply.message, now, unknown=unknown, impossible=_is_refusal(reply))


def _is_refusal(reply: Reply) -> bool:
    """For good: not because somebody else changed the object, or the server has too much to do."""
    passing = (REQUEST_TIMEOUT, CONFLICT, TOO_MANY_REQUESTS)
    return reply.sent and 400 <= reply.status < 500 and reply.status not in passing
