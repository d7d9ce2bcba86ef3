"""Keeps the ledger of moves while this process leads: reads it, writes it by compare and swap, and says when it is ours.

    lead ─▶ ReadLedger ──▶ merge ─▶ WriteLedger with our term ──written──▶ ours
               ▲                          └─────────failed─────────┐
               └──────────────── a moment later ◀──────────────────┘

Every write names the version that was read or written last, so of two processes only one succeeds, and the other reads again.
What was read is merged with what this process did since: moves that have ended here have ended, whatever the ledger says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import msgspec
from msgspec.structs import replace

from trimtab.core.controllers import Output
from trimtab.core.model.events import LedgerFailed, LedgerRead, LedgerWritten
from trimtab.core.model.instructions import ReadLedger, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.rescheduling.approval import Approval
from trimtab.core.rescheduling.move_budgets import needed
from trimtab.core.rescheduling.settings import ReschedulingSettings

NOT_READ = "the ledger of moves has not been read"
NOT_WRITTEN = "the ledger of moves was not written"
TAKEOVER_WAIT = 15.0  # the lease of an earlier leader
RETRY, WRITE_INTERVAL = 10.0, 2.0
MIN_KEPT, KEPT_SECONDS = 200, 86_400.0
MAX_BYTES = 800_000  # of a ConfigMap's 1 MiB


class LedgerKeeper:
    """`records` are the ledger as it is known here: the last attempt to move a pod by its UID, earlier ones by UID and time.

    `problem` is why the ledger is not ours, or empty.
    """

    def __init__(self) -> None:
        self.records: dict[str, MoveRecord] = {}
        self.term: int | None = None
        self.problem = NOT_READ
        self.is_dirty = False
        self._version = ""
        self._reading = self._writing = False
        self._is_outdated = False  # the answer under way belongs to an earlier term
        self._is_full = False
        self._not_before = self._next_write = self._next_read = -inf
        self.approval = Approval()

    @property
    def is_leader(self) -> bool:
        """Without a lease, as in `trimtab apply`, the term is negative, and a leader may move other pods at the same time."""
        return self.term is None or self.term >= 0

    def follows(self, record: MoveRecord) -> bool:
        """Whether this process may take the move further: the leader any move, others none of a leader's."""
        return self.is_leader or record.term < 0

    @property
    def is_busy(self) -> bool:
        return self._reading or self._writing

    def why_stopped(self, now: float) -> str:
        if self.term is None:
            return ""
        if self.problem:
            return self.problem
        if now < self._not_before:
            return "another process led until a moment ago"
        if self._is_full:
            return f"the ledger of moves is full: budgets and cool-downs need all of its {len(self.records)} records"
        return ""

    # --- leading

    def lead(self, term: int) -> Sequence[Output]:
        """What was known before may be old. An answer that is still under way is waited for, lest it be taken for another."""
        self.stop()
        self.term, self.problem, self.records = term, NOT_READ, {}
        return self._read()

    def stop(self) -> None:
        """This process does not lead: all that it knows may change without it."""
        self.term, self.approval = None, Approval()
        self.is_dirty, self._is_outdated = False, self.is_busy

    # --- reading

    def _read(self) -> Sequence[Output]:
        if self.is_busy:
            return ()
        self._reading = True
        return (ReadLedger(),)

    def read(self, event: LedgerRead) -> bool:
        """Whether there are records to take over now."""
        if not self._reading:
            return False
        self._reading = False
        if self._outdated(event.at):
            return False
        if event.ledger is None:
            self.problem, self._next_read = event.problem, event.at + RETRY
            return False
        if not self.problem and event.version == self._version:
            return False  # nobody has written since
        self._merge(event.ledger.records, event.at)
        if event.ledger.term != self.term and event.ledger.records and self.is_leader:
            self._not_before = event.at + TAKEOVER_WAIT
        self._version, self.is_dirty, self.problem = event.version, True, NOT_READ
        return True

    def _outdated(self, now: float) -> bool:
        """Whether the answer is one to an earlier term; then the ledger is read at the next tick."""
        found, self._is_outdated = self._is_outdated or self.term is None, False
        if found:
            self._next_read = now
        return found

    def _merge(self, read: Iterable[MoveRecord], now: float) -> None:
        """A time in the future, of a clock that was ahead, becomes now."""
        merged: dict[str, MoveRecord] = {}
        for each in sorted((_until(found, now) for found in read), key=lambda found: found.at):
            if each.uid in merged:
                merged[_key(merged[each.uid])] = merged[each.uid]
            merged[each.uid] = each
        for key, mine in self.records.items():
            theirs = merged.get(key)
            if theirs is None or self._knows_better(mine, theirs):
                merged[key] = mine
            elif not _is_same(mine, theirs) and mine.state is not MoveState.CANCELLED:
                earlier, merged[key] = sorted((mine, theirs), key=lambda each: each.at)
                merged[_key(earlier)] = earlier
        self.records = dict(sorted(merged.items(), key=lambda item: item[1].at))

    def _knows_better(self, mine: MoveRecord, theirs: MoveRecord) -> bool:
        """Of the same attempt: another process may have tried to move the same pod, and its attempt counts, whatever became
        of ours."""
        ended_here = not mine.under_way or theirs.under_way
        return _is_same(mine, theirs) and self.follows(mine) and ended_here

    # --- writing

    def write(self, now: float, settings: ReschedulingSettings) -> Sequence[Output]:
        if self.term is None or self.is_busy or not self.is_dirty or self.problem not in ("", NOT_READ):
            return ()
        self._prune(settings, now)
        self._writing, self.is_dirty, self._next_write = True, False, now + WRITE_INTERVAL
        records = tuple(sorted(self.records.values(), key=lambda each: each.at))
        return (WriteLedger(Ledger(term=self.term, records=records), self._version, self.approval.waiting),)

    def written(self, event: LedgerWritten) -> bool:
        """Whether what was written last is now in the ledger."""
        if not self._writing:
            return False
        self._writing = False
        if self._outdated(event.at):
            return False
        self._version, self.problem = event.version, ""
        return True

    def failed(self, event: LedgerFailed) -> bool:
        """Whether it was a write of this term: somebody else wrote the ledger, or nobody knows whether it was written."""
        if not self._writing:
            return False
        self._writing = False
        if self._outdated(event.at):
            return False
        self.problem = f"{NOT_WRITTEN}: {event.message}"
        self._next_read = event.at + WRITE_INTERVAL
        return True

    def tick(self, now: float, settings: ReschedulingSettings) -> Sequence[Output]:
        """Read it if it is not ours, write what has changed."""
        if self.term is None or self.is_busy:
            return ()
        if self.problem and now >= self._next_read:
            self._next_read = now + RETRY
            return self._read()
        if not self.problem and self.is_leader:
            self.is_dirty |= self.approval.expire(now)
            if self.approval.look_is_due(now):
                return self._read()
        return self.write(now, settings) if now >= self._next_write else ()

    # --- records

    def put(self, record: MoveRecord) -> None:
        self.records[record.uid], self.is_dirty = record, True

    def begin(self, record: MoveRecord) -> None:
        """A further attempt to move a pod; the last one still counts, unless it was cancelled."""
        earlier = self.records.pop(record.uid, None)
        if earlier is not None and earlier.state is not MoveState.CANCELLED:
            self.records[_key(earlier)] = earlier
        self.put(record)

    def _prune(self, settings: ReschedulingSettings, now: float) -> None:
        """What nobody needs goes, the oldest first: after a day, or sooner if the ledger grows too large."""
        self._is_full = False
        if len(self.records) <= MIN_KEPT:
            return
        ordered = sorted(self.records.items(), key=lambda item: item[1].at)
        kept = needed((each for _, each in ordered), settings.budgets, settings.cooldown, now)
        count, size = len(ordered), sum(map(_size, self.records.values()))
        for (key, each), is_needed in zip(ordered, kept, strict=True):
            old = each.at < now - KEPT_SECONDS and count > MIN_KEPT
            if not is_needed and (old or size > MAX_BYTES):
                del self.records[key]
                count, size = count - 1, size - _size(each)
        self._is_full = size > MAX_BYTES


def _key(record: MoveRecord) -> str:
    return f"{record.uid} {record.at}"


def _is_same(one: MoveRecord, other: MoveRecord) -> bool:
    """Whether they are states of one attempt; times alone do not tell, because a clock may have been set in between."""
    if one.attempt or other.attempt:
        return one.attempt == other.attempt
    return abs(one.at - other.at) < 0.001


def _size(record: MoveRecord) -> int:
    return len(msgspec.json.encode(record)) + 1


def _until(record: MoveRecord, now: float) -> MoveRecord:
    at, left, ended = (min(time, now) for time in (record.at, record.left, record.ended))
    return replace(record, at=at, left=left, ended=ended)
