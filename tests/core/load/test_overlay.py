"""Decides whether a view with pods added or taken away shows the load that goes with it, and leaves the cluster alone."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tests.core.load.meters import by_name, machines, of_pods, pending, read, reading, runs
from trimtab.core.cluster.state import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU


def scene() -> Cluster:
    """Two nodes, one with a measured pod that uses 300 of the 1,000."""
    cluster = machines("a", "b", settings=LoadSettings(estimates=("requests",)))
    cluster.see_pod(runs("web", "a"))
    read(cluster, reading({"a": 1000.0, "b": 1000.0}), of_pods({"web": 300.0}))
    return cluster


def shown(cluster: Cluster, view: View) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """What is expected, and the mean foretold."""
    return by_name(cluster, view.load.expected(CPU)), by_name(cluster, view.load.forecast(CPU)[0])


def test_an_explanation_sees_the_load_as_it_was_before_the_decision() -> None:
    """An assumed pod is taken away with its estimate, and nothing else changes."""
    cluster = scene()
    before = shown(cluster, cluster.view)
    new = runs("new", "", phase="Pending")
    cluster.see_pod(new)
    cluster.assume(new, "b")
    overlay = cluster.view.with_pods({}, {"b": [cluster.places["uid-new"].pod]})
    assert before == shown(cluster, overlay)
    assert ({"a": 1000.0, "b": 1500.0}, {"a": 1000.0, "b": 1500.0}) == shown(cluster, cluster.view)


def test_a_pod_that_is_tried_on_a_node_counts_with_its_estimate() -> None:
    """As promised pods do, and taken away again it leaves nothing."""
    cluster = scene()
    new = runs("new", "")
    added = cluster.view.with_pods({"a": [new]})
    assert {"a": 1500.0, "b": 1000.0} == shown(cluster, added)[0]
    assert shown(cluster, cluster.view) == shown(cluster, added.with_pods({}, {"a": [new]}))


@pytest.mark.parametrize("leaving", [False, True])
def test_victims_are_taken_off_with_what_was_measured_of_them(leaving: bool) -> None:
    """Also many at once, by their slots; who is on the way out is off already."""
    cluster = scene()
    if leaving:
        cluster.see_pod(replace(cluster.pods["uid-web"], version=2, deleting=True))
    slot = cluster.residents.slot["uid-web"]
    before = pending(cluster)
    stripped = cluster.view.without(np.array([slot]), runs("new", ""))
    assert ({"a": 700.0, "b": 1000.0}, {"a": 700.0, "b": 1000.0}) == shown(cluster, stripped)
    assert before == pending(cluster)
