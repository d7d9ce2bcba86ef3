"""Pods that no kubelet starts make the nodes suspect; pods that start in time do not."""

from __future__ import annotations

from trimtab.core.model.events import PodDeleted, PodUpserted
from trimtab.core.model.pod import Pod
from trimtab.kube.unstarted_pods import UnstartedPods


def told(*events: PodUpserted | PodDeleted) -> list[str]:
    """The suspicions that these events lead to."""
    reasons: list[str] = []
    unstarted = UnstartedPods(reasons.append)
    for event in events:
        unstarted.take(event)
    return reasons


def seen(name: str, at: float, node: str = "gone", started: float | None = None, phase: str = "Pending") -> PodUpserted:
    return PodUpserted(Pod(name, "shop", name, node=node, started=started, phase=phase), at)


def test_a_pod_that_is_never_started() -> None:
    """Once, as soon as any pod's event comes after a minute."""
    later = [seen("other", at, node="") for at in (59.0, 61.0, 90.0)]
    assert ["a pod of gone has not been started for 61 s"] == told(seen("a", 0.0), *later)


def test_a_pod_that_is_deleted_before_it_starts() -> None:
    """As pods of a node that is gone are, by the garbage collector."""
    assert ["a pod of gone was deleted before it was started"] == told(seen("a", 0.0), PodDeleted("a", 30.0))


def test_pods_that_start_finish_or_wait_are_no_sign() -> None:
    """Neither is a pod that waits for a node, however long."""
    events = [seen("a", 0.0), seen("a", 50.0, started=49.0), seen("b", 0.0, node=""), seen("c", 0.0)]
    events += [seen("c", 9.0, phase="Failed"), seen("d", 200.0, started=199.0)]
    assert [] == told(*events, PodDeleted("a", 210.0), PodDeleted("b", 210.0))
