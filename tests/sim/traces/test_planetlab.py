"""PlanetLab: CloudSim's hosts and sizes, and a day of CPU usage."""

from pathlib import Path

import pytest

from tests.sim.traces.trace_files import load, problems_of, write_files
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.usage_patterns import Recorded

MIB = 1 << 20
DAY = " ".join(str(number % 100) for number in range(288))
TABLE = "vm,cpu_pct\n" + "".join(f"m{number},{DAY}\n" for number in range(8))


def test_the_set_up(tmp_path: Path) -> None:
    """Hosts alternate between two sizes, machines have four, in equal blocks, and use a share of their MIPS."""
    scenario = load("planetlab", write_files(tmp_path, {"20110303.csv.gz": TABLE}))
    assert ("planetlab-20110303", 800, 86_400.0, 300.0) == (
        scenario.name,
        len(scenario.nodes),
        scenario.duration,
        scenario.step,
    )
    assert [3720, 5320] == [dict(each.node.allocatable)[CPU] for each in scenario.nodes[:2]]
    requests = [pod.template.requests for pod in scenario.pods]
    assert [2500, 2500, 2000, 2000, 1000, 1000, 500, 500] == [each.of(CPU) for each in requests]
    assert (870 * MIB, 613 * MIB) == (requests[0].of(MEMORY), requests[-1].of(MEMORY))
    cpu = scenario.pods[2].template.cpu
    assert isinstance(cpu, Recorded)
    assert [0.0, 20.0, 40.0] == cpu.values[:3].tolist()


def test_published_files(tmp_path: Path) -> None:
    """A day may be a folder with a file of one percentage per line for each machine, and days are chosen by name."""
    lines = DAY.replace(" ", "\n") + "\n"
    write_files(tmp_path, {"20110303/b_x": lines, "20110303/a_y": lines, "20110306/c": lines})
    assert 2 == len(load("planetlab", tmp_path).pods)
    assert ["vm-0000"] == [pod.name for pod in load("planetlab", tmp_path, day="20110306").pods]


def test_options(tmp_path: Path) -> None:
    """Hosts, requests and usage can be scaled."""
    scenario = load("planetlab", write_files(tmp_path, {"1.csv": TABLE}), nodes=3, requests=0.5, usage=2.0, day="1")
    cpu = scenario.pods[0].template.cpu
    assert isinstance(cpu, Recorded)
    assert (3, 1250, 50.0) == (len(scenario.nodes), scenario.pods[0].template.requests.of(CPU), float(cpu.values[1]))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("m3,0 1", "m3,0 x", "20110303.csv:5:4: cpu_pct: value 2, 'x', is not a number"),
        ("m3,0 1", "m3,0", "20110303.csv:5:4: cpu_pct: has 287 values instead of 288: the trace may be cut short"),
        ("m3,", "m2,", "20110303.csv:5:1: vm: m2 is there twice"),
    ],
)
def test_problems(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """What cannot be used is reported with its place."""
    write_files(tmp_path, {"20110303.csv": TABLE.replace(old, new)})
    assert [complaint] == problems_of("planetlab", tmp_path)


def test_no_day(tmp_path: Path) -> None:
    """An empty folder, and one that is not there."""
    assert ["FOLDER: there is no day, such as 20110303, in this folder"] == problems_of("planetlab", tmp_path)
    expected = "FOLDER: there is no such folder: a path in a scenario is relative to its file"
    assert [expected] == problems_of("planetlab", tmp_path / "nowhere")
