"""Ingests samples and history into a `LoadStore`: nodes first, because samples of pods are checked against their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.load.estimates import ratio_basis
from trimtab.core.load.history import NodeHistory
from trimtab.core.load.latest_samples import LatestSamples
from trimtab.core.load.store import LoadStore
from trimtab.core.load.usage_accounting import UsageAccounting, window_fraction
from trimtab.core.load.validation import (
    MAX_AMOUNT,
    SampleValidator,
    check_node_amounts,
    check_pod_amounts,
    well_formed,
)
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.tables import Floats, Index, indices_of

MIN_WINDOW_FRACTION = 0.5  # of the window of a first sample that the pod ran, before ratios are learned from it


class CapacityColumn(Protocol):
    """One amount per row."""

    @property
    def array(self) -> NDArray[np.int64]: ...


class NodeIndex(Protocol):
    """The row of each node, and the nodes' capacity by resource."""

    row: dict[str, int]

    @property
    def node_capacity(self) -> Mapping[str, CapacityColumn]: ...


def ingest(store: LoadStore, readings: Sequence[Reading], now: float, nodes: NodeIndex) -> Counter[str]:
    """Ingest a scrape; returns the number of rejected samples by reason."""
    store.now = max(store.now, now)
    rejected: Counter[str] = Counter()
    usable = [reading for reading in readings if well_formed(reading, rejected)]
    for reading in usable:
        store.discarded_sources.discard(store.source_id(reading.source))
    for reading in _about(usable, Subject.NODES):
        _ingest_nodes(store, reading, nodes, rejected)
    pods = _about(usable, Subject.PODS)
    _learn(store, {reading.resource for reading in pods if _ingest_pods(store, reading, nodes, rejected)})
    store.recompute(new_samples=True)
    return rejected


def ingest_history(store: LoadStore, readings: Sequence[Reading], now: float, nodes: NodeIndex) -> Counter[str]:
    """Ingest what a source remembers: statistics only, never the newest value. Each reading is of one timestamp."""
    store.now = max(store.now, now)
    rejected: Counter[str] = Counter()
    usable = [
        reading
        for reading in readings
        if well_formed(reading, rejected) and reading.names and (_is_usage(reading) or _is_pod_metric(store, reading))
    ]
    for reading in _about(usable, Subject.NODES):
        _ingest_node_history(store, reading, nodes, rejected)
    pods = _about(usable, Subject.PODS)
    _learn(store, {reading.resource for reading in pods if _ingest_pod_history(store, reading, nodes, rejected)})
    store.recompute()
    return rejected


# --- nodes


def _ingest_nodes(store: LoadStore, reading: Reading, nodes: NodeIndex, rejected: Counter[str]) -> None:
    latest, source = _latest_samples(store, reading), store.source_id(reading.source)
    if not reading.names:
        rejected["empty"] += 1
        return
    capacity, is_usage = _capacity(store, reading.resource, nodes), _is_usage(reading)
    accounting = store.accounting.get(reading.resource)
    samples = _validator(reading, indices_of(reading.names, nodes.row), rejected)
    samples.drop_untimely(store.now, store.settings)
    samples.reject(samples.measured <= store.node_names.name_free_since[samples.index], "earlier")
    pod_measured = accounting.totals.pod_measured if accounting is not None and is_usage else None
    check_node_amounts(samples, reading.unit, capacity, pod_measured)
    for rows in samples.invalid:
        latest.invalidate(rows, source)
    samples.keep(latest.is_newer(samples.index, samples.measured))
    if is_usage and store.jump_guard.should_hold(reading, *_utilisation(latest, samples, capacity), samples.newest):
        rejected["jump"] += len(samples.index)
        return
    latest.put(samples.index, samples.values, samples.measured, store.now, reading.window, source)
    if is_usage and len(samples.index):
        _node_history(store, reading.resource).add(_timestamp(store, samples), samples.index, samples.values)


def _utilisation(latest: LatestSamples, samples: SampleValidator, capacity: Floats) -> tuple[Floats, Floats]:
    """Fractions of the nodes' capacity, before and by this reading."""
    available = np.where(capacity > 0, capacity, np.nan)[samples.index]
    return latest.trusted_value[samples.index] / available, samples.values / available


