"""What the API server's answer to each instruction means, as an event for the engine.

An answer counts only when the API server itself gave it. A login page with status 200, a proxy's plain 404 and no answer at
all leave open whether the write took place.

::

    bind:  201 Success ─▶ done          409 ─▶ conflict: bound, replaced, deleted or gated; only reading it back tells
           404 NotFound ─▶ gone         429 ─▶ not sent: rejected before anything was done
           4xx ─▶ refused               5xx, no answer, anything else ─▶ unknown
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    EvictDone,
    EvictFailed,
    GetPodDone,
    GetPodFailed,
    LabelDone,
    LabelFailed,
    PreemptDone,
    PreemptFailed,
    StageAnswered,
)
from trimtab.core.model.instructions import Bind, BindVolume, Evict, GetPod, LabelNode, Preempt, SelectNode
from trimtab.wire.decoding import Malformed, Status, decode_part, read_status
from trimtab.wire.pod import PodReader

OK = 200
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, REQUEST_TIMEOUT, CONFLICT, TOO_MANY_REQUESTS = 401, 403, 404, 408, 409, 429
SERVER_ERROR = 500
STORAGE_FULL = "database space exceeded"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
UID_PRECONDITION = "UID in precondition"
BUDGET_CAUSE = "DisruptionBudget"
MAX_RETRY_AFTER = 300
DEFAULT_RETRY_AFTER = 1

# The API server's own words for a webhook's or a policy's refusal, and for one that cannot be asked.
_ADMISSION = re.compile(
    "admission webhook .* denied|ValidatingAdmissionPolicy .* denied|failed calling webhook", re.DOTALL
)


class Reply(NamedTuple):
    """The answer to a request; status 0 is none, for the reason in `error`."""

    status: int
    body: bytes = b""
    error: str = ""
    sent: bool = True  # false only when the request certainly did not arrive

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300

    @property
    def not_applied(self) -> bool:
        """Whether the write certainly did not take place: it was not sent, or the server refused it."""
        return not self.sent or (400 <= self.status < 500 and self.status != REQUEST_TIMEOUT)

    @property
    def message(self) -> str:
        """The server's own message; else the status, or why there is no answer."""
        if not self.status:
            return self.error or "no answer"
        return read_status(self.body).message or f"HTTP status {self.status}"


