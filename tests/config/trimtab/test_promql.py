"""Which queries are rejected by their form, and how placeholders are substituted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.config.trimtab.promql import placeholders, substitute, tokens, validate_query

GOOD = [
    "up",
    'rate(x{mode="idle"}[$window])',
    'label_replace(x, "node", "$1", "instance", "(.*):.*")',
    'x{name=~"a$"}',
    "x{name='it\\'s }'}",
    'x{name=`"(`}',
    'x # an unclosed " in a comment\n+ 1',
    "x{}",
    '{"metric.name", node!=""}',
    "sum by (node) (\n  x\n)",
    "a %s",
    "a%d + (b %v)",
    'time() % 60 < 30 and x{node="a"}',
    'x{path="/100%", share=~"5%.*|%20|%%"}',
    'x{path="/%d0%bf"}',
    'x # of "%s"',
]


@pytest.mark.parametrize("query", GOOD)
def test_good_form(query: str) -> None:
    """Usual queries are valid, whatever their quotes and comments contain."""
    assert validate_query(query) is None


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("", "is empty: write a PromQL expression"),
        (" \n", "is empty"),
        ("x" * 10_001, "is longer than 10000 characters"),
        ("x\x00", "has the character U+0000"),
        ("x\u202e", "has the character U+202E"),
        ('x{a="b}', 'has an unclosed quote "'),
        ("x{a='b}", "has an unclosed quote '"),
        ("x{a=`b}", "has an unclosed quote `"),
        ('x{a="b\n"}', 'has an unclosed quote "'),
        ('x{a="b\\"}', 'has an unclosed quote "'),
        ("rate(x[5m)", "has an unexpected )"),
        ("x)", "has an unexpected )"),
        ("(x", "lacks a )"),
        ("x[5m", "lacks a ]"),
        ("rate(x[$span])", "has the unknown placeholder '$span': only $window and $interval are substituted"),
        ("x{node=~'$node'}", "has the unknown placeholder '$node'"),
        ("x{node='${node}'}", "has the unknown placeholder '${node}'"),
        ("rate(x[${window}])", "has the unknown placeholder '${window}'"),
        ("rate(x[{window}])", "has the unknown placeholder '{window}'"),
        ('x{node="{{ .Node }}"}', "has the unknown placeholder '{{ .Node }}'"),
        ("x{{node}}", "has the unknown placeholder"),
        ('x{node="%s"}', "has the unknown placeholder '%s': only $window and $interval are substituted"),
        ('x{instance=~"%v:.*"}', "has the unknown placeholder '%v'"),
        ("x{instance='%d'} % 2", "has the unknown placeholder '%d'"),
        ("x{node=`a-%q`}", "has the unknown placeholder '%q'"),
        ('{"%s", node="{{ x }}"}', "has the unknown placeholder '%s'"),
        ("x + $", "has the unknown placeholder '$'"),
    ],
)
def test_bad_form(query: str, fault: str) -> None:
    """Malformed queries and unknown placeholders are rejected."""
    assert (validate_query(query) or "").startswith(fault)


def test_filled() -> None:
    """Durations are substituted as PromQL writes them, outside of quotes and comments only."""
    query = "rate(x[$window]) + y offset $interval # $window"
    assert "rate(x[300s]) + y offset 1500ms # $window" == substitute(query, {"window": 300.0, "interval": 1.5})
    assert {"window", "interval"} == placeholders(query)


@given(st.text(alphabet="axs0{}()[]\"'`\\#$%\n _", max_size=30))
@settings(max_examples=300, deadline=None)
def test_nothing_is_lost(query: str) -> None:
    """The tokens of any text join to the text, and placeholders of a valid query can be substituted."""
    assert query == "".join(piece.text for piece in tokens(query))
    if validate_query(query) is None:
        substitute(query, {"window": 1.0, "interval": 1.0})
