"""Objects other than pods and nodes, by kind and key, with indexes and a cache of values derived from them.

Versions are compared per UID. An update that changes nothing but the version is not a change: controllers write status often.
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
    """All kinds. The `generation` of a kind rises with every change, so that derived values can be dropped."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Object]] = {}
        self._generations: dict[str, int] = {}
        self._indexes: dict[tuple[str, str], dict[str, dict[str, Object]]] = {}  # by kind and field
        self._cache: dict[Hashable, tuple[Hashable, Any]] = {}

    def upsert(self, obj: Object) -> Change:
        by_key = self._objects.setdefault(obj.kind, {})
        held = by_key.get(obj.key)
        if held is not None and held.uid == obj.uid and 0 < obj.version <= held.version:
            return Change.NOTHING
        by_key[obj.key] = obj
        self._update_indexes(obj.kind, held, obj)
        if held is not None and replace(held, version=obj.version) == obj:
            return Change.NOTHING
        self._generations[obj.kind] = self._generations.get(obj.kind, 0) + 1
        return obj.change

    def delete(self, kind: str, key: str, uid: str = "", version: int = 0) -> Change:
        held = self._objects.get(kind, {}).get(key)
        if held is None or (uid and uid != held.uid) or 0 < version < held.version:
            return Change.NOTHING
        del self._objects[kind][key]
        self._update_indexes(kind, held, None)
        self._generations[kind] = self._generations.get(kind, 0) + 1
        return held.change

    def __iter__(self) -> Iterator[Object]:
        return (each for objects in self._objects.values() for each in objects.values())

    def get(self, kind: str, key: str) -> Object | None:
        return self._objects.get(kind, {}).get(key)

    def of_kind(self, kind: type[T]) -> Mapping[str, T]:
        """All of one kind by key (`namespace/name`, or the name of a cluster-scoped object); read-only."""
        return self._objects.get(kind.kind, {})  # type: ignore[return-value]

    def generation(self, kind: type[Object]) -> int:
        return self._generations.get(kind.kind, 0)

    def by_index(self, kind: type[T], field: str) -> Mapping[str, Mapping[str, T]]:
        """All of one kind by the value of a string field, then by key; the index is built on first use."""
        index = self._indexes.get((kind.kind, field))
        if index is None:
            index = self._indexes[kind.kind, field] = {}
            for obj in self._objects.get(kind.kind, {}).values():
                index.setdefault(getattr(obj, field), {})[obj.key] = obj
        return index  # type: ignore[return-value]

    def cached(self, key: Hashable, stamp: Hashable, make: Callable[[], V]) -> V:
        """The result of `make`, cached while the stamp (generations, and whatever else it depends on) is the same."""
        entry = self._cache.get(key)
        if entry is None or entry[0] != stamp:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            entry = self._cache[key] = (stamp, make())
        value: V = entry[1]
        return value

    def _update_indexes(self, kind: str, before: Object | None, after: Object | None) -> None:
        for (indexed, field), index in self._indexes.items():
            if indexed != kind:
                continue
            if before is not None:
                old = getattr(before, field)
                index[old].pop(before.key, None)
                if not index[old]:
                    del index[old]
            if after is not None:
                index.setdefault(getattr(after, field), {})[after.key] = after

    def copy(self) -> Objects:
        copy = Objects()
        copy._objects = {kind: objects.copy() for kind, objects in self._objects.items()}
        copy._generations = self._generations.copy()
        return copy
