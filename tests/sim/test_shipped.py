"""The shipped scenarios are valid, say what they are, and are found by name."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.config.diagnostics import ConfigError
from trimtab.config.registry import default_profile
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.settings import Settings
from trimtab.sim.scenario import OutageKind
from trimtab.sim.shipped import find_scenario, scenario_names, scenario_text, shipped
from trimtab.sim.simulation import Simulation

MIB = 1 << 20
# Of the twelve pods of the demo: millicores, MiB.
TWELVE_PODS = [
    (500, 500),
    (1000, 1024),
    (1000, 1536),
    (2000, 2048),
    (250, 256),
    (1500, 2048),
    (500, 1024),
    (2000, 4096),
    (3000, 3072),
    (750, 512),
    (1000, 1024),
    (250, 128),
]


@pytest.mark.parametrize("name", scenario_names())
def test_each_is_valid_and_described(name: str) -> None:
    """The first line of its file is a comment that begins with its name, and it has nodes, workloads and a description."""
    scenario = shipped(name)
    assert scenario_text(name).startswith(f"# {name}: ")
    assert name == scenario.name
    assert scenario.nodes and scenario.workloads and scenario.description.endswith(".")
    assert scenario.warm_up < scenario.duration


@pytest.mark.parametrize("name", scenario_names())
def test_every_usage_can_be_evaluated(name: str) -> None:
    """Every pattern gives finite amounts, zero or more, over the whole scenario."""
    scenario = shipped(name)
    times = np.arange(scenario.begins, scenario.ends, max(scenario.step, 60.0))
    templates = [each.template for each in scenario.workloads]
    templates += [each.template for work in scenario.workloads for each in work.rollouts if each.template is not None]
    patterns = [pattern for each in templates for pattern in (each.cpu, each.memory)]
    patterns += [pattern for each in scenario.nodes for pattern in (each.system_cpu, each.system_memory)]
    for pattern in patterns:
        amounts = pattern.amounts(times, scenario.begins, 1)
        assert np.isfinite(amounts).all() and (amounts >= 0).all()


@pytest.mark.parametrize("name", scenario_names())
def test_each_runs(name: str) -> None:
    """The beginning of each, on the real engine with the default profile: pods are created and placed."""
    scenario = shipped(name)
    simulation = Simulation(scenario, Settings((default_profile("trimtab"),)), seed=1)
    simulation.run_until(min(scenario.begins + 1500, scenario.ends))
    assert any(pod.node for pod in simulation.world.pods.values())


def test_the_day_has_the_twelve_pods() -> None:
    """Their requests are those of the demo, and one arrives every ten seconds."""
    pods = shipped("day").workloads[:12]
    found = [(pod.template.requests.of(CPU), pod.template.requests.of(MEMORY) // MIB) for pod in pods]
    assert TWELVE_PODS == found
    assert [10.0 * number for number in range(1, 13)] == [pod.created - shipped("day").begins for pod in pods]


def test_the_burst_has_200_pods() -> None:
    """They are created at once."""
    batch = shipped("burst").workloads[1]
    assert (200, 0.0) == (batch.replicas, batch.stagger)


def test_faults() -> None:
    """Each fault that a load-aware scheduler must survive has a scenario."""
    kinds = {name: {each.kind for each in shipped(name).metrics.outages} for name in scenario_names()}
    assert {OutageKind.STALE} == kinds["stale-metrics"]
    assert {OutageKind.ZEROS} == kinds["zero-on-error"]
    assert {OutageKind.SILENT} == kinds["missing-node"]
    assert shipped("failover").failovers
    assert shipped("autoscaling").autoscaling
    assert {("red", "web"), ("blue", "web")} <= {
        (each.namespace, each.name) for each in shipped("equal-names").workloads
    }


def test_names_and_paths(tmp_path: Path) -> None:
    """A name is that of a shipped scenario, and anything with a slash or an ending is a file."""
    assert "burst" == find_scenario("burst").name
    path = tmp_path / "mine.yaml"
    path.write_text(scenario_text("burst"))
    assert "mine" == find_scenario(str(path)).name
    with pytest.raises(
        ConfigError, match=r"brust: there is no such scenario \(did you mean burst\?\): name a file, or"
    ):
        find_scenario("brust")
    with pytest.raises(ConfigError, match="cannot be read"):
        find_scenario("burst.yaml")
