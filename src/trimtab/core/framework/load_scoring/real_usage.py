"""What MemRealUsage and CpuRealUsage have in common: the less of one resource a node really uses, the better.

After the two plugins of devops-Hunter/real-usage-scheduler, which differ in the metric alone. What was fixed:

- One node without a sample failed every pod, and values of a Prometheus that had stopped were used for ever: a node
  without data that can be believed is scored by requests.
- Scores were stretched between the lowest and the highest node, so 41 % against 42 % became 100 against 0, and all nodes
  equal became 0 for all: here a percent is a point, whatever the other nodes have.
- Five-minute averages do not move while a rollout binds, so all of it went to one node: pods count at once, with what
  they are expected to use, and so does the pod that is being placed.

`strict` brings back the stretch, over whole percent of five-minute averages, as NormalizeScore had it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.framework.load_scoring import utilisation
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import setting

WINDOW = 300.0


@dataclass(frozen=True, slots=True)
class RealUsage:
    """The address and its times say where a source is asked, how long for and how often; no plugin asks anybody."""

    resource: ClassVar[str]
    requeue_on: ClassVar[Change] = Change.NOTHING
    depends_on: ClassVar[Change] = Change.LOAD | Change.PODS | Change.ALLOCATABLE

    prometheus_api_addr: str = setting("", "the URL of a Prometheus: becomes a source, see below")
    query_metric_time_seconds: int = setting(10, "10 unless set, 1 to 3600: the timeout of that source")
    query_metric_interval_seconds: int = setting(10, "10 unless set, 1 to 3600: how often it is queried")
    strict: bool = setting(False, "false unless set: true scales whole percents to 0 to 100, as the original does")

    def __post_init__(self) -> None:
        for name, seconds in (
            ("queryMetricTimeSeconds", self.query_metric_time_seconds),
            ("queryMetricIntervalSeconds", self.query_metric_interval_seconds),
        ):
            if not 0 < seconds <= 3600:
                raise ValueError(f"{name} is {seconds}: it must be from 1 to 3600 seconds")

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
        measured = view.load.recent_mean(self.resource, WINDOW)[: view.count][rows]
        offered = view.capacity(self.resource)[rows]
        shares = utilisation.fill_unknown(
            utilisation.ratios(measured, offered),
            lambda: utilisation.ratios(utilisation.requested_with(view, self.resource, rows), offered),
        )
        return np.floor(np.minimum(shares * 100, MAX_SCORE) + 1e-9).astype(np.int64)

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        """The least used of the feasible nodes has 100 and the most used 0; all have 0 when they are equal."""
        lowest, highest = int(raw.min()), int(raw.max())
        if lowest == highest:
            return np.zeros_like(raw)
        return MAX_SCORE - (raw - lowest) * MAX_SCORE // (highest - lowest)

    def explain_note(self, view: View, pod: Pod) -> str:
        return utilisation.unmeasured_note(view, (self.resource,))
