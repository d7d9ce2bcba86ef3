"""Pods leave nodes whose taints they do not tolerate."""

import pytest

from tests.core.rescheduling.measured_pods import large, measured, running, suggested_pods
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_taints import RemovePodsViolatingNodeTaints

CORDON = "node.kubernetes.io/unschedulable=:NoSchedule"


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        ("gpu=yes:NoSchedule", None, ["web"]),
        ("gpu=yes:NoExecute", None, ["web"]),
        ("gpu=yes:PreferNoSchedule", None, []),
        ("gpu=yes:NoSchedule", "gpu=yes:NoSchedule", []),
        (CORDON, None, []),
    ],
)
def test_taints(taint: str, toleration: str | None, expected: list[str]) -> None:
    """Hard taints that are not tolerated are a reason to leave; a cordon is not."""
    web = running("web", on="a", tolerations=[toleration] if toleration else [])
    cluster = measured(large("a", taints=[taint]), large("b"), web)
    assert expected == suggested_pods(RemovePodsViolatingNodeTaints(), cluster)


def test_excluded_taints() -> None:
    """Taints are excluded by key."""
    cluster = measured(large("a", taints=["gpu=yes:NoSchedule"]), large("b"), running("web", on="a"))
    assert [] == suggested_pods(RemovePodsViolatingNodeTaints(excluded_taints=("gpu",)), cluster)


def test_nowhere_better() -> None:
    """A pod stays if all nodes have the taint."""
    nodes = [large(name, taints=["gpu=yes:NoSchedule"]) for name in ("a", "b")]
    assert [] == suggested_pods(RemovePodsViolatingNodeTaints(), measured(*nodes, running("web", on="a")))


def test_pods_that_never_move() -> None:
    """Pods of a DaemonSet, and those without a controller, stay."""
    stay = [running("agent", on="a", kind="DaemonSet"), running("bare", on="a", owner="")]
    assert [] == suggested_pods(
        RemovePodsViolatingNodeTaints(), measured(large("a", taints=["gpu=yes:NoSchedule"]), large("b"), *stay)
    )
