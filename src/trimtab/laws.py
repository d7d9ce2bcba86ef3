"""The laws of plugins as plain functions that say where they are broken; what to try them on is left to tests.

    for law in LAWS:
        assert [] == list(law(plugin, view, pod))

A plugin that keeps them on many random clusters may be trusted with any. `kept_as_fresh` and `nodes_in_any_order` are
about whole profiles: keep one `Templates` over many changes of a cluster, and ask after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.columns import Columns
from trimtab.core.cluster.state import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.verdict import Placement, Unplaceable
from trimtab.core.placing.choose import choose, fresh
from trimtab.core.placing.contract import (
    ALL,
    MAX_SCORE,
    Ahead,
    Filter,
    Gate,
    Kept,
    Normalise,
    Order,
    Plugin,
    Prefilter,
    Refuse,
    Rows,
    Score,
)
from trimtab.core.placing.profile import Profile, Scoring
from trimtab.core.placing.templates import Templates

Law = Callable[[Plugin, View, Pod], Iterator[str]]


def whole_columns(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Each answer is a column of 64-bit whole numbers with one cell per row that was asked for."""
    for rows in _selections(view):
        for point, column in _answers(plugin, view, pod, rows).items():
            if not isinstance(column, np.ndarray) or column.dtype != np.int64:
                yield f"{plugin.name}.{point} answers with {getattr(column, 'dtype', type(column).__name__)}, not int64"
            elif column.shape != (len(view.pod_count[rows]),):
                yield f"{plugin.name}.{point} answers {column.shape} cells for {len(view.pod_count[rows])} rows"


