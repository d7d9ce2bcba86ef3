"""Decides when a node may be asked about again after a wish for it; what is wished for is left to the turn.

    differs ──LabelNode──▶ sent ──LabelDone──▶ awaited ──(the watch shows another version, or 30 s)──▶ looked at again
                             └──LabelFailed──▶ backing off, 1 s to 60 s ─────────────────────────────▶ looked at again

A refusal for want of rights holds for all nodes: nothing is asked for a minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy

from msgspec import Struct

from trimtab.core.model.event import LabelDone, LabelFailed
from trimtab.core.model.node import Node

MOST_UNDER_WAY = 50
SHOWN_WITHIN = 30.0
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 60.0


class Asked(Struct):
    """A wish for one node: at which version, until when it is left alone, and how often it failed in a row."""

    version: int
    until: float = math.inf
    answered: bool = False
    failures: int = 0


class Ledger:
    """What was asked for, by node."""

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self.paused = -math.inf

    @property
    def room(self) -> int:
        """How many more wishes may be under way."""
        return MOST_UNDER_WAY - sum(not asked.answered for asked in self.asked.values())

    def may_ask(self, node: Node, at: float) -> bool:
        asked = self.asked.get(node.name)
        if asked is None or at >= asked.until:
            return True
        return asked.answered and not asked.failures and node.version != asked.version

    def note(self, node: Node) -> None:
        before = self.asked.get(node.name)
        self.asked[node.name] = Asked(node.version, failures=before.failures if before else 0)

    def forget(self, differs: Callable[[str], bool]) -> None:
        """What was asked for and can be seen now needs no more patience."""
        settled = [name for name, asked in self.asked.items() if asked.answered and not differs(name)]
        for name in settled:
            del self.asked[name]

    def done(self, event: LabelDone) -> None:
        if (asked := self.asked.get(event.node)) is not None:
            asked.answered, asked.failures, asked.until = True, 0, event.at + SHOWN_WITHIN

    def failed(self, event: LabelFailed) -> None:
        if event.forbidden:
            self.paused = event.at + LONGEST_BACKOFF
        if (asked := self.asked.get(event.node)) is not None:
            asked.answered, asked.failures = True, asked.failures + 1
            asked.until = event.at + min(FIRST_BACKOFF * 2.0 ** (asked.failures - 1), LONGEST_BACKOFF)

    def copy(self) -> Ledger:
        twin = Ledger()
        twin.asked, twin.paused = {name: copy(asked) for name, asked in self.asked.items()}, self.paused
        return twin
