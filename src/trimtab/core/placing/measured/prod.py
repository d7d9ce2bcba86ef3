"""Which pods are prod, and what those of each node use, as Koordinator has it; what follows from that is for plugins.

A pod is prod or not by its label `koordinator.sh/priority-class`; without one by the band of its priority (9000 to 9999 is
prod, the bands of mid, batch and free are not); else by its label `koordinator.sh/qosClass`; and else if it asks for
anything. What prod pods use is what `expected` counts for them: samples of the pods themselves, and estimates of what no
sample shows yet.

The sums are kept with the load they are of. Between two scrapes only rows that changed are summed again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.residents import NOWHERE
from trimtab.core.cluster.topology.classes import LabelClasses
from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.contract import Bools, Rows
from trimtab.core.placing.measured.changed import Changed
from trimtab.core.placing.measured.usage import PAIR, pair

CLASS_LABEL, QOS_LABEL = "koordinator.sh/priority-class", "koordinator.sh/qosClass"
UNSAID, PROD, OTHER, ODD = 0, 1, 2, 3  # odd: said in words that nobody knows
BY_CLASS = {"koord-prod": PROD, "koord-mid": OTHER, "koord-batch": OTHER, "koord-free": OTHER}
BY_QOS = {"SYSTEM": PROD, "LSE": PROD, "LSR": PROD, "LS": PROD, "BE": OTHER}
PROD_BAND, OTHER_BANDS = (9000, 9999), ((7000, 7999), (5000, 5999), (3000, 3999))
LOWEST, HIGHEST = OTHER_BANDS[-1][0], PROD_BAND[1]

Words = NDArray[np.int8]
Slots = NDArray[np.intp]


def is_prod(pod: Pod) -> bool:
    """The same for one pod; asked about each that is placed."""
    named, qos = _said(pod.labels)
    if named == UNSAID and LOWEST <= pod.priority <= HIGHEST:
        named = _band(pod.priority)
    word = named if named in (PROD, OTHER) else qos
    if word != UNSAID:
        return word == PROD
    return bool(pod.demand.limit_of(CPU) or pod.demand.limit_of(MEMORY))


def used_by_prod(view: View, rows: Rows, with_system: bool = False) -> Floats:
    """Of CPU and memory, a line each, with what the node uses beside its pods if so asked; NaN where nothing is believed."""
    sums = (_kept(view) if view.moved is None else _Sums(view).everywhere())[:, rows]
    used: Floats = sums[: len(PAIR)]
    latest = pair(view.load.latest, view, rows)
    if with_system:
        beside = pair(view.load.beside, view, rows)
        rest = np.maximum(latest - sums[len(PAIR) :], 0.0)  # where pods are not measured, what estimates leave
        used = used + np.where(np.isnan(beside), rest, beside)
    return np.where(np.isnan(latest), np.nan, used)


def used_by_prod_on(view: View, row: int, with_system: bool = False) -> list[float]:
    """The same for one row, as plain numbers."""
    sums = _kept(view) if view.moved is None else _Sums(view).everywhere()
    used = []
    for line, resource in enumerate(PAIR):
        latest, amount = view.load.latest(resource).item(row), sums.item(line, row)
        if with_system:
            beside = view.load.beside(resource).item(row)
            shown = sums.item(len(PAIR) + line, row)
            amount += beside if beside == beside else max(latest - shown, 0.0)
        used.append(amount if latest == latest else latest)
    return used


def _kept(view: View) -> Floats:
    kept: _Kept | None = view.load.worked_out.get(__name__)
    if kept is None:
        kept = view.load.worked_out[__name__] = _Kept()
    return kept.sums(view)


class _Kept:
    """The sums of one cluster."""

    __slots__ = ("_changed", "_sums")

    def __init__(self) -> None:
        self._changed, self._sums = Changed(Change.PODS | Change.LOAD), np.zeros((2 * len(PAIR), 0))

    def sums(self, view: View) -> Floats:
        rows = self._changed.rows(view)
        if rows is None:
            self._sums = _Sums(view).everywhere()
        for row in rows or ():
            self._sums[:, row] = _Sums(view).of(row)
        return self._sums


class _Sums:
    """By row: what prod pods come to, and what samples show of all pods, each of CPU and memory."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.words = _Words.of(view)
        self.shares = [view.load.shares(each) for each in PAIR]

    def everywhere(self) -> Floats:
        view = self.view
        slots = np.flatnonzero(view.pods.row != NOWHERE)
        if view.moved is not None:
            slots = slots[~np.isin(slots, view.moved.slots)]
        rows, prod = view.pods.row[slots], self.prod(slots)
        lines = [np.bincount(rows, amounts, minlength=view.count) for amounts in self._amounts(slots, prod)]
        sums = np.array(lines, dtype=np.float64)
        for row, pod, sign in view.moved.others if view.moved is not None else ():
            if is_prod(pod):
                sums[: len(PAIR), row] += [sign * view.load.estimate(pod, each)[0] for each in PAIR]
        return sums

    def of(self, row: int) -> list[float]:
        """Of one row, in plain numbers; in the order of slots, so that the sum is the same either way."""
        (cpu, memory), slot_of = self.shares, self.view.pods.slot
        used_cpu = used_memory = shown_cpu = shown_memory = 0.0
        for slot in sorted([slot_of[uid] for uid in self.view.pods_on(self.view.nodes[row].name)]):
            if self.is_prod(slot):
                used_cpu += cpu.expected_of(slot)
                used_memory += memory.expected_of(slot)
            shown_cpu += cpu.shown.item(slot)
            shown_memory += memory.shown.item(slot)
        return [used_cpu, used_memory, shown_cpu, shown_memory]

    def is_prod(self, slot: int) -> bool:
        """The same as `prod` for one pod."""
        pods = self.view.pods
        named, qos = self.words.by_class[pods.label_class.item(slot)]
        if named == UNSAID and LOWEST <= (priority := pods.priority.item(slot)) <= HIGHEST:
            named = _band(priority)
        word = named if named in (PROD, OTHER) else qos
        if word != UNSAID:
            return word == PROD
        return any(each.request.item(slot) > 0 or each.limit.item(slot) > 0 for each in self.shares)

    def _amounts(self, slots: Slots, prod: Bools) -> list[Floats]:
        used = [np.where(prod, each.expected(slots), 0.0) for each in self.shares]
        return [*used, *(each.shown[slots] for each in self.shares)]

    def prod(self, slots: Slots) -> Bools:
        """Which of these pods are."""
        pods = self.view.pods
        named, qos = self.words.said[:, pods.label_class[slots]]
        named = np.where(named == UNSAID, _bands(pods.priority[slots]), named)
        word = np.where((named == PROD) | (named == OTHER), named, qos)
        asks = np.zeros(len(slots), dtype=np.bool_)
        for each in self.shares:
            asks |= (each.request[slots] > 0) | (each.limit[slots] > 0)
        prods: Bools = (word == PROD) | ((word == UNSAID) & asks)
        return prods


