"""The API server refuses binds: Trimtab says so in its log, metrics, /readyz and /status, and goes on when it may again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import trimtab_process
from tests.live.trimtab_process import bound, page, wait_for
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY: Document = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-binds"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
            ]
        },
        "validations": [{"expression": "false", "message": "no binds today"}],
    },
}
POLICY_BINDING: Document = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-binds"},
    "spec": {"policyName": "no-binds", "validationActions": ["Deny"]},
}

BINDING: Document = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "probe"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
}


@pytest.fixture(scope="module")
def process(rig: Rig) -> Iterator[Process]:
    trimtab_process.install(rig)
    rig.admin.create_many([node(f"node-{number}") for number in range(3)])
    running = trimtab_process.start(rig)
    wait_for(lambda: trimtab_process.is_ready(running), 30, "ready", running)
    yield running
    running.terminate()


def schedule(rig: Rig, process: Process, prefix: str, count: int = 1) -> None:
    """Create pods, and wait until they are bound."""
    names = {f"{prefix}-{number}" for number in range(count)}
    rig.admin.create_many([pod(name, scheduler="trimtab") for name in sorted(names)])
    wait_for(lambda: names <= set(bound(rig)), 30, f"{prefix} bound", process)


def metric(process: Process, name: str) -> float:
    return next(float(line.split()[-1]) for line in page(process, "/metrics")[1].splitlines() if line.startswith(name))


def await_degraded(process: Process, reason: str) -> None:
    """Until /readyz fails because of binds, with one warning of this reason in the log and more in the counter."""
    wait_for(lambda: "[-]binds failed" in page(process, "/readyz")[1], 40, f"not ready: {reason}", process)
    code, text = page(process, "/status")
    assert 503 == code and "binds in a row were refused, the last one because: " in text, text
    assert metric(process, f'trimtab_bind_refusals_total{{reason="{reason}"}}') >= 5
    lines = [line for line in process.log.read_text().splitlines() if f"bind refused: reason={reason}" in line]
    assert 1 == len(lines), lines
    assert 200 == page(process, "/livez")[0]


def await_recovered(rig: Rig, process: Process, *names: str) -> None:
    wait_for(lambda: {*names} <= set(bound(rig)), 40, "bound after all", process)
    wait_for(lambda: trimtab_process.is_ready(process), 10, "ready again", process)
    assert 0 == metric(process, "trimtab_binds_refused_in_a_row")
    assert "binds succeed again" in process.log.read_text()


def test_the_right_is_taken_away(rig: Rig, process: Process) -> None:
    """One pod is enough to notice: nobody could be bound."""
    schedule(rig, process, "before", 3)
    role = rig.admin.get(f"{ROLES}/trimtab-scheduler")
    kept = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
    assert len(kept) < len(role["rules"])
    rig.admin.patch(f"{ROLES}/trimtab-scheduler", {"rules": kept})
    rig.admin.create(pod("refused-0", scheduler="trimtab"))
    await_degraded(process, "forbidden")
    rig.admin.patch(f"{ROLES}/trimtab-scheduler", {"rules": role["rules"]})
    await_recovered(rig, process, "refused-0")


def test_an_admission_policy_refuses_every_bind(rig: Rig, process: Process) -> None:
    """Of five pods, so it is no rule about one of them."""
    schedule(rig, process, "allowed", 2)
    rig.admin.create_many([POLICY, POLICY_BINDING])
    wait_for(lambda: is_denied(rig), 20, "the policy is in force", process)
    names = [f"denied-{number}" for number in range(6)]
    rig.admin.create_many([pod(name, scheduler="trimtab") for name in names])
    await_degraded(process, "admission")
    rig.admin.delete(f"{ADMISSION}/validatingadmissionpolicybindings/no-binds")
    await_recovered(rig, process, *names)


def is_denied(rig: Rig) -> bool:
    """Whether the policy refuses a bind by somebody else, too."""
    name = "probe"
    if name not in {each["metadata"]["name"] for each in trimtab_process.pods(rig)}:
        rig.admin.create(pod(name, scheduler="nobody"))
    try:
        rig.admin.call("POST", f"/api/v1/namespaces/default/pods/{name}/binding", BINDING)
    except Exception as error:
        return "no binds today" in str(error)
    rig.admin.delete(f"/api/v1/namespaces/default/pods/{name}", 0)
    return False
