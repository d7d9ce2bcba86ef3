"""A day in the simulator has the utilisation that a real Prometheus measures in the same day on a live cluster.

Twelve nodes, eight workloads of the shipped scenario `zoo`, created through the day by the real controllers, and Trimtab with
PeakRisk, polling every second. A day is compressed to 90 seconds (`metering/zoo_day.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import yaml

from tests.live import trimtab_process
from tests.live.metering.exporters import Exporters
from tests.live.metering.load_scenario import QUICK, ready_process
from tests.live.metering.zoo_day import LEAD, SECONDS, SEED, LiveDay, zoo_day
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_simulated_placements import settings_of
from tools.controlplane.objects import node
from tools.controlplane.prometheus import Prometheus
from tools.controlplane.rig import WORKLOADS, Rig
from trimtab.core.settings import Settings
from trimtab.core.tables import Floats
from trimtab.sim.scenario import Scenario
from trimtab.sim.simulation import Simulation
from trimtab.sim.usage import StepUsage

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]
WINDOW = 5  # seconds of a rate
POINTS = 0.02
CONTROLLERS = (*WORKLOADS, "daemonset-controller")
IDLE_SECONDS = f'node_cpu_seconds_total{{mode="idle",cpu="0"}}[{int(LEAD + SECONDS + 10)}s]'


class Cluster:
    """The live cluster, and Trimtab's configuration for it."""

    def __init__(self, rig: Rig, exporters: Exporters, prometheus: Prometheus) -> None:
        self.rig, self.exporters, self.prometheus = rig, exporters, prometheus
        documents = [*yaml.safe_load_all(trimtab_process.trimtab("config", "template", "default"))]
        documents[1]["sources"] = [{"name": "prom", "prometheus": {"url": prometheus.url, **QUICK}}]
        self.config = rig.workspace / "default.yaml"
        self.config.write_text(yaml.safe_dump_all(documents))


@contextmanager
def live_cluster(scenario: Scenario) -> Iterator[Cluster]:
    names = [each.node.name for each in scenario.nodes]
    with (
        Exporters(names, 16, 64 << 30, stamped=True) as exporters,
        Prometheus(exporters.targets("{name}:9100"), binaries=controlplane_or_skip()) as prometheus,
        Rig(controlplane_or_skip(), controllers=CONTROLLERS, kwok=True, audited=False) as rig,
    ):
        trimtab_process.install(rig, *trimtab_process.ROLES, "rbac-metrics.yaml")
        rig.admin.create_many(node(name, cpu="16", memory="64Gi") for name in names)
        yield Cluster(rig, exporters, prometheus)


def test_a_simulated_day_has_the_measured_utilisation() -> None:
    """The mean, the mean of each rank of nodes and the 95th percentile of CPU are within two points of the measured ones."""
    scenario = zoo_day()
    with live_cluster(scenario) as cluster:
        expected, names = simulated(scenario, settings_of(cluster.config))
        day = LiveDay(cluster.rig, cluster.exporters, scenario, names)
        with ready_process(trimtab_process.launch(cluster.rig, cluster.config)):
            day.live_through()
        unbound = [
            pod["metadata"]["name"] for pod in trimtab_process.pods(cluster.rig) if not pod["spec"].get("nodeName")
        ]
        found = measured(cluster.prometheus, day.midnight)
    assert [] == unbound
    differences = {name: abs(expected_value - value) for name, expected_value, value in compared(expected, found)}
    assert {} == {name: each for name, each in differences.items() if each > POINTS}


def simulated(scenario: Scenario, settings: Settings) -> tuple[Floats, dict[str, list[str]]]:
    """The CPU utilisation by second and node, as a rate shows it, and the keys of the pods by workload."""
    simulation = Simulation(scenario, settings, SEED)
    steps: list[Floats] = []

    def note(usage: StepUsage) -> None:
        if usage.at > 0:
            steps.append(usage.used[0] / usage.capacity[0])

    simulation.world.step_listeners.append(note)
    simulation.run()
    names: dict[str, list[str]] = {}
    for uid, pod in simulation.world.pods.items():
        names.setdefault(pod.labels["app"], []).append(simulation.world.lives[uid].key)
    totals = np.cumsum([np.zeros(len(scenario.nodes)), *steps], axis=0)
    return (totals[WINDOW:] - totals[:-WINDOW]) / WINDOW, names


def measured(prometheus: Prometheus, midnight: float) -> Floats:
    """The same by the counters in Prometheus."""
    moments = midnight + np.arange(SECONDS + 1)
    columns = []
    for series in prometheus.query(IDLE_SECONDS):
        at, value = np.array(series["values"], dtype=np.float64).T
        idle = np.interp(moments, at, value)
        columns.append(1 - (idle[WINDOW:] - idle[:-WINDOW]) / WINDOW)
    return np.array(columns).T


def compared(expected: Floats, found: Floats) -> Iterator[tuple[str, float, float]]:
    """What is compared, and the simulated and the measured value."""
    assert expected.shape == found.shape
    yield "mean", expected.mean(), found.mean()
    yield "95th percentile", np.percentile(expected, 95), np.percentile(found, 95)
    ranks = zip(np.sort(expected.mean(axis=0)), np.sort(found.mean(axis=0)), strict=True)
    yield from ((f"node of rank {rank + 1}", *pair) for rank, pair in enumerate(ranks))
