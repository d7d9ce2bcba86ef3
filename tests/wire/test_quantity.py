"""Quantities are parsed as the API server parses them, but exactly: a table of what it accepts and rejects."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.resources import MAX_AMOUNT, amounts
from trimtab.wire.quantity import QuantityError, nanos

UNIT = 10**9
TOP = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "units"),
    [
        *((text, 1000) for text in ("1e3", "1E3", "1e+3", "1e0003", "1k")),
        ("1E", 10**18),
        ("100m", Fraction(1, 10)),
        ("0.1m", Fraction(1, 10**4)),
        *((text, Fraction(1, UNIT)) for text in ("1n", "1e-9")),
        ("0.1n", Fraction(1, UNIT)),
        ("1.5Gi", 1610612736),
        ("0.1Gi", Fraction(2**30, 10)),
        *((text, 1) for text in ("1", "+1", "1.", "1000m", "1000000u")),
        (".5", Fraction(1, 2)),
        ("1.G", 10**9),
        ("00012", 12),
        *((text, 0) for text in (".", "0", "-0", "0Ki", None)),
        ("7Ei", 7 * 2**60),
        *((text, TOP) for text in ("8Ei", "9Ei", "100Ei")),
        ("12E", 12 * 10**18),
        ("1e19", 10**19),
        ("1e100", 10**100),
        ("10e99", 10**100),
        ("9223372036854775808", 2**63),
        ("9" * 32, 10**32 - 1),
        (1, 1),
        (1.5, Fraction(3, 2)),
        (1e100, 10**100),
    ],
)
def test_the_value_is_exact(text: str | float | None, units: int | Fraction) -> None:
    """A quantity the server accepts has its exact value, rounded up to a billionth; binary suffixes stop at 2^63-1."""
    assert units * UNIT == nanos(text)


@pytest.mark.parametrize(
    "text",
    [
        *("1K", "1ki", "1KI", "1g", "1i", "1mi", "1Zi", "1e3Mi", "1e3.5", "0x10", "1,000", "--1", "½"),
        *("1_000", "１２", "٣", "NaN", "Infinity", "nan", "inf"),
        *(" 1", "1 ", "\t1", "1\n", "", "+", "-", "Ki", "1e", "1e+", "1.2.3"),
        *("-1", "-100m", "-0.1n", "-1Gi", "9" * 600),
        *(True, False, -1, -0.5, float("nan"), float("inf")),
    ],
)
def test_what_is_no_quantity_is_refused(text: str | float) -> None:
    """What the server refuses is refused, and so is what is below zero."""
    with pytest.raises(QuantityError, match="not a quantity"):
        nanos(text)


@pytest.mark.parametrize("text", ["1e2147483648", "1e-2147483648", "1e1000", "1E99999999999999999999"])
def test_long_exponents_are_refused_before_any_arithmetic(text: str) -> None:
    """An exponent of more than three digits is refused unread: computing it would not end."""
    with pytest.raises(QuantityError, match="exponent of more than 3 digits"):
        nanos(text)


def test_the_refusal_names_the_text() -> None:
    """Whoever reads the error sees which text was meant."""
    with pytest.raises(QuantityError, match="'12 cores'"):
        nanos("12 cores")


@pytest.mark.parametrize("text", ["7Ei", "8Ei", "12E", "1e19", "1e100", "9" * 32])
def test_absurd_wishes_stay_absurd(text: str) -> None:
    """What overflows elsewhere, and is then bound to a small node, stands at the cap here."""
    assert (("cpu", MAX_AMOUNT),) == amounts({"cpu": nanos(text)})


DIGITS = st.text("0123456789", min_size=1, max_size=40)
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
DECIMALS = {suffix: Fraction(10) ** power for suffix, power in DECIMAL.items()}
EXPONENTS = {f"{letter}{power:+d}": Fraction(10) ** power for letter in "eE" for power in (-999, -30, -1, 0, 7, 99)}
FACTORS: dict[str, int | Fraction] = {**BINARY, **DECIMALS, **EXPONENTS}


@given(st.sampled_from(["", "+"]), DIGITS, st.none() | DIGITS, st.sampled_from(sorted(FACTORS)))
def test_any_valid_quantity_is_the_fraction_it_spells(sign: str, whole: str, part: str | None, suffix: str) -> None:
    """For every sign, digits and suffix the value is that of fraction arithmetic, rounded up to a billionth."""
    written = Fraction(int(whole + (part or "")), 10 ** len(part or "")) * FACTORS[suffix] * UNIT
    top = TOP * UNIT if suffix in BINARY else None
    rounded = -(-written.numerator // written.denominator)
    expected = rounded if top is None else min(rounded, top)
    assert expected == nanos(f"{sign}{whole}{'' if part is None else '.' + part}{suffix}")


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    """No text does anything but yield a number that is not below zero, or a QuantityError."""
    try:
        assert 0 <= nanos(text)
    except QuantityError as refusal:
        assert str(refusal)
