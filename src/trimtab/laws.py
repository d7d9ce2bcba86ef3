"""Laws that every plugin must keep, as functions that yield a message for each violation.

    for law in LAWS:
        assert [] == list(law(plugin, view, pod))

A plugin that keeps them on many random clusters can be trusted with any. `cached_equals_fresh` and
`independent_of_node_order` test whole profiles: keep one `EvaluationCache` over many changes of a cluster, and check
after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import choose, evaluate
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.interface import (
    ALL_ROWS,
    MAX_SCORE,
    Cacheable,
    Filter,
    Normalise,
    Plugin,
    PreEnqueue,
    PreFilter,
    PreFilterStatus,
    QueueSort,
    Reject,
    Rows,
    Score,
)
from trimtab.core.framework.profile import Profile, WeightedScore
from trimtab.core.load.view import LoadView
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Placement, Unschedulable

Law = Callable[[Plugin, View, Pod], Iterator[str]]


def int64_columns(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Each result is an int64 column with one cell per requested row."""
    for rows in _selections(view):
        for point, column in _columns(plugin, view, pod, rows).items():
            if not isinstance(column, np.ndarray) or column.dtype != np.int64:
                yield f"{plugin.name}.{point} returns {getattr(column, 'dtype', type(column).__name__)}, not int64"
            elif column.shape != (len(view.pod_count[rows]),):
                yield f"{plugin.name}.{point} returns shape {column.shape} for {len(view.pod_count[rows])} rows"


