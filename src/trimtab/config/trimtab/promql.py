"""Checks the form of a user's PromQL, and substitutes its placeholders.

A query is run once for all nodes or pods, so there is no placeholder for a node. `$window` and `$interval` are durations,
and are substituted outside of quotes only; inside quotes `$1` is Prometheus' own, as in `label_replace`. Outside of quotes
`%` is the modulo operator; inside, `%s` and the like are placeholders of other programs for a node's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_LENGTH = 10_000
PLACEHOLDERS = ("window", "interval")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{?[A-Za-z_]\w*\}?|%[svq]|%d(?![0-9a-f])", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`]*`)
  | (?P<open>["'`])
  | (?P<template>\{\{.*?\}\}|\{\s*[A-Za-z_]\w*\s*\}|\$\{\w*\}|\$\w*)
  | (?P<bracket>[()\[\]{}])
  | (?P<other>[^"'`\#$()\[\]{}]+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token of a query."""

    kind: str
    text: str


def tokens(query: str) -> Iterator[Token]:
    """The tokens of a query; joined, they are the query."""
    for found in _TOKEN.finditer(query):
        yield Token(found.lastgroup or "", found.group())


def validate_query(query: str) -> str | None:
    """What is wrong with a query, as the rest of a sentence with the remedy."""
    if not query.strip():
        return "is empty: write a PromQL expression"
    if len(query) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters: make it a recording rule and query that"
    if strange := [each for each in query if not (each.isprintable() or each in "\n\t")]:
        return f"has the character U+{ord(strange[0]):04X}, which is not allowed in a query"
    return _validate_syntax(query)


def query_error(query: str) -> str | None:
    """The same as a whole sentence, which begins with the query."""
    error = validate_query(query)
    return None if error is None else f"{query.strip()[:40]!r} {error}"


def _validate_syntax(query: str) -> str | None:
    awaited: list[str] = []
    for kind, text in tokens(query):
        if kind == "open":
            return f"has an unclosed quote {text}"
        if kind == "text" and (strange := _TEMPLATE.search(text)):
            return _unknown(strange.group())
        if kind == "template" and text.removeprefix("$") not in PLACEHOLDERS:
            return _unknown(text)
        if kind == "bracket" and text in _CLOSES:
            awaited.append(_CLOSES[text])
        elif kind == "bracket" and (not awaited or awaited.pop() != text):
            return f"has an unexpected {text}"
    return f"lacks a {awaited[-1]}" if awaited else None


def _unknown(text: str) -> str:
    known = " and ".join(f"${name}" for name in PLACEHOLDERS)
    return (
        f"has the unknown placeholder {text[:40]!r}: only {known} are substituted, outside of quotes, "
        "and a query is run once for all nodes, so it names none"
    )


def placeholders(query: str) -> frozenset[str]:
    """The placeholders in a query."""
    return frozenset(text[1:] for kind, text in tokens(query) if kind == "template")


def substitute(query: str, seconds: Mapping[str, float]) -> str:
    """The query with each placeholder replaced by a duration in PromQL."""
    return "".join(_format_duration(seconds[text[1:]]) if kind == "template" else text for kind, text in tokens(query))


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds >= 1 and seconds == int(seconds) else f"{max(round(seconds * 1000), 1)}ms"
