"""The chart by Helm itself on a real control plane: install, upgrade from the first version, another namespace, uninstall."""

from __future__ import annotations

import http.client
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.rendering import CHART, ROOT, parse, run
from tests.live import pod_process, trimtab_process
from tests.live.pod_process import PodProcess
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.service_monitor import scrape_jobs
from tests.live.test_metrics_stack import PASSWORD, PASSWORD_HASH
from tools.controlplane.objects import node, pod
from tools.controlplane.prometheus import Prometheus, web_config
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
)
FIRST = ROOT / "tests" / "deploy" / "chart-0.1.0" / "rendered.yaml"
FIRST_VALUES = (
    "labeller.enabled=true",
    "networkPolicy.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "rbac.gang=true",
)
NAMESPACES = ("trimtab", "scheduling")
SOURCE = """
apiVersion: trimtab.dev/v1alpha1
kind: TrimtabConfiguration
sources:
- name: guarded
  prometheus:
    url: {url}
    interval: 1s
    basicAuth: {{username: reader, passwordFile: /var/run/secrets/prometheus/password}}
    tls: {{caFile: /var/run/secrets/prometheus/ca.crt}}
    metrics: []
    queries: [{{name: cpu, unit: percent, query: 'label_replace(vector(25), "node", "worker", "", "")'}}]
"""
SCHEDULER_CONFIG = f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{{{schedulerName: trimtab}}}}]
---{SOURCE}"""
OTHER_LEASE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceNamespace: kube-system, resourceName: rescheduler-scheduler}
profiles: [{schedulerName: rescheduler-scheduler}]
"""
LABELLER_CONFIG = SOURCE + "labels: {{mode: apply, rules: [{{name: cpu, metric: cpu, above: 85%}}]}}\n"
SAMPLED = 'trimtab_node_samples{resource="cpu",state="fresh"} 1.0'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Rig]:
    """A control plane with the operator's kinds and two namespaces that enforce `restricted`."""
    with Rig(controlplane_or_skip(), controllers=CONTROLLERS) as rig:
        rig.apply(rig.binaries / "prometheus-operator-crds.yaml")
        rig.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        for name in NAMESPACES:
            rig.ensure_namespace(name)
            rig.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        yield rig


def helm(rig: Rig, *arguments: str | Path) -> str:
    """The output of helm, run as administrator; fails on any warning of the API server."""
    done = run([rig.binaries / "helm", f"--kubeconfig={rig.admin_kubeconfig}", *arguments])
    assert "" == done.stderr
    return done.stdout


def settings(*given: str) -> list[str]:
    return [word for each in given for word in ("--set", each)]


def ours(rig: Rig) -> dict[tuple[str, str, str], str]:
    """The UIDs of all objects of all kinds that carry our label or name; without Events and what controllers made."""
    kinds = rig.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    found = rig.kubectl("get", ",".join(kind for kind in kinds if not kind.startswith("events")), "-A", "-o", "json")
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["metadata"]["uid"]
        for each in json.loads(found)["items"]
        if each["kind"] not in ("Namespace", "Pod", "ReplicaSet")
        and ("trimtab" in each["metadata"]["name"] or "trimtab" in str(each["metadata"].get("labels", {})))
    }


def first_chart(folder: Path) -> Path:
    """A chart of the first version that renders what it rendered then."""
    (folder / "templates").mkdir(parents=True)
    shutil.copy(FIRST, folder / "rendered.yaml")
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: trimtab, version: 0.1.0}")
    (folder / "templates" / "all.yaml").write_text('{{ .Files.Get "rendered.yaml" }}')
    return folder


def test_an_upgrade_from_the_first_version_replaces_nothing(cluster: Rig, tmp_path: Path) -> None:
    """Every object stays the same one, with its selector; the lease keeps its holder; removing leaves nothing."""
    assert {} == ours(cluster)
    helm(cluster, "install", "trimtab", first_chart(tmp_path / "first"), "--namespace", "trimtab")
    before = ours(cluster)
    names = {(each["kind"], each["metadata"]["name"]) for each in parse(FIRST.read_text())}
    assert names <= {(kind, name) for kind, _, name in before}
    lease = "/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/trimtab"
    cluster.admin.patch(lease, {"spec": {"holderIdentity": "somebody"}})
    upgraded = settings(*FIRST_VALUES, "replicas=3", "config.template=production")
    helm(cluster, "upgrade", "trimtab", CHART, "--namespace", "trimtab", *upgraded)
    after = ours(cluster)
    kept = {key: uid for key, uid in after.items() if key in before}
    assert before == kept
    assert "somebody" == cluster.admin.get(lease)["spec"]["holderIdentity"]
    assert 3 == cluster.admin.get("/apis/apps/v1/namespaces/trimtab/deployments/trimtab")["spec"]["replicas"]
    helm(cluster, "rollback", "trimtab", "1", "--namespace", "trimtab")
    helm(cluster, "uninstall", "trimtab", "--namespace", "trimtab")
    assert {} == ours(cluster)


def test_the_lease_that_a_file_names_is_granted(cluster: Rig, tmp_path: Path) -> None:
    """To the service account, also if another scheduler has made it before, and its other leases are not."""
    file = tmp_path / "config.yaml"
    file.write_text(OTHER_LEASE)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "rescheduler-scheduler"}}
    cluster.admin.call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)
    helm(cluster, "install", "trimtab", CHART, "--namespace", "trimtab", "--set-file", f"config.inline={file}")
    account = "--as=system:serviceaccount:trimtab:trimtab"
    may = ("-n", "kube-system", "auth", "can-i", account)
    for verb in ("get", "update"):
        assert "yes" == cluster.kubectl(*may, verb, "leases/rescheduler-scheduler").strip()
    assert "yes" == cluster.kubectl(*may, "create", "leases").strip()
    with pytest.raises(RuntimeError, match="auth can-i"):  # it exits with 1
        cluster.kubectl(*may, "update", "leases/kube-scheduler")
    helm(cluster, "uninstall", "trimtab", "--namespace", "trimtab")
    assert {} == ours(cluster)