class Refusal(StrEnum):
    """Why a bind was refused, or has an unknown outcome; values of a metric's label."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    ADMISSION = "admission"  # a webhook or a ValidatingAdmissionPolicy, also one that cannot be called
    INVALID = "invalid"
    THROTTLED = "throttled"
    STORAGE_FULL = "storage_full"
    SERVER_ERROR = "server_error"
    NO_ANSWER = "no_answer"


_REFUSALS = {
    UNAUTHORIZED: Refusal.UNAUTHORIZED,
    FORBIDDEN: Refusal.FORBIDDEN,
    TOO_MANY_REQUESTS: Refusal.THROTTLED,
    REQUEST_TIMEOUT: Refusal.SERVER_ERROR,
}


class DisruptionBudget(Struct, frozen=True):
    """An eviction is refused because a disruption budget is spent, or not yet observed."""

    message: str
    seconds: int = 0


class Throttled(Struct, frozen=True):
    """The server is overloaded; retry after so many seconds."""

    seconds: int


def bind_outcome(bind: Bind, reply: Reply, now: float) -> BindDone | BindFailed:
    reason = _bind_failure(reply, read_status(reply.body))
    if reason is None:
        return BindDone(bind.uid, bind.node, now)
    return BindFailed(bind.uid, bind.node, reason, reply.message, now)


def _bind_failure(reply: Reply, status: Status) -> BindFailure | None:
    if not reply.sent:
        return BindFailure.NOT_SENT
    code = reply.status
    if code == REQUEST_TIMEOUT or not 200 <= code < 500 or 300 <= code < 400:
        return BindFailure.UNKNOWN
    if code < 300:
        return None if status.succeeded else BindFailure.UNKNOWN
    if code == NOT_FOUND:
        return BindFailure.GONE if status.reason == "NotFound" else BindFailure.UNKNOWN
    return {CONFLICT: BindFailure.CONFLICT, TOO_MANY_REQUESTS: BindFailure.NOT_SENT}.get(code, BindFailure.REFUSED)


def bind_refusal(reply: Reply) -> Refusal | None:
    """Why the API server does not bind; None after a success, a conflict, a pod that is gone, or what was not sent."""
    code = reply.status
    if not reply.sent or reply.succeeded or code in (CONFLICT, NOT_FOUND):
        return None
    if not code:
        return Refusal.NO_ANSWER
    if _ADMISSION.search(reply.message):
        return Refusal.ADMISSION
    if code >= SERVER_ERROR:
        return Refusal.STORAGE_FULL if STORAGE_FULL in reply.message else Refusal.SERVER_ERROR
    return _REFUSALS.get(code, Refusal.INVALID)


def get_pod_outcome(get: GetPod, reply: Reply, now: float, reader: PodReader) -> GetPodDone | GetPodFailed:
    """The pod, or None when no pod with this UID exists any more."""
    if reply.status == NOT_FOUND and read_status(reply.body).reason == "NotFound":
        return GetPodDone(get.uid, None, now)
    pod = reader.read(reply.body) if reply.succeeded else None
    if pod is None or isinstance(pod, Malformed):
        return GetPodFailed(get.uid, now)
    return GetPodDone(get.uid, pod if pod.uid == get.uid else None, now)


def preempt_outcome(preempt: Preempt, reply: Reply, now: float) -> PreemptDone | PreemptFailed:
    """A victim that is gone, or whose name now belongs to another pod, counts as preempted."""
    if reply.succeeded or _is_gone(reply):
        return PreemptDone(preempt.uid, preempt.preemptor, now)
    return PreemptFailed(preempt.uid, preempt.preemptor, reply.message, now, forbidden=reply.status == FORBIDDEN)


def _is_gone(reply: Reply) -> bool:
    """Whether no pod has this name, or another one; any other conflict leaves the pod in place."""
    status = read_status(reply.body)
    replaced = reply.status == CONFLICT and UID_PRECONDITION in status.message
    return replaced or (reply.status == NOT_FOUND and bool(status.reason))


def evict_outcome(evict: Evict, reply: Reply, now: float) -> EvictDone | EvictFailed:
    """A pod that is gone, or whose name now belongs to another pod, counts as evicted."""
    if reply.succeeded or _is_gone(reply):
        return EvictDone(evict.uid, now)
    status = read_status(reply.body)
    by_budget = reply.status == TOO_MANY_REQUESTS and BUDGET_CAUSE in status.causes
    several_budgets = reply.status == SERVER_ERROR and SEVERAL_BUDGETS in status.message
    unknown = not (reply.not_applied or several_budgets)
    return EvictFailed(evict.uid, reply.message, now, by_budget, unknown, reply.sent)


def bind_volume_outcome(bind: BindVolume, reply: Reply, now: float) -> StageAnswered:
    return _volume_outcome(bind.uid, f"volume {bind.volume}", reply, now)


def select_node_outcome(select: SelectNode, reply: Reply, now: float) -> StageAnswered:
    return _volume_outcome(select.uid, f"claim {select.claim_namespace}/{select.claim}", reply, now)


def _volume_outcome(uid: str, target: str, reply: Reply, now: float) -> StageAnswered:
    """After an unknown outcome the pod is tried again, and finds what was already written."""
    if reply.status == OK:
        return StageAnswered(uid, now)
    return StageAnswered(uid, now, f"{target} could not be prepared: {reply.message}")


class _PatchedMeta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _PatchedNode(Struct, frozen=True):
    metadata: _PatchedMeta = _PatchedMeta()


def label_outcome(label: LabelNode, reply: Reply, now: float) -> LabelDone | LabelFailed:
    """An unknown outcome counts as failed: a patch that was applied after all shows up in the watch."""
    if reply.status == OK:
        return LabelDone(label.node, now, _resource_version(reply.body))
    return LabelFailed(label.node, reply.message, now, forbidden=reply.status == FORBIDDEN)


def _resource_version(body: bytes) -> int:
    """The node's version after the patch; 0 when the answer does not say."""
    written = decode_part(body, _PatchedNode, "", [])
    text = written.metadata.resource_version if written is not None else ""
    return int(text) if text.isdecimal() and text.isascii() else 0


def throttle(status: int, headers: Mapping[str, str], body: bytes) -> DisruptionBudget | Throttled | None:
    """Which of the two kinds of 429 this answer is, if any; only the body tells them apart."""
    if status != TOO_MANY_REQUESTS:
        return None
    found = read_status(body)
    seconds = min(_retry_after(headers) or found.retry_after, MAX_RETRY_AFTER)
    if BUDGET_CAUSE in found.causes:
        return DisruptionBudget(found.message, seconds)
    return Throttled(seconds or DEFAULT_RETRY_AFTER)


def _retry_after(headers: Mapping[str, str]) -> int:
    text = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
