"""Counters and histograms by label values, as /metrics serves them: plain dictionaries without locks.

They are updated and read on one event loop, at a fraction of the cost of a thread-safe client library.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket limits by repeated multiplication, which rounds as kube-scheduler's do; powers would not."""
    limits = [start]
    for _ in range(count - 1):
        limits.append(limits[-1] * factor)
    return tuple(limits)


class Counter:
    """A counter by label values; one without labels starts at 0, and so do `known` values of a single label.

    A series that starts at 1 shows no increase, so an alert would miss the first time.
    """

    def __init__(self, name: str, documentation: str, labels: Labels = (), known: Iterable[str] = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._values: dict[Labels, int] = {(value,): 0 for value in known} if labels else {(): 0}

    def add(self, *labels: str, by: int = 1) -> None:
        """Increment for these label values, in the order of the label names."""
        self._values[labels] = self._values.get(labels, 0) + by

    def family(self) -> Metric:
        """The current values."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family


class Histogram:
    """A histogram by label values; one without labels starts with empty buckets."""

    def __init__(self, name: str, documentation: str, buckets: tuple[float, ...], labels: Labels = ()) -> None:
        self._name, self._documentation, self._buckets, self._labels = name, documentation, buckets, labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._create(())

    def observe(self, value: float, *labels: str) -> None:
        """Count one value for these label values, in the order of the label names."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._create(labels)
        counts[bisect_left(self._buckets, value)] += 1
        self._sums[labels] += value

    def _create(self, labels: Labels) -> list[int]:
        counts = self._counts[labels] = [0] * (len(self._buckets) + 1)
        self._sums[labels] = 0.0
        return counts

    def family(self) -> Metric:
        """The current values."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(floatToGoString, self._buckets), "+Inf"]
        for labels, counts in self._counts.items():
            family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), self._sums[labels])
        return family
