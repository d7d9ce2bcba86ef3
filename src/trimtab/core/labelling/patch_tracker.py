"""Tracks the label and taint patches of nodes: when a node may be patched again.

    differs ──LabelNode──▶ sent ──LabelDone──▶ answered ──(the watch shows what we wrote, or 30 s)──▶ compared again
                             └──LabelFailed──▶ backing off, 1 s to 60 s ─────────────────────────────▶ compared again

A patch that has to be repeated because another client reverted it is repeated at once the first time, then after 1 s to
60 s. A refusal for lack of permission pauses its node for a minute, and all nodes if no patch succeeded within a minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from copy import copy

from msgspec import Struct

from trimtab.core.model.events import LabelDone, LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.core.pending_writes import MAX_BACKOFF, PendingWrites, backoff

MAX_IN_FLIGHT = 50
SHOWN_WITHIN = 30.0
REMEMBERED = 600.0  # how long a patch that has to be repeated counts as reverted by others


class RepeatedPatch(Struct):
    """The last patch of a node, how often it was repeated since another client reverted it, and until when that can wait."""

    change: Hashable
    times: int = 0
    done: bool = False
    backoff_until: float = -math.inf
    done_at: float = -math.inf


class PatchTracker:
    """Patches by node, on top of the engine's pending writes."""

    def __init__(self, writes: PendingWrites) -> None:
        self.writes = writes
        self.repeats: dict[str, RepeatedPatch] = {}
        self.paused_until = self.last_success = -math.inf

    @property
    def free_slots(self) -> int:
        """How many more patches may be in flight."""
        return MAX_IN_FLIGHT - self.writes.unanswered(LabelNode)

    @property
    def forbidden(self) -> str:
        """The server's message when no patch can be written; empty if one succeeded of late, or none was refused."""
        if self.paused_until == -math.inf:
            return ""
        return next((call.error for call in self.writes.of(LabelNode).values() if call.error), "")

    def may_patch(self, node: Node, now: float) -> bool:
        call, repeat = self.writes.get(LabelNode, node.name), self.repeats.get(node.name)
        if repeat is not None and now < repeat.backoff_until:
            return False
        if call is None or now >= call.deadline:
            return True
        shown = node.version >= call.written_version if call.written_version else node.version != call.version
        return call.answered and not call.failures and shown

    def sent(self, node: Node, change: Hashable, now: float) -> int:
        """How often this very change was reverted by others and is repeated."""
        self.writes.begin(LabelNode, node.name, now, version=node.version)
        repeat = self.repeats.get(node.name)
        if repeat is None or repeat.change != change:
            repeat = self.repeats[node.name] = RepeatedPatch(change)
        elif repeat.done:
            repeat.times, repeat.done = repeat.times + 1, False
        return repeat.times

    def forget_settled(self, differs: Callable[[str], bool], now: float) -> None:
        """Forget the writes that the watch shows by now, and the repeats that were not reverted for long."""
        writes = self.writes.of(LabelNode)
        for name in [name for name, call in writes.items() if call.answered and not differs(name)]:
            self.writes.end(LabelNode, name)
        old = [name for name, each in self.repeats.items() if name not in writes and now - each.done_at > REMEMBERED]
        for name in old:
            del self.repeats[name]

    def done(self, event: LabelDone) -> None:
        self.last_success, self.paused_until = event.at, -math.inf
        self.writes.done(LabelNode, event.node, event.at + SHOWN_WITHIN, event.version)
        if (repeat := self.repeats.get(event.node)) is not None:
            repeat.done, repeat.done_at = True, event.at
            repeat.backoff_until = event.at + backoff(repeat.times) if repeat.times else -math.inf

    def failed(self, event: LabelFailed) -> None:
        if event.forbidden and event.at - self.last_success > MAX_BACKOFF:
            self.paused_until = event.at + MAX_BACKOFF
        forbidden = (event.message or "no reason given") if event.forbidden else ""
        self.writes.failed(LabelNode, event.node, event.at, forbidden=forbidden)

    def copy(self, writes: PendingWrites) -> PatchTracker:
        copied = PatchTracker(writes)
        copied.repeats = {name: copy(repeat) for name, repeat in self.repeats.items()}
        copied.paused_until, copied.last_success = self.paused_until, self.last_success
        return copied
