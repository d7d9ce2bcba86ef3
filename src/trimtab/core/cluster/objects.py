"""Further objects by kind and key, the newest of each; says whether a fact about one was news, and judges nothing.

Versions are compared per object and UID. A change of the version alone is no change: controllers write their status often.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from trimtab.core.model.change import Change
from trimtab.core.model.objects import Object

T = TypeVar("T", bound=Object)
V = TypeVar("V")

MAX_CACHED = 65_536


class Objects:
    """All kinds; `generation` of a kind rises with every change, so that whoever derives something knows when it is stale."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Object]] = {}
        self._generations: dict[str, int] = {}
        self._indexes: dict[tuple[str, str], dict[str, dict[str, Object]]] = {}  # by kind and field
        self._cache: dict[Hashable, tuple[Hashable, Any]] = {}

    def upsert(self, seen: Object) -> Change:
        kept = self._objects.setdefault(seen.kind, {})
        held = kept.get(seen.key)
        if held is not None and held.uid == seen.uid and 0 < seen.version <= held.version:
            return Change.NOTHING
        kept[seen.key] = seen
        self._update_indexes(held, seen)
        if held is not None and replace(held, version=seen.version) == seen:
            return Change.NOTHING
        self._generations[seen.kind] = self._generations.get(seen.kind, 0) + 1
        return seen.change

    def delete(self, kind: str, key: str, uid: str = "", version: int = 0) -> Change:
        held = self._objects.get(kind, {}).get(key)
        if held is None or (uid and uid != held.uid) or 0 < version < held.version:
            return Change.NOTHING
        del self._objects[kind][key]
        self._update_indexes(held, None)
        self._generations[kind] = self._generations.get(kind, 0) + 1
        return held.change

    def __iter__(self) -> Iterator[Object]:
        return (each for objects in self._objects.values() for each in objects.values())

    def get(self, kind: str, key: str) -> Object | None:
        return self._objects.get(kind, {}).get(key)

    def of_kind(self, kind: type[T]) -> Mapping[str, T]:
        """All of one kind by key (`namespace/name`, or the name alone where there is no namespace); not to be changed."""
        return self._objects.get(kind.kind, {})  # type: ignore[return-value]

    def generation(self, kind: type[Object]) -> int:
        return self._generations.get(kind.kind, 0)

    def by_index(self, kind: type[T], field: str) -> Mapping[str, Mapping[str, T]]:
        """The same by the value of a text field first; the index is made when first asked for, and then kept true."""
        index = self._indexes.get((kind.kind, field))
        if index is None:
            index = self._indexes[kind.kind, field] = {}
            for each in self._objects.get(kind.kind, {}).values():
                index.setdefault(getattr(each, field), {})[each.key] = each
        return index  # type: ignore[return-value]

    def cached(self, key: Hashable, stamp: Hashable, make: Callable[[], V]) -> V:
        """What `make` gives, kept as long as the stamp (editions, and whatever else it depends on) stays the same."""
        kept = self._cache.get(key)
        if kept is None or kept[0] != stamp:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            kept = self._cache[key] = (stamp, make())
        found: V = kept[1]
        return found

    def _update_indexes(self, before: Object | None, after: Object | None) -> None:
        some = before or after
        for (kind, field), index in self._indexes.items():
            if some is None or kind != some.kind:
                continue
            if before is not None:
                old = getattr(before, field)
                index[old].pop(before.key, None)
                if not index[old]:
                    del index[old]
            if after is not None:
                index.setdefault(getattr(after, field), {})[after.key] = after

    def copy(self) -> Objects:
        twin = Objects()
        twin._objects = {kind: objects.copy() for kind, objects in self._objects.items()}
        twin._generations = self._generations.copy()
        return twin
