"""CPU time to ingest a scrape of 5,000 nodes and 50,000 pods, step by step; and of queries and pod changes.

One pod is replaced between two scrapes, as in practice, so that names are looked up again in each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from bench.decisions import nodes, plain_pods
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load import ingest
from trimtab.core.load.history import NodeHistory, PodHistory
from trimtab.core.load.placed_pods import PlacedPods
from trimtab.core.load.store import LoadStore
from trimtab.core.load.usage_accounting import UsageAccounting
from trimtab.core.load.validation import SampleValidator, check_node_amounts, check_pod_amounts
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import ArrayTable, Floats, indices_of

NODES, PODS, OWNERS = 5_000, 50_000, 2_000
SCRAPE_INTERVAL, WINDOW, ROUNDS, POD_MOVES = 15.0, 300.0, 5, 1_000
START = 1_700_000_000.0

Table = list[tuple[str, ...]]

# Each with the module or class through which it is called.
TIMED_FUNCTIONS: tuple[tuple[object, Callable[..., object], str], ...] = (
    (ingest, indices_of, "names of nodes to rows"),
    (PlacedPods, PlacedPods.slots_of, "names of pods to slots"),
    (SampleValidator, SampleValidator.__init__, "numbers to arrays"),
    (SampleValidator, SampleValidator.drop_invalid, "validation"),
    (SampleValidator, SampleValidator.drop_untimely, "validation"),
    (ingest, check_node_amounts, "validation"),
    (ingest, check_pod_amounts, "validation"),
    (NodeHistory, NodeHistory.add, "history of nodes"),
    (PodHistory, PodHistory.add, "history of pods"),
    (ingest, ingest._learn, "last hour, siblings, estimates"),
    (UsageAccounting, UsageAccounting.recompute, "usage accounting and sums"),
    (UsageAccounting, UsageAccounting.update_system_usage, "system usage of nodes"),
)


class SyntheticMetrics:
    """Plausible readings of all nodes and pods, measured within ten seconds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.rng = cluster, np.random.default_rng(5)
        self.nodes = tuple(node.name for node in cluster.node_table.nodes)
        self.allocatable = {
            name: cluster.node_table.node_capacity[name].array[:NODES].astype(np.float64) for name in (CPU, MEMORY)
        }

    def readings(self, at: float) -> tuple[Reading, ...]:
        pods, made = tuple(place.pod.key for place in self.cluster.placements.values()), []
        for resource, whole in self.allocatable.items():
            used = whole * self.rng.uniform(0.3, 0.6, NODES)
            each = np.resize(used / 20, len(pods)) * self.rng.uniform(0.1, 1.0, len(pods))
            made += [self._reading(resource, self.nodes, used, at, Subject.NODES)]
            made += [self._reading(resource, pods, each, at, Subject.PODS)]
        return tuple(made)

    def _reading(self, resource: str, names: tuple[str, ...], used: Floats, at: float, of: Subject) -> Reading:
        measured = (at - self.rng.uniform(0, 10, len(names))).tolist()
        source = f"bench/{resource}/{of}"
        return Reading(source, resource, names, tuple(used.tolist()), tuple(measured), of, window=WINDOW)


def busy_cluster() -> Cluster:
    """Ten pods per node of many owners, all running for an hour."""
    cluster = Cluster()
    for node in nodes(NODES):
        cluster.upsert_node(node)
    for number, pod in enumerate(plain_pods(PODS, 90)):
        cluster.upsert_pod(_running(pod, number))
    return cluster


def _running(pod: Pod, number: int) -> Pod:
    owner = Owner("ReplicaSet", f"app-{number % OWNERS}", f"owner-{number % OWNERS}")
    return replace(pod, node=f"node-{number % NODES}", owner=owner, phase="Running", started=START - 3600)


def scrapes() -> tuple[Table, Table]:
    """The scrape and its steps in CPU milliseconds; queries and pod changes in microseconds."""
    cluster = busy_cluster()
    metrics, spent = SyntheticMetrics(cluster), list[float]()
    for number in range(ROUNDS + 1):
        spent.append(_cycle(cluster, metrics, number))
    parts: dict[str, float] = {}
    with timed(parts):
        _cycle(cluster, metrics, ROUNDS + 1)
    table: Table = [("CPU and memory of all nodes and pods", f"{min(spent[1:]):,.1f}", "50")]
    table += [(f"  {label}", f"{figure:,.1f}", "") for label, figure in parts.items()]
    table += [("the first one, which allocates", f"{spent[0]:,.0f}", "")]
    table += [("pod history, MB per resource", f"{_history_megabytes(cluster.load_store):,.1f}", "5")]
    table += [("all arrays, MB", f"{_megabytes_held(cluster.load_store):,.0f}", "")]
    return table, _query_costs(cluster) + _pod_move_costs(cluster)


