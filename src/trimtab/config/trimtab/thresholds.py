"""Decides what a threshold of a rule comes to: a percentage, an amount of memory or a plain number; compares nothing."""

from __future__ import annotations

import re
from enum import StrEnum

from trimtab.config.config_node import ConfigNode
from trimtab.config.tree import ScalarNode
from trimtab.core.model.resources import NANOS
from trimtab.wire.quantity import QuantityError, nanos

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%")


class Notation(StrEnum):
    """How a threshold is written."""

    PERCENT = "a percentage such as 80%"
    QUANTITY = "an amount such as 2Gi"
    NUMBER = "a number"


PERCENT, QUANTITY, NUMBER = Notation.PERCENT, Notation.QUANTITY, Notation.NUMBER


def parse_threshold(node: ConfigNode, scales: tuple[Notation, ...]) -> tuple[Notation, float] | None:
    """Which of these it is, and its value (a percentage as a share of one); None after a problem."""
    if scales == (NUMBER,):
        value = node.number()
        return None if value is None else (NUMBER, value)
    text = str(node.yaml.value) if isinstance(node.yaml, ScalarNode) and not isinstance(node.yaml.value, bool) else ""
    if PERCENT in scales and (found := _PERCENT.fullmatch(text)):
        return _parse_percent(node, float(found[1]))
    if QUANTITY in scales and (amount := _parse_amount(text)) is not None:
        return QUANTITY, amount
    node.error(f"{text[:40]!r} is not {' or '.join(scales)}")
    return None


def _parse_percent(node: ConfigNode, percent: float) -> tuple[Notation, float] | None:
    if not 0 < percent <= 100:
        node.error(f"{percent:g}% is not above 0% and at most 100%")
        return None
    return PERCENT, percent / 100


def _parse_amount(text: str) -> float | None:
    try:
        amount = nanos(text) / NANOS if text else 0.0
    except QuantityError:
        return None
    return amount if amount > 0 else None


def dump_threshold(value: float, scale: Notation) -> object:
    """The threshold as a file would have it."""
    match scale:
        case Notation.PERCENT:
            return f"{round(value * 100, 6):g}%"
        case Notation.QUANTITY:
            return str(round(value))
    return value
