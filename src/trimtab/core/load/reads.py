"""What plugins read of measured load: one cell per row, NaN where nothing is to be believed; changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimtab.core.load.array_table import Bools, Floats
from trimtab.core.load.estimator import Estimate
from trimtab.core.load.node_history import NodeHistory
from trimtab.core.load.pod_history import PodHistory
from trimtab.core.load.pod_usage import PodUsage
from trimtab.core.load.store import LoadStore, request_and_limit
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Statistic


class LoadReads(LoadStore):
    """Columns by row, and a few by slot."""

    def trust(self, resource: str) -> Floats:
        """1 while fresh, a half while getting on, 0 once stale, absent, or its source has failed."""
        meter = self.latest_samples(resource)
        return np.zeros(self.rows) if meter is None else meter.trust[: self.rows]

    def latest(self, resource: str) -> Floats:
        """The newest sample of each node, as it was measured."""
        return self._trusted_samples(resource, Statistic.LATEST)

    def sampled_at(self, resource: str) -> Floats:
        """When the newest sample of each node was measured; NaN for none."""
        meter = self.latest_samples(resource)
        return self._unknown() if meter is None else meter.measured[: self.rows]

    def custom(self, name: str) -> Floats:
        """The newest value of a metric of the user's own (`Unit.RAW`), NaN where it is not to be believed."""
        meter = self.latest_samples(name, own=True)
        return self._unknown() if meter is None else meter.believed[: self.rows]

    # --- what is still to come

    def unsampled(self, resource: str) -> Floats:
        """What the newest sample does not show yet: estimates of pods not in it, less what left since. Never NaN.
        Where no sample is believed, that is all that the node's pods come to."""
        return self._expected_and_unsampled(resource)[1] if resource in self.accounting else np.zeros(self.rows)

    def expected(self, resource: str) -> Floats:
        """`latest` + `pending`, not below 0: what the node will be seen to use once everything is in a sample."""
        return self._expected_and_unsampled(resource)[0] if resource in self.accounting else self.latest(resource)

    def forecast(self, resource: str) -> tuple[Floats, Floats]:
        """Mean and variance of the sum that each node's pods will come to: hour's means and variances of pods that are
        seen, estimates of those that are not, and what the node uses beside its pods. Where pods are not measured the
        node's own figures stand in (`node_metrics_only`): what is `expected`, and its deviation.

        With little data: a pod with n samples counts its estimate's variance as one more of them; a node with fewer than
        two counts the variances of its pods' estimates.
        """
        if resource not in self.accounting:
            return self.latest(resource), self.deviation(resource) ** 2
        kept = self._forecast[resource]
        mean, variance, _ = kept.get(
            lambda rows: self._compute_forecast(resource), lambda row: self._compute_forecast_row(resource, row)
        )
        return mean, variance

    def node_metrics_only(self, resource: str) -> Bools:
        """Nodes whose forecast rests on node metrics alone."""
        account = self.accounting.get(resource)
        return np.ones(self.rows, dtype=np.bool_) if account is None else ~account.totals.fed[: self.rows]

    def estimate(self, pod: Pod, resource: str) -> Estimate:
        """What a pod nobody has seen yet will use: mean, standard deviation, and the rule that knew it."""
        last, held = self._estimates
        if last is not pod:
            self._estimates = pod, (held := {})
        if resource not in held:
            known = self.estimator.known_workload_id(pod)
            held[resource] = self._estimate(resource, *request_and_limit(pod, resource), known)
        return held[resource]

    def _expected_and_unsampled(self, resource: str) -> tuple[Floats, ...]:
        """What is expected, and what of it is pending."""
        return self._expected[resource].get(
            lambda rows: self._compute_expected(resource), lambda row: self._compute_expected_row(resource, row)
        )

    def _compute_expected(self, resource: str) -> tuple[Floats, Floats]:
        pending = self.accounting[resource].unsampled(slice(0, self.rows))
        return np.maximum(self.latest(resource) + pending, 0.0), pending

    def _compute_expected_row(self, resource: str, row: int) -> tuple[float, float]:
        account = self.accounting[resource]
        pending = account.unsampled_in(row)
        amount = account.samples.believed.item(row) + pending
        return 0.0 if amount < 0.0 else amount, pending

    def _compute_forecast(self, resource: str) -> tuple[Floats, Floats, Floats]:
        """Mean, variance, and the node's own variance, which a touched row does not change."""
        totals, count = self.accounting[resource].totals, self.rows
        alone, fed, latest = self._node_variance(resource), totals.fed[:count], self.latest(resource)
        used = np.nan_to_num(totals.beside[:count]) + totals.level[:count]
        mean = np.where(fed, used, self.expected(resource))
        variance = np.where(fed | np.isnan(alone), totals.spread[:count], alone + totals.unsure[:count])
        missing = np.isnan(latest)
        mean[missing] = variance[missing] = np.nan
        return mean, variance, alone

    def _compute_forecast_row(self, resource: str, row: int) -> tuple[float, float, float]:
        """The same for a row that was touched, in plain numbers: it is asked for after every placement."""
        totals, alone = self.accounting[resource].totals, self._forecast[resource].columns[2].item(row)
        latest, beside = self.latest(resource).item(row), totals.beside.item(row)
        if latest != latest:
            return np.nan, np.nan, alone
        if totals.fed.item(row):
            return (beside if beside == beside else 0.0) + totals.level.item(row), totals.spread.item(row), alone
        variance = totals.spread.item(row) if alone != alone else alone + totals.unsure.item(row)
        return self._compute_expected_row(resource, row)[0], variance, alone

    def _node_variance(self, resource: str) -> Floats:
        return self.deviation(resource) ** 2 if self.node_metrics_only(resource).any() else np.zeros(self.rows)

    # --- how nodes went: the same until the next reading, and asked for again and again

    def recent_mean(self, resource: str, seconds: float) -> Floats:
        """Mean of the node's samples of the last `seconds` (at most an hour)."""
        return self._statistic((resource, "average", seconds), lambda course: course.mean(seconds))

    def mean(self, resource: str) -> Floats:
        """Mean over `settings.window`, or what the source itself gave as such."""
        window = self.settings.window
        return self._statistic((resource, "mean", window), lambda course: course.mean(window), Statistic.MEAN)

    def deviation(self, resource: str) -> Floats:
        """Standard deviation over `settings.window`, or what the source gave; NaN with fewer than two samples."""
        window = self.settings.window
        return self._statistic(
            (resource, "deviation", window), lambda course: course.deviation(window), Statistic.DEVIATION
        )

    def percentile(self, resource: str, percent: int, seconds: int) -> Floats:
        """Exact percentile (50, 90, 95, 99) over 300, 600 or 1800 seconds."""
        return self._statistic((resource, percent, seconds), lambda course: course.percentile(percent, seconds))

    def peak(self, resource: str, seconds: int) -> Floats:
        """The highest five-minute mean within 3600 or 86400 seconds."""
        return self._statistic((resource, "peak", seconds), lambda course: course.peak(seconds))

    def _statistic(
        self, key: tuple[str, str | int, float], went: Callable[[NodeHistory], Floats], given: Statistic | None = None
    ) -> Floats:
        """How a resource went, where it is trusted, or what a source gave as such, which goes before; not to be written."""
        held = self._statistics.get(key)
        if held is None:
            resource = key[0]
            course = self.node_histories.get(resource)
            held = self._unknown() if course is None else self._where_trusted(resource, went(course))
            if given is not None:
                known = self._trusted_samples(resource, given)
                held = np.where(np.isnan(known), held, known)
            held.setflags(write=False)
            self._statistics[key] = held
        return held

    def system_usage(self, resource: str) -> Floats:
        """What each node uses beside its pods; NaN where pods are not measured."""
        account = self.accounting.get(resource)
        return self._unknown() if account is None else account.totals.beside[: self.rows]

    # --- by slot

    def pod_usage(self, resource: str) -> PodUsage:
        """What is known of each pod of CPU or memory, and what it counts for; not to be written."""
        return self.accounting[resource].pods

    @property
    def placed_at(self) -> Floats:
        """When each pod took its place, as far as known; -inf for pods that were there before anything was timed."""
        return self.placed_pods.placed

    @property
    def pods_sampled_at(self) -> Floats:
        """When the newest sample of the pod itself was measured; NaN for none."""
        columns = [account.pods.sampled for account in self.accounting.values()]
        return np.asarray(np.fmax.reduce(columns))

    def pod_history(self, resource: str) -> PodHistory | None:
        """How each pod went; None where pods are not measured."""
        account = self.accounting.get(resource)
        return None if account is None else account.history

    def _trusted_samples(self, resource: str, statistic: Statistic) -> Floats:
        meter = self.latest_samples(resource, statistic)
        return self._unknown() if meter is None else meter.believed[: self.rows]

    def _where_trusted(self, resource: str, column: Floats) -> Floats:
        return np.where(self.trust(resource) > 0, column[: self.rows], np.nan)

    def _unknown(self) -> Floats:
        return np.full(self.rows, np.nan)