@pytest.fixture(scope="module")
def guarded(cluster: Rig) -> Iterator[Prometheus]:
    """A Prometheus behind TLS and a password."""
    web = web_config(cluster.credentials, {"reader": PASSWORD_HASH})
    with Prometheus(binaries=cluster.binaries, web=web) as running:
        yield running


def test_another_release_in_another_namespace_runs_and_leaves_nothing(cluster: Rig, guarded: Prometheus) -> None:
    """With Prometheus' password and a certificate that scrapers verify from Secrets, and leases of its own."""
    pod_process.require_mounts()
    cluster.admin.create(node("worker"))
    values = _values(cluster, guarded.url)
    notes = helm(cluster, "install", "load", CHART, "--namespace", "scheduling", "--values", values)
    assert "kubectl -n scheduling delete lease trimtab-labeller" in notes
    running = [*_start(cluster)]
    try:
        processes = [each.process for each in running]
        cluster.admin.create(pod("web", scheduler="trimtab"))
        trimtab_process.wait_for(lambda: trimtab_process.bound(cluster) == {"web": "worker"}, 60, "bound", *processes)
        trimtab_process.wait_for(lambda: len(_holders(cluster)) == 2, 40, "both leases held", *processes)
        assert {"load-trimtab", "trimtab-labeller"} == set(_holders(cluster))
        trimtab_process.wait_for(lambda: SAMPLED in _metrics(cluster, running), 20, "a sample", *processes)
        _check_scraping(cluster, running)
        helm(cluster, "uninstall", "load", "--namespace", "scheduling")
        codes = [each.process.terminate() for each in running]
    finally:
        for each in running:
            each.process.kill()
    assert 2 == len(codes)
    assert {("Lease", "scheduling", "trimtab-labeller")} == set(ours(cluster))  # which the notes name


def _values(rig: Rig, prometheus: str) -> Path:
    """What an operator with a Prometheus behind a password, and a certificate of the cluster's own CA, would write."""
    cert, key = rig.credentials.server_certificate(
        "load-trimtab.scheduling.svc", "load-trimtab-labeller.scheduling.svc", *map(_address, (1, 2))
    )
    files = {"tls.crt": cert, "tls.key": key, "ca.crt": rig.credentials.ca_file}  # as cert-manager makes it
    data = [f"--from-file={name}={path}" for name, path in files.items()]
    rig.kubectl("-n", "scheduling", "create", "secret", "generic", "serving", "--type=kubernetes.io/tls", *data)
    values = {
        "replicas": 1,
        "serving": {"tlsSecret": "serving"},
        "monitoring": {"serviceMonitor": {"enabled": True}},
        "config": {"inline": SCHEDULER_CONFIG.format(url=prometheus)},
        "prometheus": {"credentials": {"password": PASSWORD, "ca.crt": rig.credentials.ca_file.read_text()}},
        "labeller": {"enabled": True, "unmark": {"enabled": False}, "config": LABELLER_CONFIG.format(url=prometheus)},
    }
    file = rig.workspace / "values.json"
    file.write_text(json.dumps(values))
    return file


def _start(rig: Rig) -> Iterator[PodProcess]:
    """The pods of the release in the namespace scheduling, as processes."""
    path = "/api/v1/namespaces/scheduling/pods"
    trimtab_process.wait_for(lambda: len(rig.admin.list(path)) == 2, 20, "two pods")
    for number, each in enumerate(rig.admin.list(path), start=1):
        yield pod_process.start(rig, each, _address(number))


def _address(number: int) -> str:
    return f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.{number}"


def _metrics(rig: Rig, running: list[PodProcess]) -> str:
    """Of all pods, with a client certificate; theirs is verified with the CA that issued it."""
    pages = []
    for each in running:
        tls = rig.credentials.tls("admin", "system:masters")
        connection = http.client.HTTPSConnection(each.address, each.port, timeout=10, context=tls)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        pages.append(answer.read().decode())
        connection.close()
        assert 200 == answer.status
    return "\n".join(pages)


def _check_scraping(rig: Rig, running: list[PodProcess]) -> None:
    """A real Prometheus scrapes both pods by the ServiceMonitor, which here verifies their certificate."""
    reader = "/api/v1/namespaces/scheduling/secrets/load-trimtab-metrics-reader"
    trimtab_process.wait_for(lambda: "token" in rig.admin.get(reader).get("data", {}), 20, "the reader's token")
    targets = {each.component: [f"{each.address}:{each.port}"] for each in running}
    jobs = scrape_jobs(rig, "scheduling", "load-trimtab", targets)
    assert {"ca_file", "server_name"} == set(jobs[0]["tls_config"])
    with Prometheus(jobs=jobs, binaries=rig.binaries) as prometheus:
        prometheus.wait_for("up", lambda found: [*found.values()] == [1.0, 1.0])


def _holders(rig: Rig) -> dict[str, str]:
    """Who holds the leases of the namespace."""
    leases = rig.admin.list("/apis/coordination.k8s.io/v1/namespaces/scheduling/leases")
    return {
        each["metadata"]["name"]: each["spec"]["holderIdentity"]
        for each in leases
        if each["spec"].get("holderIdentity")
    }
