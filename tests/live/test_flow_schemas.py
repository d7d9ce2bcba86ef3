"""The shipped FlowSchemas on a real API server whose priority level for service accounts is taken by another one.

`workload-low` has no seat of its own here, so that one request under way exhausts it: an upload that never ends. What else
is left to that level is answered with 429. So it needs no flood, and what is shown does not depend on the machine.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from tests.deploy.rendering import DEPLOY
from tests.live import trimtab_process
from tests.live.account_client import Account, grant_too_much
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
LIMITS = {
    "nominalConcurrencyShares": 0,
    "borrowingLimitPercent": 0,
    "limitResponse": {"type": "Reject", "queuing": None},
}
NO_SEATS = {
    "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
    "spec": {"limited": LIMITS},
}
ELECTION = {"leaseDuration": "5s", "renewDeadline": "4s", "retryPeriod": "1s"}
PODS = 20


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """As shipped, with another account, which may create ConfigMaps and read pods."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running, *trimtab_process.ROLES, "flowschema.yaml")
        running.admin.create_many(node(f"node-{number}") for number in range(3))
        other = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other", "namespace": "trimtab"}}
        running.admin.create(other)
        grant_too_much(running, "other", {"": ("configmaps", "pods")})
        running.admin.patch(f"{FLOW}/prioritylevelconfigurations/workload-low", NO_SEATS)
        yield running


@contextmanager
def exhausted(rig: Rig) -> Iterator[None]:
    """While another account's upload, of which the API server has only the first byte, takes all of `workload-low`."""
    token, port = rig.service_account_token("trimtab", "other"), int(rig.url.rpartition(":")[2])
    head = (
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    )
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        rig.credentials.tls().wrap_socket(plain, server_hostname="127.0.0.1") as upload,
    ):
        upload.sendall(f"{head}Authorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n{{".encode())
        third = Account(rig, "other")
        try:
            trimtab_process.wait_for(lambda: third.client.raw("GET", "/api/v1/pods")[0] == 429, 20, "no seat is left")
            yield
            assert 429 == third.client.raw("GET", "/api/v1/pods")[0], "the upload has ended too early"
        finally:
            third.client.close()


def test_we_lead_and_bind_while_other_accounts_get_no_answer(rig: Rig) -> None:
    """And without the FlowSchemas the same process loses its lease: they are what makes the difference."""
    trimtab = trimtab_process.start(rig, leaderElection=ELECTION)
    try:
        trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 40, "ready", trimtab)
        with exhausted(rig):
            rig.admin.create_many(pod(f"pod-{number}", scheduler=trimtab_process.SCHEDULER) for number in range(PODS))
            trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == PODS, 30, "all bound", trimtab)
            renewed = rig.admin.get(LEASE)["spec"]["renewTime"]
            trimtab_process.wait_for(
                lambda: rig.admin.get(LEASE)["spec"]["renewTime"] > renewed, 10, "renewed", trimtab
            )
        assert trimtab.running()
        for each in yaml.safe_load_all((DEPLOY / "flowschema.yaml").read_text()):
            if each["kind"] == "FlowSchema":
                rig.admin.delete(f"{FLOW}/flowschemas/{each['metadata']['name']}")
        with exhausted(rig):
            trimtab_process.wait_for(lambda: not trimtab.running(), 30, "the lease is lost", trimtab)
    finally:
        trimtab.kill()
