"""Estimates of what an unmeasured pod will use: learned from its siblings or the whole cluster, or by a default rule.

Learned usage is kept as a ratio of the pod's limit, else of its request, else as an absolute amount.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, DEFAULT_CPU_REQUEST, DEFAULT_MEMORY_REQUEST, MEMORY, MIB
from trimtab.core.tables import ArrayTable, Bools, Floats, Index, column

DEFAULT_AMOUNTS: Mapping[str, float] = {
    CPU: 250.0,
    MEMORY: 200.0 * MIB,
}  # Koordinator's and Volcano's without a request
TRIMARAN_DEFAULTS: Mapping[str, float] = {CPU: 1000.0, MEMORY: 200.0 * MIB}
NONZERO_DEFAULTS: Mapping[str, float] = {CPU: float(DEFAULT_CPU_REQUEST), MEMORY: float(DEFAULT_MEMORY_REQUEST)}
KOORDINATOR_FACTORS: Mapping[str, float] = {CPU: 0.85, MEMORY: 0.70}
LEARNED_RULES = ("siblings", "cluster")  # estimates made of measurements
RELATIVE_DEVIATION = 0.5  # of a rule's estimate: the rules themselves give no deviation

REVISION_LABELS = ("controller-revision-hash", "pod-template-hash")
MIN_WORKLOADS, STALE_PER_POD = 4096, 4
MIN_OF_REQUEST = 0.1  # were a burst of idle pods estimated at nothing, all of them could go to one node

MAX_SAMPLES = 2_000
MIN_SAMPLES = 20  # first samples, before ratios are used
MAX_RATIO = 4.0  # a higher ratio says more about this pod's request than about other pods
OF_LIMIT, OF_REQUEST, ABSOLUTE = 0, 1, 2

WorkloadKey = tuple[str, str, str]
Estimate = tuple[float, float, str]  # mean, standard deviation, and the rule that gave them
Rule = Callable[[str, float, float], float]  # resource, request, limit (0: none)


def workload_key(pod: Pod) -> WorkloadKey | None:
    """Pods of one owner and revision are siblings; None without an owner."""
    if pod.owner is None:
        return None
    return pod.owner.uid, pod.labels.get(REVISION_LABELS[0], ""), pod.labels.get(REVISION_LABELS[1], "")


def request_and_limit(pod: Pod, resource: str) -> tuple[float, float]:
    """0 for none."""
    for name, limit in pod.requests.limits:
        if name == resource:
            return float(pod.requests.of(resource)), float(limit)
    return float(pod.requests.of(resource)), 0.0


# --- default rules


def koordinator(resource: str, request: float, limit: float) -> float:
    """The larger of request and limit, scaled, and not above the limit."""
    whole = max(request, limit)
    scaled = whole * KOORDINATOR_FACTORS.get(resource, 1.0) if whole else DEFAULT_AMOUNTS.get(resource, 0.0)
    return min(scaled, limit) if limit else scaled


def trimaran(resource: str, request: float, limit: float) -> float:
    """The limit, else 1.5 times the request, else a core."""
    return limit or 1.5 * request or TRIMARAN_DEFAULTS.get(resource, 0.0)


def volcano(resource: str, request: float, limit: float) -> float:
    """70 % of the request plus a safety margin of 20 %."""
    return 0.7 * request * 1.2 if request else DEFAULT_AMOUNTS.get(resource, 0.0)


def requests(resource: str, request: float, limit: float) -> float:
    """The request; kube-scheduler's non-zero default without one."""
    return request or NONZERO_DEFAULTS.get(resource, 0.0)


RULES_BY_NAME: Mapping[str, Rule] = {
    "koordinator": koordinator,
    "trimaran": trimaran,
    "volcano": volcano,
    "requests": requests,
}


# --- learned usage


class SiblingUsage(ArrayTable):
    """One resource by workload id: how many pods were measured last, mean and variance of their ratio."""

    count: Floats = column()
    mean: Floats = column(np.nan)
    variance: Floats = column(np.nan)

    def learn(self, workloads: Index, ratios: Floats, variances: Floats) -> None:
        """A pod's variance is the mean of its siblings' variances plus the variance of their means. Workloads without
        measured pods keep what was learned before."""
        owned = workloads >= 0
        workloads, ratios, variances = workloads[owned], ratios[owned], variances[owned]
        count = np.bincount(workloads, minlength=self.size).astype(np.float64)
        divisor = np.maximum(count, 1.0)
        mean = np.bincount(workloads, ratios, minlength=self.size) / divisor
        within = np.bincount(workloads, variances, minlength=self.size) / divisor
        between = np.bincount(workloads, np.square(ratios - mean[workloads]), minlength=self.size) / divisor
        measured = count > 0
        self.count = np.where(measured, count, self.count)
        self.mean = np.where(measured, mean, self.mean)
        self.variance = np.where(measured, within + between, self.variance)


class ClusterRatios:
    """One resource: first samples of the last 2,000 pods as ratios of the limit, of the request, and absolute."""

    def __init__(self) -> None:
        self.ratios: Floats = np.full((3, MAX_SAMPLES), np.nan)
        self.seen = [0, 0, 0]
        self.known = [(np.nan, np.nan)] * 3

    def learn(self, used: Floats, limits: Floats, requests: Floats) -> None:
        neither = (limits <= 0) & (requests <= 0)
        for basis, present, amounts in ((OF_LIMIT, limits > 0, limits), (OF_REQUEST, requests > 0, requests)):
            self._push(basis, np.minimum(used[present] / amounts[present], MAX_RATIO))
        self._push(ABSOLUTE, used[neither])

    def _push(self, basis: int, ratios: Floats) -> None:
        if not len(ratios):
            return
        newest = ratios[-MAX_SAMPLES:]
        places = (self.seen[basis] + np.arange(len(newest))) % MAX_SAMPLES
        self.ratios[basis, places] = newest
        self.seen[basis] += len(newest)
        held = self.ratios[basis, : min(self.seen[basis], MAX_SAMPLES)]
        if len(held) >= MIN_SAMPLES:
            self.known[basis] = float(held.mean()), float(held.std())

    def copy(self) -> ClusterRatios:
        copy = ClusterRatios()
        copy.ratios, copy.seen, copy.known = self.ratios.copy(), self.seen.copy(), self.known.copy()
        return copy


