"""Runs one recorded case through one plugin and returns the results in the recorded format.

preFilter ──▶ filter per node        with the nominated pods first, then without them
preScore  ──▶ rawScore ──▶ score     over the nodes that the case gives to Score
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.conformance.corpus import Case, nominated, read_pod
from tests.conformance.recorded_load import view_of
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import nominated_by_node
from trimtab.core.framework.interface import (
    ALL_ROWS,
    Filter,
    Ints,
    NodeSubset,
    Normalise,
    Plugin,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    PreFilterStatus,
    QueueSort,
    Reject,
    Score,
    default_normalise,
)
from trimtab.core.framework.profile import score_scale_of
from trimtab.core.model.pod import Pod

SUCCESS: Mapping[str, Any] = {"code": "Success"}
SKIP: Mapping[str, Any] = {"code": "Skip"}


def answer(plugin: Plugin, case: Case) -> dict[str, Any]:
    """The plugin's result at each recorded extension point; a point without an entry is unsupported."""
    asked = PluginCase(plugin, case)
    points: dict[str, Callable[[], Any]] = {
        "preEnqueue": asked.pre_enqueue,
        "less": asked.less,
        "preFilter": asked.pre_filter,
        "filter": asked.filter,
        "preScore": asked.pre_score,
        "rawScore": asked.raw_score,
        "score": asked.score,
    }
    return {point: points[point]() for point in case["expected"] if point in points}


class PluginCase:
    """A plugin, and the pod and cluster of a case."""

    def __init__(self, plugin: Plugin, case: Case) -> None:
        self.plugin = plugin
        self.case = case
        self.pod = read_pod(case["pod"]) if "pod" in case else Pod("", "", "")
        self.view = view_of(case)

    def pre_enqueue(self) -> Mapping[str, Any]:
        assert isinstance(self.plugin, PreEnqueue)
        words = self.plugin.pre_enqueue(self.pod)
        return SUCCESS if words is None else rejection(final=True, reasons=(words,))

    def less(self) -> list[list[bool]]:
        assert isinstance(self.plugin, QueueSort)
        order = self.plugin.queue_sort_key
        keys = [order(read_pod(each["pod"]), _seconds(each["timestamp"])) for each in self.case["queue"]]
        return [[one < other for other in keys] for one in keys]

    def pre_filter(self) -> Mapping[str, Any]:
        match self._prefiltered():
            case Reject(reason, final):
                return rejection(final, (reason,))
            case NodeSubset(nodes):
                return {**SUCCESS, "nodeNames": sorted(nodes)}
            case PreFilterStatus.SKIP:
                return SKIP
        return SUCCESS

    def filter(self) -> dict[str, Mapping[str, Any]]:
        if self._prefiltered() is PreFilterStatus.SKIP:
            return {node.name: SUCCESS for node in self.view.nodes}
        told = self._filtered(self.view)
        promised = nominated_by_node(self.view, self.pod, nominated(self.case))
        with_them = self._filtered(self.view.with_pods(promised)) if promised else {}
        return told | {name: with_them[name] for name in promised if with_them[name] != SUCCESS}

    def _filtered(self, view: View) -> dict[str, Mapping[str, Any]]:
        assert isinstance(self.plugin, Filter)
        codes = self.plugin.filter(view, self.pod, ALL_ROWS)
        return {node.name: self._verdict(view, int(codes[row])) for row, node in enumerate(view.nodes)}

    def _verdict(self, view: View, code: int) -> Mapping[str, Any]:
        assert isinstance(self.plugin, Filter)
        return SUCCESS if not code else rejection(code < 0, self.plugin.reasons(view, self.pod, code))

    def _prefiltered(self) -> PreFilterResult:
        return (
            self.plugin.pre_filter(self.view, self.pod)
            if isinstance(self.plugin, PreFilter)
            else PreFilterStatus.SUCCESS
        )

    def pre_score(self) -> Mapping[str, Any]:
        return SKIP if self._scored() is None else SUCCESS

    def raw_score(self) -> dict[str, float] | None:
        return self._by_name(self._scored())

    def score(self) -> dict[str, float] | None:
        assert isinstance(self.plugin, Score)
        raw, how = self._scored(), self.plugin.normalise
        if raw is None:
            return None
        if how is not Normalise.CUSTOM:
            return self._by_name(default_normalise(how, raw))
        scaled = self.plugin.normalise_score(self.view, self.pod, self._score_rows(), raw)  # type: ignore[attr-defined]
        return self._by_name(scaled)

    def _scored(self) -> Ints | None:
        assert isinstance(self.plugin, Score)
        return self.plugin.score(self.view, self.pod, self._score_rows())

    def _score_rows(self) -> NDArray[np.intp]:
        return np.array([self.view.row(name) for name in self._score_nodes()], dtype=np.intp)

    def _score_nodes(self) -> list[str]:
        return self.case.get("scoreNodes") or [node.name for node in self.view.nodes]

    def _by_name(self, column: Ints | None) -> dict[str, float] | None:
        """In whole points, as the recording has them."""
        if column is None:
            return None
        parts = score_scale_of(self.plugin)
        points = column if parts == 1 else column / parts
        return dict(zip(self._score_nodes(), points.tolist(), strict=True))


def rejection(final: bool, reasons: tuple[str, ...]) -> dict[str, Any]:
    code = "UnschedulableAndUnresolvable" if final else "Unschedulable"
    return {"code": code, "reasons": sorted(reasons)}


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