def cluster_unchanged(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Calling a plugin changes nothing in the cluster."""
    before = _snapshot(view.node_table)
    _all_results(plugin, view, pod)
    after = _snapshot(view.node_table)
    yield from (f"{plugin.name} has changed {name}" for name in before if before[name] != after.get(name))


def deterministic(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Called twice, a plugin returns the same."""
    if _all_results(plugin, view, pod) != _all_results(plugin, view, pod):
        yield f"{plugin.name} returns a different result when called again"


def some_rows_match_all(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """The result for some rows equals those rows of the result for all, whatever their order."""
    every = _per_node_columns(plugin, view, pod, ALL_ROWS)
    for rows in _selections(view):
        some = _per_node_columns(plugin, view, pod, rows)
        for point in every.keys() | some.keys():
            if point not in every or point not in some:
                yield f"{plugin.name}.{point} returns a result for some rows only"
            elif not np.array_equal(every[point][rows], some[point]):
                yield f"{plugin.name}.{point} returns other values for some rows than for all"


def rejections_have_reasons(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Every rejection has a reason."""
    if isinstance(plugin, PreEnqueue) and (message := plugin.pre_enqueue(pod)) is not None and not message.strip():
        yield f"{plugin.name} keeps a pod out of the queue without a reason"
    if isinstance(plugin, PreFilter):
        result = plugin.pre_filter(view, pod)
        if isinstance(result, Reject) and not result.reason.strip():
            yield f"{plugin.name} rejects all nodes without a reason"
    if isinstance(plugin, Filter):
        for code in set(plugin.filter(view, pod, ALL_ROWS).tolist()) - {0}:
            if not any(each.strip() for each in plugin.reasons(view, pod, code)):
                yield f"{plugin.name} has no reason for code {code}"


def skip_passes_all_nodes(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Where PreFilter returns SKIP, the filter would pass every node."""
    skips = isinstance(plugin, PreFilter) and plugin.pre_filter(view, pod) is PreFilterStatus.SKIP
    if skips and isinstance(plugin, Filter) and plugin.filter(view, pod, ALL_ROWS).any():
        yield f"{plugin.name} returns SKIP but its filter rejects nodes"


def scores_in_range(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Normalised scores are between 0 and 100, and raw scores that are scaled by the highest are not negative."""
    raw = plugin.score(view, pod, ALL_ROWS) if isinstance(plugin, Score) else None
    if raw is None or not isinstance(plugin, Score):
        return
    if plugin.normalise in (Normalise.HIGHER, Normalise.LOWER) and (raw < 0).any():
        yield f"{plugin.name} has negative scores, which cannot be scaled by the highest"
    scaled = WeightedScore.of(plugin, 1).normalised(view, pod, ALL_ROWS, raw)
    if ((scaled < 0) | (scaled > MAX_SCORE)).any():
        yield f"{plugin.name} scores {int(scaled.min())} to {int(scaled.max())}"


def sort_key_is_numeric(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """The queue sort key consists of comparable numbers."""
    if isinstance(plugin, QueueSort):
        key: Any = plugin.queue_sort_key(pod, 1.5)
        if not isinstance(key, tuple) or any(not isinstance(each, int | float) or each != each for each in key):
            yield f"{plugin.name} has the sort key {key!r}"


LAWS: tuple[Law, ...] = (
    int64_columns,
    cluster_unchanged,
    deterministic,
    some_rows_match_all,
    rejections_have_reasons,
    skip_passes_all_nodes,
    scores_in_range,
    sort_key_is_numeric,
)


def signature_is_complete(plugin: Plugin, view: View, pod: Pod, other: Pod) -> Iterator[str]:
    """Pods with equal signatures get equal results."""
    if not isinstance(plugin, Cacheable) or plugin.signature(pod) != plugin.signature(other):
        return
    if hash(plugin.signature(pod)) != hash(plugin.signature(other)):
        yield f"{plugin.name} has equal signatures with different hashes"
    if _verdict(plugin, view, pod) != _verdict(plugin, view, other):
        yield f"{plugin.name} has equal signatures but different results for two pods"


def independent_of_node_order(cluster: Cluster, order: Sequence[Node], pod: Pod, profile: Profile) -> Iterator[str]:
    """The decision does not depend on the order in which nodes were added."""
    nominated = tuple(cluster.nominated.values())
    here = choose(cluster.view, pod, profile, nominated)
    there = choose(rebuild(cluster, order).view, pod, profile, nominated)
    if _comparable(here) != _comparable(there):
        yield f"{here} becomes {there} when nodes are added in the order {[node.name for node in order]}"


def cached_equals_fresh(cluster: Cluster, pod: Pod, profile: Profile, cache: EvaluationCache) -> Iterator[str]:
    """Cached results, updated after any changes, equal fresh ones: columns, placement, total and rejections."""
    view, nominated = cluster.view, tuple(cluster.nominated.values())
    old, new = cache.evaluate(view, pod, profile), evaluate(view, pod, profile)
    for name, ours, theirs in (
        ("filters", old.rejections.rejected_by, new.rejections.rejected_by),
        ("codes", old.rejections.codes, new.rejections.codes),
        ("scores", old.base_scores, new.base_scores),
    ):
        if not np.array_equal(ours, theirs):
            yield f"cached {name} {ours} are not {theirs}"
    if +old.rejections.counts != +new.rejections.counts:
        yield f"cached counts {old.rejections.counts} are not {new.rejections.counts}"
    for name in ("relative", "offset", "pre_filter_rejection", "node_subsets"):
        if getattr(old, name) != getattr(new, name):
            yield f"cached {name} {getattr(old, name)} is not {getattr(new, name)}"
    by_cache, by_fresh = choose(view, pod, profile, nominated, cache), choose(view, pod, profile, nominated)
    if by_cache != by_fresh:
        yield f"the cache gives {by_cache}, a fresh evaluation {by_fresh}"


def rebuild(cluster: Cluster, order: Sequence[Node]) -> Cluster:
    """The same cluster, as if its nodes had been added in this order."""
    copy = Cluster()
    copy.plugin_state, copy.nominated, copy.objects = (
        cluster.plugin_state.copy(),
        cluster.nominated.copy(),
        cluster.objects.copy(),
    )
    for node in order:
        copy.upsert_node(node)
    for place in cluster.placements.values():
        copy.assume(place.pod, place.node)
    slots = sorted(copy.pod_table.slot, key=copy.pod_table.slot.__getitem__)
    copy.load_store = cluster.load_store.reordered(
        np.array([cluster.node_table.row[node.name] for node in order], dtype=np.intp),
        np.array([cluster.pod_table.slot[uid] for uid in slots], dtype=np.intp),
    )
    copy.load = LoadView(copy.load_store)
    return copy


def _selections(view: View) -> Iterator[Rows]:
    """All rows, none, every second one, and all in reverse."""
    yield ALL_ROWS
    yield np.zeros(0, dtype=np.intp)
    yield np.arange(0, view.count, 2, dtype=np.intp)
    yield np.arange(view.count - 1, -1, -1, dtype=np.intp)


def _columns(plugin: Plugin, view: View, pod: Pod, rows: Rows) -> dict[str, Any]:
    """Results that should be columns, by the name of the method."""
    columns: dict[str, Any] = {}
    if isinstance(plugin, Filter):
        columns["filter"] = plugin.filter(view, pod, rows)
    column = plugin.score(view, pod, rows) if isinstance(plugin, Score) else None
    return columns if column is None else {**columns, "score": column}


def _per_node_columns(plugin: Plugin, view: View, pod: Pod, rows: Rows) -> dict[str, Any]:
    """Without scores that are only defined for the feasible rows."""
    columns = _columns(plugin, view, pod, rows)
    if isinstance(plugin, Score) and plugin.normalise is Normalise.CUSTOM:
        columns.pop("score", None)
    return columns


def _verdict(plugin: Plugin, view: View, pod: Pod) -> object:
    """All results of a plugin about nodes, as a comparable value."""
    pre_filter = plugin.pre_filter(view, pod) if isinstance(plugin, PreFilter) else None
    columns = _columns(plugin, view, pod, ALL_ROWS)
    reasons: list[tuple[str, ...]] = []
    if isinstance(plugin, Filter):
        reasons = [plugin.reasons(view, pod, code) for code in sorted(set(columns["filter"].tolist()) - {0})]
    return pre_filter, {point: column.tolist() for point, column in columns.items()}, reasons


def _all_results(plugin: Plugin, view: View, pod: Pod) -> object:
    gate = plugin.pre_enqueue(pod) if isinstance(plugin, PreEnqueue) else None
    order = plugin.queue_sort_key(pod, 1.5) if isinstance(plugin, QueueSort) else None
    return gate, order, _verdict(plugin, view, pod)


def _comparable(verdict: Placement | Unschedulable) -> object:
    """The decision without the order in which ties are listed."""
    rejections = sorted((each.plugin, each.reasons, each.nodes, each.unresolvable) for each in verdict.rejections)
    if isinstance(verdict, Placement):
        best = [ranked.total for ranked in verdict.best[1:]]
        return verdict.node, verdict.total, verdict.feasible, sorted(best), rejections
    return verdict.nodes, verdict.note, sorted(verdict.plugins), verdict.message(), rejections


def _snapshot(columns: NodeTable) -> Mapping[str, object]:
    """Everything a plugin could modify; label columns are left out, because they are built on first use."""
    taken: dict[str, object] = {
        "nodes": list(columns.nodes),
        "rows": dict(columns.row),
        "taint sets": dict(columns.taint_sets),
        "images": {name: dict(held) for name, held in columns.images.items()},
        "host ports": columns.host_ports.copy().taken,
        "log": (columns.epoch, len(columns.log)),
    }
    return taken | {name: array.tobytes() for name, array in _arrays(columns)}


def _arrays(columns: NodeTable) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for kind, cells in (("allocatable", columns.allocatable), ("requested", columns.requested)):
        yield from ((f"{kind} {resource}", each.array) for resource, each in cells.items())
    yield "scored cpu", columns.nonzero_cpu.array
    yield "scored memory", columns.nonzero_memory.array
    for name in ("pod_count", "unschedulable", "taint_set", "name_hash"):
        yield name, getattr(columns, name)
