"""The kustomize manifests on a real control plane: admitted under `restricted`, and run as their pods say.

Deployment and ReplicaSet controllers make the pods, so that admission has seen them; `pod_process` runs them as a kubelet.
"""

from __future__ import annotations

import base64
import http.client
import os
import ssl
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.deploy.rendering import apply_strictly, write_overlay
from tests.live import pod_process, trimtab_process
from tests.live.pod_process import PodProcess
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.service_monitor import scrape_jobs
from tests.live.test_twelve_pods import CONTROL_PLANE, TWELVE
from tools.controlplane.client import Documents
from tools.controlplane.objects import node, pod
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
)
COMPONENTS = ("labeller", "rescheduler", "monitoring", "network-policy", "gang", "default-scheduler", "control-plane")
WORKLOADS = {"scheduler": 2, "labeller": 1, "rescheduler": 1}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
READER = "/api/v1/namespaces/trimtab/secrets/trimtab-metrics-reader"
RELOADED = "configuration reloaded: file=/etc/trimtab/config.yaml"
SCHEDULED = 'sum by (instance) (scheduler_schedule_attempts_total{result="scheduled"})'


@pytest.fixture(scope="module")
def installed() -> Iterator[Rig]:
    """A control plane on which everything is applied, with the controllers that make its pods."""
    pod_process.require_mounts()
    with Rig(controlplane_or_skip(), controllers=CONTROLLERS) as rig:
        rig.apply(rig.binaries / "prometheus-operator-crds.yaml")
        rig.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        warnings = apply_strictly(rig, write_overlay(rig.workspace / "overlay", *COMPONENTS))
        assert "" == warnings
        rig.admin.create_many(
            [node("control-plane", taints=[CONTROL_PLANE]), *(node(f"worker-{i}") for i in (1, 2, 3))]
        )
        yield rig


@pytest.fixture(scope="module")
def running(installed: Rig) -> Iterator[dict[str, list[PodProcess]]]:
    """The pods' processes by component, each on an address of its own, all of them ready."""
    network = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}"
    started: dict[str, list[PodProcess]] = {}
    try:
        for component, count in WORKLOADS.items():
            for number, each in enumerate(admitted(installed, component, count), start=10 * len(started) + 1):
                started.setdefault(component, []).append(pod_process.start(installed, each, f"{network}.{number}"))
        for each in (each for processes in started.values() for each in processes):
            trimtab_process.wait_for(lambda each=each: get(each, "/readyz")[0] == 200, 60, each.pod, each.process)
        yield started
    finally:
        for each in (each for processes in started.values() for each in processes):
            each.process.kill()


def admitted(rig: Rig, component: str, count: int) -> Documents:
    """The pods of a component, once its controllers have created them."""
    path = f"/api/v1/namespaces/trimtab/pods?labelSelector=app.kubernetes.io/component={component}"
    trimtab_process.wait_for(lambda: len(rig.admin.list(path)) == count, 20, f"{count} pods of {component}")
    return rig.admin.list(path)


def get(pod: PodProcess, path: str, token: str = "") -> tuple[int, str]:
    """GET a page of the secure port, whose certificate is the pod's own; status 0 without a connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(pod.address, pod.port, timeout=10, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def reader_token(rig: Rig) -> str:
    """What the ServiceMonitor's Secret holds, once the token controller has filled it."""
    trimtab_process.wait_for(lambda: "token" in rig.admin.get(READER).get("data", {}), 20, "the token of the reader")
    return base64.b64decode(rig.admin.get(READER)["data"]["token"]).decode()


