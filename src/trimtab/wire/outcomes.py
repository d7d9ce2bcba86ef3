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

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    GetPodDone,
    GetPodFailed,
    PreemptDone,
    PreemptFailed,
)
from trimtab.core.model.instructions import Preempt
from trimtab.wire.decode_errors import Malformed
from trimtab.wire.pod import PodReader
from trimtab.wire.status import Status, read_status

REQUEST_TIMEOUT, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY_REQUESTS = 408, 403, 404, 409, 429
UID_PRECONDITION = "UID in precondition"
BUDGET_CAUSE = "DisruptionBudget"
MAX_RETRY_AFTER = 300
DEFAULT_RETRY_AFTER = 1


class DisruptionBudget(Struct, frozen=True):
    """An eviction is refused because a disruption budget is spent, or not yet observed."""

    message: str
    seconds: int = 0


class Throttled(Struct, frozen=True):
    """The server has too much to do; come back after so many seconds."""

    seconds: int


def bind_outcome(uid: str, node: str, status: int | None, body: bytes, now: float) -> BindDone | BindFailed:
    """What became of a bind; `status` is None when no answer came."""
    said = read_status(body)
    fault = _bind_failure(status, said)
    if fault is None:
        return BindDone(uid, node, now)
    return BindFailed(uid, node, fault, said.message or _status_text(status), now)


def _status_text(status: int | None) -> str:
    return "no answer" if status is None else f"HTTP status {status}"


def _bind_failure(status: int | None, said: Status) -> BindFailure | None:
    if status is None or status == REQUEST_TIMEOUT or not 200 <= status < 500 or 300 <= status < 400:
        return BindFailure.UNKNOWN
    if status < 300:
        return None if said.succeeded else BindFailure.UNKNOWN
    if status == NOT_FOUND:
        return BindFailure.GONE if said.reason == "NotFound" else BindFailure.UNKNOWN
    return {CONFLICT: BindFailure.CONFLICT, TOO_MANY_REQUESTS: BindFailure.NOT_SENT}.get(status, BindFailure.REFUSED)


def get_pod_outcome(
    uid: str, status: int | None, body: bytes, now: float, reader: PodReader
) -> GetPodDone | GetPodFailed:
    """What reading a pod back has shown: the pod, or that no pod of this UID exists any more."""
    if status == NOT_FOUND and read_status(body).reason == "NotFound":
        return GetPodDone(uid, None, now)
    if status is None or not 200 <= status < 300:
        return GetPodFailed(uid, now)
    pod = reader.read(body)
    if isinstance(pod, Malformed):
        return GetPodFailed(uid, now)
    return GetPodDone(uid, pod if pod.uid == uid else None, now)


def preempt_outcome(preempt: Preempt, status: int | None, body: bytes, now: float) -> PreemptDone | PreemptFailed:
    """What became of a victim; one that is gone, or whose name belongs to another pod by now, is in nobody's way."""
    said = read_status(body)
    replaced = (
        status == CONFLICT and UID_PRECONDITION in said.message
    )  # any other conflict: it is still there, and untouched
    gone = status == NOT_FOUND and said.reason
    if (status is not None and 200 <= status < 300) or gone or replaced:
        return PreemptDone(preempt.uid, preempt.preemptor, now)
    words = said.message or _status_text(status)
    return PreemptFailed(preempt.uid, preempt.preemptor, words, now, forbidden=status == FORBIDDEN)


def throttle(status: int, headers: Mapping[str, str], body: bytes) -> DisruptionBudget | Throttled | None:
    """Which of the two kinds of 429 an answer is, if it is one: they differ in the body alone."""
    if status != TOO_MANY_REQUESTS:
        return None
    said = read_status(body)
    wait = min(_retry_after(headers) or said.retry_after, MAX_RETRY_AFTER)
    if BUDGET_CAUSE in said.causes:
        return DisruptionBudget(said.message, wait)
    return Throttled(wait or DEFAULT_RETRY_AFTER)


def _retry_after(headers: Mapping[str, str]) -> int:
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
