"""A profile: the plugins of one scheduler name at each extension point, in order and with their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import lcm
from typing import cast

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import (
    Cacheable,
    CustomNormalise,
    Filter,
    GangPlugin,
    Ints,
    NeedsKinds,
    Normalise,
    ObservesPods,
    Permit,
    Plugin,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    QueueSort,
    Reserve,
    Rows,
    Score,
    default_normalise,
)
from trimtab.core.model.pod import Pod


class ExtensionPoint(StrEnum):
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


class TieBreak(StrEnum):
    """How to pick among nodes of equal score: by a hash of pod and node, or by the smallest name."""

    HASH = "hash"
    NAME = "name"


# The interface that a plugin must implement to be enabled at a point.
POINT_INTERFACES: Mapping[ExtensionPoint, type] = {
    ExtensionPoint.PRE_ENQUEUE: PreEnqueue,
    ExtensionPoint.QUEUE_SORT: QueueSort,
    ExtensionPoint.PRE_FILTER: PreFilter,
    ExtensionPoint.FILTER: Filter,
    ExtensionPoint.POST_FILTER: PostFilter,
    ExtensionPoint.PRE_SCORE: Score,
    ExtensionPoint.SCORE: Score,
    ExtensionPoint.RESERVE: Reserve,
    ExtensionPoint.PERMIT: Permit,
    ExtensionPoint.PRE_BIND: PreBind,
}


@dataclass(frozen=True, slots=True)
class WeightedScore:
    """A score plugin and its weight; `per_node` if a node's score does not depend on the other nodes.

    `factor` is the weight in units of the profile's score scale; raw scores are multiplied by it.
    """

    plugin: Score
    weight: int
    factor: int
    name: str
    per_node: bool
    custom: bool

    @classmethod
    def of(cls, plugin: Score, weight: int, score_scale: int = 1) -> WeightedScore:
        mode, factor = plugin.normalise, weight * score_scale // score_scale_of(plugin)
        return cls(plugin, weight, factor, plugin_name(plugin), mode is Normalise.NONE, mode is Normalise.CUSTOM)

    def normalised(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        """Raw scores of the feasible rows as 0..100, times the weight."""
        if not self.custom:
            return default_normalise(self.plugin.normalise, raw) * self.factor
        # An isinstance check of a protocol would cost more than the call.
        return cast(CustomNormalise, self.plugin).normalise_score(view, pod, rows, raw) * self.factor


@dataclass(frozen=True, slots=True)
class PluginGroup:
    """Plugins that are run together, by their index in the profile."""

    pre_filters: tuple[tuple[int, PreFilter], ...] = ()
    filters: tuple[int, ...] = ()
    scores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The plugins of one scheduler name. Compare profiles by identity: they are keys of caches."""

    name: str
    pre_enqueues: tuple[PreEnqueue, ...] = ()
    queue_sort: QueueSort | None = None
    pre_filters: tuple[PreFilter, ...] = ()
    filters: tuple[Filter, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    scores: tuple[WeightedScore, ...] = ()
    score_scale: int = 1  # totals are counted in 1/score_scale of a point
    reserves: tuple[Reserve, ...] = ()
    permits: tuple[Permit, ...] = ()
    pre_binds: tuple[PreBind, ...] = ()
    observers: tuple[ObservesPods, ...] = ()
    gang_plugin: GangPlugin | None = None
    tie_break: TieBreak = TieBreak.HASH
    percentage_of_nodes_to_score: int = 0  # by kube-scheduler, if it has this profile; here all nodes are scored
    depends_on: Mapping[str, int] = field(default_factory=dict)  # of cacheable plugins, by name
    cached: PluginGroup = PluginGroup()
    uncached: PluginGroup = PluginGroup()
    custom_scores: tuple[int, ...] = ()
    enabled: Mapping[ExtensionPoint, tuple[str, ...]] = field(default_factory=dict)
    needed_kinds: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # extra kinds and the plugins that need them
    kind_readers: Mapping[str, tuple[Plugin, ...]] = field(default_factory=dict)  # the same plugins themselves


def plugin_name(plugin: object) -> str:
    name: str = plugin.name  # type: ignore[attr-defined]
    return name


def plugin_names(profile: Profile) -> set[str]:
    """Of all plugins that the profile calls."""
    return {name for names in profile.enabled.values() for name in names} | {*map(plugin_name, profile.observers)}


def score_scale_of(plugin: object) -> int:
    """Into how many units the plugin divides a point in its raw scores; 1 for most."""
    return int(getattr(plugin, "score_scale", 1))


def to_points(scaled_score: int, score_scale: int) -> float:
    """A scaled score as people read it."""
    return scaled_score if score_scale == 1 else round(scaled_score / score_scale, 3)


def build_profile(
    name: str,
    enabled: Mapping[ExtensionPoint, Iterable[tuple[Plugin, int]]],
    tie_break: TieBreak = TieBreak.HASH,
) -> Profile:
    """Build a profile from the plugins enabled at each point; a plugin is taken only where it implements the point."""
    capable: dict[ExtensionPoint, list[tuple[Plugin, int]]] = {
        point: [(plugin, weight) for plugin, weight in enabled.get(point, ()) if isinstance(plugin, kind)]
        for point, kind in POINT_INTERFACES.items()
    }

    def at(point: ExtensionPoint) -> tuple[Plugin, ...]:
        return tuple(plugin for plugin, _ in capable[point])

    plugins = {plugin_name(plugin): plugin for pairs in enabled.values() for plugin, _ in pairs}
    cacheable = {name: plugin for name, plugin in plugins.items() if isinstance(plugin, Cacheable)}
    score_scale = lcm(*(score_scale_of(plugin) for plugin, _ in capable[ExtensionPoint.SCORE]))
    scores = tuple(WeightedScore.of(plugin, weight, score_scale) for plugin, weight in capable[ExtensionPoint.SCORE])  # type: ignore[arg-type]

    needed_kinds = _needed_kinds(plugins)

    def group(*, cached: bool) -> PluginGroup:
        def belongs(plugin: object) -> bool:
            return (plugin_name(plugin) in cacheable) is cached

        return PluginGroup(
            tuple((index, each) for index, each in enumerate(at(ExtensionPoint.PRE_FILTER)) if belongs(each)),  # type: ignore[misc]
            tuple(index for index, each in enumerate(at(ExtensionPoint.FILTER)) if belongs(each)),
            tuple(index for index, each in enumerate(scores) if not each.custom and belongs(each.plugin)),
        )

    return Profile(
        name=name,
        pre_enqueues=at(ExtensionPoint.PRE_ENQUEUE),  # type: ignore[arg-type]
        queue_sort=next(iter(at(ExtensionPoint.QUEUE_SORT)), None),  # type: ignore[arg-type]
        pre_filters=at(ExtensionPoint.PRE_FILTER),  # type: ignore[arg-type]
        filters=at(ExtensionPoint.FILTER),  # type: ignore[arg-type]
        post_filters=at(ExtensionPoint.POST_FILTER),  # type: ignore[arg-type]
        scores=scores,
        score_scale=score_scale,
        reserves=at(ExtensionPoint.RESERVE),  # type: ignore[arg-type]
        permits=at(ExtensionPoint.PERMIT),  # type: ignore[arg-type]
        pre_binds=at(ExtensionPoint.PRE_BIND),  # type: ignore[arg-type]
        observers=tuple(plugin for plugin in plugins.values() if isinstance(plugin, ObservesPods)),
        gang_plugin=next((plugin for plugin in plugins.values() if isinstance(plugin, GangPlugin)), None),
        tie_break=tie_break,
        depends_on={name: int(plugin.depends_on) for name, plugin in cacheable.items()},
        cached=group(cached=True),
        uncached=group(cached=False),
        custom_scores=tuple(index for index, each in enumerate(scores) if each.custom),
        enabled={point: tuple(plugin_name(plugin) for plugin, _ in pairs) for point, pairs in capable.items()},
        needed_kinds=needed_kinds,
        kind_readers={kind: tuple(plugins[each] for each in names) for kind, names in needed_kinds.items()},
    )


def _needed_kinds(plugins: Mapping[str, Plugin]) -> dict[str, tuple[str, ...]]:
    needs = {name: plugin.needs_kinds for name, plugin in plugins.items() if isinstance(plugin, NeedsKinds)}
    kinds = dict.fromkeys(kind for needed in needs.values() for kind in needed)
    return {kind: tuple(name for name, needed in needs.items() if kind in needed) for kind in kinds}


def multipoint(name: str, plugins: Iterable[tuple[Plugin, int]], tie_break: TieBreak = TieBreak.HASH) -> Profile:
    """A profile with each plugin at every point it implements (`multiPoint` in configuration files)."""
    pairs = tuple(plugins)
    return build_profile(name, dict.fromkeys(POINT_INTERFACES, pairs), tie_break)
