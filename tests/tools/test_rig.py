"""The test control plane is real, survives disturbances, and leaves nothing behind."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest
import yaml

from tests.live.audit_checker import check_audit
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import ApiError, Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = pytest.mark.live

DEPLOY = Path(__file__).parents[2] / "deploy"
TEMPLATE = pod("template")
DEPLOYMENT: Document = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": TEMPLATE["spec"]},
    },
}
DIE_WITH_A_RIG = """
import os, signal
from tools.controlplane.rig import Rig
rig = Rig(workspace=__import__("pathlib").Path({workspace!r}))
rig.start()
print(rig.etcd.pid, rig.apiserver.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with workload controllers and kwok as every kubelet."""
    with Rig(controlplane_or_skip(), kwok=True, controllers=WORKLOADS) as running:
        yield running


def eventually(question: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer


def phases(rig: Rig) -> list[str]:
    """The phases of all pods of the deployment."""
    return [
        each["status"]["phase"] for each in rig.admin.list("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb")
    ]


def test_a_deployment_becomes_running_pods(rig: Rig) -> None:
    """Controllers create the pods, kube-scheduler binds them, kwok runs them, and the audit log is clean."""
    rig.admin.create_many(node(f"node-{n}") for n in range(3))
    scheduler = rig.start_kube_scheduler()
    rig.apply([DEPLOYMENT])
    assert eventually(lambda: ["Running"] * 6 == phases(rig))
    assert "scheduler_schedule_attempts_total" in rig.scrape(scheduler)
    assert scheduler.cpu_seconds() > 0
    pods, nodes = rig.admin.list("/api/v1/pods"), rig.admin.list("/api/v1/nodes")
    report = check_audit(rig.audit_events(), pods, nodes, "system:kube-scheduler", ["default-scheduler"])
    assert () == report.violations
    assert {each["metadata"]["uid"]: each["spec"]["nodeName"] for each in pods} == report.bound


def test_compaction_and_a_restart_invalidate_old_revisions(rig: Rig) -> None:
    """The objects are still there, and a watch from an older revision gets 410."""
    before = rig.admin.get("/api/v1/namespaces/default")["metadata"]["resourceVersion"]
    rig.admin.create(pod("later", scheduler="nobody"))
    assert rig.compact_etcd() > int(before)
    rig.kill_apiserver()
    with pytest.raises(OSError, match="refused"):
        rig.admin.get("/api/v1/nodes")
    rig.start_apiserver()
    assert "later" == rig.admin.get("/api/v1/namespaces/default/pods/later")["metadata"]["name"]
    _, answer = rig.admin.raw("GET", f"/api/v1/pods?watch=true&resourceVersion={before}&timeoutSeconds=5")
    assert b'"code":410' in answer


def test_a_service_account_has_only_the_permissions_of_its_roles(rig: Rig) -> None:
    """With the shipped RBAC, Trimtab's account may list pods but not read secrets."""
    rig.admin.create(pod("seen", scheduler="nobody"))
    for name in ("rbac.yaml", "components/default-scheduler/rbac-default-scheduler.yaml"):
        rig.apply(DEPLOY / name)
    token = f"--kubeconfig={rig.service_account_kubeconfig('trimtab', 'trimtab')}"
    assert "seen" in rig.kubectl(token, "get", "pods")
    with pytest.raises(RuntimeError, match="Forbidden"):
        rig.kubectl(token, "get", "secrets")
    report = check_audit(rig.audit_events(), [], [], "system:serviceaccount:trimtab:trimtab", [])
    assert ("refused with 403: list  secrets",) == report.violations
    assert ("list", "", "pods") in report.used


def test_unknown_users_are_forbidden(rig: Rig) -> None:
    """A user without roles and a request without credentials both get Forbidden."""
    with pytest.raises(RuntimeError, match="Forbidden"):
        rig.kubectl(f"--kubeconfig={rig.client_kubeconfig('stranger')}", "get", "pods")
    with pytest.raises(HTTPException, match="403"):
        rig.scrape(rig.apiserver, "/api/v1/pods")
    assert {} == yaml.safe_load(rig.anonymous_kubeconfig().read_text())["users"][0]["user"]


def test_a_paused_server_responds_when_resumed(rig: Rig) -> None:
    """It keeps its connections, and a request made in the meantime gets its response afterwards."""
    rig.apiserver.pause()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(rig.admin.raw, "GET", "/readyz")
        with pytest.raises(TimeoutError):
            asked.result(timeout=0.5)
        rig.apiserver.resume()
        assert 200 == asked.result(timeout=30)[0]


def test_errors_of_the_server_raise(rig: Rig) -> None:
    """With the status code."""
    with pytest.raises(ApiError) as caught:
        rig.admin.get("/api/v1/namespaces/default/pods/never-made")
    assert 404 == caught.value.status


def test_nothing_is_left_behind() -> None:
    """After the block no process and no workspace is left."""
    with Rig(controlplane_or_skip()) as short:
        pids = [short.etcd.pid, short.apiserver.pid]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert [] == [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not short.workspace.exists()


def test_a_killed_test_run_kills_its_control_plane(tmp_path: Path) -> None:
    """By the kernel, when the parent process dies."""
    controlplane_or_skip()
    program = DIE_WITH_A_RIG.format(workspace=str(tmp_path))
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    pids = done.stdout.split()
    assert 2 == len(pids), done.stderr
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds=10)


def test_the_shipped_roles_have_no_wildcard_and_no_secrets() -> None:
    """In no rule of the shipped RBAC."""
    documents = [each for path in DEPLOY.glob("rbac*.yaml") for each in yaml.safe_load_all(path.read_text())]
    rules = [rule for each in documents for rule in each.get("rules", ())]
    named = {word for rule in rules for words in rule.values() for word in words}
    assert set() == named & {"*", "secrets", "nodes/proxy", "escalate", "bind", "impersonate", "deletecollection"}
    deleting = [rule for rule in rules if "delete" in rule["verbs"]]
    assert [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}] == deleting  # victims of preemption