def _cycle(cluster: Cluster, metrics: SyntheticMetrics, number: int) -> float:
    """Replace one pod, and ingest all readings."""
    at = START + SCRAPE_INTERVAL * (number + 1)
    pod = next(iter(cluster.placements.values())).pod
    cluster.delete_pod(pod.uid)
    cluster.upsert_pod(replace(pod, uid=f"again-{number}", name=f"again-{number}", version=PODS * 2 + number))
    readings = metrics.readings(at)
    started_at = time.process_time()
    rejected = cluster.ingest_samples(readings, at)
    assert not rejected, rejected
    return (time.process_time() - started_at) * 1e3


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Add the CPU milliseconds of each of `TIMED_FUNCTIONS`, by label."""
    for owner, function, label in TIMED_FUNCTIONS:
        setattr(owner, function.__name__, _timed_call(function, label, spent))
    yield
    for owner, function, _ in TIMED_FUNCTIONS:
        setattr(owner, function.__name__, function)


def _timed_call(inner: Callable[..., object], label: str, spent: dict[str, float]) -> Callable[..., object]:
    def outer(*arguments: object, **named: object) -> object:
        started_at = time.process_time()
        result = inner(*arguments, **named)
        spent[label] = spent.get(label, 0.0) + (time.process_time() - started_at) * 1e3
        return result

    return outer


def _query_costs(cluster: Cluster) -> Table:
    """For the first query after a scrape, and for all others until the next."""
    load = cluster.load
    percents, spans = (50, 90, 95, 99), (300, 600, 1800)
    queries: dict[str, Callable[[], object]] = {
        "expected usage": lambda: load.expected(CPU),
        "forecast": lambda: load.forecast(CPU),
        "mean and deviation": lambda: (load.mean(CPU), load.deviation(CPU)),
        "four percentiles of three windows": lambda: [load.percentile(CPU, p, s) for p in percents for s in spans],
        "daily peak": lambda: load.peak(CPU, 86400),
        "fork of the load": cluster.load_store.copy,
    }
    return [
        (name, f"{_cpu_micros(query, 1):,.0f}", f"{_cpu_micros(query, 20):,.1f}") for name, query in queries.items()
    ]


def _pod_move_costs(cluster: Cluster) -> Table:
    """The share of the load store in pod changes, per pod."""
    load, (pod,) = cluster.load_store, plain_pods(1, 1)
    coming = [replace(_running(pod, i), name=f"new-{i}", started=None) for i in range(POD_MOVES)]
    started = [replace(each, started=START + 3600) for each in coming]
    first = load.placed_pods.size  # beyond all slots that are in use
    load.add_pod(first, pod, 0)
    load.remove_pod(first)
    steps: dict[str, Callable[[int], object]] = {
        "pod added": lambda i: load.add_pod(first + i, coming[i], i),
        "pod started": lambda i: load.update_pod(first + i, started[i]),
        "irrelevant update": lambda i: load.update_pod(first + i, started[i]),
        "pod removed": lambda i: load.remove_pod(first + i),
    }
    table: Table = []
    for label, step in steps.items():
        started_at = time.process_time()
        for i in range(POD_MOVES):
            step(i)
        table.append((label, "", f"{(time.process_time() - started_at) / POD_MOVES * 1e6:,.1f}"))
    return table


def _cpu_micros(query: Callable[[], object], times: int) -> float:
    started_at = time.process_time()
    for _ in range(times):
        query()
    return (time.process_time() - started_at) / times * 1e6


def _history_megabytes(load: LoadStore) -> float:
    return load.accounting[CPU].history.nbytes / 1e6


def _megabytes_held(load: LoadStore) -> float:
    tables: list[ArrayTable] = [load.placed_pods, load.terminated_pods]
    tables += [*load.all_samples(), *load.node_histories.values()]
    for accounting in load.accounting.values():
        tables += [accounting.pods, accounting.totals, accounting.history]
    return sum(table.nbytes for table in tables) / 1e6
