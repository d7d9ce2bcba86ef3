"""Pods leave where required anti-affinity forbids them."""

from tests.core.plugins.affinity_builders import HOSTNAME, far, host, label_selector, near
from tests.core.rescheduling.measured_pods import measured, running, suggested_pods
from trimtab.core.model.affinity import PodAffinityTerm
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.strategies.remove_pods_violating_inter_pod_anti_affinity import (
    RemovePodsViolatingInterPodAntiAffinity,
)

STRATEGY = RemovePodsViolatingInterPodAntiAffinity()
A, B, C = host("a"), host("b"), host("c")


def alone(name: str, on: str, created: float = 0.0, priority: int = 0) -> Pod:
    """A pod that must not share its node with another one like it."""
    pod = running(name, on=on, labels={"app": "web"}, created=created, priority=priority)
    return far(pod, PodAffinityTerm(HOSTNAME, label_selector(app="web")))


def test_one_of_two_leaves() -> None:
    """Of pods that exclude each other the newest leaves, and the others stay."""
    pods = [alone("old", "a", created=1.0), alone("new", "a", created=2.0), alone("other", "b")]
    assert ["new"] == suggested_pods(STRATEGY, measured(A, B, C, *pods))


def test_low_priority_leaves() -> None:
    """A pod of lower priority leaves, however old it is."""
    pods = [alone("high", "a", created=2.0, priority=10), alone("low", "a", created=1.0)]
    assert ["low"] == suggested_pods(STRATEGY, measured(A, B, *pods))


def test_terms_of_others() -> None:
    """A pod without terms violates those of a pod around it."""
    guarded = far(running("db", on="a", priority=10), PodAffinityTerm(HOSTNAME, label_selector(app="batch")))
    batch = running("batch", on="a", labels={"app": "batch"}, owner="batch")
    assert ["batch"] == suggested_pods(STRATEGY, measured(A, B, guarded, batch))


def test_more_replicas_than_nodes() -> None:
    """With one free node one pod leaves, with none nobody does."""
    pods = [alone(f"{node}{number}", node) for node in ("a", "b") for number in (1, 2)]
    assert 1 == len(suggested_pods(STRATEGY, measured(A, B, C, *pods)))
    assert [] == suggested_pods(STRATEGY, measured(A, B, *pods))


def test_affinity() -> None:
    """Unmet affinity is no reason to leave."""
    lonely = near(running("web", on="a"), PodAffinityTerm(HOSTNAME, label_selector(app="cache")))
    cache = running("cache", on="b", labels={"app": "cache"}, owner="cache")
    assert [] == suggested_pods(STRATEGY, measured(A, B, lonely, cache))