def test_twelve_pods_are_bound_by_the_deployment(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """With the rendered arguments, files, user and token; none goes to the tainted node."""
    installed.admin.create_many(
        pod(name, cpu=f"{cpu}m", memory=f"{memory}Mi", scheduler="trimtab") for name, cpu, memory in TWELVE
    )
    processes = [each.process for each in running["scheduler"]]
    trimtab_process.wait_for(lambda: len(trimtab_process.bound(installed)) == 12, 40, "twelve pods bound", *processes)
    assert "control-plane" not in trimtab_process.bound(installed).values()


def test_only_those_who_may_read_metrics(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """Health is for everyone; metrics need a token, and one with the right."""
    token, other = reader_token(installed), installed.service_account_token("trimtab", "trimtab-labeller")
    for each in (process for processes in running.values() for process in processes):
        assert (200, 200) == (get(each, "/livez")[0], get(each, "/readyz")[0])
        assert (401, 403, 200) == tuple(get(each, "/metrics", given)[0] for given in ("", other, token))


def test_prometheus_scrapes_by_the_service_monitor(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """A real Prometheus, with the settings of the ServiceMonitor, reads every pod and what they have scheduled."""
    targets = {component: [f"{each.address}:{each.port}" for each in pods] for component, pods in running.items()}
    jobs = scrape_jobs(installed, "trimtab", "trimtab", targets)
    with Prometheus(jobs=jobs, binaries=installed.binaries) as prometheus:
        up = prometheus.wait_for("up", lambda found: len(found) == 4 and set(found.values()) == {1.0})
        assert {each for listed in targets.values() for each in listed} == set(up)
        prometheus.wait_for(SCHEDULED, lambda found: sum(found.values()) == 12)


def test_a_changed_config_map_is_read_without_a_restart(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """Once the kubelet has exchanged the files; the name of the ConfigMap has no hash for this reason."""
    path = "/api/v1/namespaces/trimtab/configmaps/trimtab"
    text = installed.admin.get(path)["data"]["config.yaml"]
    assert 1 == text.count("decisions: true")
    installed.admin.patch(path, {"data": {"config.yaml": text.replace("decisions: true", "decisions: false")}})
    for each in admitted(installed, "scheduler", 2):
        pod_process.update_volume(installed, each, "config")
    for each in running["scheduler"]:
        trimtab_process.wait_for(lambda each=each: RELOADED in each.process.log_tail(), 20, "the reload", each.process)


def test_the_cron_job_finds_nothing_to_remove(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """Its pod, made by the Job controller, ends well where no node is labelled."""
    installed.kubectl("-n", "trimtab", "create", "job", "now", "--from=cronjob/trimtab-unmark")
    job_pod = admitted(installed, "unmark", 1)[0]
    unmark = pod_process.start(installed, job_pod, "127.0.0.1").process
    trimtab_process.wait_for(lambda: not unmark.running(), 30, "the end of unmark", unmark)
    assert 0 == unmark.exit_code(), unmark.log_tail()


def test_the_standby_takes_over_and_nothing_was_forbidden(installed: Rig, running: dict[str, list[PodProcess]]) -> None:
    """After the leader is killed; the audit log has no 401 or 403 of the shipped accounts."""
    holder = installed.admin.get(LEASE)["spec"]["holderIdentity"]
    leader, standby = sorted(running["scheduler"], key=lambda each: not holder.startswith(each.pod))
    assert holder.startswith(leader.pod) and not holder.startswith(standby.pod)
    leader.process.kill()
    installed.admin.create(pod("thirteenth", scheduler="trimtab"))
    trimtab_process.wait_for(lambda: "thirteenth" in trimtab_process.bound(installed), 40, "bound", standby.process)
    assert installed.admin.get(LEASE)["spec"]["holderIdentity"].startswith(standby.pod)
    assert {} == refused(installed)


def refused(rig: Rig) -> dict[tuple[str, str, int], int]:
    """Requests of our accounts that were forbidden, by account and path."""
    ours = [
        each for each in rig.audit_events() if each["user"]["username"].startswith("system:serviceaccount:trimtab:")
    ]
    assert 100 < len(ours)
    codes = Counter(
        (each["user"]["username"], each["requestURI"], each.get("responseStatus", {}).get("code", 0)) for each in ours
    )
    return {key: count for key, count in codes.items() if key[2] in (401, 403)}
