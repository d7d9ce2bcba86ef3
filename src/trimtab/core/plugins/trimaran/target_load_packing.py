"""TargetLoadPacking: packs nodes up to a target CPU utilization and spreads pods beyond it.

The policy of this name in kubernetes-sigs/scheduler-plugins (Trimaran). A node scores higher the closer it comes to
`target_utilization` from below, and lower than an idle one above it. Fixed here:

- Just above the target the score dropped from 100 to the target's own value, so noise of a tenth of a percent decided.
  It now declines over five percent of utilization.
- Samples count as long as they are trusted. Upstream used samples of hours ago, and gave a node without any 0 points,
  as if it were overloaded; here such a node is scored by requests and gets half of those points.
- Pods that no sample shows yet count with the usage of their siblings where known, whoever scheduled them, and
  terminated pods are subtracted at once. `default_requests` and `default_requests_multiplier` apply to the pod being
  scheduled while nothing like it has been measured.
- Scores are finer than whole points.

`strict` restores upstream's behaviour: the last samples count whatever their age, the mean over `load.window` with
Prometheus and the latest values with metrics-server (`metricProvider`); pods placed after them, or up to a minute before,
are added by limits and requests, and pods that have left stay in them. While a source is down such pods are added as long
as they are there; upstream forgets them after five minutes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.recently_placed import recent_sum
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, NamedSource, Normalise, Rows
from trimtab.core.framework.load_scoring.utilisation import (
    SCORE_SCALE,
    estimate_signature,
    expected,
    ratios,
    requested_with,
)
from trimtab.core.framework.resource_amounts import ResourceAmounts
from trimtab.core.load.estimates import LEARNED_RULES
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.setting import Support, check_ranges, setting
from trimtab.core.plugins.trimaran import METRICS_SERVER, PROMETHEUS, MetricProvider
from trimtab.core.plugins.trimaran.measurements import blend_with_requests, rounded_score, scaled_score
from trimtab.core.tables import Floats

ONE_CORE = ResourceAmounts(((CPU, 1000),))
DESCENT_WIDTH = 5.0  # percent of utilization above the target over which the score declines
REPORTING_DELAY = 60.0  # seconds that an agent may take to report a pod


@dataclass(frozen=True, slots=True)
class TargetLoadPacking:
    """Percent of capacity. `metric_provider` and `watcher_address` configure sources and are not used here."""

    name: ClassVar[str] = "TargetLoadPacking"
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = SCORE_SCALE

    default_requests: ResourceAmounts = setting(
        ONE_CORE, "`{cpu: 1000m}` unless set: the estimate for a container without request and limit"
    )
    default_requests_multiplier: str = setting(
        "1.5", '`"1.5"` unless set: times its request, the estimate for a container without a limit'
    )
    target_utilization: int = setting(
        40, "40 unless set, 1 to 99: the target CPU utilization of nodes in percent", between=(1, 99)
    )
    metric_provider: MetricProvider = setting(
        METRICS_SERVER, "`Prometheus` with an address, or `KubernetesMetricsServer`: becomes a source, see below"
    )
    watcher_address: str = setting(
        "", "load-watcher is not used: configure the Prometheus that it reads as a source", support=Support.IGNORED
    )
    strict: bool = setting(False, "false unless set: true scores exactly as the original does")

    def __post_init__(self) -> None:
        check_ranges(self)
        if not 0 <= _number(self.default_requests_multiplier) < math.inf:
            text = self.default_requests_multiplier[:100]
            raise ValueError(f'defaultRequestsMultiplier: {text!r} is not a number such as "1.5", 0 or more')

    def named_source(self) -> NamedSource:
        return self.metric_provider.named_source()

    def signature(self, pod: Pod) -> Hashable:
        return estimate_signature(pod)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if self.strict:
            return self._strict_score(view, pod, rows)
        used = ratios(expected(view, CPU, rows) + self._estimate(view, pod), view.capacity(CPU)[rows])
        trust = view.load.trust(CPU)[: view.count][rows]
        return scaled_score(
            blend_with_requests(trust, self._points(used), lambda: self._points(self._requested(view, pod, rows)))
        )

    def _requested(self, view: View, pod: Pod, rows: Rows) -> Floats:
        return ratios(requested_with(view, CPU, rows, pod), view.allocatable(CPU)[rows])

    def _points(self, used: Floats) -> Floats:
        """Of a ratio: piecewise linear, without a step; NaN stays NaN."""
        target = float(self.target_utilization)
        tail_start = min(target + DESCENT_WIDTH, 100.0)
        tail_score = target * (100.0 - tail_start) / (100.0 - target)
        return np.interp(used * 100.0, (0.0, target, tail_start, 100.0), (target, MAX_SCORE, tail_score, 0.0))

    def _estimate(self, view: View, pod: Pod) -> float:
        estimate, _, rule = view.load.estimate(pod, CPU)
        return estimate if rule in LEARNED_RULES else max(self._predicted_usage(pod), pod.requests.of(CPU))

    def _predicted_usage(self, pod: Pod) -> int:
        """Container by container: its limit, or a multiple of its request, or the default."""
        demand, factor = pod.requests, float(self.default_requests_multiplier)
        open_cpu = sum(math.floor(each * factor + 0.5) for each in demand.unlimited_cpu)
        return demand.limited_cpu + open_cpu + demand.containers_without_cpu * self.default_requests.of(CPU)

    def _strict_score(self, view: View, pod: Pod, rows: Rows) -> Ints:
        target, capacity = float(self.target_utilization), view.capacity(CPU)[rows]
        latest, mean = (column(CPU, trusted=False)[: view.count][rows] for column in (view.load.latest, view.load.mean))
        by_mean = self.metric_provider.type == PROMETHEUS
        known = np.where(np.isnan(mean), latest, mean) if by_mean else np.where(np.isnan(latest), mean, latest)
        unsampled = recent_sum(view, view.load.sampled_at(CPU) - REPORTING_DELAY, rows, self._predicted_usage)
        used = known + (self._predicted_usage(pod) + unsampled)
        used = np.where(capacity > 0, 100.0 * used / np.maximum(capacity, 1), used * 0.0)
        below = (100.0 - target) * used / target + target
        above = np.where(used > 100.0, 0.0, target * (100.0 - used) / (100.0 - target))
        return rounded_score(np.where(used > target, above, below))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
