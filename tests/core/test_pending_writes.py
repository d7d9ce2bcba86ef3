"""The tracker of writes under way: answers, back-off, deadlines, owners and copies."""

from __future__ import annotations

import math

from trimtab.core.model.instructions import Bind, LabelNode, Preempt
from trimtab.core.pending_writes import MAX_BACKOFF, PendingWrites, backoff


def test_a_write_is_overdue_from_its_deadline_until_it_ends() -> None:
    """Deadlines of other types and targets do not matter."""
    writes = PendingWrites()
    writes.begin(Bind, "a", 0.0, deadline=10.0)
    writes.begin(Bind, "b", 0.0, deadline=20.0)
    writes.begin(LabelNode, "a", 0.0, deadline=5.0)
    assert [] == writes.overdue(Bind, 9.0)
    assert ["a"] == [call.target for call in writes.overdue(Bind, 10.0)]
    writes.done(Bind, "a", 30.0)
    assert ["b"] == [call.target for call in writes.overdue(Bind, 20.0)]
    assert (1, 1) == (writes.unanswered(Bind), writes.unanswered(LabelNode))
    writes.end(Bind, "b")
    assert (["a"], 0) == (list(writes.of(Bind)), writes.unanswered(Bind))


def test_failures_back_off_and_count_over_repeated_attempts() -> None:
    """1 s, 2 s, 4 s to a minute; at once a minute where permission is missing; a success starts anew."""
    writes = PendingWrites()
    for attempt, wait in enumerate((1.0, 2.0, 4.0), 1):
        call = writes.begin(LabelNode, "a", 0.0)
        assert math.inf == call.deadline
        writes.failed(LabelNode, "a", 100.0)
        assert (attempt, 100.0 + wait) == (writes.of(LabelNode)["a"].failures, writes.of(LabelNode)["a"].deadline)
    writes.failed(LabelNode, "a", 100.0, forbidden="no")
    assert (160.0, "no") == (writes.of(LabelNode)["a"].deadline, writes.of(LabelNode)["a"].error)
    writes.done(LabelNode, "a", 130.0, written_version=7)
    call = writes.of(LabelNode)["a"]
    assert (0, "", 7, 130.0) == (call.failures, call.error, call.written_version, call.deadline)
    assert MAX_BACKOFF == backoff(50)


def test_writes_end_with_their_owner() -> None:
    """A preemptor that goes away waits for no victim; what others own stays."""
    writes = PendingWrites()
    writes.begin(Preempt, "v1", 1.0, owner="p")
    writes.begin(Preempt, "v2", 2.0, owner="p")
    writes.begin(Preempt, "v3", 3.0, owner="q")
    writes.end(Preempt, "v1")
    assert ["v2"] == [call.target for call in writes.owned(Preempt, "p")]
    writes.end_owned(Preempt, "p")
    assert ([], ["v3"]) == (list(writes.owned(Preempt, "p")), list(writes.of(Preempt)))
    writes.end_all(Preempt)
    assert {} == writes.of(Preempt)


def test_a_copy_goes_its_own_way() -> None:
    """Its calls, and its owners' calls, are its own."""
    writes = PendingWrites()
    writes.begin(Preempt, "v", 1.0, owner="p")
    copied = writes.copy()
    copied.done(Preempt, "v", 9.0)
    copied.end_owned(Preempt, "p")
    assert ([False], {}) == ([call.answered for call in writes.owned(Preempt, "p")], copied.of(Preempt))


def test_an_answer_for_nothing_changes_nothing() -> None:
    """Answers can arrive after the call has ended."""
    writes = PendingWrites()
    writes.done(Bind, "a", 1.0)
    writes.failed(Bind, "a", 1.0)
    assert (None, {}) == (writes.end(Bind, "a"), writes.of(Bind))
