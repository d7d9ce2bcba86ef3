"""Which pods are prod by Koordinator's rules, and the usage of prod pods by node.

A pod's class comes from its label `koordinator.sh/priority-class`; without one from the band of its priority (9000 to
9999 is prod; the bands of mid, batch and free are not); else from its label `koordinator.sh/qosClass`; else it is prod
if it has any requests. Prod usage counts what `expected` counts for these pods: their own samples, and estimates of
what no sample shows yet.

The sums are cached with the load they belong to. Between two scrapes only changed rows are summed again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.pod_table import LabelSets
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Bools, Rows
from trimtab.core.framework.load_scoring.utilisation import RESOURCES, cpu_and_memory
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.plugins.load_aware_scheduling.change_cursor import ChangeCursor
from trimtab.core.tables import NO_ROW, Floats

CLASS_LABEL, QOS_LABEL = "koordinator.sh/priority-class", "koordinator.sh/qosClass"
UNSET, PROD, OTHER, UNKNOWN = 0, 1, 2, 3  # unknown: a label with an unknown value
BY_CLASS = {"koord-prod": PROD, "koord-mid": OTHER, "koord-batch": OTHER, "koord-free": OTHER}
BY_QOS = {"SYSTEM": PROD, "LSE": PROD, "LSR": PROD, "LS": PROD, "BE": OTHER}
PROD_BAND, OTHER_BANDS = (9000, 9999), ((7000, 7999), (5000, 5999), (3000, 3999))
LOWEST, HIGHEST = OTHER_BANDS[-1][0], PROD_BAND[1]

Classes = NDArray[np.int8]
Slots = NDArray[np.intp]


def is_prod(pod: Pod) -> bool:
    """Whether one pod is prod; called for each pod that is scheduled."""
    priority_class, qos = _classes_of_labels(pod.labels)
    if priority_class == UNSET and LOWEST <= pod.priority <= HIGHEST:
        priority_class = _class_of_priority(pod.priority)
    decided = priority_class if priority_class in (PROD, OTHER) else qos
    if decided != UNSET:
        return decided == PROD
    return bool(pod.requests.limit_of(CPU) or pod.requests.limit_of(MEMORY))


def prod_usage(view: View, rows: Rows, with_system: bool = False) -> Floats:
    """Usage by prod pods of CPU and memory, plus usage outside pods if `with_system`; NaN where untrusted."""
    sums = (_cached_sums(view) if view.delta is None else _Sums(view).all_rows())[:, rows]
    used: Floats = sums[: len(RESOURCES)]
    latest = cpu_and_memory(view.load.latest, view, rows)
    if with_system:
        outside_pods = cpu_and_memory(view.load.system_usage, view, rows)
        rest = np.maximum(latest - sums[len(RESOURCES) :], 0.0)  # without pod metrics, what estimates leave
        used = used + np.where(np.isnan(outside_pods), rest, outside_pods)
    return np.where(np.isnan(latest), np.nan, used)


def prod_usage_row(view: View, row: int, with_system: bool = False) -> list[float]:
    """The same for one row, in plain numbers."""
    sums = _cached_sums(view) if view.delta is None else _Sums(view).all_rows()
    used = []
    for line, resource in enumerate(RESOURCES):
        latest, amount = view.load.latest(resource).item(row), sums.item(line, row)
        if with_system:
            outside_pods = view.load.system_usage(resource).item(row)
            sampled = sums.item(len(RESOURCES) + line, row)
            amount += outside_pods if outside_pods == outside_pods else max(latest - sampled, 0.0)
        used.append(amount if latest == latest else latest)
    return used


def _cached_sums(view: View) -> Floats:
    cached: _CachedSums | None = view.load.plugin_cache.get(__name__)
    if cached is None:
        cached = view.load.plugin_cache[__name__] = _CachedSums()
    return cached.sums(view)


class _CachedSums:
    """The sums of one cluster."""

    __slots__ = ("_changed", "_sums")

    def __init__(self) -> None:
        self._changed, self._sums = ChangeCursor(Change.PODS | Change.LOAD), np.zeros((2 * len(RESOURCES), 0))

    def sums(self, view: View) -> Floats:
        rows = self._changed.rows(view)
        if rows is None:
            self._sums = _Sums(view).all_rows()
        for row in rows or ():
            self._sums[:, row] = _Sums(view).row(row)
        return self._sums


class _Sums:
    """By row: the usage of prod pods, and what samples show of all pods, each of CPU and memory."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.classes = _LabelSetClasses.of(view)
        self.shares = [view.load.pod_usage(each) for each in RESOURCES]

    def all_rows(self) -> Floats:
        view = self.view
        slots = np.flatnonzero(view.pod_table.row != NO_ROW)
        if view.delta is not None:
            slots = slots[~np.isin(slots, view.delta.slots)]
        rows, prod = view.pod_table.row[slots], self.prod(slots)
        lines = [np.bincount(rows, amounts, minlength=view.count) for amounts in self._amounts(slots, prod)]
        sums = np.array(lines, dtype=np.float64)
        for row, pod, sign in view.delta.untracked if view.delta is not None else ():
            if is_prod(pod):
                sums[: len(RESOURCES), row] += [sign * view.load.estimate(pod, each)[0] for each in RESOURCES]
        return sums

    def row(self, row: int) -> list[float]:
        """One row, in plain numbers; in the order of slots, so that the sum is the same either way."""
        (cpu, memory), slot_of = self.shares, self.view.pod_table.slot
        used_cpu = used_memory = sampled_cpu = sampled_memory = 0.0
        for slot in sorted([slot_of[uid] for uid in self.view.pods_on(self.view.nodes[row].name)]):
            if self.is_prod(slot):
                used_cpu += cpu.expected_of(slot)
                used_memory += memory.expected_of(slot)
            sampled_cpu += cpu.in_node_sample.item(slot)
            sampled_memory += memory.in_node_sample.item(slot)
        return [used_cpu, used_memory, sampled_cpu, sampled_memory]

    def is_prod(self, slot: int) -> bool:
        """The same as `prod` for one pod."""
        pods = self.view.pod_table
        priority_class, qos = self.classes.by_class[pods.label_set.item(slot)]
        if priority_class == UNSET and LOWEST <= (priority := pods.priority.item(slot)) <= HIGHEST:
            priority_class = _class_of_priority(priority)
        decided = priority_class if priority_class in (PROD, OTHER) else qos
        if decided != UNSET:
            return decided == PROD
        return any(each.request.item(slot) > 0 or each.limit.item(slot) > 0 for each in self.shares)

    def _amounts(self, slots: Slots, prod: Bools) -> list[Floats]:
        used = [np.where(prod, each.expected(slots), 0.0) for each in self.shares]
        return [*used, *(each.in_node_sample[slots] for each in self.shares)]

    def prod(self, slots: Slots) -> Bools:
        """Which of these pods are prod."""
        pods = self.view.pod_table
        priority_class, qos = self.classes.as_array[:, pods.label_set[slots]]
        priority_class = np.where(priority_class == UNSET, _classes_of_priorities(pods.priority[slots]), priority_class)
        decided = np.where((priority_class == PROD) | (priority_class == OTHER), priority_class, qos)
        has_requests = np.zeros(len(slots), dtype=np.bool_)
        for each in self.shares:
            has_requests |= (each.request[slots] > 0) | (each.limit[slots] > 0)
        result: Bools = (decided == PROD) | ((decided == UNSET) & has_requests)
        return result


