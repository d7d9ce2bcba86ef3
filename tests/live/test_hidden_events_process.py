"""The real process behind a proxy that hides lines of its watches: what it does about it, and how it is looked into."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.live import trimtab_process
from tests.live.trimtab_process import ROOT, bound, page, wait_for
from tests.live.watch_proxy import WatchProxy, nothing
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
NODES = "/api/v1/nodes"
LOST = 'trimtab_watch_incidents_total{incident="leftover",kind="nodes"}'


@pytest.fixture(scope="module")
def proxy(rig: Rig) -> Iterator[WatchProxy]:
    trimtab_process.install(rig)
    rig.admin.create_many([node(f"node-{number}") for number in range(3)])
    with WatchProxy(rig) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def process(rig: Rig, proxy: WatchProxy) -> Iterator[Process]:
    """`trimtab run` with its defaults, by way of the proxy."""
    url = f"http://127.0.0.1:{free_port()}"
    kubeconfig = proxy.kubeconfig(rig.service_account_kubeconfig("trimtab", "trimtab"))
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(trimtab_process.write_config(rig))]
    command += ["--kubeconfig", str(kubeconfig), "--serve", url.removeprefix("http://")]
    running = Process(command, rig.workspace / "trimtab.log", {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, url)
    wait_for(lambda: trimtab_process.is_ready(running), 60, "ready", running)
    yield running
    running.terminate()


def compare(rig: Rig, process: Process) -> tuple[int, str]:
    """`trimtab doctor --compare` by an administrator: exit code and output."""
    command = [sys.executable, "-m", "trimtab", "doctor", "--compare", "--kubeconfig", str(rig.admin_kubeconfig)]
    command += ["--address", process.url.removeprefix("http://")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=90, check=False)
    return done.returncode, done.stdout + done.stderr


def test_doctor_compares_a_live_process(rig: Rig, proxy: WatchProxy, process: Process) -> None:
    """All kinds agree; then a change of a node is hidden, which only a comparison of versions can show."""
    code, output = compare(rig, process)
    assert (0, True) == (code, "nodes: the process knows what the API server has: 3 objects" in output), output

    def hides(path: str, event: Document) -> bool:
        return bool(path == NODES and event["type"] == "MODIFIED" and event["object"]["metadata"]["name"] == "node-0")

    proxy.hides = hides
    for number in range(2):
        rig.admin.patch(f"{NODES}/node-{number}", {"metadata": {"labels": {"changed": "yes"}}})
    wait_for(lambda: proxy.hidden[NODES], 10, "the line is hidden", process)
    code, output = compare(rig, process)
    proxy.hides = nothing
    assert 1 == code, output
    assert "nodes: the process knows an old version of node-0" in output


@pytest.mark.soak
def test_a_node_whose_deletion_is_lost_gets_no_pods_for_long(rig: Rig, proxy: WatchProxy, process: Process) -> None:
    """With the defaults it is found within a minute; pods created after that all go to nodes that exist."""
    rig.admin.create(node("ghost"))
    wait_for(lambda: "4" in count_of_nodes(process), 30, "the node is known", process)
    proxy.hides = lambda path, event: bool(event["type"] == "DELETED" and path == NODES)
    rig.admin.delete(f"{NODES}/ghost")
    began = time.monotonic()
    wait_for(lambda: float(metric(process, LOST)) >= 1, 60, "the lost deletion is found", process)
    print(f"found after {time.monotonic() - began:.0f} s")
    names = {f"after-{number}" for number in range(30)}
    rig.admin.create_many([pod(name, scheduler="trimtab") for name in names])
    wait_for(lambda: names <= set(bound(rig)), 30, "bound", process)
    assert "ghost" not in {bound(rig)[name] for name in names}
    proxy.hides = nothing


def metric(process: Process, name: str) -> str:
    lines = page(process, "/metrics")[1].splitlines()
    return next((line.split()[-1] for line in lines if line.startswith(name)), "0")


def count_of_nodes(process: Process) -> str:
    return metric(process, 'scheduler_cache_size{type="nodes"}')
