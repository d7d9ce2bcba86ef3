"""What plugins read of measured load: one cell per row, NaN where nothing can be trusted.

Arrays are the live ones: copy before keeping or changing them. With `trusted=False` a column has the last known values,
however old they are: for policies that are run as their origin behaves, without a limit of age.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy as shallow_copy
from functools import partial
from typing import Any, Self

import numpy as np

from trimtab.core.load.estimates import Estimate, request_and_limit
from trimtab.core.load.history import NodeHistory
from trimtab.core.load.pod_usage import PodUsage
from trimtab.core.load.settings import TRACKED, LoadSettings
from trimtab.core.load.store import LoadStore, RowChanges
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Statistic
from trimtab.core.tables import Bools, Floats

MAX_ROWS = 32  # changed rows, above which computing all rows at once is cheaper


class RowCache:
    """Computed columns; only the rows that changed since the last use are computed again."""

    def __init__(
        self,
        changes: RowChanges,
        compute: Callable[[], tuple[Floats, ...]],
        compute_row: Callable[[int], tuple[float, ...]],
    ) -> None:
        self.columns: tuple[Floats, ...] = ()
        self._changes, self._compute, self._compute_row = changes, compute, compute_row
        self._epoch, self._seen = -1, 0

    def get(self) -> tuple[Floats, ...]:
        epoch, rows = self._changes.epoch, self._changes.rows
        count = len(rows)
        if self._epoch != epoch or count - self._seen > MAX_ROWS:
            self.columns = self._compute()
        elif count > self._seen:
            for row in rows[self._seen :]:
                for column, cell in zip(self.columns, self._compute_row(row), strict=True):
                    column[row] = cell
        self._epoch, self._seen = epoch, count
        return self.columns


class LoadView:
    """Columns by row, and a few by slot, computed from one store."""

    def __init__(self, store: LoadStore | None = None) -> None:
        self._attach(store if store is not None else LoadStore())

    def _attach(self, store: LoadStore) -> None:
        self.store = store
        self.plugin_cache: dict[Hashable, Any] = {}  # what plugins have computed from this view and want to keep
        self._epoch = store.changes.epoch
        self._statistics: dict[Hashable, Floats] = {}
        self._estimates: tuple[Pod | None, dict[str, Estimate]] = (None, {})  # of the last pod
        self._expected = {
            name: RowCache(
                store.changes, partial(self._compute_expected, name), partial(self._compute_expected_row, name)
            )
            for name in TRACKED
        }
        self._forecast = {
            name: RowCache(
                store.changes, partial(self._compute_forecast, name), partial(self._compute_forecast_row, name)
            )
            for name in TRACKED
        }

    def over(self, store: LoadStore) -> Self:
        """The same kind of view of another store."""
        copy = shallow_copy(self)
        copy._attach(store)
        return copy

    @property
    def settings(self) -> LoadSettings:
        return self.store.settings

    @property
    def rows(self) -> int:
        return self.store.rows

    # --- samples of nodes

    def trust(self, resource: str) -> Floats:
        """1 while fresh, 0.5 when older, 0 once stale, missing or discarded; for a further resource also where nobody knows
        what the node has of it."""
        further = self.store.metric_of_nodes(resource)
        if further is not None:
            metric = self.store.capacities[resource].metric
            return np.where(self.custom(metric) >= 0.0, further.trust, 0.0) if metric else further.trust
        samples = self.store.latest_samples(resource)
        return np.zeros(self.rows) if samples is None else samples.trust[: self.rows]

    def latest(self, resource: str, *, trusted: bool = True) -> Floats:
        """The newest sample of each node."""
        return self.reported(resource, Statistic.LATEST, trusted=trusted)

    def sampled_at(self, resource: str) -> Floats:
        """When the newest sample of each node was taken; NaN for none."""
        further = self.store.metric_of_nodes(resource)
        if further is not None:
            return further.sampled_at
        samples = self.store.latest_samples(resource)
        return self._unknown() if samples is None else samples.sampled_at[: self.rows]

    def custom(self, name: str) -> Floats:
        """The newest value of a custom metric (`Unit.RAW`)."""
        samples = self.store.latest_samples(name, custom=True)
        return self._unknown() if samples is None else samples.trusted_value[: self.rows]

    def system_usage(self, resource: str) -> Floats:
        """What each node uses besides its pods; NaN where pods are not measured."""
        accounting = self.store.accounting.get(resource)
        return self._unknown() if accounting is None else accounting.totals.system_usage[: self.rows]

    def reported(self, resource: str, statistic: Statistic, *, trusted: bool = True) -> Floats:
        """A statistic as the source computed it; NaN where it does not."""
        samples = self.store.latest_samples(resource, statistic)
        if samples is None:
            return self._unknown()
        return (samples.trusted_value if trusted else samples.value)[: self.rows]

    def _unknown(self) -> Floats:
        return np.full(self.rows, np.nan)

    # --- expected usage

    def unsampled(self, resource: str) -> Floats:
        """What the newest sample does not contain yet: estimates of pods not in it, minus what was removed since. Never
        NaN; without a trusted sample it is the estimate of all pods."""
        return self._expected[resource].get()[1] if resource in self._expected else np.zeros(self.rows)

    def expected(self, resource: str) -> Floats:
        """`latest` + `unsampled`, at least 0: the usage once a sample contains every pod. Of a further resource the sum of
        all pods."""
        further = self.store.metric_of_nodes(resource)
        if further is not None:
            return further.usage
        return self._expected[resource].get()[0] if resource in self._expected else self.latest(resource)

    def _compute_expected(self, resource: str) -> tuple[Floats, Floats]:
        unsampled = self.store.accounting[resource].unsampled(slice(0, self.rows))
        return np.maximum(self.latest(resource) + unsampled, 0.0), unsampled

    def _compute_expected_row(self, resource: str, row: int) -> tuple[float, float]:
        accounting = self.store.accounting[resource]
        unsampled = accounting.unsampled_in(row)
        amount = accounting.samples.trusted_value.item(row) + unsampled
        return 0.0 if amount < 0.0 else amount, unsampled

    def forecast(self, resource: str) -> tuple[Floats, Floats]:
        """Mean and variance of each node's usage: last hour's means and variances of measured pods, estimates of the
        others, and system usage. Where pods are not measured (`node_metrics_only`): `expected`, and the variance of the
        node's own samples.

        With little data, a pod's estimate counts as one more of its samples, and a node with fewer than two samples has
        the variances of its pods' estimates.
        """
        if resource not in self._forecast:
            return self.latest(resource), self.deviation(resource) ** 2
        mean, variance, _ = self._forecast[resource].get()
        return mean, variance

    def node_metrics_only(self, resource: str) -> Bools:
        """Nodes whose forecast is based on node metrics alone."""
        accounting = self.store.accounting.get(resource)
        if accounting is None:
            return np.full(self.rows, resource not in self.store.pod_metrics)
        return ~accounting.totals.has_pod_metrics[: self.rows]

    def _compute_forecast(self, resource: str) -> tuple[Floats, Floats, Floats]:
        """Mean, variance, and the variance of the node's own samples, which a changed row keeps."""
        totals, count = self.store.accounting[resource].totals, self.rows
        node_variance, by_pods = self._node_variance(resource), totals.has_pod_metrics[:count]
        mean = np.where(
            by_pods, np.nan_to_num(totals.system_usage[:count]) + totals.mean[:count], self.expected(resource)
        )
        variance = np.where(
            by_pods | np.isnan(node_variance),
            totals.variance[:count],
            node_variance + totals.unsampled_variance[:count],
        )
        missing = np.isnan(self.latest(resource))
        mean[missing] = variance[missing] = np.nan
        return mean, variance, node_variance

    def _compute_forecast_row(self, resource: str, row: int) -> tuple[float, float, float]:
        """The same for one row in plain numbers: it is computed after every placement."""
        accounting, node_variance = self.store.accounting[resource], self._forecast[resource].columns[2].item(row)
        totals, latest = accounting.totals, accounting.samples.trusted_value.item(row)
        if latest != latest:
            return np.nan, np.nan, node_variance
        if totals.has_pod_metrics.item(row):
            system = totals.system_usage.item(row)
            mean = (system if system == system else 0.0) + totals.mean.item(row)
            return mean, totals.variance.item(row), node_variance
        if node_variance != node_variance:
            variance = totals.variance.item(row)
        else:
            variance = node_variance + totals.unsampled_variance.item(row)
        return self._compute_expected_row(resource, row)[0], variance, node_variance

    def _node_variance(self, resource: str) -> Floats:
        return self.deviation(resource) ** 2 if self.node_metrics_only(resource).any() else np.zeros(self.rows)

    def estimate(self, pod: Pod, resource: str) -> Estimate:
        """What an unmeasured pod will use: mean, standard deviation, and the rule that gave them."""
        self._drop_outdated()
        last, estimates = self._estimates
        if last is not pod:
            self._estimates = pod, (estimates := {})
        if resource not in estimates:
            workload = self.store.estimator.known_workload_id(pod)
            estimates[resource] = self.store.estimate(resource, *request_and_limit(pod, resource), workload)
        return estimates[resource]

    # --- statistics of nodes, cached until the next reading

    def recent_mean(self, resource: str, seconds: float, *, trusted: bool = True) -> Floats:
        """Mean of the node's samples of the last `seconds` (at most an hour)."""
        key = (resource, "recent", seconds, trusted)
        return self._statistic(key, lambda history: history.mean(seconds))

    def mean(self, resource: str, *, trusted: bool = True) -> Floats:
        """Mean over `settings.window`, or the mean that the source computed."""
        window = self.settings.window
        key = (resource, "mean", window, trusted)
        return self._statistic(key, lambda history: history.mean(window), Statistic.MEAN)

    def deviation(self, resource: str, *, trusted: bool = True) -> Floats:
        """Standard deviation over `settings.window`, or as computed by the source; NaN with fewer than two samples."""
        window = self.settings.window
        key = (resource, "deviation", window, trusted)
        return self._statistic(key, lambda history: history.deviation(window), Statistic.DEVIATION)

    def percentile(self, resource: str, percent: int, seconds: int) -> Floats:
        """Exact percentile (50, 90, 95, 99) over 300, 600 or 1800 seconds."""
        key = (resource, percent, seconds, True)
        return self._statistic(key, lambda history: history.percentile(percent, seconds))

    def peak(self, resource: str, seconds: int) -> Floats:
        """The highest five-minute mean within 3600 or 86400 seconds."""
        return self._statistic((resource, "peak", seconds, True), lambda history: history.peak(seconds))

    def _statistic(
        self,
        key: tuple[str, str | int, float, bool],
        compute: Callable[[NodeHistory], Floats],
        by_source: Statistic | None = None,
    ) -> Floats:
        """A statistic where the node's sample is trusted, or (the last of the key) of all nodes; one computed by the source
        takes precedence. Read-only."""
        self._drop_outdated()
        values = self._statistics.get(key)
        if values is None:
            resource, trusted = key[0], key[3]
            history = self.store.node_histories.get(resource)
            values = self._unknown() if history is None else compute(history)[: self.rows].copy()
            if trusted:
                values[self.trust(resource) <= 0] = np.nan
            if by_source is not None:
                given = self.reported(resource, by_source, trusted=trusted)
                values = np.where(np.isnan(given), values, given)
            values.setflags(write=False)
            self._statistics[key] = values
        return values

    def _drop_outdated(self) -> None:
        epoch = self.store.changes.epoch
        if self._epoch != epoch:
            self._epoch, self._statistics, self._estimates = epoch, {}, (None, {})

    # --- by slot

    def pod_usage(self, resource: str) -> PodUsage:
        """What is known of each pod's CPU or memory usage, and what it contributes to its node."""
        return self.store.accounting[resource].pods

    @property
    def placed_at(self) -> Floats:
        """When each pod was placed, as far as known; -inf for pods that were there before the first event with a time."""
        return self.store.placed_pods.placed_at
