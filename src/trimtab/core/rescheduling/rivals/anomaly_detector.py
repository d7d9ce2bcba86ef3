"""Koordinator's anomaly detector of a node.

    ok ── more than 5 abnormal marks in a row ──▶ anomaly
     ▲                                               │
     └── a minute has passed, more than 3 normal ────┘
         marks in a row, or a reset

Reset does not clear the counts of a node that is ok. A detector that is not marked abnormal for `cache_timeout` is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class AnomalyCondition(NamedTuple):
    """How many marks in a row change the state, and for how many seconds a state, and a detector, lasts."""

    abnormalities: int = 5
    normalities: int = 3
    timeout: float = 60.0
    cache_timeout: float = 300.0


class AnomalyDetector(Struct, frozen=True):
    """`anomaly_until` is None while the state is ok."""

    abnormal: int = 0
    normal: int = 0
    anomaly_until: float | None = None
    forgotten_after: float = 0.0

    @property
    def is_anomaly(self) -> bool:
        return self.anomaly_until is not None

    def mark_abnormal(self, now: float, condition: AnomalyCondition) -> AnomalyDetector:
        current = self._current(now, condition)
        marked = replace(
            current, abnormal=current.abnormal + 1, normal=0, forgotten_after=now + condition.cache_timeout
        )
        if marked.is_anomaly or marked.abnormal <= condition.abnormalities:
            return marked
        return AnomalyDetector(anomaly_until=now + condition.timeout, forgotten_after=marked.forgotten_after)

    def mark_normal(self, now: float, condition: AnomalyCondition) -> AnomalyDetector:
        current = self._current(now, condition)
        return replace(current, abnormal=0, normal=current.normal + 1)._current(now, condition)

    def reset(self) -> AnomalyDetector:
        return AnomalyDetector(forgotten_after=self.forgotten_after) if self.is_anomaly else self

    def _current(self, now: float, condition: AnomalyCondition) -> AnomalyDetector:
        expired = self.anomaly_until is not None and self.anomaly_until < now
        return self.reset() if expired or self.normal > condition.normalities else self


def known_detector(detectors: dict[str, AnomalyDetector], node: str, now: float) -> AnomalyDetector | None:
    found = detectors.get(node)
    return found if found is not None and now <= found.forgotten_after else None
