"""Caches that make equal parts of objects one value in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

GENERATION_SIZE = 8192
MAX_KEY = 1 << 16  # bytes; larger parts are too few to be shared, and thousands of them would fill the memory


class GenerationalCache(dict[K, V], Generic[K, V]):
    """A cache that builds missing values and holds at most two generations of them.

    When a generation is full it becomes the old one, and entries of the previous old one that were not used are dropped:
    parts that many objects share stay, parts used once (the labels of a StatefulSet's pods) do not. A hit is a plain
    dictionary lookup.
    """

    def __init__(self, build: Callable[[K], V], generation: int = GENERATION_SIZE) -> None:
        super().__init__()
        self._build = build
        self._generation = generation
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        if isinstance(key, bytes) and len(key) > MAX_KEY:
            return self._build(key)
        value = self._old[key] if key in self._old else self._build(key)
        if len(self) >= self._generation:
            self._old = dict(self)
            self.clear()
        self[key] = value
        return value


class WeakInterner(Generic[K]):
    """Returns the one living value equal to a given one, and forgets it when nothing else refers to it."""

    def __init__(self) -> None:
        self._living: WeakKeyDictionary[K, ref[K]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._living)

    def intern(self, value: K) -> K:
        found = self._living.get(value)
        living = found() if found is not None else None
        if living is not None:
            return living
        self._living[value] = ref(value)
        return value
