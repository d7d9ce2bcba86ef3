"""API calls under way: what was sent and is not yet confirmed by the watch, for all controllers.

    sent ──done──▶ answered ──the watch shows it──▶ (ended)
     │                └──not shown by the deadline──▶ overdue
     ├──failed──▶ backing off until the deadline ──▶ may be sent again
     └──nothing heard by the deadline──▶ overdue

What to do about an overdue or failed call is up to the controller that sent it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

FIRST_BACKOFF, MAX_BACKOFF = 1.0, 60.0


class PendingWrite(Struct):
    """One call: about which object, at which of its versions, on whose behalf, and what is known of its outcome."""

    target: str  # a pod's UID, or a node's name
    sent_at: float
    deadline: float = math.inf
    owner: str = ""  # the UID of the pod that caused it, where that is another one
    version: int = 0
    answered: bool = False
    failures: int = 0  # in a row
    written_version: int = 0  # the version that the write created, 0 where the answer did not say
    error: str = ""  # the server's message when the last answer was a refusal for lack of permission


class PendingWrites:
    """Calls by instruction type and target: never two of one type for one target."""

    def __init__(self) -> None:
        self._by_type: dict[type, dict[str, PendingWrite]] = {}
        self._by_owner: dict[tuple[type, str], dict[str, PendingWrite]] = {}

    def of(self, kind: type) -> Mapping[str, PendingWrite]:
        """All calls of a type, by target, oldest first."""
        return self._by_type.get(kind, {})

    def owned(self, kind: type, owner: str) -> Iterable[PendingWrite]:
        return self._by_owner.get((kind, owner), {}).values()

    def get(self, kind: type, target: str) -> PendingWrite | None:
        return self.of(kind).get(target)

    def begin(
        self, kind: type, target: str, now: float, *, deadline: float = math.inf, owner: str = "", version: int = 0
    ) -> PendingWrite:
        """A call is sent; failures of an earlier one for the same target still count."""
        calls = self._by_type.setdefault(kind, {})
        before = calls.get(target)
        call = calls[target] = PendingWrite(target, now, deadline, owner, version)
        if before is not None:
            call.failures, call.error = before.failures, before.error
        if owner:
            self._by_owner.setdefault((kind, owner), {})[target] = call
        return call

    def done(self, kind: type, target: str, deadline: float, written_version: int = 0) -> None:
        """The API server accepted it; the watch should show it by the deadline."""
        call = self.get(kind, target)
        if call is not None:
            call.answered, call.failures, call.error = True, 0, ""
            call.deadline, call.written_version = deadline, written_version

    def failed(self, kind: type, target: str, now: float, *, forbidden: str = "") -> None:
        """The call failed; the target is left alone for a back-off, the longest one where permission is missing."""
        call = self.get(kind, target)
        if call is not None:
            call.answered, call.failures, call.error = True, call.failures + 1, forbidden
            call.deadline = now + (MAX_BACKOFF if forbidden else backoff(call.failures))

    def end(self, kind: type, target: str) -> PendingWrite | None:
        """The call is confirmed, or no longer awaited."""
        calls = self._by_type.get(kind)
        call = calls.pop(target, None) if calls else None
        if call is not None and call.owner:
            owned = self._by_owner[kind, call.owner]
            del owned[target]
            if not owned:
                del self._by_owner[kind, call.owner]
        return call

    def end_owned(self, kind: type, owner: str) -> None:
        owned = self._by_owner.get((kind, owner))
        for target in list(owned) if owned else ():
            self.end(kind, target)

    def disown(self, kind: type, owner: str) -> None:
        """The owner no longer waits for its calls; they go on."""
        for call in self._by_owner.pop((kind, owner), {}).values():
            call.owner = ""

    def end_all(self, kind: type) -> None:
        for target in list(self.of(kind)):
            self.end(kind, target)

    def unanswered(self, kind: type) -> int:
        return sum(not call.answered for call in self.of(kind).values())

    def overdue(self, kind: type, now: float) -> list[PendingWrite]:
        return [call for call in self.of(kind).values() if call.deadline <= now]

    def copy(self) -> PendingWrites:
        copied = PendingWrites()
        for kind, calls in self._by_type.items():
            copied._by_type[kind] = {target: replace(call) for target, call in calls.items()}
        for (kind, owner), owned in self._by_owner.items():
            copied._by_owner[kind, owner] = {target: copied._by_type[kind][target] for target in owned}
        return copied


def backoff(times: int) -> float:
    """1 s after the first failure, doubling to 60 s."""
    return float(min(FIRST_BACKOFF * 2.0 ** (min(times, 10) - 1), MAX_BACKOFF))
