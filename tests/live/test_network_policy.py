"""The shipped NetworkPolicy, as nftables rules round a real process: Trimtab works, and nothing else gets in or out.

The process has a network namespace of its own, as a pod has. The API server and Prometheus are reached at addresses of
another namespace, from where connections are forwarded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.metering.load_scenario import QUICK
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.network_namespaces import Attempt, Network, inside, require_namespaces
from tests.live.network_policy_rules import NONE, Place, ruleset
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.secure_caller import call
from tests.live.trimtab_process import ROOT
from tools.controlplane.client import Document
from tools.controlplane.objects import pod
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig
from tools.programs import find_program

pytestmark = pytest.mark.live

POLICY = ROOT / "deploy" / "components" / "network-policy" / "networkpolicy.yaml"
ROLES = (*trimtab_process.ROLES, "rbac-serving.yaml", "components/monitoring/rbac-metrics-reader.yaml")
POD = "10.99.0.1"
API_SERVER, DNS, OTHER_SYSTEM, PROMETHEUS, STRANGER = OTHERS = [f"10.99.0.{number}" for number in range(2, 7)]
PLACES = [
    Place(API_SERVER),
    Place(DNS, "kube-system", {"k8s-app": "kube-dns"}),
    Place(OTHER_SYSTEM, "kube-system", {"k8s-app": "other"}),
    Place(PROMETHEUS, "monitoring"),
    Place(STRANGER, "default"),
]
SERVED = 10259
OUTSIDE = [("tcp", port) for port in (22, 53, 443, 2379, 6443, 8080, 9090, 10250)] + [("udp", 53), ("udp", 443)]
INSIDE = [("tcp", port) for port in (443, 8080, 9090, 10251)] + [("udp", SERVED)]
EGRESS = {Attempt(POD, address, *port) for address, port in product(OTHERS, OUTSIDE)}
INGRESS = {Attempt(address, POD, *port) for address, port in product(OTHERS, [*INSIDE, ("tcp", SERVED)])}
# The API server's ports are open to any address, as long as the policy does not name its own.
TO_API_SERVER = {Attempt(POD, address, "tcp", port) for address, port in product(OTHERS, (443, 6443))}
ALLOWED = {
    Attempt(POD, DNS, "udp", 53),
    Attempt(POD, DNS, "tcp", 53),
    Attempt(POD, PROMETHEUS, "tcp", 9090),
    Attempt(PROMETHEUS, POD, "tcp", SERVED),
}


def shipped(file: Path = POLICY) -> Document:
    document: Document = yaml.safe_load(file.read_text())
    return document


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """Two nodes with measured load, and our roles."""
    require_namespaces()
    with MeteredCluster(controlplane_or_skip(), 2, pages=("node",)) as running:
        trimtab_process.install(running.rig, *ROLES)
        yield running


@pytest.fixture(scope="module")
def network(cluster: MeteredCluster) -> Iterator[Network]:
    """Everybody listens on all ports; the stranger has the same Prometheus."""
    api_server, prometheus = (urlsplit(url).port or 0 for url in (cluster.rig.url, cluster.prometheus.url))
    forwarded = {(API_SERVER, 443): api_server, (API_SERVER, 6443): api_server}
    forwarded |= {(PROMETHEUS, 9090): prometheus, (STRANGER, 9090): prometheus}
    with Network(POD, OTHERS) as running:
        for (address, port), target in forwarded.items():
            running.forward(address, port, target)
        for address, (protocol, port) in [*product(OTHERS, OUTSIDE), *product([POD], INSIDE)]:
            if protocol == "udp" or (address, port) not in forwarded:
                running.answer(address, protocol, port)
        yield running


@pytest.fixture
def _enforced(network: Network) -> None:
    network.enforce(ruleset(shipped(), PLACES))


@pytest.fixture(scope="module")
def trimtab(cluster: MeteredCluster, network: Network) -> Iterator[Process]:
    """`trimtab run` with the arguments of the Deployment, under the rules from its start.

    It reads CPU usage from Prometheus, and memory usage from where the policy does not let it.
    """
    network.enforce(ruleset(shipped(), PLACES))
    asked = {"nodeCPU": PROMETHEUS, "nodeMemory": STRANGER}
    sources = [
        {"name": metric.lower(), "prometheus": {"url": f"http://{address}:9090", "metrics": [metric], **QUICK}}
        for metric, address in asked.items()
    ]
    config = trimtab_process.write_config(cluster.rig, own={"sources": sources})
    process = start(cluster.rig, network, config)
    try:
        yield process
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def start(rig: Rig, network: Network, config: Path) -> Process:
    """The container's command in the pod's namespace; the last of two options of a name counts."""
    container = shipped(ROOT / "deploy" / "deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    own = ["--config", str(config), "--kubeconfig", str(kubeconfig(rig))]
    command = [find_program("iproute2") or "", "netns", "exec", network.pod]
    command += [sys.executable, "-m", "trimtab", *container["args"], *own]
    url = f"https://{POD}:{SERVED}"
    return Process(command, rig.workspace / "trimtab.log", {"PYTHONPATH": trimtab_process.PYTHONPATH}, url)


def kubeconfig(rig: Rig) -> Path:
    """Our account's, with the address in the namespace; the certificate is for the names on loopback."""
    file = rig.service_account_kubeconfig("trimtab", "trimtab")
    found = json.loads(file.read_text())
    found["clusters"][0]["cluster"] |= {"server": f"https://{API_SERVER}:6443", "tls-server-name": "localhost"}
    file.write_text(json.dumps(found))
    return file


