"""Decides what a threshold of a rule comes to: a percentage, an amount of memory or a plain number; compares nothing."""

from __future__ import annotations

import re
from enum import StrEnum

from trimtab.config.spot import Spot
from trimtab.config.tree import Leaf
from trimtab.core.model.resources import NANOS
from trimtab.wire.quantity import QuantityError, nanos

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%")


class Scale(StrEnum):
    """How a threshold is written."""

    PERCENT = "a percentage such as 80%"
    QUANTITY = "an amount such as 2Gi"
    NUMBER = "a number"


PERCENT, QUANTITY, NUMBER = Scale.PERCENT, Scale.QUANTITY, Scale.NUMBER


def threshold(spot: Spot, scales: tuple[Scale, ...]) -> tuple[Scale, float] | None:
    """Which of these it is, and its value (a percentage as a share of one); None after a problem."""
    if scales == (NUMBER,):
        value = spot.number()
        return None if value is None else (NUMBER, value)
    text = str(spot.tree.value) if isinstance(spot.tree, Leaf) and not isinstance(spot.tree.value, bool) else ""
    if PERCENT in scales and (found := _PERCENT.fullmatch(text)):
        return _share(spot, float(found[1]))
    if QUANTITY in scales and (amount := _amount(text)) is not None:
        return QUANTITY, amount
    spot.refuse(f"{text[:40]!r} is not {' or '.join(scales)}")
    return None


def _share(spot: Spot, percent: float) -> tuple[Scale, float] | None:
    if not 0 < percent <= 100:
        spot.refuse(f"{percent:g}% is not above 0% and at most 100%")
        return None
    return PERCENT, percent / 100


def _amount(text: str) -> float | None:
    try:
        amount = nanos(text) / NANOS if text else 0.0
    except QuantityError:
        return None
    return amount if amount > 0 else None


def written(value: float, scale: Scale) -> object:
    """The threshold as a file would have it."""
    match scale:
        case Scale.PERCENT:
            return f"{round(value * 100, 6):g}%"
        case Scale.QUANTITY:
            return str(round(value))
    return value