class _Words:
    """What each class of labels says; classes only become more, until they are numbered anew."""

    KEY = f"{__name__}.words"

    def __init__(self, classes: LabelClasses) -> None:
        self.classes, self.said = classes, np.zeros((2, 0), dtype=np.int8)
        self.by_class: list[tuple[int, int]] = []

    @classmethod
    def of(cls, view: View) -> _Words:
        words: _Words | None = view.load.worked_out.get(cls.KEY)
        if words is None or words.classes is not view.pods.classes:
            words = view.load.worked_out[cls.KEY] = cls(view.pods.classes)
        held = words.classes.held
        if (known := len(words.by_class)) < len(held):
            words.by_class += [_said(labels) for _, labels in held[known:]]
            words.said = np.array(words.by_class, dtype=np.int8).T
        return words


def _said(labels: Mapping[str, str]) -> tuple[int, int]:
    """By the label of the class, and by that of the quality of service."""
    named, qos = labels.get(CLASS_LABEL), labels.get(QOS_LABEL)
    return (
        UNSAID if named is None else BY_CLASS.get(named, ODD),
        UNSAID if qos is None else BY_QOS.get(qos, UNSAID),
    )


def _band(priority: int) -> int:
    if PROD_BAND[0] <= priority <= PROD_BAND[1]:
        return PROD
    return OTHER if any(low <= priority <= high for low, high in OTHER_BANDS) else UNSAID


def _bands(priority: NDArray[np.int64]) -> Words:
    words = np.zeros(len(priority), dtype=np.int8)
    for low, high in OTHER_BANDS:
        words[(priority >= low) & (priority <= high)] = OTHER
    words[(priority >= PROD_BAND[0]) & (priority <= PROD_BAND[1])] = PROD
    return words