def scrape(rig: Rig, network: Network, trimtab: Process) -> str:
    """The metrics page, as Prometheus reads it; empty until it is served."""
    token = rig.service_account_token("trimtab", "trimtab-metrics-reader")
    try:
        with inside(network.others):
            answer = call(trimtab, "/metrics", token, source=PROMETHEUS)
    except OSError:
        return ""
    assert 200 == answer.status, answer.text
    return answer.text


def fresh(resource: str) -> str:
    return f'trimtab_node_samples{{resource="{resource}",state="fresh"}} 2'


@pytest.mark.usefixtures("_enforced")
def test_the_scheduler_works_behind_the_policy(cluster: MeteredCluster, network: Network, trimtab: Process) -> None:
    """Pods are bound, Prometheus reads our metrics and we read its; a source elsewhere answers once the rules are gone."""
    rig, names = cluster.rig, {f"pod-{number}" for number in range(10)}
    rig.admin.create_many(pod(name, scheduler=trimtab_process.SCHEDULER) for name in names)
    trimtab_process.wait_for(lambda: names == trimtab_process.bound(rig).keys(), 40, "ten bound pods", trimtab)
    trimtab_process.wait_for(lambda: fresh("cpu") in scrape(rig, network, trimtab), 40, "CPU usage", trimtab)
    assert fresh("memory") not in scrape(rig, network, trimtab)
    network.enforce(NONE)
    trimtab_process.wait_for(lambda: fresh("memory") in scrape(rig, network, trimtab), 40, "memory usage", trimtab)


@pytest.mark.usefixtures("_enforced", "trimtab")
def test_nothing_else_gets_in_or_out(network: Network) -> None:
    """Of all attempts, those that the policy lists succeed; without the rules all of them do."""
    assert ALLOWED | TO_API_SERVER == network.reached(EGRESS | INGRESS)
    network.enforce(NONE)
    assert EGRESS | INGRESS == network.reached(EGRESS | INGRESS)


@pytest.mark.usefixtures("trimtab")
def test_the_address_of_the_api_server_closes_its_ports_elsewhere(network: Network) -> None:
    """With an ipBlock, as the policy's comment advises."""
    policy = shipped()
    rule = next(each for each in policy["spec"]["egress"] if "to" not in each)
    rule["to"] = [{"ipBlock": {"cidr": f"{API_SERVER}/32"}}]
    network.enforce(ruleset(policy, PLACES))
    only = {each for each in TO_API_SERVER if each.destination == API_SERVER}
    assert ALLOWED | only == network.reached(EGRESS | INGRESS)
