"""Takes readings in, nodes before pods, for pods are bounded by their nodes; what is believed of them `intake` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.array_table import Floats, Index, indices_of
from trimtab.core.load.latest_samples import LatestSamples
from trimtab.core.load.learned_usage import ratio_basis
from trimtab.core.load.node_history import NodeHistory
from trimtab.core.load.pod_history import HOUR, PodHistory
from trimtab.core.load.store import LoadStore
from trimtab.core.load.usage_accounting import UsageAccounting, window_fraction
from trimtab.core.load.validation import SampleValidator, check_node_amounts, check_pod_amounts, well_formed
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit

MIN_WINDOW_FRACTION = 0.5  # of the window of a first sample, before anything is learnt from it


class CapacityColumn(Protocol):
    """One amount per row."""

    @property
    def array(self) -> NDArray[np.int64]: ...


class NodeIndex(Protocol):
    """Whoever knows which node stands in which row, and what the machine has."""

    row: dict[str, int]

    @property
    def node_capacity(self) -> Mapping[str, CapacityColumn]: ...


def ingest(state: LoadStore, readings: Sequence[Reading], machines: NodeIndex) -> Counter[str]:
    """What was measured now."""
    refused: Counter[str] = Counter()
    usable = [each for each in readings if well_formed(each, refused)]
    for each in usable:
        state.failed_sources.discard(_source_id(state, each))
    for each in _of(usable, Subject.NODES):
        _ingest_nodes(state, each, machines, refused)
    measured = {each.resource for each in _of(usable, Subject.PODS) if _ingest_pods(state, each, machines, refused)}
    _learn(state, measured)
    return refused


def ingest_history(state: LoadStore, readings: Sequence[Reading], machines: NodeIndex) -> Counter[str]:
    """What a source remembers: never the newest value."""
    refused: Counter[str] = Counter()
    usable = [each for each in readings if well_formed(each, refused) and each.names and _is_usage(each)]
    for each in _of(usable, Subject.NODES):
        sieve = _validator(each, indices_of(each.names, machines.row), refused)
        sieve.reject(sieve.measured > state.now, "future")
        sieve.reject(sieve.measured <= state.node_names.after[sieve.index], "earlier")
        check_node_amounts(sieve, each.unit, _capacity(state, each.resource, machines), None)
        if len(sieve.index):
            _node_history(state, each.resource).add(sieve.newest, sieve.index, sieve.values)
    measured = set()
    for each in _of(usable, Subject.PODS):
        newest = _ingest_pod_history(state, each, machines, refused)
        if newest > state.now - HOUR:
            measured.add(each.resource)
    _learn(state, measured)
    return refused


# --- nodes


def _ingest_nodes(state: LoadStore, reading: Reading, machines: NodeIndex, refused: Counter[str]) -> None:
    meter, source = _samples(state, reading), _source_id(state, reading)
    if not reading.names:
        refused["empty"] += 1
        meter.invalidate_source(source)
        return
    capacity, is_course = _capacity(state, reading.resource, machines), _is_usage(reading)
    account = state.accounting.get(reading.resource)
    sieve = _validator(reading, indices_of(reading.names, machines.row), refused)
    sieve.drop_untimely(state.now, state.settings)
    sieve.reject(sieve.measured <= state.node_names.after[sieve.index], "earlier")
    check_node_amounts(
        sieve, reading.unit, capacity, account.totals.claimed if account is not None and is_course else None
    )
    for nonsense in sieve.invalid:
        meter.invalidate(nonsense, source)
    sieve.keep(meter.is_newer(sieve.index, sieve.measured))
    if is_course and state.jump_guard.should_hold(reading, *_capacity_ratios(meter, sieve, capacity), sieve.newest):
        refused["jump"] += len(sieve.index)
        return
    meter.put(sieve.index, sieve.values, sieve.measured, state.now, reading.window, source)
    if is_course and len(sieve.index):
        _node_history(state, reading.resource).add(_moment(state, sieve), sieve.index, sieve.values)


def _capacity_ratios(meter: LatestSamples, sieve: SampleValidator, capacity: Floats) -> tuple[Floats, Floats]:
    """Of what the machines have: before, and by this reading."""
    has = np.where(capacity > 0, capacity, np.nan)[sieve.index]
    return meter.believed[sieve.index] / has, sieve.values / has


# --- pods


def _ingest_pods(state: LoadStore, reading: Reading, machines: NodeIndex, refused: Counter[str]) -> bool:
    """Whether anything of it was believed."""
    account, source = state.accounting.get(reading.resource), _source_id(state, reading)
    if account is None or not _is_usage(reading):
        refused["unused"] += len(reading.names)
        return False
    shares = account.pods
    if not reading.names:
        refused["empty"] += 1
        shares.sampled[shares.source == source] = np.nan
        return False
    sieve = _validator(reading, state.placed_pods.slots_of(reading.names), refused)
    sieve.drop_untimely(state.now, state.settings)
    _check_pods(state, account, reading, sieve, machines)
    sieve.keep(account.is_newer(sieve.index, sieve.measured, state.failed_sources))
    if not len(sieve.index):
        return False
    share = _record_pod_history(state, account, sieve, reading.window, _capacity(state, reading.resource, machines))
    slots = sieve.index
    shares.sample[slots], shares.sampled[slots] = sieve.values, sieve.measured
    shares.window[slots], shares.source[slots] = reading.window, source
    _learn_ratios(state, reading.resource, slots, sieve.values, share)
    return True


def _ingest_pod_history(state: LoadStore, reading: Reading, machines: NodeIndex, refused: Counter[str]) -> float:
    account = state.accounting.get(reading.resource)
    if account is None:
        return -np.inf
    sieve = _validator(reading, state.placed_pods.slots_of(reading.names), refused)
    sieve.reject(sieve.measured > state.now, "future")
    _check_pods(state, account, reading, sieve, machines)
    if not len(sieve.index):
        return -np.inf
    _record_pod_history(state, account, sieve, reading.window, _capacity(state, reading.resource, machines))
    return sieve.newest


def _check_pods(
    state: LoadStore, account: UsageAccounting, reading: Reading, sieve: SampleValidator, machines: NodeIndex
) -> None:
    capacity, standing = _capacity(state, reading.resource, machines), state.placed_pods
    sieve.reject(sieve.measured - reading.window <= standing.after[sieve.index], "earlier")
    meter = account.samples
    node = np.where(meter.measured >= state.now - state.settings.stale, meter.value, np.nan)
    check_pod_amounts(sieve, reading.unit, standing.row, standing.since, capacity, node)


def _record_pod_history(
    state: LoadStore, account: UsageAccounting, sieve: SampleValidator, window: float, capacity: Floats
) -> Floats:
    """Put it to what is kept of each pod. A sample shows a pod that is younger than its window in part (the answer): the
    rest is taken to be as estimated, as far as the machine has it."""
    if account.history is None:
        account.history = PodHistory()
    slots = sieve.index
    account.history.reserve(int(slots.max()))
    share = window_fraction(sieve.measured - state.placed_pods.since[slots], window)
    rest = np.minimum(account.pods.estimate[slots], capacity[state.placed_pods.row[slots]])
    whole = sieve.values + (1.0 - share) * rest
    account.history.add(_moment(state, sieve), slots, sieve.values, whole)
    return share


# --- what pods teach


def _learn_ratios(state: LoadStore, resource: str, slots: Index, values: Floats, share: Floats) -> None:
    shares = state.accounting[resource].pods
    first = ~shares.learnt[slots] & (share >= MIN_WINDOW_FRACTION)
    if first.any():
        new = slots[first]
        shares.learnt[new] = True
        state.estimator.ratios[resource].learn(values[first] / share[first], shares.limit[new], shares.request[new])


def _learn(state: LoadStore, resources: Iterable[str]) -> None:
    """The last hour of each pod, what kin have in common, and what that says of pods that nobody has seen."""
    standing, estimator = state.placed_pods, state.estimator
    for resource in sorted(resources):
        account = state.accounting[resource]
        shares, profiles = account.pods, account.history
        assert profiles is not None
        size = min(profiles.size, shares.size)
        count, mean, squares = (line[:size] for line in profiles.hourly())
        shares.usual[:size] = np.where(count > 0, mean, np.nan)
        shares.varies[:size] = (squares + shares.deviation[:size] ** 2) / np.maximum(count, 1.0)
        slots = np.flatnonzero(~np.isnan(shares.usual) & standing.taken)
        whole, _ = ratio_basis(shares.limit[slots], shares.request[slots])
        estimator.siblings[resource].learn(
            standing.kin[slots], shares.usual[slots] / whole, shares.varies[slots] / whole**2
        )
        state.update_estimates(resource, np.flatnonzero(np.isnan(shares.usual) & standing.taken))


# --- names and parts


def _of(readings: Iterable[Reading], subject: Subject) -> list[Reading]:
    return [each for each in readings if each.subject is subject]


def _is_usage(reading: Reading) -> bool:
    """Whether it is an amount, measured at a moment, and not a metric of the user's own or a source's own statistic."""
    return reading.statistic is Statistic.LATEST and reading.unit is not Unit.RAW


def _validator(reading: Reading, index: Index, refused: Counter[str]) -> SampleValidator:
    sieve = SampleValidator(reading, index, refused)
    sieve.drop_invalid(reading.unit)
    return sieve


def _moment(state: LoadStore, sieve: SampleValidator) -> float:
    """Of all of them together; one clock that is ahead is not to put all others into the future."""
    return min(sieve.newest, state.now)


def _capacity(state: LoadStore, resource: str, machines: NodeIndex) -> Floats:
    """What each machine has, 0 where nobody knows."""
    column, cells = np.zeros(state.capacity), machines.node_capacity.get(resource)
    if cells is not None:
        size = min(state.rows, len(cells.array))
        column[:size] = cells.array[:size]
    return column


def _source_id(state: LoadStore, reading: Reading) -> int:
    return state.source_ids.setdefault(reading.source, len(state.source_ids))


def _samples(state: LoadStore, reading: Reading) -> LatestSamples:
    own = reading.unit is Unit.RAW
    held = state.latest_samples(reading.resource, reading.statistic, own=own)
    if held is None:
        held = state.other_samples[reading.resource, reading.statistic, own] = LatestSamples(state.capacity)
    return held


def _node_history(state: LoadStore, resource: str) -> NodeHistory:
    held = state.node_histories.get(resource)
    if held is None:
        held = state.node_histories[resource] = NodeHistory(state.capacity)
    return held
