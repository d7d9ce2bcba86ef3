"""Views with pods added or removed show the load that goes with it, and leave the cluster unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.load.builders import by_name, cluster_of, ingest, pod_reading, reading, running_pod, unsampled
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU


def scene() -> Cluster:
    """Two nodes at 1000, one with a measured pod that uses 300."""
    cluster = cluster_of("a", "b", settings=LoadSettings(estimates=("requests",)))
    cluster.upsert_pod(running_pod("web", "a"))
    ingest(cluster, reading({"a": 1000.0, "b": 1000.0}), pod_reading({"web": 300.0}))
    return cluster


def expected_and_forecast(cluster: Cluster, view: View) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Expected usage, and the forecast's mean."""
    return by_name(cluster, view.load.expected(CPU)), by_name(cluster, view.load.forecast(CPU)[0])


def test_explain_sees_the_load_before_the_decision() -> None:
    """An assumed pod is removed with its estimate, and nothing else changes."""
    cluster = scene()
    before = expected_and_forecast(cluster, cluster.view)
    new = running_pod("new", "", phase="Pending")
    cluster.upsert_pod(new)
    cluster.assume(new, "b")
    overlay = cluster.view.with_pods({}, {"b": [cluster.placements["uid-new"].pod]})
    assert before == expected_and_forecast(cluster, overlay)
    assert ({"a": 1000.0, "b": 1500.0}, {"a": 1000.0, "b": 1500.0}) == expected_and_forecast(cluster, cluster.view)


def test_an_added_pod_counts_with_its_estimate() -> None:
    """As nominated pods do; removed again, it leaves nothing."""
    cluster = scene()
    new = running_pod("new", "")
    added = cluster.view.with_pods({"a": [new]})
    assert {"a": 1500.0, "b": 1000.0} == expected_and_forecast(cluster, added)[0]
    assert expected_and_forecast(cluster, cluster.view) == expected_and_forecast(
        cluster, added.with_pods({}, {"a": [new]})
    )


@pytest.mark.parametrize("leaving", [False, True])
def test_victims_are_subtracted_with_their_samples(leaving: bool) -> None:
    """Also many at once, by slot; a terminating one is subtracted already."""
    cluster = scene()
    if leaving:
        cluster.upsert_pod(replace(cluster.pods["uid-web"], version=2, terminating=True))
    slot = cluster.pod_table.slot["uid-web"]
    before = unsampled(cluster)
    stripped = cluster.view.without_pods(np.array([slot]), running_pod("new", ""))
    assert ({"a": 700.0, "b": 1000.0}, {"a": 700.0, "b": 1000.0}) == expected_and_forecast(cluster, stripped)
    assert before == unsampled(cluster)