def ratio_basis(limits: Floats, requests: Floats) -> tuple[Floats, Index]:
    """What ratios refer to: the amount, and which of limit, request or absolute it is."""
    limited: Bools = limits > 0
    requested: Bools = requests > 0
    whole = np.where(limited, limits, np.where(requested, requests, 1.0))
    return whole, np.where(limited, OF_LIMIT, np.where(requested, OF_REQUEST, ABSOLUTE))


class Estimator:
    """Applies the configured rules. Workload ids of vanished workloads are kept for their return until they are most of
    what is held."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.workload_ids: dict[WorkloadKey, int] = {}
        self.siblings = {resource: SiblingUsage(16) for resource in resources}
        self.ratios = {resource: ClusterRatios() for resource in resources}

    def workload_id(self, pod: Pod) -> int:
        """The id of the pod's workload, a new one if need be; -1 without an owner."""
        key = workload_key(pod)
        if key is None:
            return -1
        number = self.workload_ids.get(key)
        if number is None:
            number = self.workload_ids[key] = len(self.workload_ids)
            for siblings in self.siblings.values():
                if number >= siblings.size:
                    siblings.grow(2 * siblings.size)
        return number

    def known_workload_id(self, pod: Pod) -> int:
        """The id of the pod's workload, -1 if it has none yet."""
        key = workload_key(pod)
        return -1 if key is None else self.workload_ids.get(key, -1)

    def estimate(self, rules: tuple[str, ...], resource: str, request: float, limit: float, workload: int) -> Estimate:
        whole = limit or request or 1.0
        for rule in rules:
            if rule == "siblings":
                siblings = self.siblings.get(resource)
                if siblings is not None and workload >= 0 and siblings.count.item(workload):
                    mean, deviation = siblings.mean.item(workload), siblings.variance.item(workload) ** 0.5
                    return max(mean * whole, MIN_OF_REQUEST * request), deviation * whole, rule
            elif rule == "cluster":
                mean, deviation = self._cluster_ratio(resource, request, limit)
                if mean == mean:
                    return max(mean * whole, MIN_OF_REQUEST * request), deviation * whole, rule
            else:
                return _by_rule(rule, resource, request, limit)
        return _by_rule("requests", resource, request, limit)

    def _cluster_ratio(self, resource: str, request: float, limit: float) -> tuple[float, float]:
        ratios = self.ratios.get(resource)
        if ratios is None:
            return np.nan, np.nan
        return ratios.known[OF_LIMIT if limit else OF_REQUEST if request else ABSOLUTE]

    def learned_estimates(
        self, rules: tuple[str, ...], resource: str, requests: Floats, limits: Floats, workloads: Index
    ) -> tuple[Floats, Floats]:
        """Mean and deviation for many pods, as far as they are learned: NaN where a default rule applies."""
        whole, basis = ratio_basis(limits, requests)
        mean, deviation = np.full(len(workloads), np.nan), np.full(len(workloads), np.nan)
        for rule in rules:
            if rule == "siblings":
                siblings = self.siblings[resource]
                known = (workloads >= 0) & (siblings.count[workloads] > 0)
                ratios, deviations = np.where(known, siblings.mean[workloads], np.nan), siblings.variance[workloads]
                deviations = np.sqrt(deviations)
            elif rule == "cluster":
                by_basis = np.array(self.ratios[resource].known)
                ratios, deviations = by_basis[basis, 0], by_basis[basis, 1]
            else:
                break
            unknown = np.isnan(mean)
            mean = np.where(unknown, np.maximum(ratios * whole, MIN_OF_REQUEST * requests), mean)
            deviation = np.where(unknown, deviations * whole, deviation)
        return mean, deviation

    def compact_ids(self, workloads: Index) -> Index:
        """Renumber the workloads that pods still have, once most ids are unused; returns the pods' ids now."""
        if len(self.workload_ids) < MIN_WORKLOADS + STALE_PER_POD * len(workloads):
            return workloads
        live = np.unique(workloads[workloads >= 0])
        new_id = np.full(len(self.workload_ids) + 1, -1, dtype=np.intp)
        new_id[live] = np.arange(len(live))
        self.workload_ids = {key: int(new_id[old]) for key, old in self.workload_ids.items() if new_id[old] >= 0}
        for resource, siblings in self.siblings.items():
            kept = self.siblings[resource] = siblings.reordered(live)
            kept.grow(max(16, 2 * len(live)))
        return new_id[workloads]

    def copy(self) -> Estimator:
        copy = Estimator(())
        copy.workload_ids = self.workload_ids.copy()
        copy.siblings = {resource: siblings.copy() for resource, siblings in self.siblings.items()}
        copy.ratios = {resource: ratios.copy() for resource, ratios in self.ratios.items()}
        return copy


def _by_rule(rule: str, resource: str, request: float, limit: float) -> Estimate:
    amount = RULES_BY_NAME[rule](resource, request, limit)
    return amount, amount * RELATIVE_DEVIATION, rule
