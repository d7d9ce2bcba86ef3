"""The pressure state machine of one rule, for all nodes at once.

             beyond the threshold          for `for_seconds` (0: at once)
    CALM ────────────────────────▶ RISING ──────────────────────────────▶ UNDER_PRESSURE ◀───┐
     ▲ ◀────────────────────────     │                                          │            │ not within `clear`
     │     not beyond it any more                                        within `clear`      │ any more
     │                                                                          ▼            │
     └───────────────────── for `clear_for_seconds` ─────────────────────── FALLING ─────────┘

UNDER_PRESSURE and FALLING are visible on the node. Without a trusted value the state stays as it is and time does not
count, for or against; after `expire` seconds of that every state is CALM. A node that already carries the label starts as
UNDER_PRESSURE: its measured use removes the label, or its expiry does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.pressure_rules import Direction, Rule
from trimtab.core.tables import Bools, Floats

CALM, RISING, UNDER_PRESSURE, FALLING = range(4)
STATE_NAMES = ("calm", "rising", "pressed", "falling")
NEW_ROW = -1  # in an order of rows: a node that was not there before


class Pressure:
    """One rule on all nodes: its state, since when, the last sample and its time, and whether existing labels were read."""

    def __init__(self, rule: Rule, count: int = 0, now: float = 0.0) -> None:
        self.rule = rule
        self.state: NDArray[np.int8] = np.full(count, CALM, dtype=np.int8)
        self.since: Floats = np.full(count, now)
        self.last_sample: Floats = np.full(count, now)
        self.values: Floats = np.full(count, np.nan)
        self.unseen: Bools = np.ones(count, dtype=np.bool_)
        self._updated_at = now if count else np.inf  # without nodes no time has passed

    @property
    def visible(self) -> Bools:
        """Nodes that should carry the label."""
        return self.state >= UNDER_PRESSURE

    def reorder(self, order: NDArray[np.intp], now: float) -> None:
        """Take over the row order of the cluster: for each row, the row before; a new node is calm."""
        old, stays = order[order != NEW_ROW], order != NEW_ROW
        new = Pressure(self.rule, len(order), now)
        for name in ("state", "since", "last_sample", "values", "unseen"):
            column = getattr(new, name)
            column[stays] = getattr(self, name)[old]
            setattr(self, name, column)

    def inherit_labels(self, labelled: Bools, now: float) -> None:
        """Nodes seen for the first time that carry our label are under pressure until their use says otherwise."""
        self._enter(labelled & self.unseen & ~self.visible, UNDER_PRESSURE, now)
        self.unseen[:] = False

    def update(self, values: Floats, now: float, expire: float) -> None:
        """Advance every node by its current value, NaN where there is no trusted one."""
        known, (beyond, within) = ~np.isnan(values), self._compare(values)
        self.last_sample[known] = now
        state = self.state
        self.since[~known & ((state == RISING) | (state == FALLING))] += max(now - self._updated_at, 0.0)
        self._enter((state == CALM) & beyond, RISING, now)
        self._enter((state == RISING) & known & ~beyond, CALM, now)
        self._enter((state == UNDER_PRESSURE) & within, FALLING, now)
        self._enter((state == FALLING) & known & ~within, UNDER_PRESSURE, now)
        self._enter((state == RISING) & beyond & (now - self.since >= self.rule.for_seconds), UNDER_PRESSURE, now)
        self._enter((state == FALLING) & within & (now - self.since >= self.rule.clear_for_seconds), CALM, now)
        self._enter((state != CALM) & ~known & (now - self.last_sample >= expire), CALM, now)
        self.values, self._updated_at = values.copy(), now

    def _compare(self, values: Floats) -> tuple[Bools, Bools]:
        """Beyond the threshold, and within `clear`; NaN is neither."""
        rule = self.rule
        with np.errstate(invalid="ignore"):
            if rule.direction is Direction.ABOVE:
                return values > rule.threshold, values <= rule.clear
            return values < rule.threshold, values >= rule.clear

    def _enter(self, rows: Bools, state: int, now: float) -> None:
        self.state[rows] = state
        self.since[rows] = now

    def copy(self) -> Pressure:
        copied = Pressure(self.rule)
        copied.__dict__.update({name: _copy(value) for name, value in self.__dict__.items()})
        return copied


def _copy(value: object) -> object:
    return value.copy() if isinstance(value, np.ndarray) else value
