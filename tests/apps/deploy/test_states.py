"""The small judgements of `trimtab deploy`: rollouts, nodes, percentiles, bindings and inventories."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trimtab.apps.deploy.api_client import DeployError, ObjectRef, join_first
from trimtab.apps.deploy.load_test import percentile
from trimtab.apps.deploy.probe_pods import Bindings
from trimtab.apps.deploy.release import Inventory, from_config_map, image_name, in_order, to_config_map
from trimtab.apps.deploy.rollout import rollout_state
from trimtab.apps.deploy.scheduling_checks import is_usable


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 1}, "waiting for the deployment controller"),
        ({"observedGeneration": 2}, "0 of 2 replicas updated"),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3}, "1 old replicas left"),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2}, "0 of 2 replicas available"),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, ""),
    ],
)
def test_what_a_rollout_waits_for(status: dict[str, int], expected: str) -> None:
    """In the order of `kubectl rollout status`."""
    deployment = {"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status}
    assert expected == rollout_state(deployment)


@pytest.mark.parametrize(
    ("spec", "ready", "expected"),
    [
        ({}, "True", True),
        ({}, "False", False),
        ({"unschedulable": True}, "True", False),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "True", False),
        ({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, "True", True),
    ],
)
def test_nodes_that_can_get_pods(spec: dict[str, Any], ready: str, expected: bool) -> None:
    """Ready, schedulable, and without taints that keep pods away."""
    assert expected is is_usable({"spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}})


@pytest.mark.parametrize(
    ("count", "percent", "expected"), [(1, 99, 1), (100, 50, 50), (100, 99, 99), (10, 99, 10), (3, 50, 2)]
)
def test_percentiles_are_nearest_ranks(count: int, percent: float, expected: float) -> None:
    """Always a value that was measured."""
    assert expected == percentile([float(number) for number in range(1, count + 1)], percent)


def test_the_inventory_survives_the_cluster() -> None:
    """What is read is what was written, cluster-scoped objects included."""
    objects = (ObjectRef("v1", "Namespace", "a"), ObjectRef("apps/v1", "Deployment", "trimtab", "a"))
    written = Inventory(objects, "0.1.0", "production", True, "example.com/t", "next", ("labeller",), ("a/trimtab",))
    assert written == from_config_map(to_config_map(written, "a"))


@pytest.mark.parametrize("data", [None, {}, {"objects": "x", "settings": "{}"}, {"objects": "", "settings": "no JSON"}])
def test_a_broken_inventory_is_one_sentence(data: dict[str, str] | None) -> None:
    """With the remedy."""
    with pytest.raises(DeployError, match="ConfigMap a/trimtab-deploy is not an inventory: delete it, and run"):
        from_config_map({"metadata": {"namespace": "a"}, "data": data})


def test_what_others_need_is_written_first() -> None:
    """The namespace before accounts, accounts before Deployments, unknown kinds last."""
    kinds = ("ServiceMonitor", "Deployment", "Lease", "ServiceAccount", "Namespace")
    refs = [ObjectRef("v1", kind, "a") for kind in kinds]
    assert ["Namespace", "ServiceAccount", "Lease", "Deployment", "ServiceMonitor"] == [
        each.kind for each in in_order(refs)
    ]


def test_images_and_lists() -> None:
    """A tag, the version without one, or a digest; long lists are cut."""
    images = [image_name("a", "", "1"), image_name("a", "2", "1"), image_name("a@sha256:0", "", "1")]
    assert ["a:1", "a:2", "a@sha256:0"] == images
    assert "1, 2 and 1 more" == join_first([1, 2, 3], 2)


@pytest.mark.looptime
async def test_bindings_are_waited_for_once_each() -> None:
    """A pod's first node counts; those not bound in time are returned."""
    bindings = Bindings()

    def pod(name: str, node: str = "") -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"nodeName": node}}

    async def bind() -> None:
        bindings.observe(pod("a"), 1.0)
        await asyncio.sleep(1)
        bindings.observe(pod("a", "node-1"), 2.0)
        bindings.observe(pod("a", "node-2"), 3.0)

    task = asyncio.create_task(bind())
    assert ["b"] == await bindings.wait_for(["a", "b"], 5.0)
    await task
    assert ({"a": 2.0}, {"node-1": 1}) == (bindings.bound, bindings.pods_per_node())
