"""What a strategy's past moves mean for its next ones: those that keep missing make it ask for more, and then pause it.

    of its last ten graded moves    at least half helped ──▶ as usual
                                    fewer than half ───────▶ the required gain is doubled
                                    fewer than a quarter ──▶ paused for a day since the last of them; then doubled

Only moves count that were worth their cost by what they did to the load: one that had to be made for another reason, such
as maintenance, promised nothing. Everything is derived from the ledger, so a new leader comes to the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trimtab.core.model.duration import DAY, HOUR
from trimtab.core.model.ledger import MoveRecord

STRATEGY_RECORD = "strategy record"  # the guard's name in refusals
COUNTED = 10
RAISED_BELOW, PAUSED_BELOW = 0.5, 0.25  # shares of moves that helped
RAISED_MARGIN = 2.0
PAUSE = DAY


class Standing(NamedTuple):
    """By which factor a strategy's moves must gain more than usual, and why it suggests in vain, if it does."""

    margin: float = 1.0
    paused: str = ""
    graded: int = 0
    helped: int = 0


GOOD_STANDING = Standing()


def standing(records: Iterable[MoveRecord], strategy: str, now: float) -> Standing:
    """Too few grades change nothing."""
    judged = [each for each in records if each.strategy == strategy and each.grades and each.gain > each.cost]
    last = sorted(judged, key=lambda each: each.ended)[-COUNTED:]
    helped = sum(each.grades[-1].helped for each in last)
    if len(last) < COUNTED or helped >= RAISED_BELOW * len(last):
        return Standing(graded=len(last), helped=helped)
    left = last[-1].ended + PAUSE - now
    paused = ""
    if helped < PAUSED_BELOW * len(last) and left > 0:
        kept = f"only {helped} of its last {len(last)} graded moves helped"
        paused = f"{strategy} is paused for another {left / HOUR:.1f} h: {kept}"
    return Standing(RAISED_MARGIN, paused, len(last), helped)
