"""Decides when a node may be asked about again after a wish for it; what is wished for is left to `marking`.

    differs ──LabelNode──▶ sent ──LabelDone──▶ awaited ──(the watch shows what we wrote, or 30 s)──▶ looked at again
                             └──LabelFailed──▶ backing off, 1 s to 60 s ──────────────────────────▶ looked at again

Who has to wish for the very same again, because somebody undid it, is in no hurry: at once the first time, then 1 s to 60 s.
A refusal for want of rights puts its node off for a minute, and all nodes where nothing was granted within the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from copy import copy

from msgspec import Struct

from trimtab.core.model.event import LabelDone, LabelFailed
from trimtab.core.model.node import Node

MOST_UNDER_WAY = 50
SHOWN_WITHIN = 30.0
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0
REMEMBERED = 600.0  # how long it counts as undone by others what has to be wished for again


class Asked(Struct):
    """A wish for one node: at which version, until when it is left alone, how often it failed in a row, which version it
    made of the node, 0 where nobody said, and the server's words where it was last refused for want of rights."""

    version: int
    until: float = math.inf
    answered: bool = False
    failures: int = 0
    made: int = 0
    refused: str = ""


class Repeat(Struct):
    """What was last wished for a node, how often again since somebody undid it, and until when that can wait."""

    change: Hashable
    times: int = 0
    done: bool = False
    until: float = -math.inf
    at: float = -math.inf


class Ledger:
    """What was asked for, by node."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self.repeats: dict[str, Repeat] = {}
        self.paused = self.granted = -math.inf

    @property
    def room(self) -> int:
        """How many more wishes may be under way."""
        return MOST_UNDER_WAY - sum(not asked.answered for asked in self.asked.values())

    @property
    def refused(self) -> str:
        """Why no mark that is wanted can be written; empty where one was granted of late, or none was refused."""
        if self.paused == -math.inf:
            return ""
        return next((asked.refused for asked in self.asked.values() if asked.refused), "")

    def may_ask(self, node: Node, at: float) -> bool:
        asked, repeat = self.asked.get(node.name), self.repeats.get(node.name)
        if repeat is not None and at < repeat.until:
            return False
        if asked is None or at >= asked.until:
            return True
        shown = node.version >= asked.made if asked.made else node.version != asked.version
        return asked.answered and not asked.failures and shown

    def note(self, node: Node, change: Hashable) -> int:
        """How often this very change was undone by others and is wished for again."""
        before, repeat = self.asked.get(node.name), self.repeats.get(node.name)
        failures, refused = (before.failures, before.refused) if before else (0, "")
        self.asked[node.name] = Asked(node.version, failures=failures, refused=refused)
        if repeat is None or repeat.change != change:
            repeat = self.repeats[node.name] = Repeat(change)
        elif repeat.done:
            repeat.times, repeat.done = repeat.times + 1, False
        return repeat.times

    def forget(self, differs: Callable[[str], bool], at: float) -> None:
        """What was asked for and can be seen now needs no more patience; what nobody undid for long, no memory."""
        settled = [name for name, asked in self.asked.items() if asked.answered and not differs(name)]
        for name in settled:
            del self.asked[name]
        old = [name for name, each in self.repeats.items() if name not in self.asked and at - each.at > REMEMBERED]
        for name in old:
            del self.repeats[name]

    def done(self, event: LabelDone) -> None:
        self.granted, self.paused = event.at, -math.inf
        if (asked := self.asked.get(event.node)) is not None:
            asked.answered, asked.failures, asked.until = True, 0, event.at + SHOWN_WITHIN
            asked.made, asked.refused = event.version, ""
        if (repeat := self.repeats.get(event.node)) is not None:
            repeat.done, repeat.at = True, event.at
            repeat.until = event.at + _backoff(repeat.times) if repeat.times else -math.inf

    def failed(self, event: LabelFailed) -> None:
        if event.forbidden and event.at - self.granted > LONGEST_BACKOFF:
            self.paused = event.at + LONGEST_BACKOFF
        if (asked := self.asked.get(event.node)) is not None:
            asked.answered, asked.failures = True, asked.failures + 1
            asked.refused = (event.message or "without a word") if event.forbidden else ""
            asked.until = event.at + (LONGEST_BACKOFF if event.forbidden else _backoff(asked.failures))

    def copy(self) -> Ledger:
        twin = Ledger()
        twin.asked = {name: copy(asked) for name, asked in self.asked.items()}
        twin.repeats = {name: copy(repeat) for name, repeat in self.repeats.items()}
        twin.paused, twin.granted = self.paused, self.granted
        return twin


def _backoff(times: int) -> float:
    return float(min(FIRST_BACKOFF * 2.0 ** (min(times, 10) - 1), LONGEST_BACKOFF))