def _ingest_node_history(store: LoadStore, reading: Reading, nodes: NodeIndex, rejected: Counter[str]) -> None:
    samples = _validator(reading, indices_of(reading.names, nodes.row), rejected)
    samples.reject(samples.measured > store.now, "future")
    samples.reject(samples.measured <= store.node_names.name_free_since[samples.index], "earlier")
    check_node_amounts(samples, reading.unit, _capacity(store, reading.resource, nodes), None)
    if len(samples.index):
        _node_history(store, reading.resource).add(samples.newest, samples.index, samples.values)


# --- pods


def _ingest_pods(store: LoadStore, reading: Reading, nodes: NodeIndex, rejected: Counter[str]) -> bool:
    """Returns whether any sample was accepted."""
    if _is_pod_metric(store, reading):
        _ingest_pod_metric(store, reading, rejected)
        return False
    accounting, source = store.accounting.get(reading.resource), store.source_id(reading.source)
    if accounting is None or not _is_usage(reading):
        rejected["unused"] += len(reading.names)
        return False
    pods = accounting.pods
    if not reading.names:
        rejected["empty"] += 1
        return False
    samples = _validator(reading, store.placed_pods.slots_of(reading.names), rejected)
    samples.drop_untimely(store.now, store.settings)
    _check_pods(store, accounting, reading, samples, nodes)
    samples.keep(accounting.is_newer(samples.index, samples.measured, store.discarded_sources))
    if not len(samples.index):
        return False
    fraction = _add_to_history(store, accounting, reading, samples, nodes)
    slots = samples.index
    pods.ensure_writable()
    pods.sample[slots], pods.sampled_at[slots] = samples.values, samples.measured
    pods.window[slots], pods.source[slots] = reading.window, source
    _learn_ratios(store, reading.resource, slots, samples.values, fraction)
    return True


def _ingest_pod_history(store: LoadStore, reading: Reading, nodes: NodeIndex, rejected: Counter[str]) -> bool:
    """Returns whether any sample was accepted."""
    if _is_pod_metric(store, reading):
        _ingest_pod_metric(store, reading, rejected, past=True)
        return False
    accounting = store.accounting.get(reading.resource)
    if accounting is None:
        return False
    samples = _validator(reading, store.placed_pods.slots_of(reading.names), rejected)
    samples.reject(samples.measured > store.now, "future")
    _check_pods(store, accounting, reading, samples, nodes)
    if not len(samples.index):
        return False
    _add_to_history(store, accounting, reading, samples, nodes)
    return True


def _ingest_pod_metric(store: LoadStore, reading: Reading, rejected: Counter[str], *, past: bool = False) -> None:
    """A further resource: whatever a pod uses of it, a node need not have as much."""
    if not reading.names:
        rejected["empty"] += 1
    placed, metric = store.placed_pods, store.pod_metrics[reading.resource]
    samples = SampleValidator(reading, placed.slots_of(reading.names), rejected)
    samples.drop_invalid(Unit.ABSOLUTE)
    samples.reject(samples.values > MAX_AMOUNT, "implausible")
    if past:
        samples.reject(samples.measured > store.now, "future")
    else:
        samples.drop_untimely(store.now, store.settings)
    samples.reject(samples.measured - reading.window <= placed.name_free_since[samples.index], "earlier")
    samples.reject(samples.measured < placed.running_since[samples.index], "earlier")
    if not past:
        samples.keep(metric.is_newer(samples.index, samples.measured, store.discarded_sources))
    if len(samples.index):
        store.snapshots[reading.resource].add(_timestamp(store, samples), samples.index, samples.values)
    if past:
        metric.put_past(samples.index)
    else:
        source = store.source_id(reading.source)
        metric.put(samples.index, samples.values, np.minimum(samples.measured, store.now), source)


def _check_pods(
    store: LoadStore, accounting: UsageAccounting, reading: Reading, samples: SampleValidator, nodes: NodeIndex
) -> None:
    capacity, placed, latest = _capacity(store, reading.resource, nodes), store.placed_pods, accounting.samples
    samples.reject(samples.measured - reading.window <= placed.name_free_since[samples.index], "earlier")
    node_usage = np.where(latest.sampled_at >= store.now - store.settings.stale, latest.value, np.nan)
    check_pod_amounts(samples, reading.unit, placed.row, placed.running_since, capacity, node_usage)


