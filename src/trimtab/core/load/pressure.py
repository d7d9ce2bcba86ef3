"""Whether each node is pressed by one rule, as columns; what is measured, and what a pressed node is given, is others'.

              beyond the threshold            for `hold` seconds (0: at once)
    CALM ────────────────────────────▶ RISING ───────────────────────────────▶ PRESSED ◀─────┐
     ▲ ◀────────────────────────────     │                                        │          │ not within it
     │        not beyond it any more                                  within `clear`          │ any more
     │                                                                            ▼          │
     └──────────────────────── for `clear_for` seconds ────────────────────── FALLING ───────┘

PRESSED and FALLING are shown on the node. Where nothing can be believed, the state stays as it is and time does not
count, for or against; after `expire` seconds of that every state is CALM. A node that is found marked, by whoever was here
before, starts as PRESSED: what it really uses takes the mark off, or its expiry does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.array_table import Bools, Floats
from trimtab.core.load.pressure_rules import Direction, Rule

CALM, RISING, PRESSED, FALLING = range(4)
WORDS = ("calm", "rising", "pressed", "falling")
NEW = -1  # in an order of rows: nobody stood there before


class Pressure:
    """One rule on all nodes: state, since when, when it was last measured, what, and whose mark is still to be looked at."""

    def __init__(self, rule: Rule, count: int = 0, at: float = 0.0) -> None:
        self.rule = rule
        self.state: NDArray[np.int8] = np.full(count, CALM, dtype=np.int8)
        self.since: Floats = np.full(count, at)
        self.heard: Floats = np.full(count, at)
        self.values: Floats = np.full(count, np.nan)
        self.fresh: Bools = np.ones(count, dtype=np.bool_)
        self._at = at if count else np.inf  # no time has passed for nobody

    @property
    def shown(self) -> Bools:
        """Nodes that are to be seen as pressed."""
        return self.state >= PRESSED

    def reorder(self, order: NDArray[np.intp], at: float) -> None:
        """Row by row, where each node stood before; a new one is calm, and its patience begins."""
        old, stays = order[order != NEW], order != NEW
        new = Pressure(self.rule, len(order), at)
        for name in ("state", "since", "heard", "values", "fresh"):
            column = getattr(new, name)
            column[stays] = getattr(self, name)[old]
            setattr(self, name, column)

    def adopt(self, marked: Bools, at: float) -> None:
        """Fresh nodes that carry our mark already are pressed until their use says otherwise."""
        self._turn(marked & self.fresh & ~self.shown, PRESSED, at)
        self.fresh[:] = False

    def look(self, values: Floats, at: float, expire: float) -> None:
        """One look at the meter of each node, NaN where it cannot be believed."""
        known, (beyond, within) = ~np.isnan(values), self._compared(values)
        self.heard[known] = at
        state = self.state
        self.since[~known & ((state == RISING) | (state == FALLING))] += max(at - self._at, 0.0)
        self._turn((state == CALM) & beyond, RISING, at)
        self._turn((state == RISING) & known & ~beyond, CALM, at)
        self._turn((state == PRESSED) & within, FALLING, at)
        self._turn((state == FALLING) & known & ~within, PRESSED, at)
        self._turn((state == RISING) & beyond & (at - self.since >= self.rule.hold), PRESSED, at)
        self._turn((state == FALLING) & within & (at - self.since >= self.rule.clear_for), CALM, at)
        self._turn((state != CALM) & ~known & (at - self.heard >= expire), CALM, at)
        self.values, self._at = values.copy(), at

    def _compared(self, values: Floats) -> tuple[Bools, Bools]:
        """Beyond the threshold, and within what clears; NaN is neither."""
        rule = self.rule
        with np.errstate(invalid="ignore"):
            if rule.direction is Direction.ABOVE:
                return values > rule.threshold, values <= rule.clear
            return values < rule.threshold, values >= rule.clear

    def _turn(self, rows: Bools, state: int, at: float) -> None:
        self.state[rows] = state
        self.since[rows] = at

    def copy(self) -> Pressure:
        twin = Pressure(self.rule)
        twin.__dict__.update({name: _copied(value) for name, value in self.__dict__.items()})
        return twin


def _copied(value: object) -> object:
    return value.copy() if isinstance(value, np.ndarray) else value
