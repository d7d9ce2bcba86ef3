"""Refused binds are counted by reason, logged once a minute for each, and degrade the process until one succeeds."""

from __future__ import annotations

import json
import logging

import pytest

from trimtab.core.model.instructions import Bind
from trimtab.kube.bind_refusals import LIMIT, BindRefusals
from trimtab.wire.outcomes import Refusal, Reply, bind_refusal

RBAC = 'pods "p" is forbidden: User "system:serviceaccount:trimtab:trimtab" cannot create resource "pods/binding"'
WEBHOOK = 'admission webhook "no.binds" denied the request: not today'
POLICY = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'quiet' with binding 'quiet' denied request: not today"
UNCALLABLE = 'Internal error occurred: failed calling webhook "no.binds": connection refused'
FULL = "etcdserver: mvcc: database space exceeded"


def refused(status: int, message: str = "") -> Reply:
    return Reply(status, json.dumps({"kind": "Status", "status": "Failure", "message": message}).encode())


def bind(number: int = 0) -> Bind:
    return Bind(f"u{number}", "shop", f"pod-{number}", "node-a")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (refused(401), Refusal.UNAUTHORIZED),
        (refused(403, RBAC), Refusal.FORBIDDEN),
        (refused(403, WEBHOOK), Refusal.ADMISSION),
        (refused(400, WEBHOOK), Refusal.ADMISSION),
        (refused(403, POLICY), Refusal.ADMISSION),
        (refused(500, UNCALLABLE), Refusal.ADMISSION),
        (refused(422, "invalid"), Refusal.INVALID),
        (refused(429), Refusal.THROTTLED),
        (refused(500, FULL), Refusal.STORAGE_FULL),
        (refused(503), Refusal.SERVER_ERROR),
        (refused(408), Refusal.SERVER_ERROR),
        (Reply(0, error="the connection broke"), Refusal.NO_ANSWER),
        (Reply(0, error="not the leader", sent=False), None),
        (refused(404), None),
        (refused(409), None),
        (Reply(201), None),
    ],
)
def test_the_reason_of_a_refusal(reply: Reply, reason: Refusal | None) -> None:
    """By status and the API server's own words; races and what was not sent are none."""
    assert reason == bind_refusal(reply)


def test_refusals_in_a_row_degrade_until_a_bind_succeeds() -> None:
    """Five are enough, and the first success ends it; the counter stays."""
    refusals = BindRefusals(Clock())
    for number in range(LIMIT):
        assert refusals.degraded() is None
        refusals.note(bind(), refused(403, RBAC))
        refusals.note(bind(number), refused(409))  # races neither count nor end it
    assert f"5 binds in a row were refused, the last one because: {RBAC}" == refusals.degraded()
    refusals.note(bind(), Reply(201, b'{"kind": "Status", "status": "Success"}'))
    assert (None, 0, 5) == (refusals.degraded(), refusals.in_a_row, refusals.counts["forbidden"])


def test_a_policy_that_refuses_one_pod_is_no_trouble_of_ours() -> None:
    """However often that pod is tried; one that refuses five pods is."""
    refusals = BindRefusals(Clock())
    for _ in range(20):
        refusals.note(bind(), refused(403, POLICY))
    assert (None, 20) == (refusals.degraded(), refusals.counts["admission"])
    for number in range(LIMIT):
        refusals.note(bind(number), refused(403, POLICY))
    assert refusals.degraded() is not None


def test_one_warning_a_minute_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    """With the pod, the remedy, and how many were not logged since the last."""
    clock = Clock()
    refusals = BindRefusals(clock)
    with caplog.at_level(logging.WARNING):
        for second in range(121):
            clock.now = float(second)
            refusals.note(bind(), refused(403, RBAC))
            refusals.note(bind(), refused(500, FULL))
    forbidden = [record.getMessage() for record in caplog.records if "reason=forbidden" in record.getMessage()]
    assert (3, 3) == (len(forbidden), len(caplog.records) - len(forbidden))
    assert "pod=shop/pod-0 node=node-a status=403" in forbidden[0] and "apply deploy/rbac.yaml" in forbidden[0]
    assert "not_logged=0" in forbidden[0] and "not_logged=59" in forbidden[1]


@pytest.mark.parametrize("refusal", Refusal)
def test_every_reason_has_a_remedy(refusal: Refusal, caplog: pytest.LogCaptureFixture) -> None:
    """A reason without one would raise in the middle of a bind."""
    replies = {
        **{each: refused(status) for each, status in zip(Refusal, (401, 403, 0, 422, 429, 0, 503, 0), strict=True)},
        Refusal.ADMISSION: refused(403, WEBHOOK),
        Refusal.STORAGE_FULL: refused(500, FULL),
        Refusal.NO_ANSWER: Reply(0),
    }
    BindRefusals(Clock()).note(bind(), replies[refusal])
    assert f"reason={refusal.value} " in caplog.text and "remedy=" in caplog.text
