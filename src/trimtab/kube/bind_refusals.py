"""Counts and reports binds that the API server refuses: one warning a minute for each reason, and whether any succeed.

    working ──(LIMIT refusals in a row)──▶ degraded: /readyz fails ──(a bind succeeds, or had)──▶ working

Conflicts and pods that are gone are races of a healthy cluster, and what this replica did not send was not refused: neither
counts. An admission webhook or policy may refuse single pods for good reasons, so its refusals of one pod count once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from trimtab.core.model.instructions import Bind
from trimtab.wire.forbidden import grant_remedy
from trimtab.wire.outcomes import Refusal, Reply, bind_refusal

log = logging.getLogger(__name__)
LIMIT = 5
LOG_SECONDS = 60.0
REMEDIES = {
    Refusal.UNAUTHORIZED: "check the account's token or certificate",
    Refusal.ADMISSION: "look at the webhook or policy that the error names: it must let binds pass",
    Refusal.STORAGE_FULL: "make room in etcd: compact, defragment, and disarm its alarm",
    Refusal.THROTTLED: "apply deploy/flowschema.yaml, or look at what loads the API server",
    Refusal.SERVER_ERROR: "look at the API server and its etcd",
    Refusal.NO_ANSWER: "look at the API server, and at the network before it",
    Refusal.INVALID: "report it as a bug, with this line",
}


class BindRefusals:
    """What the API server answers to binds; `in_a_row` refusals have come since the last success."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter({each.value: 0 for each in Refusal})
        self.in_a_row = 0
        self._clock = clock
        self._last = ""
        self._by_admission: set[str] = set()
        self._logged_at: dict[Refusal, float] = {}
        self._unlogged: Counter[Refusal] = Counter()

    def note(self, bind: Bind, reply: Reply) -> None:
        """Take in the answer to a bind."""
        if reply.succeeded:
            self._recover()
        elif (refusal := bind_refusal(reply)) is not None:
            self._refused(bind, refusal, reply)

    def bound_after_all(self) -> None:
        """A pod whose bind had no answer turned out to be bound."""
        self._recover()

    def degraded(self) -> str | None:
        """Why binds do not work at present; None while they do."""
        if self.in_a_row < LIMIT:
            return None
        return f"{self.in_a_row} binds in a row were refused, the last one because: {self._last}"

    def _recover(self) -> None:
        if self.in_a_row >= LIMIT:
            log.info("binds succeed again: refused=%d", self.in_a_row)
        self.in_a_row = 0
        self._by_admission.clear()

    def _refused(self, bind: Bind, refusal: Refusal, reply: Reply) -> None:
        self.counts[refusal.value] += 1
        self._last = reply.message
        if refusal is not Refusal.ADMISSION:
            self.in_a_row += 1
        elif bind.uid not in self._by_admission:
            self._by_admission.add(bind.uid)
            self.in_a_row += 1
        self._log(bind, refusal, reply)

    def _log(self, bind: Bind, refusal: Refusal, reply: Reply) -> None:
        """The first of each reason, and then one a minute, with the number of those since."""
        now = self._clock()
        if now - self._logged_at.get(refusal, float("-inf")) < LOG_SECONDS:
            self._unlogged[refusal] += 1
            return
        self._logged_at[refusal] = now
        remedy = grant_remedy(reply.message, "rbac.yaml") if refusal is Refusal.FORBIDDEN else REMEDIES[refusal]
        log.warning(
            "bind refused: reason=%s pod=%s node=%s status=%d error=%s not_logged=%d remedy=%s",
            *(refusal.value, f"{bind.namespace}/{bind.name}", bind.node, reply.status, reply.message),
            *(self._unlogged.pop(refusal, 0), remedy),
        )
