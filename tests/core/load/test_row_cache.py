"""Rows changed by a pod are recomputed one by one, with the same result as computing all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.build import cluster, node, pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Reading, Subject, Unit

NAMES = ("blind", "by-node", "by-pods")


def measured(held: Cluster, at: float, *, pods: bool) -> None:
    seen = NAMES[1:]
    for resource in ("cpu", "memory"):
        by_node = Reading("meter", resource, seen, (0.3 + at / 1e4, 0.4), (at,) * 2, unit=Unit.FRACTION)
        by_pod = Reading("meter", resource, ("default/old",), (700.0,), (at,), Subject.PODS)
        held.ingest_samples((by_node, by_pod) if pods else (by_node,), at)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize("pods", [True, False])
def test_changed_rows_equal_a_full_computation(resource: str, pods: bool) -> None:
    """A pod is added, another removed: forecast and expected usage equal those of a fork, which computes all rows."""
    old = pod("old", cpu="1", memory="1Gi", on="by-pods")
    held = cluster(*(node(name, cpu="16") for name in NAMES), old)
    for at in (15.0, 30.0, 45.0):
        measured(held, at, pods=pods)
    assert pods is not bool(held.load.node_metrics_only(resource).any())
    held.load.expected(resource)
    before = held.load.forecast(resource)[0].copy()
    held.age_load(46.0)
    for number, name in enumerate(NAMES):
        held.assume(pod(f"new-{number}", cpu="500m", memory="256Mi"), name)
    held.assume(pod("other", cpu="300m", memory="64Mi"), "by-node")
    held.delete_pod("uid-new-1")
    cached = (*held.load.forecast(resource), held.load.expected(resource))
    fork = held.fork().load
    fresh = (*fork.forecast(resource), fork.expected(resource))
    for expected, by_row in zip(fresh, cached, strict=True):
        np.testing.assert_allclose(by_row, expected, rtol=1e-12)
    assert [False, True, True] == (cached[0] > before).tolist()


def test_cached_estimates_and_means_are_dropped() -> None:
    """When settings change, samples arrive or a source fails."""
    held, incoming = cluster(*(node(name, cpu="16") for name in NAMES)), pod("new", cpu="1", memory="1Gi")
    measured(held, 15.0, pods=False)
    by_rule = held.load.estimate(incoming, "cpu")
    means = held.load.recent_mean("cpu", 300.0).copy()
    held.load_store.apply_settings(LoadSettings(estimates=("requests",)))
    assert (1000.0, "requests") == (held.load.estimate(incoming, "cpu")[0], held.load.estimate(incoming, "cpu")[2])
    assert "requests" != by_rule[2]
    measured(held, 315.0, pods=False)
    assert [False, True, False] == (held.load.recent_mean("cpu", 300.0) > means).tolist()
    held.load_store.discard_source("meter", 316.0)
    assert np.isnan(held.load.recent_mean("cpu", 300.0)).all()
