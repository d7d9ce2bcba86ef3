"""MemRealUsage and CpuRealUsage: the less of a resource a node really uses, the better.

After the two plugins of devops-Hunter/real-usage-scheduler, which differ only in the metric. Fixed here:

- One node without a sample failed every pod, and values of a stopped Prometheus were used forever. Here a node without
  trusted data is scored by requests.
- Scores were stretched between the lowest and the highest node, so 41 % and 42 % became 100 and 0, and all equal became
  0. Here a percent is a point, whatever the other nodes have.
- Five-minute averages do not move during a rollout, so all of it went to one node. Here pods count at once with their
  expected usage, and so does the pod being scheduled.

`strict` restores the stretch, over whole percents of five-minute averages, as upstream's NormalizeScore does, whatever
their age. A node without any is scored by requests then, too: upstream would fail every pod.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, NamedSource, Normalise, Rows
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import ParsedFields, check_ranges, setting

WINDOW = 300.0
DEFAULT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class RealUsage:
    """The address and its times configure a source; the plugin itself makes no requests."""

    resource: ClassVar[str]
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE

    prometheus_api_addr: str = setting("", "the URL of a Prometheus: becomes a source, see below")
    query_metric_time_seconds: int = setting(
        DEFAULT_SECONDS, "10 unless set, 1 to 3600: the timeout of that source", between=(1, 3600)
    )
    query_metric_interval_seconds: int = setting(
        DEFAULT_SECONDS, "10 unless set, 1 to 3600: how often it is queried", between=(1, 3600)
    )
    strict: bool = setting(False, "false unless set: true scales whole percents to 0 to 100, as the original does")

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        timeout, interval = (
            parsed.values.get(name, DEFAULT_SECONDS)
            for name in ("query_metric_time_seconds", "query_metric_interval_seconds")
        )
        if timeout > interval and "queryMetricTimeSeconds" in parsed.entries:
            parsed.entries["queryMetricTimeSeconds"].note(
                f"counts as {interval}, the interval: a query that takes longer would overlap with the next"
            )

    def __post_init__(self) -> None:
        check_ranges(self)

    def named_source(self) -> NamedSource | None:
        interval, timeout = self.query_metric_interval_seconds, self.query_metric_time_seconds
        url = self.prometheus_api_addr
        return NamedSource(("prometheusApiAddr",), "prometheus", url, float(interval), float(timeout)) if url else None

    @property
    def normalise(self) -> Normalise:
        return Normalise.CUSTOM if self.strict else Normalise.NONE

    @property
    def score_scale(self) -> int:
        return 1 if self.strict else utilisation.SCORE_SCALE

    def signature(self, pod: Pod) -> Hashable:
        return () if self.strict else utilisation.estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if not self.strict:
            return utilisation.free_score(utilisation.utilisation(view, self.resource, rows, pod))
        used = view.load.recent_mean(self.resource, WINDOW, trusted=False)[: view.count][rows]
        capacity = view.capacity(self.resource)[rows]
        ratios = utilisation.fill_unknown(
            utilisation.ratios(used, capacity),
            lambda: utilisation.ratios(utilisation.requested_with(view, self.resource, rows), capacity),
        )
        return np.floor(np.minimum(ratios * 100, MAX_SCORE) + 1e-9).astype(np.int64)

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        """100 for the least used of the feasible nodes and 0 for the most used; 0 for all when they are equal."""
        lowest, highest = int(raw.min(initial=MAX_SCORE)), int(raw.max(initial=0))
        if lowest >= highest:
            return np.zeros_like(raw)
        return MAX_SCORE - (raw - lowest) * MAX_SCORE // (highest - lowest)

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view, (self.resource,))


@dataclass(frozen=True, slots=True)
class CpuRealUsage(RealUsage):
    """By CPU."""

    name: ClassVar[str] = "CpuRealUsage"
    resource: ClassVar[str] = CPU


@dataclass(frozen=True, slots=True)
class MemRealUsage(RealUsage):
    """By memory."""

    name: ClassVar[str] = "MemRealUsage"
    resource: ClassVar[str] = MEMORY
