"""The random choices that generators need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
JsonObject = dict[str, Any]


class Rng:
    """Random choices."""

    def __init__(self, random: Random) -> None:
        self._chance = random

    def chance(self, percent: int) -> bool:
        return self._chance.randrange(100) < percent

    def between(self, low: int, high: int) -> int:
        return self._chance.randint(low, high)

    def one(self, *options: T) -> T:
        return self._chance.choice(options)

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Between `low` and `high` different options, in random order."""
        return self._chance.sample(options, min(self.between(low, high), len(options)))

    def maybe(self, percent: int, make: Callable[[], T]) -> T | None:
        return make() if self.chance(percent) else None

    def several(self, low: int, high: int, make: Callable[[], T]) -> list[T]:
        return [make() for _ in range(self.between(low, high))]


def without_empty(**fields: Any) -> JsonObject:
    """An object without its empty fields."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}
