"""Selectors as text: all forms that `kubectl get -l` takes, and what is none."""

from __future__ import annotations

import pytest

from trimtab.core.model.selectors import LabelSelector, Requirement, parse_selector

BOTH = LabelSelector((("tier", "critical"), ("tenant.io/protected", "true")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tier=critical,tenant.io/protected=true", BOTH),
        (" tier == critical , tenant.io/protected = true ", BOTH),
        ("a=", LabelSelector((("a", ""),))),
        ("a!=b", LabelSelector((), (Requirement("a", "NotIn", ("b",)),))),
        ("a in (b, c),d", LabelSelector((), (Requirement("a", "In", ("b", "c")), Requirement("d", "Exists")))),
        (
            "a notin (b),!c",
            LabelSelector((), (Requirement("a", "NotIn", ("b",)), Requirement("c", "DoesNotExist"))),
        ),
        ("a=b,a=c", LabelSelector((("a", "b"),), (Requirement("a", "In", ("c",)),))),
        ("in=notin", LabelSelector((("in", "notin"),))),
    ],
)
def test_valid(text: str, expected: LabelSelector) -> None:
    """Each part becomes a label or a requirement; all of them must match."""
    assert expected == parse_selector(text)


@pytest.mark.parametrize(
    "text", ["", " ", ",", "a=b,", "a b", "a=b c=d", "=b", "a=b=c", "a in b", "a in (b", "!", "a=-b-", "-=b", "a>1"]
)
def test_invalid(text: str) -> None:
    """Nothing is guessed; an empty text selects nothing."""
    assert parse_selector(text) is None


def test_all_parts_must_match() -> None:
    """As for kubectl: a comma is an and."""
    assert BOTH.matches({"tier": "critical", "tenant.io/protected": "true", "app": "db"})
    assert not BOTH.matches({"tier": "critical"})
