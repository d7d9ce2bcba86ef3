"""What a pod is by itself decides whether it may be moved."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.rescheduling.guards.replicas import NOW, context, refused, replica, replicas
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.selectors import LabelSelector, Requirement

FIRST, *OTHERS = replicas(3)


def asked(pod: Pod, **settings: Any) -> tuple[str, str] | None:
    """With two other replicas beside it."""
    return refused(context(pod, *OTHERS, settings=settings), pod)


def test_an_ordinary_replica_may_be_moved() -> None:
    """One of three pods of a Deployment that run and are ready."""
    assert asked(FIRST) is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"terminating": True}, ("terminating", "it is terminating")),
        ({"phase": "Pending", "ready": False}, ("starting", "it is still starting")),
        ({"ready": False}, ("ready", "it is not ready")),
        ({"phase": "Unknown"}, ("ready", "it is Unknown")),
        ({"namespace": "kube-system"}, ("excluded namespace", "namespace kube-system is excluded")),
        ({"started": NOW - 10}, ("minimum age", "it has run for 10 s only")),
        ({"started": None, "created": NOW - 20}, ("minimum age", "it has run for 20 s only")),
        ({"owner": None}, ("replaceable", "no controller would create it again")),
        ({"owner": Owner("DaemonSet", "logs", "u")}, ("replaceable", "a pod of a DaemonSet belongs to its node")),
        ({"owner": Owner("Node", "a", "u")}, ("replaceable", "a pod of a Node belongs to its node")),
        ({"annotations": {"kubernetes.io/config.mirror": ""}}, ("replaceable", "a static pod belongs to its node")),
        ({"owner": Owner("Job", "sum", "u")}, ("job", "its work for a Job would be lost")),
        ({"priority": 2_000_000_000}, ("priority", "its priority 2000000000 is system-critical")),
    ],
)
def test_pods_that_stay(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    """By their state, their owner, their age, their priority and their namespace."""
    assert expected == asked(replace(FIRST, **fields))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("trimtab.dev/evict", "never", "trimtab.dev/evict=never"),
        (
            "descheduler.alpha.kubernetes.io/prefer-no-eviction",
            "",
            "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        ),
        (
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "false",
            "cluster-autoscaler.kubernetes.io/safe-to-evict=false",
        ),
        ("karpenter.sh/do-not-disrupt", "true", "karpenter.sh/do-not-disrupt=true"),
    ],
)
def test_annotations_that_ask_to_stay(key: str, value: str, reason: str) -> None:
    """Ours, and those of other programs that evict pods."""
    assert ("opt-out", f"it has the annotation {reason}") == asked(replace(FIRST, annotations={key: value}))


@pytest.mark.parametrize(
    ("key", "value"), [("trimtab.dev/evict", "never"), ("scheduler.alpha.kubernetes.io/rescheduling", "disabled")]
)
def test_labels_that_ask_to_stay(key: str, value: str) -> None:
    """Any other value asks for nothing."""
    labels = dict(FIRST.labels)
    assert ("opt-out", f"it has the label {key}={value}") == asked(replace(FIRST, labels={**labels, key: value}))
    assert asked(replace(FIRST, labels={**labels, key: "other"})) is None


def test_the_threshold_of_priorities() -> None:
    """Pods of that priority and above stay."""
    reason = "its priority 1000 is not below 1000"
    assert ("priority", reason) == asked(replace(FIRST, priority=1000), priority_threshold=1000)
    assert asked(replace(FIRST, priority=999), priority_threshold=1000) is None


def test_excluded_pods() -> None:
    """By a label selector, of which an absent one selects nothing."""
    selector = LabelSelector((), (Requirement("tier", "In", ("critical",)),))
    critical = replace(FIRST, labels={**FIRST.labels, "tier": "critical"})
    assert ("excluded pods", "its labels match the excluded pods") == asked(critical, excluded_pod_selector=selector)
    assert asked(FIRST, excluded_pod_selector=selector) is None
    assert asked(critical) is None


def test_jobs_may_be_allowed() -> None:
    """A Job with a single pod, too: its pods are no replicas of each other."""
    pod = replica("sum-x", owner="sum", kind="Job")
    assert refused(context(pod, settings={"allow_jobs": True}), pod) is None


def test_a_spec_that_cannot_be_read() -> None:
    """Its replacement would stay pending; other pods of the workload may move."""
    unread, other = replica("web-1-0", spec_error="spec.tolerations: 6,000"), replica("web-1-1")
    found = context(*replicas(3), unread, other)
    assert ("readable spec", "a replacement could not be scheduled: spec.tolerations: 6,000") == refused(found, unread)
    assert "readable spec" not in (refused(found, other) or ())


def test_a_scheduler_that_is_not_at_work() -> None:
    """Pods of other schedulers may move."""
    stuck, other = replica("web-1-0", scheduler_name="stuck"), replica("api-1-0", owner="api-1", scheduler_name="well")
    found = context(*replicas(3), stuck, other, scheduler_problems={"stuck": "is it running?", "well": ""})
    assert ("scheduler at work", "is it running?") == refused(found, stuck)
    assert "scheduler at work" not in (refused(found, other) or ())
