"""`trimtab doctor` on a real API server and a real Prometheus: every fault is reported with its remedy, the rest is ok."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.metering.exporters import Exporters
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live

NAMES = tuple(f"node-{number}" for number in range(6))
FROZEN, TWICE, HUGE, ELSEWHERE = NAMES[2:]
BY_LOAD = {
    "schedulerName": trimtab_process.SCHEDULER,
    "plugins": {
        "score": {"enabled": [{"name": "PeakRisk"}]},
        "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
    },
}
RULES = [
    {"name": "busy", "metric": "memory", "above": "80%"},
    {"name": "own", "query": "node_memory_MemTotal_bytes{case='well'}", "above": 1},
    {"name": "slip", "query": "rate(up)", "above": 1},
]


@pytest.fixture(scope="module")
def exporters() -> Iterator[Exporters]:
    with Exporters(NAMES) as serving:
        yield serving


@pytest.fixture(scope="module")
def prometheus(exporters: Exporters) -> Iterator[Prometheus]:
    """Healthy machines are scraped correctly, the others with common mistakes."""
    ill = {"case": "ill"}
    with Exporters(NAMES) as sound:
        sound.run(NAMES[0], "default", "seen", 0.1, 1e8)
        targets = sound.targets(labels={"case": "well"})
        targets += exporters.targets(labels=ill, pages=["node"], names=NAMES[:5])
        targets += exporters.targets("again:9100", {**ill, "node": "{name}"}, ["node"], [TWICE])
        targets += exporters.targets("192.0.2.7:9100", ill, ["node"], [ELSEWHERE])
        with Prometheus(targets, binaries=controlplane_or_skip()) as running:
            running.wait_for(
                "up", lambda up: all(up.values()) and len(up) == len({each.labels["instance"] for each in targets})
            )
            yield running


@pytest.fixture(scope="module")
def cluster(rig: Rig, exporters: Exporters) -> Rig:
    trimtab_process.install(rig, "rbac.yaml")
    for name in NAMES:
        made = node(name)
        made["status"]["addresses"] = [{"type": "InternalIP", "address": exporters.ip(name)}]
        rig.admin.create(made)
    return rig


def asking(prometheus: Prometheus, case: str, **more: Any) -> Document:
    source = {
        "url": prometheus.url,
        "interval": "2s",
        "timeout": "2s",
        "rateWindow": "5s",
        "matchLabels": {"case": case},
    }
    return {
        "sources": [{"name": "prom", "prometheus": source | more}],
        "load": {"freshFor": "4s", "staleAfter": "8s", "mostMissing": 0.9},
    }


def doctor(file: Path, kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [
        sys.executable,
        "-m",
        "trimtab",
        "doctor",
        "--config",
        str(file),
        "--kubeconfig",
        str(kubeconfig),
        *flags,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def findings(done: subprocess.CompletedProcess[str], severity: str, area: str) -> dict[str, Document]:
    """Findings by subject or, for nodes, by the metrics that are missing."""
    found = json.loads(done.stdout)["findings"]
    mine = [each for each in found if (each["severity"], each["area"]) == (severity, area)]
    mine = [each for each in mine if not each["subject"].startswith("rule/")]
    return {",".join(each.get("nodes", ())) or each["subject"]: each for each in mine}


def of_rules(done: subprocess.CompletedProcess[str]) -> dict[str, Document]:
    """The findings for each rule and for all of them together."""
    return {each["subject"]: each for each in json.loads(done.stdout)["findings"] if each["area"] == "labels"}


def test_every_fault_is_reported_with_its_remedy(cluster: Rig, exporters: Exporters, prometheus: Prometheus) -> None:
    """Missing permissions by file, each node without data by its reason, the query that Prometheus rejects by its name."""
    exporters.freeze(FROZEN)
    exporters.override(HUGE, "node_memory_MemTotal_bytes", "9e13")
    prometheus.wait_for(
        'time() - timestamp(node_memory_MemAvailable_bytes{case="ill"})', lambda ages: max(ages.values()) > 9
    )
    own = {**asking(prometheus, "ill"), "labels": {"rules": RULES}}
    file = trimtab_process.write_config(cluster, "ill", own, profiles=[BY_LOAD])
    done = doctor(file, cluster.service_account_kubeconfig("trimtab", "trimtab"), "--json")
    assert (1, "") == (done.returncode, done.stderr), done.stdout
    rights = findings(done, "problem", "rights")
    assert "deploy/rbac-volumes.yaml" in rights["persistentvolumes"]["remedy"]
    assert "may not list, watch them" in rights["csinodes.storage.k8s.io"]["says"]
    assert "deploy/rbac-preemption.yaml" in rights["pods"]["remedy"]
    nodes = findings(done, "warning", "nodes")
    assert "too old for 1 of 6" in nodes[FROZEN]["says"] and "cpu and memory" in nodes[FROZEN]["subject"]
    assert "instance=10.64.0.4:9100" in nodes[TWICE]["says"] and "instance=again:9100" in nodes[TWICE]["says"]
    assert "more than the node's capacity for 1 of 6" in nodes[HUGE]["says"]
    assert "node-5, 10.64.0.6" in nodes[ELSEWHERE]["says"]
    assert "series that match no node have instance=192.0.2.7:9100" in nodes[ELSEWHERE]["says"]
    sources = findings(done, "problem", "source")
    assert {"prom/podCPU", "prom/podMemory", "prom/rule/slip"} == sources.keys()
    assert "Prometheus rejected the query (400)" in sources["prom/rule/slip"]["says"]
    rules = of_rules(done)
    assert {"slip": "problem", "busy": "warning", "own": "ok", "now": "warning"} == {
        name: each["severity"] for name, each in rules.items()
    }
    assert ([*NAMES[2:]], True) == (rules["busy"]["nodes"], "memory is known for 2 of 6 nodes" in rules["busy"]["says"])
    assert "too old for 1 of 6 nodes: node-2" in rules["busy"]["says"]
    assert "more than the node's capacity for 1 of 6 nodes: node-4" in rules["busy"]["says"]


def test_a_correct_setup_passes_for_each_account(cluster: Rig, prometheus: Prometheus) -> None:
    """Exit code 0 with the shipped roles, run by the account itself and by an administrator for it."""
    trimtab_process.install(cluster, *trimtab_process.ROLES, "rbac-serving.yaml")
    usual = ["nodeCPU", "nodeMemory"]
    file = trimtab_process.write_config(cluster, "well", asking(prometheus, "well", metrics=usual), profiles=[BY_LOAD])
    done = doctor(file, cluster.service_account_kubeconfig("trimtab", "trimtab"), "--strict")
    assert 0 == done.returncode, done.stdout
    assert "system:serviceaccount:trimtab:trimtab: has all" in done.stdout
    assert "cpu and memory: known for all 6 nodes" in done.stdout
    assert "0 problems, 0 warnings" in done.stdout.splitlines()[-1]
    account = "system:serviceaccount:trimtab:trimtab-labeller"
    done = doctor(file, cluster.admin_kubeconfig, "--as", account, "--json")
    assert (1, True) == (done.returncode, "pods/binding" in findings(done, "problem", "rights"))


def test_the_labeller_is_checked_with_its_own_permissions(cluster: Rig, prometheus: Prometheus) -> None:
    """They come from deploy/components/labeller/labeller.yaml: before it is applied, nodes may not be patched."""
    own = {**asking(prometheus, "well"), "labels": {"mode": "apply", "rules": RULES[:1]}}
    file, account = (
        trimtab_process.write_config(cluster, "labels", own),
        "system:serviceaccount:trimtab:trimtab-labeller",
    )
    done = doctor(file, cluster.admin_kubeconfig, "--labeller", "--as", account, "--json")
    rights = findings(done, "problem", "rights")
    assert (1, {"nodes", "leases.coordination.k8s.io in trimtab"}) == (
        done.returncode,
        {*rights} - {_lease("labeller")},
    )
    assert "apply deploy/components/labeller/labeller.yaml" == rights["nodes"]["remedy"]
    trimtab_process.install(cluster, "components/labeller/labeller.yaml")
    time.sleep(1)
    done = doctor(file, cluster.admin_kubeconfig, "--labeller", "--as", account)
    assert 0 == done.returncode, done.stdout


def _lease(who: str) -> str:
    return f"leases.coordination.k8s.io trimtab-{who} in trimtab"


def test_a_rule_file_is_checked_with_the_labellers_flags(cluster: Rig, prometheus: Prometheus) -> None:
    """What a rule.yaml would mark now, which rule has nobody, and which node it does not know: nothing is written for it."""
    free = "node_memory_MemAvailable_bytes{case='well'} / node_memory_MemTotal_bytes{case='well'} * 100"
    rules = {
        "roomy": {"Promsql": free, "Threshold": 1},
        "nobody": {"Promsql": "nothing_of_the_kind", "Threshold": 1},
        "some": {"Promsql": f"({free}) unless on (instance) node_boot_time_seconds{{case='never'}}", "Threshold": 1000},
    }
    file = cluster.workspace / "rule.yaml"
    file.write_text(json.dumps({"Rulename": rules}))
    before = [each["metadata"]["resourceVersion"] for each in cluster.admin.list("/api/v1/nodes")]
    command = [sys.executable, "-m", "trimtab", "doctor", "-kubeconfig", str(cluster.admin_kubeconfig), "--json"]
    command += ["-prom", prometheus.url, "-r", str(file), "-s", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert 1 == done.returncode, done.stderr
    found = of_rules(done)
    assert {"roomy", "some", "nobody", "now"} == found.keys()
    assert ("problem", [*NAMES]) == (found["nobody"]["severity"], found["nobody"]["nodes"])
    assert "its query is known for all 6 eligible nodes" == found["roomy"]["says"] == found["some"]["says"]
    assert (
        "all eligible nodes are under pressure; would label 6, if it lasts: node-0 (+status=presure; roomy is"
        in found["now"]["says"]
    )
    assert before == [each["metadata"]["resourceVersion"] for each in cluster.admin.list("/api/v1/nodes")]


def test_pods_without_a_sample_are_counted(cluster: Rig, prometheus: Prometheus) -> None:
    """One with metrics, one without, and one that does not run."""
    for name in ("seen", "unseen", "waits"):
        cluster.admin.create(pod(name, nodeName=NAMES[0]))
        if name != "waits":
            status = {"phase": "Running", "startTime": "2026-01-31T08:00:00Z"}
            cluster.admin.patch(f"/api/v1/namespaces/default/pods/{name}/status", {"status": status})
    own = asking(prometheus, "well", metrics=["nodeMemory", "podMemory"])
    prometheus.wait_for('container_memory_working_set_bytes{case="well",pod="seen"}', bool)
    done = doctor(
        trimtab_process.write_config(cluster, "pods", own, profiles=[BY_LOAD]), cluster.admin_kubeconfig, "--json"
    )
    (found,) = (each for each in json.loads(done.stdout)["findings"] if each["area"] == "pods")
    assert ("no series for 1 of 2 running pods: default/unseen (on node-0)", "memory") == (
        found["says"],
        found["subject"],
    )
    assert (1, ["default/unseen"], "warning") == (found["count"], found["pods"], found["severity"])


def test_an_unreachable_api_server_is_a_problem_and_no_crash(
    cluster: Rig, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Sources are still checked, and an unreachable Prometheus is reported once."""
    kubeconfig = tmp_path / "gone.yaml"
    text = cluster.service_account_kubeconfig("trimtab", "trimtab").read_text()
    kubeconfig.write_text(text.replace(cluster.url, "https://127.0.0.1:9"))
    own = asking(prometheus, "well", url="http://127.0.0.1:9")
    done = doctor(trimtab_process.write_config(cluster, "gone", own), kubeconfig, "--json")
    assert (1, "") == (done.returncode, done.stderr), done.stdout
    assert "no connection to 127.0.0.1:9" in findings(done, "problem", "source")["prom"]["says"]
    assert 1 == len(findings(done, "problem", "API server"))
