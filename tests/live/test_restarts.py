"""Replicas that start together, again and again: what that costs the API server, by its audit log."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import datetime, timedelta

import pytest

from tests.live import trimtab_process
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
REPLICAS, ROUNDS = 3, 3


def test_three_replicas_start_at_once_again_and_again(rig: Rig) -> None:
    """A kind is listed once at each start, and once by each new leader; pods are bound every time."""
    trimtab_process.install(rig)
    rig.admin.create_many(node(f"node-{number}") for number in range(3))
    for number in range(ROUNDS):
        replicas = [
            trimtab_process.start(rig, f"replica-{number}-{each}", leaderElection=ELECTION) for each in range(REPLICAS)
        ]
        try:
            rig.admin.create(pod(f"pod-{number}", scheduler=trimtab_process.SCHEDULER))
            trimtab_process.wait_for(
                lambda number=number: f"pod-{number}" in trimtab_process.bound(rig), 60, "bound", *replicas
            )  # type: ignore[misc]
            assert [True] * REPLICAS == [each.running() for each in replicas]
        finally:
            kill(replicas)
    lists = our_lists(rig)
    by_kind = Counter(each["objectRef"]["resource"] for each in lists)
    assert {"pods", "nodes"} <= by_kind.keys()
    assert max(by_kind.values()) <= REPLICAS * ROUNDS + ROUNDS, by_kind
    print(f"{len(lists)} lists of {len(by_kind)} kinds; at most {most_per_minute(lists)} within a minute")
    assert () == trimtab_process.check_audit_log(rig).violations


ELECTION = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}


def kill(replicas: list[Process]) -> None:
    for each in replicas:
        each.kill()


def our_lists(rig: Rig) -> list[Document]:
    """The lists of our account: neither further pages of a list nor the single object of the first check."""
    ours = [each for each in rig.audit_events() if each["user"]["username"] == trimtab_process.ACCOUNT]
    return [
        each
        for each in ours
        if each["verb"] == "list"
        and "continue=" not in each["requestURI"]
        and "limit=1" != each["requestURI"].partition("?")[2]
    ]


def most_per_minute(lists: list[Document]) -> int:
    """The most lists that began within any minute."""
    times = sorted(datetime.fromisoformat(each["requestReceivedTimestamp"]) for each in lists)
    return max(bisect_right(times, first + timedelta(minutes=1)) - index for index, first in enumerate(times))