class _LabelSetClasses:
    """The classes of each label set; sets are only added, until their ids are compacted."""

    KEY = f"{__name__}.classes"

    def __init__(self, classes: LabelSets) -> None:
        self.label_classes, self.as_array = classes, np.zeros((2, 0), dtype=np.int8)
        self.by_class: list[tuple[int, int]] = []

    @classmethod
    def of(cls, view: View) -> _LabelSetClasses:
        cached: _LabelSetClasses | None = view.load.plugin_cache.get(cls.KEY)
        if cached is None or cached.label_classes is not view.pod_table.label_sets:
            cached = view.load.plugin_cache[cls.KEY] = cls(view.pod_table.label_sets)
        sets = cached.label_classes.sets
        if (count := len(cached.by_class)) < len(sets):
            cached.by_class += [_classes_of_labels(labels) for _, labels in sets[count:]]
            cached.as_array = np.array(cached.by_class, dtype=np.int8).T
        return cached


def _classes_of_labels(labels: Mapping[str, str]) -> tuple[int, int]:
    """By the priority-class label, and by the QoS label."""
    priority_class, qos = labels.get(CLASS_LABEL), labels.get(QOS_LABEL)
    return (
        UNSET if priority_class is None else BY_CLASS.get(priority_class, UNKNOWN),
        UNSET if qos is None else BY_QOS.get(qos, UNSET),
    )


def _class_of_priority(priority: int) -> int:
    if PROD_BAND[0] <= priority <= PROD_BAND[1]:
        return PROD
    return OTHER if any(low <= priority <= high for low, high in OTHER_BANDS) else UNSET


def _classes_of_priorities(priority: NDArray[np.int64]) -> Classes:
    classes = np.zeros(len(priority), dtype=np.int8)
    for low, high in OTHER_BANDS:
        classes[(priority >= low) & (priority <= high)] = OTHER
    classes[(priority >= PROD_BAND[0]) & (priority <= PROD_BAND[1])] = PROD
    return classes
