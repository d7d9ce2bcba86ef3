"""Takes readings in, nodes before pods, for pods are bounded by their nodes; what is believed of them `intake` decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.aligned import Floats, Index, numbered
from trimtab.core.load.estimating.learned import basis
from trimtab.core.load.intake import Sieve, believe_nodes, believe_pods, well_formed
from trimtab.core.load.nodes.course import Course
from trimtab.core.load.nodes.meter import Meter
from trimtab.core.load.pods.account import Account, parts
from trimtab.core.load.pods.profiles import HOUR, Profiles
from trimtab.core.load.state import LoadState
from trimtab.core.model.sample import Reading, Statistic, Subject, Unit

SHOWN_ENOUGH = 0.5  # of the window of a first sample, before anything is learnt from it


class PerMachine(Protocol):
    """One amount per row."""

    @property
    def array(self) -> NDArray[np.int64]: ...


class Machines(Protocol):
    """Whoever knows which node stands in which row, and what the machine has."""

    row: dict[str, int]

    @property
    def has(self) -> Mapping[str, PerMachine]: ...


def take(state: LoadState, readings: Sequence[Reading], machines: Machines) -> Counter[str]:
    """What was measured now."""
    refused: Counter[str] = Counter()
    usable = [each for each in readings if well_formed(each, refused)]
    for each in usable:
        state.failed.discard(_source(state, each))
    for each in _of(usable, Subject.NODES):
        _take_nodes(state, each, machines, refused)
    measured = {each.resource for each in _of(usable, Subject.PODS) if _take_pods(state, each, machines, refused)}
    _learn(state, measured)
    return refused


def recall(state: LoadState, readings: Sequence[Reading], machines: Machines) -> Counter[str]:
    """What a source remembers: never the newest value."""
    refused: Counter[str] = Counter()
    usable = [each for each in readings if well_formed(each, refused) and each.names and _is_course(each)]
    for each in _of(usable, Subject.NODES):
        sieve = _sound(each, numbered(each.names, machines.row), refused)
        sieve.refuse(sieve.measured > state.now, "future")
        sieve.refuse(sieve.measured <= state.ground.after[sieve.index], "earlier")
        believe_nodes(sieve, each.unit, _capacity(state, each.resource, machines), None)
        if len(sieve.index):
            _course(state, each.resource).put(sieve.newest, sieve.index, sieve.values)
    measured = set()
    for each in _of(usable, Subject.PODS):
        newest = _recall_pods(state, each, machines, refused)
        if newest > state.now - HOUR:
            measured.add(each.resource)
    _learn(state, measured)
    return refused


# --- nodes


def _take_nodes(state: LoadState, reading: Reading, machines: Machines, refused: Counter[str]) -> None:
    meter, source = _meter(state, reading), _source(state, reading)
    if not reading.names:
        refused["empty"] += 1
        meter.silence(source)
        return
    capacity, is_course = _capacity(state, reading.resource, machines), _is_course(reading)
    account = state.accounts.get(reading.resource)
    sieve = _sound(reading, numbered(reading.names, machines.row), refused)
    sieve.timely(state.now, state.settings)
    sieve.refuse(sieve.measured <= state.ground.after[sieve.index], "earlier")
    believe_nodes(sieve, reading.unit, capacity, account.totals.claimed if account is not None and is_course else None)
    for nonsense in sieve.nonsense:
        meter.miss(nonsense, source)
    sieve.keep(meter.news(sieve.index, sieve.measured))
    if is_course and state.brake.holds(reading, *_shares(meter, sieve, capacity), sieve.newest):
        refused["jump"] += len(sieve.index)
        return
    meter.put(sieve.index, sieve.values, sieve.measured, state.now, reading.window, source)
    if is_course and len(sieve.index):
        _course(state, reading.resource).put(_moment(state, sieve), sieve.index, sieve.values)


def _shares(meter: Meter, sieve: Sieve, capacity: Floats) -> tuple[Floats, Floats]:
    """Of what the machines have: before, and by this reading."""
    has = np.where(capacity > 0, capacity, np.nan)[sieve.index]
    return meter.believed[sieve.index] / has, sieve.values / has


# --- pods


def _take_pods(state: LoadState, reading: Reading, machines: Machines, refused: Counter[str]) -> bool:
    """Whether anything of it was believed."""
    account, source = state.accounts.get(reading.resource), _source(state, reading)
    if account is None or not _is_course(reading):
        refused["unused"] += len(reading.names)
        return False
    shares = account.shares
    if not reading.names:
        refused["empty"] += 1
        shares.sampled[shares.source == source] = np.nan
        return False
    sieve = _sound(reading, state.standing.index(reading.names), refused)
    sieve.timely(state.now, state.settings)
    _believe_pods(state, account, reading, sieve, machines)
    sieve.keep(account.news(sieve.index, sieve.measured, state.failed))
    if not len(sieve.index):
        return False
    share = _keep_profile(state, account, sieve, reading.window, _capacity(state, reading.resource, machines))
    slots = sieve.index
    shares.sample[slots], shares.sampled[slots] = sieve.values, sieve.measured
    shares.window[slots], shares.source[slots] = reading.window, source
    _learn_ratios(state, reading.resource, slots, sieve.values, share)
    return True


def _recall_pods(state: LoadState, reading: Reading, machines: Machines, refused: Counter[str]) -> float:
    account = state.accounts.get(reading.resource)
    if account is None:
        return -np.inf
    sieve = _sound(reading, state.standing.index(reading.names), refused)
    sieve.refuse(sieve.measured > state.now, "future")
    _believe_pods(state, account, reading, sieve, machines)
    if not len(sieve.index):
        return -np.inf
    _keep_profile(state, account, sieve, reading.window, _capacity(state, reading.resource, machines))
    return sieve.newest


def _believe_pods(state: LoadState, account: Account, reading: Reading, sieve: Sieve, machines: Machines) -> None:
    capacity, standing = _capacity(state, reading.resource, machines), state.standing
    sieve.refuse(sieve.measured - reading.window <= standing.after[sieve.index], "earlier")
    meter = account.meter
    node = np.where(meter.measured >= state.now - state.settings.stale, meter.value, np.nan)
    believe_pods(sieve, reading.unit, standing.row, standing.since, capacity, node)


def _keep_profile(state: LoadState, account: Account, sieve: Sieve, window: float, capacity: Floats) -> Floats:
    """Put it to what is kept of each pod. A sample shows a pod that is younger than its window in part (the answer): the
    rest is taken to be as estimated, as far as the machine has it."""
    if account.profiles is None:
        account.profiles = Profiles()
    slots = sieve.index
    account.profiles.make_room(int(slots.max()))
    share = parts(sieve.measured - state.standing.since[slots], window)
    rest = np.minimum(account.shares.estimate[slots], capacity[state.standing.row[slots]])
    whole = sieve.values + (1.0 - share) * rest
    account.profiles.put(_moment(state, sieve), slots, sieve.values, whole)
    return share


# --- what pods teach


def _learn_ratios(state: LoadState, resource: str, slots: Index, values: Floats, share: Floats) -> None:
    shares = state.accounts[resource].shares
    first = ~shares.learnt[slots] & (share >= SHOWN_ENOUGH)
    if first.any():
        new = slots[first]
        shares.learnt[new] = True
        state.estimator.ratios[resource].learn(values[first] / share[first], shares.limit[new], shares.request[new])


def _learn(state: LoadState, resources: Iterable[str]) -> None:
    """The last hour of each pod, what kin have in common, and what that says of pods that nobody has seen."""
    standing, estimator = state.standing, state.estimator
    for resource in sorted(resources):
        account = state.accounts[resource]
        shares, profiles = account.shares, account.profiles
        assert profiles is not None
        size = min(profiles.size, shares.size)
        count, mean, squares = (line[:size] for line in profiles.hour())
        shares.usual[:size] = np.where(count > 0, mean, np.nan)
        shares.varies[:size] = (squares + shares.deviation[:size] ** 2) / np.maximum(count, 1.0)
        slots = np.flatnonzero(~np.isnan(shares.usual) & standing.taken)
        whole, _ = basis(shares.limit[slots], shares.request[slots])
        estimator.kin[resource].learn(standing.kin[slots], shares.usual[slots] / whole, shares.varies[slots] / whole**2)
        state.estimate_anew(resource, np.flatnonzero(np.isnan(shares.usual) & standing.taken))


# --- names and parts


def _of(readings: Iterable[Reading], subject: Subject) -> list[Reading]:
    return [each for each in readings if each.subject is subject]


def _is_course(reading: Reading) -> bool:
    """Whether it is an amount, measured at a moment, and not a metric of the user's own or a source's own statistic."""
    return reading.statistic is Statistic.LATEST and reading.unit is not Unit.RAW


def _sound(reading: Reading, index: Index, refused: Counter[str]) -> Sieve:
    sieve = Sieve(reading, index, refused)
    sieve.sound(reading.unit)
    return sieve


def _moment(state: LoadState, sieve: Sieve) -> float:
    """Of all of them together; one clock that is ahead is not to put all others into the future."""
    return min(sieve.newest, state.now)


def _capacity(state: LoadState, resource: str, machines: Machines) -> Floats:
    """What each machine has, 0 where nobody knows."""
    column, cells = np.zeros(state.capacity), machines.has.get(resource)
    if cells is not None:
        size = min(state.rows, len(cells.array))
        column[:size] = cells.array[:size]
    return column


def _source(state: LoadState, reading: Reading) -> int:
    return state.sources.setdefault(reading.source, len(state.sources))


def _meter(state: LoadState, reading: Reading) -> Meter:
    own = reading.unit is Unit.RAW
    held = state.meter(reading.resource, reading.statistic, own=own)
    if held is None:
        held = state.meters[reading.resource, reading.statistic, own] = Meter(state.capacity)
    return held


def _course(state: LoadState, resource: str) -> Course:
    held = state.courses.get(resource)
    if held is None:
        held = state.courses[resource] = Course(state.capacity)
    return held
