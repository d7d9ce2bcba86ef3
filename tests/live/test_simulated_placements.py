"""The simulator places pods where the live scheduler does, pod for pod, for the same events on the real control plane.

The live cluster is the original: `trimtab snapshot` copies its nodes and objects before the first pod, and its pods, with
their UIDs, after the last. The pods are then created in the simulator in the same order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.live import trimtab_process
from tests.live.checker.cluster_objects import full_name
from tests.live.metering.exporters import Exporters
from tests.live.metering.load_scenario import QUICK, profile, ready_process, resource_use
from tests.live.mixed_workload.schedulable import schedulable_pods
from tests.live.mixed_workload.unschedulable import from_the_start
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_mixed_workload import BINDER, create_cluster, everything
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import Rig
from trimtab.cli.config import load_or_exit
from trimtab.cli.run import config_file_for
from trimtab.core.settings import Settings
from trimtab.sim.scenario import Outage, OutageKind, Scenario, TracedPod
from trimtab.sim.simulation import Simulation
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot
from trimtab.sim.snapshot_scenario import scenario_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
PODS, NEVER = 500, 12  # all pods, and those of them that fit nowhere
FIRST = 30.0  # when the first pod arrives in the simulator
SPACING = 15.0  # simulated seconds between two pods: longer than the back-off of one that waits for another
NO_KUBELET = (1e9, 1e9)  # a start delay
WORKERS = tuple(f"node-{number}" for number in range(24))
GIBS = 16
SIZES = (64, 160, 300, 512, 1000)  # MiB


def test_500_pods_of_many_kinds(tmp_path: Path) -> None:
    """With the stock profile every pod is on the same node in the simulator as live, or pending in both."""
    with Rig(controlplane_or_skip(), controllers=[BINDER], audited=False) as rig:
        create_cluster(rig)
        trimtab_process.install(rig)
        trimtab_process.wait_for(lambda: not unbound_claims(rig), 60, "bound claims", rig.controller_manager)
        before = snapshot(rig, tmp_path / "before.json")
        config = trimtab_process.write_config(rig)
        with ready_process(trimtab_process.launch(rig, config)) as trimtab:
            names = create_one_by_one(rig, mixed_pods(), trimtab)
        after = snapshot(rig, tmp_path / "after.json")
        settings = settings_of(config)
    live = {each.key: each.node for each in after.pods}
    assert (PODS, NEVER) == (len(live), [*live.values()].count(""))
    assert live == simulated_nodes(scenario_like(before, after, names, SPACING), settings)


def test_pods_by_measured_load(tmp_path: Path) -> None:
    """With PeakRisk on memory, read from a real Prometheus, every pod is on the same node in the simulator as live.

    All pods come after the last sample, so each counts with its estimate. Memory, because it is a gauge: CPU is a rate over
    the times of scrapes, which are a thousandth off, and that turns close decisions.
    """
    with (
        loaded_machines() as exporters,
        Prometheus(exporters.targets("{name}:9100"), binaries=controlplane_or_skip()) as prometheus,
        Rig(controlplane_or_skip(), audited=False) as rig,
    ):
        trimtab_process.install(rig, *trimtab_process.ROLES, "rbac-metrics.yaml")
        rig.admin.create_many(node(name, memory=f"{GIBS}Gi") for name in WORKERS)
        config = peak_risk_config(rig, prometheus)
        prometheus.wait_for("node_memory_MemAvailable_bytes", lambda found: len(found) == len(WORKERS))
        before = snapshot(rig, tmp_path / "before.json", "--config", str(config))
        with ready_process(trimtab_process.launch(rig, config)) as trimtab:
            trimtab_process.wait_for(lambda: all(measured(trimtab, name) for name in WORKERS), 30, "the load", trimtab)
            freeze(exporters, prometheus)
            names = create_one_by_one(rig, pods_of_all_sizes(), trimtab)
        after = snapshot(rig, tmp_path / "after.json")
        settings = settings_of(config)
    live = {each.key: each.node for each in after.pods}
    assert 6 < len({*live.values()}) < len(WORKERS)  # the risk decides: by requests the pods would be on all nodes
    scenario = scenario_like(before, after, names, 1.0)
    frozen = replace(scenario.metrics, outages=(Outage(FIRST - 2, scenario.ends, OutageKind.STALE),))
    assert live == simulated_nodes(replace(scenario, metrics=frozen), settings)


def loaded_machines() -> Exporters:
    """Each uses a little more memory than the one before, from 42 to 78 %, since ever."""
    exporters = Exporters(WORKERS, 8, GIBS << 30)
    for number, name in enumerate(WORKERS):
        exporters.set(name, cpu=0.2, memory=(27 + number) / 64)
    return exporters


def peak_risk_config(rig: Rig, prometheus: Prometheus) -> Path:
    ranked = {
        **profile("PeakRisk"),
        "pluginConfig": [{"name": "PeakRisk", "args": {"resources": [{"name": "memory"}]}}],
    }
    source = {"name": "prom", "prometheus": {"url": prometheus.url, **QUICK}}
    own = {"sources": [source], "load": {"freshFor": "10m", "staleAfter": "20m"}}
    return trimtab_process.write_config(rig, own=own, profiles=[ranked])


def freeze(exporters: Exporters, prometheus: Prometheus) -> None:
    """From now on every scrape has the same samples, with the same timestamps; wait until that shows."""
    for name in WORKERS:
        exporters.freeze(name)
    prometheus.wait_for("time() - timestamp(node_memory_MemAvailable_bytes)", lambda found: min(found.values()) > 2.0)


def measured(trimtab: Process, name: str) -> bool:
    return resource_use(trimtab, name)["latest"] is not None


def pods_of_all_sizes() -> list[Document]:
    sizes = random.Random(5).choices(SIZES, k=150)
    scheduler = trimtab_process.SCHEDULER
    return [pod(f"pod-{number}", memory=f"{mib}Mi", scheduler=scheduler) for number, mib in enumerate(sizes)]


def mixed_pods() -> list[Document]:
    """A part of each kind, in a random order that is always the same; leaders of groups are all there."""
    chance = random.Random(11)
    every = sorted(schedulable_pods(), key=full_name)
    leading = [each for each in every if "leads" in each["metadata"]["labels"]]
    never = [each for each, _ in from_the_start()][:NEVER]
    others = [each for each in every if each not in leading]
    chosen = [*leading, *never, *chance.sample(others, PODS - len(leading) - len(never))]
    chance.shuffle(chosen)
    for each in chosen:
        each["spec"]["schedulerName"] = trimtab_process.SCHEDULER
    return chosen


def unbound_claims(rig: Rig) -> list[str]:
    """Claims with a volume of their own that the binder has not bound yet."""
    claims = everything(rig, "persistentvolumeclaims")
    return [full_name(each) for each in claims if each["spec"].get("volumeName") and each["status"]["phase"] != "Bound"]


def snapshot(rig: Rig, file: Path, *flags: str) -> ClusterSnapshot:
    """Of the live cluster, by the command."""
    trimtab_process.trimtab("snapshot", "-o", str(file), "--kubeconfig", str(rig.admin_kubeconfig), *flags)
    return read_snapshot(file)


def settings_of(config: Path) -> Settings:
    return load_or_exit(config_file_for(("scheduler",), str(config))).settings


def create_one_by_one(rig: Rig, pods: Iterable[Document], process: Process) -> list[str]:
    """Each once all before it are decided, with those that waited for it; returns their keys in this order."""
    created: list[str] = []
    for each in pods:
        rig.admin.create(each)
        created.append(full_name(each))
        if "leads" in each["metadata"]["labels"]:
            trimtab_process.wait_for(partial(nobody_waits_for, rig, each), 40, "the followers", process)
        else:
            wait_until_decided(rig, each, process)
    return created


def wait_until_decided(rig: Rig, created: Document, process: Process) -> None:
    """Wait for its node, or for the condition that says why it has none."""
    meta, deadline = created["metadata"], time.monotonic() + 30
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    while True:
        found = rig.admin.get(path)
        if found["spec"].get("nodeName") or found["status"].get("conditions"):
            return
        assert time.monotonic() < deadline, process.log_tail()
        time.sleep(0.005)


def nobody_waits_for(rig: Rig, leader: Document) -> bool:
    """Whether the leader and those of its followers that came before it have a node."""
    group, name = leader["metadata"]["labels"]["leads"], leader["metadata"]["name"]
    pending = everything(rig, "pods", **{"spec.nodeName": ""})
    return not any(group in str(each["spec"].get("affinity")) or name == each["metadata"]["name"] for each in pending)


def scenario_like(before: ClusterSnapshot, after: ClusterSnapshot, names: Sequence[str], spacing: float) -> Scenario:
    """The cluster without pods, and the pods that came, one every `spacing` seconds in the order of their creation."""
    start = scenario_of(before)
    pods = {f"{each.namespace}/{each.name}": each for each in scenario_of(after).pods}
    arriving = tuple(_arriving(pods[name], FIRST + spacing * number) for number, name in enumerate(names))
    return replace(start, pods=arriving, duration=FIRST + spacing * (len(names) + 2), step=1.0)


def _arriving(traced: TracedPod, at: float) -> TracedPod:
    """Like the live pod, it never starts."""
    template = replace(traced.template, start_delay=NO_KUBELET)
    return replace(traced, template=template, arrival=(at, at), node="")


def simulated_nodes(scenario: Scenario, settings: Settings) -> dict[str, str]:
    """The node of every pod at the end, or ""."""
    simulation = Simulation(scenario, settings, seed=1)
    simulation.run()
    return {each.key: each.node for each in simulation.world.pods.values()}