def _add_to_history(
    store: LoadStore, accounting: UsageAccounting, reading: Reading, samples: SampleValidator, nodes: NodeIndex
) -> Floats:
    """Returns how much of each sample's window the pod ran. The rest of the window is filled up with the pod's estimate,
    at most the node's capacity."""
    slots, placed = samples.index, store.placed_pods
    fraction = window_fraction(samples.measured - placed.running_since[slots], reading.window)
    capacity = _capacity(store, reading.resource, nodes)
    rest = np.minimum(accounting.pods.estimate[slots], capacity[placed.row[slots]])
    at, values = _timestamp(store, samples), samples.values + (1.0 - fraction) * rest
    accounting.history.add(at, slots, values)
    if reading.resource in store.snapshots:
        store.snapshots[reading.resource].add(at, slots, values)
    return fraction


# --- learning from pods


def _learn_ratios(store: LoadStore, resource: str, slots: Index, values: Floats, fraction: Floats) -> None:
    pods = store.accounting[resource].pods
    first = ~pods.learned[slots] & (fraction >= MIN_WINDOW_FRACTION)
    if first.any():
        new = slots[first]
        pods.ensure_writable()
        pods.learned[new] = True
        store.estimator.ratios[resource].learn(values[first] / fraction[first], pods.limit[new], pods.request[new])


def _learn(store: LoadStore, resources: Iterable[str]) -> None:
    """Update the hourly mean and variance of pods, what siblings have in common, and estimates of unmeasured pods."""
    placed, estimator = store.placed_pods, store.estimator
    for resource in sorted(resources):
        accounting = store.accounting[resource]
        pods = accounting.pods
        count, mean, squares = accounting.history.hourly()
        pods.hourly_mean = np.where(count > 0, mean, np.nan)
        # The estimate's variance counts as one more sample.
        pods.hourly_variance = (squares + pods.estimate_deviation**2) / np.maximum(count, 1.0)
        slots = np.flatnonzero(~np.isnan(pods.hourly_mean) & placed.in_use)
        whole, _ = ratio_basis(pods.limit[slots], pods.request[slots])
        means, variances = pods.hourly_mean[slots] / whole, pods.hourly_variance[slots] / whole**2
        estimator.siblings[resource].learn(placed.workload[slots], means, variances)
        store.update_estimates(resource, np.flatnonzero(np.isnan(pods.hourly_mean) & placed.in_use))


# --- lookups


def _about(readings: Iterable[Reading], subject: Subject) -> list[Reading]:
    return [reading for reading in readings if reading.subject is subject]


def _is_usage(reading: Reading) -> bool:
    """An amount sampled at a point in time, not a custom metric or a statistic computed by the source."""
    return reading.statistic is Statistic.LATEST and reading.unit is not Unit.RAW


def _is_pod_metric(store: LoadStore, reading: Reading) -> bool:
    """A further resource that a rescheduler limits."""
    custom = reading.unit is Unit.RAW and reading.statistic is Statistic.LATEST
    return custom and reading.subject is Subject.PODS and reading.resource in store.pod_metrics


def _validator(reading: Reading, index: Index, rejected: Counter[str]) -> SampleValidator:
    samples = SampleValidator(reading, index, rejected)
    samples.drop_invalid(reading.unit)
    return samples


def _timestamp(store: LoadStore, samples: SampleValidator) -> float:
    """One timestamp for all samples; a single clock that is ahead must not move the others into the future."""
    return min(samples.newest, store.now)


def _capacity(store: LoadStore, resource: str, nodes: NodeIndex) -> Floats:
    """By row, 0 where unknown."""
    column, known = np.zeros(store.capacity), nodes.node_capacity.get(resource)
    if known is not None:
        size = min(store.rows, len(known.array))
        column[:size] = known.array[:size]
    return column


def _latest_samples(store: LoadStore, reading: Reading) -> LatestSamples:
    custom = reading.unit is Unit.RAW
    latest = store.latest_samples(reading.resource, reading.statistic, custom=custom)
    if latest is None:
        latest = LatestSamples(store.capacity)
        store.other_samples[reading.resource, reading.statistic, custom] = latest
    return latest


def _node_history(store: LoadStore, resource: str) -> NodeHistory:
    history = store.node_histories.get(resource)
    if history is None:
        history = store.node_histories[resource] = NodeHistory(store.capacity)
    return history
