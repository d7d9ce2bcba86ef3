"""Mean and deviation of what an unseen pod will use, by the first rule that knows: siblings, the cluster, a peer's rule."""

from __future__ import annotations

import numpy as np

from trimtab.core.load.aligned import Floats, Index
from trimtab.core.load.estimating.learned import OF_LIMIT, OF_REQUEST, PLAIN, Kin, Ratios, basis
from trimtab.core.load.estimating.rules import BY_NAME, DOUBT
from trimtab.core.model.pod import Pod

REVISIONS = ("controller-revision-hash", "pod-template-hash")
FEWEST_KIN, STALE = 4096, 4
LEAST = 0.1  # of the request: were a burst of idle pods taken to use nothing, chance would put them together

KinKey = tuple[str, str, str]
Estimate = tuple[float, float, str]


def kin_key(pod: Pod) -> KinKey | None:
    """Pods of one owner and revision are kin; who has no owner has none."""
    if pod.owner is None:
        return None
    return pod.owner.uid, pod.labels.get(REVISIONS[0], ""), pod.labels.get(REVISIONS[1], "")


class Estimator:
    """Kin are numbered; numbers whose members are gone are kept for their return, until they are most of what is held."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self.numbers: dict[KinKey, int] = {}
        self.kin = {resource: Kin(16) for resource in resources}
        self.ratios = {resource: Ratios() for resource in resources}

    def number(self, pod: Pod) -> int:
        key = kin_key(pod)
        if key is None:
            return -1
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.numbers)
            for kin in self.kin.values():
                if number >= kin.size:
                    kin.grow(2 * kin.size)
        return number

    def known(self, pod: Pod) -> int:
        """The number of its kin, -1 for none that was ever met."""
        key = kin_key(pod)
        return -1 if key is None else self.numbers.get(key, -1)

    def estimate(self, rules: tuple[str, ...], resource: str, request: float, limit: float, kin: int) -> Estimate:
        whole = limit or request or 1.0
        for rule in rules:
            if rule == "siblings":
                held = self.kin.get(resource)
                if held is not None and kin >= 0 and held.count.item(kin):
                    mean, deviation = held.mean.item(kin), held.variance.item(kin) ** 0.5
                    return max(mean * whole, LEAST * request), deviation * whole, rule
            elif rule == "cluster":
                mean, deviation = self._ratio(resource, request, limit)
                if mean == mean:
                    return max(mean * whole, LEAST * request), deviation * whole, rule
            else:
                amount = BY_NAME[rule](resource, request, limit)
                return amount, amount * DOUBT, rule
        amount = BY_NAME["requests"](resource, request, limit)
        return amount, amount * DOUBT, "requests"

    def _ratio(self, resource: str, request: float, limit: float) -> tuple[float, float]:
        ratios = self.ratios.get(resource)
        if ratios is None:
            return np.nan, np.nan
        return ratios.known[OF_LIMIT if limit else OF_REQUEST if request else PLAIN]

    def columns(
        self, rules: tuple[str, ...], resource: str, requests: Floats, limits: Floats, kin: Index
    ) -> tuple[Floats, Floats]:
        """The same for many pods, as far as others teach: NaN where only a peer's rule would know."""
        whole, kinds = basis(limits, requests)
        mean, deviation = np.full(len(kin), np.nan), np.full(len(kin), np.nan)
        for rule in rules:
            if rule == "siblings":
                held, own = self.kin[resource], kin >= 0
                found = np.where(own & (held.count[kin] > 0), held.mean[kin], np.nan)
                apart = np.sqrt(held.variance[kin])
            elif rule == "cluster":
                known = np.array(self.ratios[resource].known)
                found, apart = known[kinds, 0], known[kinds, 1]
            else:
                break
            unknown = np.isnan(mean)
            mean = np.where(unknown, np.maximum(found * whole, LEAST * requests), mean)
            deviation = np.where(unknown, apart * whole, deviation)
        return mean, deviation

    def forget(self, kin: Index) -> Index:
        """Number anew the kin that pods still have, once most that is held is nobody's; returns their numbers now."""
        if len(self.numbers) < FEWEST_KIN + STALE * len(kin):
            return kin
        live = np.unique(kin[kin >= 0])
        table = np.full(len(self.numbers) + 1, -1, dtype=np.intp)
        table[live] = np.arange(len(live))
        self.numbers = {key: int(table[number]) for key, number in self.numbers.items() if table[number] >= 0}
        for resource, held in self.kin.items():
            kept = self.kin[resource] = held.reordered(live)
            kept.grow(max(16, 2 * len(live)))
        return table[kin]

    def copy(self) -> Estimator:
        twin = Estimator(())
        twin.numbers = self.numbers.copy()
        twin.kin = {resource: kin.copy() for resource, kin in self.kin.items()}
        twin.ratios = {resource: ratios.copy() for resource, ratios in self.ratios.items()}
        return twin
