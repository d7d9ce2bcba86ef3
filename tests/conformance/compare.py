"""Finds the differences between an expected and an actual result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNSORTED = ("reasons", "nodeNames")  # Go builds some of them from maps, so their order means nothing


def differences(expected: Any, got: Any, where: str = "") -> Iterator[str]:
    """Sentences, one for each place that differs."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping) and not ("code" in expected and "code" in got):
        for key in dict.fromkeys((*expected, *got)):
            yield from differences(expected.get(key), got.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif _settled(expected) != _settled(got):
        yield f"{where}: expected {_settled(expected)}, got {_settled(got)}"


def _settled(value: Any) -> Any:
    """A verdict in one form: no reasons are the same as an empty list of them."""
    if not isinstance(value, Mapping) or "code" not in value:
        return value
    return {
        key: sorted(set(each)) if key in UNSORTED else each for key, each in value.items() if each or key == "nodeNames"
    }
