"""Decides how chance is asked for while a question is made; leaves what to make of it to the modules that make things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Thing = dict[str, Any]


class Dice:
    """hypothesis's `draw` in the few forms that questions need; all of them tend to the plain when it simplifies."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def chance(self, percent: int) -> bool:
        return bool(self._draw(_between(0, 99)) >= 100 - percent)

    def between(self, low: int, high: int) -> int:
        return int(self._draw(_between(low, high)))

    def one(self, *options: T) -> T:
        return options[self.between(0, len(options) - 1)]

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """That many different ones, in an order of their own."""
        left = list(options)
        return [left.pop(self.between(0, len(left) - 1)) for _ in range(min(self.between(low, high), len(left)))]

    def maybe(self, percent: int, make: Callable[[], T]) -> T | None:
        return make() if self.chance(percent) else None

    def several(self, low: int, high: int, make: Callable[[], T]) -> list[T]:
        return [make() for _ in range(self.between(low, high))]


@cache
def _between(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def kept(**fields: Any) -> Thing:
    """An object without its empty fields; an underscore at the end of a name only keeps Python happy."""
    return {name.rstrip("_"): value for name, value in fields.items() if value not in (None, [], {})}
