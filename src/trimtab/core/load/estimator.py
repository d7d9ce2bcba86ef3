"""Mean and deviation of what an unseen pod will use, by the first rule that knows: siblings, the cluster, a peer's rule."""

from __future__ import annotations

import numpy as np

from trimtab.core.load.array_table import Floats, Index
from trimtab.core.load.default_estimates import BY_NAME, RELATIVE_DEVIATION
from trimtab.core.load.learned_usage import OF_LIMIT, OF_REQUEST, PLAIN, ClusterRatios, SiblingUsage, ratio_basis
from trimtab.core.model.pod import Pod

REVISIONS = ("controller-revision-hash", "pod-template-hash")
MIN_WORKLOADS, STALE_PER_POD = 4096, 4
MIN_OF_REQUEST = 0.1  # of the request: were a burst of idle pods taken to use nothing, chance would put them together

WorkloadKey = tuple[str, str, str]
Estimate = tuple[float, float, str]


def workload_key(pod: Pod) -> WorkloadKey | None:
    """Pods of one owner and revision are kin; who has no owner has none."""
    if pod.owner is None:
        return None
    return pod.owner.uid, pod.labels.get(REVISIONS[0], ""), pod.labels.get(REVISIONS[1], "")


class Estimator:
    """Kin are numbered; numbers whose members are gone are kept for their return, until they are most of what is held."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.workload_ids: dict[WorkloadKey, int] = {}
        self.siblings = {resource: SiblingUsage(16) for resource in resources}
        self.ratios = {resource: ClusterRatios() for resource in resources}

    def workload_id(self, pod: Pod) -> int:
        key = workload_key(pod)
        if key is None:
            return -1
        number = self.workload_ids.get(key)
        if number is None:
            number = self.workload_ids[key] = len(self.workload_ids)
            for kin in self.siblings.values():
                if number >= kin.size:
                    kin.grow(2 * kin.size)
        return number

    def known_workload_id(self, pod: Pod) -> int:
        """The number of its kin, -1 for none that was ever met."""
        key = workload_key(pod)
        return -1 if key is None else self.workload_ids.get(key, -1)

    def estimate(self, rules: tuple[str, ...], resource: str, request: float, limit: float, workload: int) -> Estimate:
        whole = limit or request or 1.0
        for rule in rules:
            if rule == "siblings":
                held = self.siblings.get(resource)
                if held is not None and workload >= 0 and held.count.item(workload):
                    mean, deviation = held.mean.item(workload), held.variance.item(workload) ** 0.5
                    return max(mean * whole, MIN_OF_REQUEST * request), deviation * whole, rule
            elif rule == "cluster":
                mean, deviation = self._ratio(resource, request, limit)
                if mean == mean:
                    return max(mean * whole, MIN_OF_REQUEST * request), deviation * whole, rule
            else:
                amount = BY_NAME[rule](resource, request, limit)
                return amount, amount * RELATIVE_DEVIATION, rule
        amount = BY_NAME["requests"](resource, request, limit)
        return amount, amount * RELATIVE_DEVIATION, "requests"

    def _ratio(self, resource: str, request: float, limit: float) -> tuple[float, float]:
        ratios = self.ratios.get(resource)
        if ratios is None:
            return np.nan, np.nan
        return ratios.known[OF_LIMIT if limit else OF_REQUEST if request else PLAIN]

    def learned_estimates(
        self, rules: tuple[str, ...], resource: str, requests: Floats, limits: Floats, workloads: Index
    ) -> tuple[Floats, Floats]:
        """The same for many pods, as far as others teach: NaN where only a peer's rule would know."""
        whole, kinds = ratio_basis(limits, requests)
        mean, deviation = np.full(len(workloads), np.nan), np.full(len(workloads), np.nan)
        for rule in rules:
            if rule == "siblings":
                held, own = self.siblings[resource], workloads >= 0
                found = np.where(own & (held.count[workloads] > 0), held.mean[workloads], np.nan)
                apart = np.sqrt(held.variance[workloads])
            elif rule == "cluster":
                known = np.array(self.ratios[resource].known)
                found, apart = known[kinds, 0], known[kinds, 1]
            else:
                break
            unknown = np.isnan(mean)
            mean = np.where(unknown, np.maximum(found * whole, MIN_OF_REQUEST * requests), mean)
            deviation = np.where(unknown, apart * whole, deviation)
        return mean, deviation

    def compact_ids(self, workloads: Index) -> Index:
        """Number anew the kin that pods still have, once most that is held is nobody's; returns their numbers now."""
        if len(self.workload_ids) < MIN_WORKLOADS + STALE_PER_POD * len(workloads):
            return workloads
        live = np.unique(workloads[workloads >= 0])
        table = np.full(len(self.workload_ids) + 1, -1, dtype=np.intp)
        table[live] = np.arange(len(live))
        self.workload_ids = {key: int(table[number]) for key, number in self.workload_ids.items() if table[number] >= 0}
        for resource, held in self.siblings.items():
            kept = self.siblings[resource] = held.reordered(live)
            kept.grow(max(16, 2 * len(live)))
        return table[workloads]

    def copy(self) -> Estimator:
        twin = Estimator(())
        twin.workload_ids = self.workload_ids.copy()
        twin.siblings = {resource: kin.copy() for resource, kin in self.siblings.items()}
        twin.ratios = {resource: ratios.copy() for resource, ratios in self.ratios.items()}
        return twin
