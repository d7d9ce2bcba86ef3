"""The rivals' evictor: each protection keeps the pod that it is about, and limits count evictions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, context, large, measured, running
from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.core.model.pod import EVICT_ANYWAY, PREFER_NO_EVICTION, Pod, Volume
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.rescheduling.rivals.default_evictor import DefaultEvictor, Evictor
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import DeschedulerLowNodeUtilization as Rival
from trimtab.core.rescheduling.rivals.thresholds import Thresholds

PLAIN = running("plain", on="a", labels={"app": "web"})
BUDGET = PodDisruptionBudget(name="b", uid="b", namespace="default", selector=LabelSelector((("app", "web"),)))


def spec(**fields: Any) -> Pod:
    return replace(PLAIN, spec=replace(PLAIN.spec, **fields))


@pytest.mark.parametrize(
    ("pod", "settings", "expected"),
    [
        (PLAIN, {}, True),
        (replace(PLAIN, owner=None), {}, False),
        (replace(PLAIN, terminating=True), {}, False),
        (spec(local_volumes=("cache",)), {}, False),
        (spec(local_volumes=("cache",)), {"evict_local_storage_pods": True}, True),
        (replace(spec(local_volumes=("cache",)), annotations={EVICT_ANYWAY: ""}), {}, True),
        (running("d", on="a", kind="DaemonSet"), {}, False),
        (running("d", on="a", kind="DaemonSet"), {"evict_daemon_set_pods": True}, True),
        (running("s", on="a", kind="Node"), {"evict_daemon_set_pods": True}, False),
        (replace(PLAIN, priority=2_000_000_000), {}, False),
        (replace(PLAIN, priority=2_000_000_000), {"evict_system_critical_pods": True}, True),
        (replace(PLAIN, priority=5), {"priority_threshold": 5}, False),
        (replace(PLAIN, priority=4), {"priority_threshold": 5}, True),
        (replace(PLAIN, priority=5), {"priority_threshold": 5, "evict_system_critical_pods": True}, True),
        (spec(volumes=(Volume("persistentVolumeClaim", "c"),)), {}, True),
        (spec(volumes=(Volume("persistentVolumeClaim", "c"),)), {"ignore_pvc_pods": True}, False),
        (spec(resource_claims=("gpu",)), {"ignore_resource_claim_pods": True}, False),
        (PLAIN, {"ignore_pods_without_pdb": True}, True),
        (replace(PLAIN, labels={}), {"ignore_pods_without_pdb": True}, False),
        (replace(PLAIN, annotations={PREFER_NO_EVICTION: ""}), {}, True),
        (replace(PLAIN, annotations={PREFER_NO_EVICTION: ""}), {"mandatory_no_eviction": True}, False),
        (PLAIN, {"min_replicas": 2}, False),
        (replace(PLAIN, started=NOW - 60), {"min_pod_age": 61.0}, False),
        (replace(PLAIN, started=NOW - 60), {"min_pod_age": 59.0}, True),
        (PLAIN, {"label_selector": LabelSelector((("app", "db"),))}, False),
        (PLAIN, {"label_selector": LabelSelector((("app", "web"),))}, True),
        (PLAIN, {"excluded_namespaces": ("default",)}, False),
        (PLAIN, {"included_namespaces": ("other",)}, False),
    ],
)
def test_protections(pod: Pod, settings: dict[str, Any], expected: bool) -> None:
    """Each by itself; the annotation `evict` goes before them."""
    evictor = Evictor(DefaultEvictor(**settings), context(measured(large("a"), BUDGET, pod)))
    assert expected == evictor.may_evict(pod)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 6),
        ({"max_per_node": 2}, 4),
        ({"max_total": 3}, 3),
        ({"max_per_namespace": 1}, 2),
        ({"max_per_node": 0}, 0),
    ],
)
@pytest.mark.parametrize("source", ["", "Prometheus"])
def test_limits(limits: dict[str, int], expected: int, source: str) -> None:
    """Of a node, of a namespace and of all; two sources with three pods too many, of two namespaces."""
    pods = [
        replace(
            running(f"{node}{number}", on=node, cpu="1"), namespace="x" if number % 2 else "y", uid=f"{node}{number}"
        )
        for node in "ab"
        for number in range(6)
    ]
    cluster = measured(*(large(name) for name in "abcd"), *pods, cpu={pod.name: [1000.0] for pod in pods})
    rival = Rival(
        *(Thresholds(cpu=10), Thresholds(cpu=30)),
        metrics_source=source,
        eviction_limit_per_node=3,
        evictor=DefaultEvictor(**limits),
    )
    found, _ = rival.evictions(context(cluster), None)
    assert expected == len(found)
