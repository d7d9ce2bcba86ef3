"""Decides what an answer means for the pod it was about; leaves what to do about it to the engine.

An answer counts only when the API server itself can be heard in it. A login page with status 200, a proxy's plain 404
and silence all leave open whether the write took place.

::

    201 Success ─▶ done          409 ─▶ conflict: bound, replaced, deleted or gated; only reading it back tells
    404 NotFound ─▶ gone         429 ─▶ not sent: turned away before anything was done
    4xx ─▶ refused               5xx, silence, anything else ─▶ unknown
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from trimtab.core.model.event import BindDone, BindFailed, Fault, PreemptDone, PreemptFailed, RereadDone, RereadFailed
from trimtab.core.model.instruction import Preempt
from trimtab.wire.fault import Malformed
from trimtab.wire.pod import PodReader
from trimtab.wire.status import Status, read_status

REQUEST_TIMEOUT, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY = 408, 403, 404, 409, 429
OTHER_UID = "UID in precondition"
BUDGET_CAUSE = "DisruptionBudget"
PATIENCE = 300
SOON = 1


class DisruptionBudget(Struct, frozen=True):
    """An eviction is refused because a disruption budget is spent, or not yet observed."""

    message: str
    seconds: int = 0


class Throttled(Struct, frozen=True):
    """The server has too much to do; come back after so many seconds."""

    seconds: int


def bind_outcome(uid: str, node: str, status: int | None, body: bytes, at: float) -> BindDone | BindFailed:
    """What became of a bind; `status` is None when no answer came."""
    said = read_status(body)
    fault = _fault(status, said)
    if fault is None:
        return BindDone(uid, node, at)
    return BindFailed(uid, node, fault, said.message or _silence(status), at)


def _silence(status: int | None) -> str:
    return "no answer" if status is None else f"HTTP status {status}"


def _fault(status: int | None, said: Status) -> Fault | None:
    if status is None or status == REQUEST_TIMEOUT or not 200 <= status < 500 or 300 <= status < 400:
        return Fault.UNKNOWN
    if status < 300:
        return None if said.succeeded else Fault.UNKNOWN
    if status == NOT_FOUND:
        return Fault.GONE if said.reason == "NotFound" else Fault.UNKNOWN
    return {CONFLICT: Fault.CONFLICT, TOO_MANY: Fault.NOT_SENT}.get(status, Fault.REFUSED)


def reread_outcome(
    uid: str, status: int | None, body: bytes, at: float, reader: PodReader
) -> RereadDone | RereadFailed:
    """What reading a pod back has shown: the pod, or that no pod of this UID exists any more."""
    if status == NOT_FOUND and read_status(body).reason == "NotFound":
        return RereadDone(uid, None, at)
    if status is None or not 200 <= status < 300:
        return RereadFailed(uid, at)
    pod = reader.read(body)
    if isinstance(pod, Malformed):
        return RereadFailed(uid, at)
    return RereadDone(uid, pod if pod.uid == uid else None, at)


def preempt_outcome(preempt: Preempt, status: int | None, body: bytes, at: float) -> PreemptDone | PreemptFailed:
    """What became of a victim; one that is gone, or whose name belongs to another pod by now, is in nobody's way."""
    said = read_status(body)
    replaced = status == CONFLICT and OTHER_UID in said.message  # any other conflict: it is still there, and untouched
    gone = status == NOT_FOUND and said.reason
    if (status is not None and 200 <= status < 300) or gone or replaced:
        return PreemptDone(preempt.uid, preempt.preemptor, at)
    words = said.message or _silence(status)
    return PreemptFailed(preempt.uid, preempt.preemptor, words, at, forbidden=status == FORBIDDEN)


def throttle(status: int, headers: Mapping[str, str], body: bytes) -> DisruptionBudget | Throttled | None:
    """Which of the two kinds of 429 an answer is, if it is one: they differ in the body alone."""
    if status != TOO_MANY:
        return None
    said = read_status(body)
    wait = min(_retry_after(headers) or said.retry_after, PATIENCE)
    if BUDGET_CAUSE in said.causes:
        return DisruptionBudget(said.message, wait)
    return Throttled(wait or SOON)


def _retry_after(headers: Mapping[str, str]) -> int:
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
