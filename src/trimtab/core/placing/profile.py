"""Which plugins a scheduler name runs, at which points, in which order and with which weight; a plain value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import lcm
from typing import cast

from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.contract import (
    Among,
    Filter,
    Gate,
    Gathers,
    Ints,
    Kept,
    Normalise,
    Observe,
    Order,
    Permit,
    Plugin,
    PostFilter,
    PreBind,
    Prefilter,
    Reserve,
    Rows,
    Score,
    Watches,
    normalised,
)


class Point(StrEnum):
    """Extension points by the names that configuration files use."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"


class Ties(StrEnum):
    """How nodes of equal score are told apart: by a hash of pod and node, or by the smallest name."""

    HASH = "hash"
    NAME = "name"


# What a plugin must be able to do to be enabled at a point.
CAPABLE: Mapping[Point, type] = {
    Point.PRE_ENQUEUE: Gate,
    Point.QUEUE_SORT: Order,
    Point.PRE_FILTER: Prefilter,
    Point.FILTER: Filter,
    Point.POST_FILTER: PostFilter,
    Point.PRE_SCORE: Score,
    Point.SCORE: Score,
    Point.RESERVE: Reserve,
    Point.PERMIT: Permit,
    Point.PRE_BIND: PreBind,
}


@dataclass(frozen=True, slots=True)
class Scoring:
    """A score plugin and its weight; `by_row` says that a node's score stands, whatever the other nodes have.

    `factor` is the weight in the profile's parts of a point, by which raw scores are multiplied.
    """

    plugin: Score
    weight: int
    factor: int
    name: str
    by_row: bool
    among: bool

    @classmethod
    def of(cls, plugin: Score, weight: int, parts: int = 1) -> Scoring:
        how, factor = plugin.normalise, weight * parts // parts_of(plugin)
        return cls(plugin, weight, factor, plugin_name(plugin), how is Normalise.NONE, how is Normalise.AMONG)

    def scaled(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        """Raw scores of the feasible rows as 0..100, times the weight."""
        if not self.among:
            return normalised(self.plugin.normalise, raw) * self.factor
        # To ask whether the plugin is an `Among` would cost more than its answer.
        return cast(Among, self.plugin).scaled(view, pod, rows, raw) * self.factor


@dataclass(frozen=True, slots=True)
class Asked:
    """Plugins that are asked together, by their place in the profile."""

    prefilters: tuple[tuple[int, Prefilter], ...] = ()
    filters: tuple[int, ...] = ()
    scores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One scheduler name; compare profiles by identity, for caches hang on them."""

    name: str
    gates: tuple[Gate, ...] = ()
    order: Order | None = None
    prefilters: tuple[Prefilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    scores: tuple[Scoring, ...] = ()
    parts: int = 1  # of a point, in which totals are counted
    reserves: tuple[Reserve, ...] = ()
    permits: tuple[Permit, ...] = ()
    pre_binds: tuple[PreBind, ...] = ()
    observers: tuple[Observe, ...] = ()
    gangs: Gathers | None = None
    ties: Ties = Ties.HASH
    reads: Mapping[str, int] = field(default_factory=dict)  # by name, of plugins whose answers may be kept
    kept: Asked = Asked()
    changing: Asked = Asked()
    among: tuple[int, ...] = ()
    enabled: Mapping[Point, tuple[str, ...]] = field(default_factory=dict)
    watches: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # further kinds, and which plugins look at them


def plugin_name(plugin: object) -> str:
    name: str = plugin.name  # type: ignore[attr-defined]
    return name


def parts_of(plugin: object) -> int:
    """Into how many parts of a point the plugin divides its raw scores; most count whole points."""
    return int(getattr(plugin, "parts", 1))


def points(counted: int, parts: int) -> float:
    """What was counted in parts of a point, as people read it."""
    return counted if parts == 1 else round(counted / parts, 3)


def profile(
    name: str,
    enabled: Mapping[Point, Iterable[tuple[Plugin, int]]],
    ties: Ties = Ties.HASH,
) -> Profile:
    """Build a profile from what is enabled at each point; a plugin is taken only where it can do something."""
    able: dict[Point, list[tuple[Plugin, int]]] = {
        point: [(plugin, weight) for plugin, weight in enabled.get(point, ()) if isinstance(plugin, kind)]
        for point, kind in CAPABLE.items()
    }

    def at(point: Point) -> tuple[Plugin, ...]:
        return tuple(plugin for plugin, _ in able[point])

    everyone = {plugin_name(plugin): plugin for pairs in enabled.values() for plugin, _ in pairs}
    kept = {name: plugin for name, plugin in everyone.items() if isinstance(plugin, Kept)}
    parts = lcm(*(parts_of(plugin) for plugin, _ in able[Point.SCORE]))
    scores = tuple(Scoring.of(plugin, weight, parts) for plugin, weight in able[Point.SCORE])  # type: ignore[arg-type]

    def asked(*, keep: bool) -> Asked:
        return Asked(
            tuple(pair for pair in enumerate(at(Point.PRE_FILTER)) if (plugin_name(pair[1]) in kept) is keep),  # type: ignore[misc]
            tuple(index for index, each in enumerate(at(Point.FILTER)) if (plugin_name(each) in kept) is keep),
            tuple(index for index, each in enumerate(scores) if not each.among and (each.name in kept) is keep),
        )

    return Profile(
        name=name,
        gates=at(Point.PRE_ENQUEUE),  # type: ignore[arg-type]
        order=next(iter(at(Point.QUEUE_SORT)), None),  # type: ignore[arg-type]
        prefilters=at(Point.PRE_FILTER),  # type: ignore[arg-type]
        filters=at(Point.FILTER),  # type: ignore[arg-type]
        post_filters=at(Point.POST_FILTER),  # type: ignore[arg-type]
        scores=scores,
        parts=parts,
        reserves=at(Point.RESERVE),  # type: ignore[arg-type]
        permits=at(Point.PERMIT),  # type: ignore[arg-type]
        pre_binds=at(Point.PRE_BIND),  # type: ignore[arg-type]
        observers=tuple(plugin for plugin in everyone.values() if isinstance(plugin, Observe)),
        gangs=next((plugin for plugin in everyone.values() if isinstance(plugin, Gathers)), None),
        ties=ties,
        reads={name: int(plugin.reads) for name, plugin in kept.items()},
        kept=asked(keep=True),
        changing=asked(keep=False),
        among=tuple(index for index, each in enumerate(scores) if each.among),
        enabled={point: tuple(plugin_name(plugin) for plugin, _ in pairs) for point, pairs in able.items()},
        watches=_watched(everyone),
    )


def _watched(plugins: Mapping[str, Plugin]) -> dict[str, tuple[str, ...]]:
    watching = {name: plugin.watches for name, plugin in plugins.items() if isinstance(plugin, Watches)}
    kinds = dict.fromkeys(kind for watched in watching.values() for kind in watched)
    return {kind: tuple(name for name, watched in watching.items() if kind in watched) for kind in kinds}


def everywhere(name: str, plugins: Iterable[tuple[Plugin, int]], ties: Ties = Ties.HASH) -> Profile:
    """A profile with each plugin at every point that it can serve (`multiPoint` in configuration files)."""
    pairs = tuple(plugins)
    return profile(name, dict.fromkeys(CAPABLE, pairs), ties)