def cluster_untouched(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Asking changes nothing in the cluster."""
    before = _photograph(view.columns)
    _everything(plugin, view, pod)
    after = _photograph(view.columns)
    yield from (f"{plugin.name} has changed {name}" for name in before if before[name] != after.get(name))


def same_question_same_answer(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Asked twice, a plugin says the same."""
    if _everything(plugin, view, pod) != _everything(plugin, view, pod):
        yield f"{plugin.name} changes its mind when asked again"


def some_rows_as_of_all(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """The answer for some rows equals those rows of the answer for all, in whatever order they are picked."""
    every = _by_row(plugin, view, pod, ALL)
    for rows in _selections(view):
        some = _by_row(plugin, view, pod, rows)
        for point in every.keys() | some.keys():
            if point not in every or point not in some:
                yield f"{plugin.name}.{point} has an opinion on some rows only"
            elif not np.array_equal(every[point][rows], some[point]):
                yield f"{plugin.name}.{point} answers otherwise for some rows than for all"


def refusals_have_words(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Whatever is refused can be explained in words."""
    if isinstance(plugin, Gate) and (words := plugin.gate(pod)) is not None and not words.strip():
        yield f"{plugin.name} keeps a pod out without a word"
    if isinstance(plugin, Prefilter):
        ahead = plugin.prefilter(view, pod)
        if isinstance(ahead, Refuse) and not ahead.reason.strip():
            yield f"{plugin.name} refuses all nodes without a word"
    if isinstance(plugin, Filter):
        for code in set(plugin.filter(view, pod, ALL).tolist()) - {0}:
            if not any(each.strip() for each in plugin.reasons(view, pod, code)):
                yield f"{plugin.name} has no words for its code {code}"


def skipping_passes_all(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """A prefilter that lets its filter be skipped knows that the filter would pass every node."""
    skips = isinstance(plugin, Prefilter) and plugin.prefilter(view, pod) is Ahead.SKIP
    if skips and isinstance(plugin, Filter) and plugin.filter(view, pod, ALL).any():
        yield f"{plugin.name} would refuse nodes that it lets be skipped"


def scores_on_the_scale(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """Scores lie between 0 and 100 once normalised, and raw ones that are scaled are not below 0."""
    raw = plugin.score(view, pod, ALL) if isinstance(plugin, Score) else None
    if raw is None or not isinstance(plugin, Score):
        return
    if plugin.normalise in (Normalise.HIGHER, Normalise.LOWER) and (raw < 0).any():
        yield f"{plugin.name} scores below 0 and wants to be scaled by the highest"
    scaled = Scoring.of(plugin, 1).scaled(view, pod, ALL, raw)
    if ((scaled < 0) | (scaled > MAX_SCORE)).any():
        yield f"{plugin.name} scores {int(scaled.min())} to {int(scaled.max())}"


def order_is_a_key(plugin: Plugin, view: View, pod: Pod) -> Iterator[str]:
    """The key of the queue is made of numbers that can be compared."""
    if isinstance(plugin, Order):
        key: Any = plugin.order(pod, 1.5)
        if not isinstance(key, tuple) or any(not isinstance(each, int | float) or each != each for each in key):
            yield f"{plugin.name} orders by {key!r}"


LAWS: tuple[Law, ...] = (
    whole_columns,
    cluster_untouched,
    same_question_same_answer,
    some_rows_as_of_all,
    refusals_have_words,
    skipping_passes_all,
    scores_on_the_scale,
    order_is_a_key,
)


def signature_says_it_all(plugin: Plugin, view: View, pod: Pod, other: Pod) -> Iterator[str]:
    """Pods that a plugin signs alike get the same answers."""
    if not isinstance(plugin, Kept) or plugin.signs(pod) != plugin.signs(other):
        return
    if hash(plugin.signs(pod)) != hash(plugin.signs(other)):
        yield f"{plugin.name} signs alike with different hashes"
    if _judgement(plugin, view, pod) != _judgement(plugin, view, other):
        yield f"{plugin.name} signs two pods alike and judges them apart"


def nodes_in_any_order(cluster: Cluster, order: Sequence[Node], pod: Pod, profile: Profile) -> Iterator[str]:
    """The decision does not depend on the order in which nodes were learnt of."""
    nominated = tuple(cluster.nominated.values())
    here = choose(cluster.view, pod, profile, nominated)
    there = choose(rebuilt(cluster, order).view, pod, profile, nominated)
    if _essence(here) != _essence(there):
        yield f"{here} becomes {there} when nodes are learnt of in the order {[node.name for node in order]}"


def kept_as_fresh(cluster: Cluster, pod: Pod, profile: Profile, kept: Templates) -> Iterator[str]:
    """Kept answers, mended after any changes, equal answers from nothing: columns, placement, total and refusals."""
    view, nominated = cluster.view, tuple(cluster.nominated.values())
    old, new = kept.answers(view, pod, profile), fresh(view, pod, profile)
    for name, ours, theirs in (
        ("filters", old.charged.by, new.charged.by),
        ("codes", old.charged.codes, new.charged.codes),
        ("scores", old.ready, new.ready),
    ):
        if not np.array_equal(ours, theirs):
            yield f"kept {name} {ours} are not {theirs}"
    if +old.charged.counts != +new.charged.counts:
        yield f"kept counts {old.charged.counts} are not {new.charged.counts}"
    for name in ("relative", "constant", "refused", "only"):
        if getattr(old, name) != getattr(new, name):
            yield f"kept {name} {getattr(old, name)} is not {getattr(new, name)}"
    by_kept, by_fresh = choose(view, pod, profile, nominated, kept), choose(view, pod, profile, nominated)
    if by_kept != by_fresh:
        yield f"kept answers give {by_kept}, fresh ones {by_fresh}"


def rebuilt(cluster: Cluster, order: Sequence[Node]) -> Cluster:
    """The same cluster, as if its nodes had been learnt of in this order."""
    twin = Cluster()
    twin.memory, twin.nominated, twin.objects = cluster.memory.copy(), cluster.nominated.copy(), cluster.objects.copy()
    for node in order:
        twin.see_node(node)
    for place in cluster.places.values():
        twin.assume(place.pod, place.node)
    slots = sorted(twin.residents.slot, key=twin.residents.slot.__getitem__)
    twin.load = cluster.load.reordered(
        np.array([cluster.columns.row[node.name] for node in order], dtype=np.intp),
        np.array([cluster.residents.slot[uid] for uid in slots], dtype=np.intp),
    )
    return twin


def _selections(view: View) -> Iterator[Rows]:
    """All rows, none, each second one, and all backwards."""
    yield ALL
    yield np.zeros(0, dtype=np.intp)
    yield np.arange(0, view.count, 2, dtype=np.intp)
    yield np.arange(view.count - 1, -1, -1, dtype=np.intp)


def _answers(plugin: Plugin, view: View, pod: Pod, rows: Rows) -> dict[str, Any]:
    """What should be columns, by the name of the method that answered."""
    answers: dict[str, Any] = {}
    if isinstance(plugin, Filter):
        answers["filter"] = plugin.filter(view, pod, rows)
    column = plugin.score(view, pod, rows) if isinstance(plugin, Score) else None
    return answers if column is None else {**answers, "score": column}


def _by_row(plugin: Plugin, view: View, pod: Pod, rows: Rows) -> dict[str, Any]:
    """Without scores that are made to hold only among the rows that are asked for together."""
    answers = _answers(plugin, view, pod, rows)
    if isinstance(plugin, Score) and plugin.normalise is Normalise.AMONG:
        answers.pop("score", None)
    return answers


def _judgement(plugin: Plugin, view: View, pod: Pod) -> object:
    """All that a plugin says about nodes, as a value that can be compared."""
    ahead = plugin.prefilter(view, pod) if isinstance(plugin, Prefilter) else None
    columns = _answers(plugin, view, pod, ALL)
    words: list[tuple[str, ...]] = []
    if isinstance(plugin, Filter):
        words = [plugin.reasons(view, pod, code) for code in sorted(set(columns["filter"].tolist()) - {0})]
    return ahead, {point: column.tolist() for point, column in columns.items()}, words


def _everything(plugin: Plugin, view: View, pod: Pod) -> object:
    gate = plugin.gate(pod) if isinstance(plugin, Gate) else None
    order = plugin.order(pod, 1.5) if isinstance(plugin, Order) else None
    return gate, order, _judgement(plugin, view, pod)


def _essence(verdict: Placement | Unplaceable) -> object:
    """The decision without the order in which equals are listed."""
    refusals = sorted((each.plugin, each.reasons, each.nodes, each.final) for each in verdict.refusals)
    if isinstance(verdict, Placement):
        best = [ranked.total for ranked in verdict.best[1:]]
        return verdict.node, verdict.total, verdict.feasible, sorted(best), refusals
    return verdict.nodes, verdict.note, sorted(verdict.plugins), verdict.message(), refusals


def _photograph(columns: Columns) -> Mapping[str, object]:
    """All that a plugin could spoil, as it is now; label columns are left out, because they are made when asked for."""
    taken: dict[str, object] = {
        "nodes": list(columns.nodes),
        "rows": dict(columns.row),
        "taint sets": dict(columns.taint_sets),
        "images": {name: dict(held) for name, held in columns.images.items()},
        "log": (columns.epoch, len(columns.log)),
    }
    return taken | {name: array.tobytes() for name, array in _arrays(columns)}


def _arrays(columns: Columns) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for kind, cells in (("allocatable", columns.allocatable), ("requested", columns.requested)):
        yield from ((f"{kind} {resource}", each.array) for resource, each in cells.items())
    yield "scored cpu", columns.scored_cpu.array
    yield "scored memory", columns.scored_memory.array
    for name in ("pod_count", "unschedulable", "taint_set", "name_hash"):
        yield name, getattr(columns, name)
    for (protocol, port), by_address in columns.ports.taken.items():
        yield from ((f"port {protocol} {port} {address}", counts) for address, counts in by_address.items())
