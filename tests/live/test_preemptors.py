"""Many preemptors at once on a real API server, in the scene of Kubernetes' own spec of asynchronous preemption.

How long they take beside kube-scheduler is measured by `python -m bench.preemptors`, not here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import preemptors
from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

ACCOUNT = "system:serviceaccount:trimtab:trimtab"
NODES = 3
MOST_ATTEMPTS = 3.5  # of each bound pod; kube-scheduler makes 2 to 2.4 here, and 4.6 was too many
SPECIAL = {"ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "ForceActivate", "UnschedulableTimeout"}
OF_PODS = {"UnschedulablePodAdd", "AssignedPodAdd", "AssignedPodDelete"}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(controlplane_or_skip()) as running:
        preemptors.fill(running, NODES)
        yield running


def test_many_preemptors_at_once(rig: Rig) -> None:
    """High-priority pods get nodes and medium ones the rest, after few attempts; nobody but the low-priority pods is a
    victim, and the metric counts each deletion that was sent."""
    with preemptors.trimtab(rig) as running:
        outcome = preemptors.run(rig, NODES, running)
    half = NODES * preemptors.PER_NODE // 2
    assert [half, half] == [preemptors.bound(rig, each) for each in ("high", "medium")]
    assert not any("deletionTimestamp" in each["metadata"] for each in trimtab_process.pods(rig))
    assert outcome.attempts <= MOST_ATTEMPTS
    deleted = deletions(rig)
    assert NODES * preemptors.PER_NODE == len({*deleted}) and all(each.startswith("low-") for each in deleted)
    assert len(deleted) == outcome.victims
    assert {event for _, event in outcome.incoming} <= SPECIAL | OF_PODS
    assert [] == [*trimtab_process.check_audit_log(rig).violations]


def deletions(rig: Rig) -> list[str]:
    """The pods that Trimtab asked the API server to delete, once for each request."""
    asked = (ACCOUNT, "delete", "pods")
    events = [(each, each.get("objectRef", {})) for each in rig.audit_events()]
    return [
        target["name"]
        for each, target in events
        if asked == (each["user"]["username"], each["verb"], target.get("resource"))
    ]
