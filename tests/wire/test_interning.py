"""Shared parts are one value, and unused ones are dropped."""

from __future__ import annotations

import gc

from trimtab.core.model.pod import PodSpec
from trimtab.wire.interning import GenerationalCache, WeakInterner


def test_a_part_is_built_once() -> None:
    """A second look-up of the same key gives the value that was built the first time."""
    built: list[str] = []

    def build(key: str) -> list[str]:
        built.append(key)
        return [key]

    table = GenerationalCache(build)
    assert table["a"] is table["a"]
    assert ["a"] == built


def test_the_table_holds_two_generations_at_most() -> None:
    """However many distinct keys pass through, the table stays within twice its generation."""
    table: GenerationalCache[int, str] = GenerationalCache(str, generation=10)
    for key in range(1000):
        _ = table[key]
        assert 10 >= len(table)
        assert 10 >= len(table._old)


def test_what_is_used_again_survives() -> None:
    """A key that is used in every generation keeps its value while others pass through."""
    table: GenerationalCache[int, list[int]] = GenerationalCache(lambda key: [key], generation=10)
    first = table[-1]
    for key in range(1000):
        _ = table[key]
        assert first is table[-1]


def test_what_is_seen_once_passes_through() -> None:
    """A key that is not used any more is dropped, and built again when it comes back."""
    table: GenerationalCache[int, list[int]] = GenerationalCache(lambda key: [key], generation=10)
    first = table[-1]
    for key in range(30):
        _ = table[key]
    assert first is not table[-1]


def test_equal_specs_are_one_object_while_one_lives() -> None:
    """The canon gives the value that lives, and keeps none alive itself."""
    canon: WeakInterner[PodSpec] = WeakInterner()
    first = canon.intern(PodSpec(images=("a",)))
    assert first is canon.intern(PodSpec(images=("a",)))
    assert first is not canon.intern(PodSpec(images=("b",)))
    del first
    gc.collect()
    assert 0 == len(canon)
