"""Adds a replica to a workload for the replacement of a pod, and takes it back; each is a few requests in turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from trimtab.core.model.events import SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge, StartSurge
from trimtab.wire.decoding import read_status
from trimtab.wire.outcomes import CONFLICT, NOT_FOUND, OK, Reply
from trimtab.wire.requests import Request
from trimtab.wire.surge import (
    Workload,
    autoscaler_obstacle,
    autoscalers_request,
    decode_workload,
    deletion_cost_request,
    end_request,
    quota_obstacle,
    quotas_request,
    start_request,
    workload_obstacle,
    workload_request,
)

Send = Callable[[Request], Awaitable[Reply]]

CONFLICTS = 5  # in a row


async def start_surge(surge: StartSurge, send: Send, now: Callable[[], float]) -> SurgeDone | SurgeFailed:
    """Unless the workload, an autoscaler, a GitOps tool or a quota speaks against it."""
    workload = await _read(surge, send)
    if isinstance(workload, str):
        return SurgeFailed(surge.uid, workload, now())
    if workload.surge_for == surge.uid:
        return SurgeDone(surge.uid, now())
    obstacle = workload_obstacle(workload) or await _obstacle_around(surge, workload, send)
    if obstacle:
        return SurgeFailed(surge.uid, obstacle, now())
    return _outcome(surge.uid, await send(start_request(surge, workload)), now())


async def _obstacle_around(surge: StartSurge, workload: Workload, send: Send) -> str:
    autoscalers = await send(autoscalers_request(surge))
    if autoscalers.status != OK:
        return f"the HorizontalPodAutoscalers of its namespace cannot be listed: {autoscalers.message}"
    quotas = await send(quotas_request(surge))
    if quotas.status != OK:
        return f"the quotas of its namespace cannot be listed: {quotas.message}"
    return autoscaler_obstacle(surge, autoscalers.body) or quota_obstacle(workload, quotas.body)


async def end_surge(surge: EndSurge, send: Send, now: Callable[[], float]) -> SurgeDone | SurgeFailed:
    """Try again after a conflict: the workload's status changes at the moment when the replacement is ready."""
    reply = await _end(surge, send, now())
    for _ in range(CONFLICTS):
        if not isinstance(reply, Reply) or reply.status != CONFLICT:
            break
        reply = await _end(surge, send, now())
    return _outcome(surge.uid, reply, now()) if isinstance(reply, Reply) else reply


async def _end(surge: EndSurge, send: Send, now: float) -> Reply | SurgeDone | SurgeFailed:
    """The answer to the update; a workload that is gone, or has no further replica for this pod, needs none."""
    reply = await send(workload_request(surge))
    if reply.status == NOT_FOUND and read_status(reply.body).reason == "NotFound":
        return SurgeDone(surge.uid, now)
    workload = decode_workload(reply.body) if reply.status == OK else None
    if workload is None:
        return SurgeFailed(surge.uid, reply.message, now, unknown=True)
    if workload.surge_for != surge.uid:
        return SurgeDone(surge.uid, now)
    if surge.leaves:
        marked = await send(deletion_cost_request(surge))
        if marked.status not in (OK, NOT_FOUND):
            return SurgeFailed(surge.uid, marked.message, now)
    return await send(end_request(surge, workload))


async def _read(surge: StartSurge, send: Send) -> Workload | str:
    reply = await send(workload_request(surge))
    workload = decode_workload(reply.body) if reply.status == OK else None
    return workload if workload is not None else f"{surge.kind} {surge.workload} cannot be read: {reply.message}"


def _outcome(uid: str, reply: Reply, now: float) -> SurgeDone | SurgeFailed:
    if reply.status == OK:
        return SurgeDone(uid, now)
    refused = not reply.sent or (400 <= reply.status < 500 and reply.status != 408)
    return SurgeFailed(uid, reply.message, now, unknown=not refused)
