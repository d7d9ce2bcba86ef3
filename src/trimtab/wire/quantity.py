"""Parses Kubernetes quantities into exact billionths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from trimtab.core.model.resources import NANOS

# Longer exponents would make absurd numbers that take for ever to compute.
EXPONENT_DIGITS = 3
MAX_LENGTH = 512

# The API server caps quantities with a binary suffix here, and only those.
MAX_BINARY = ((1 << 63) - 1) * NANOS

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?)0*([0-9]+)|([KMGTPE]i|[numkMGTPE]?))")


class QuantityError(ValueError):
    """Not a quantity, or a negative one."""


def nanos(text: str | int | float | None) -> int:
    """Billionths, rounded up; None counts as zero, as in Kubernetes."""
    if type(text) is str:
        return _parsed(text)
    if text is None:
        return 0
    if isinstance(text, bool):
        raise QuantityError(f"{text!r} is not a quantity")
    if isinstance(text, int):
        return _not_negative(text, text) * NANOS
    return _parsed(repr(text))


def all_nanos(quantities: Mapping[str, str | int | float | None]) -> dict[str, int]:
    """The same for all of them, without a call for each text that was seen lately."""
    return {name: _parsed(text) if type(text) is str else nanos(text) for name, text in quantities.items()}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> int:
    match = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise QuantityError(f"{text[:40]!r} is not a quantity")
    sign, whole, fraction, exponent_sign, exponent, suffix = match.groups()
    if not (whole or fraction or text == "."):  # the API server takes a lone dot for zero
        raise QuantityError(f"{text!r} has no digits and is not a quantity")
    mantissa = int(f"{sign}{whole}{fraction}" or "0")
    amount = _not_negative(mantissa, text) * NANOS
    if suffix in _BINARY:
        return min(_divide_up(amount << _BINARY[suffix], len(fraction)), MAX_BINARY)
    power = _DECIMAL[suffix] if exponent is None else _power(exponent_sign, exponent, text)
    return _divide_up(amount, len(fraction) - power)


def _power(sign: str, digits: str, text: str) -> int:
    if len(digits) > EXPONENT_DIGITS:
        raise QuantityError(
            f"{text[:40]!r} has an exponent of more than {EXPONENT_DIGITS} digits and is not a quantity"
        )
    return int(sign + digits)


def _divide_up(value: int, places: int) -> int:
    """The value divided by ten to the power of `places`, rounded up."""
    power: int = 10 ** abs(places)
    return -(-value // power) if places > 0 else value * power


def _not_negative(value: int, text: object) -> int:
    if value < 0:
        raise QuantityError(f"{text!r} is below zero and not a quantity")
    return value
