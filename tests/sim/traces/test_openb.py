"""openb: GPU nodes and pods in the order of the seed, and copies until the demand is reached."""

from pathlib import Path

import pytest

from tests.sim.traces.trace_files import OPENB, OPENB_NODES, OPENB_PODS, load, problems_of, write_files
from trimtab.core.model.resources import CPU
from trimtab.core.model.selectors import Requirement
from trimtab.sim.traces.openb import GPU_COUNT, GPU_MILLI, GPU_MODEL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path, OPENB)


def test_nodes(folder: Path) -> None:
    """Only nodes with GPUs; their sums are resources, and their model is a label."""
    nodes = [each.node for each in load("openb", folder).nodes]
    assert ["g1", "g2"] == [each.name for each in nodes]
    assert (2, 2000, "T4") == (
        dict(nodes[0].allocatable)[GPU_COUNT],
        dict(nodes[0].allocatable)[GPU_MILLI],
        nodes[0].labels[GPU_MODEL],
    )


def test_arrivals(folder: Path) -> None:
    """One pod per second, none leaves, and together they ask for the demand of all GPUs, or a little more."""
    scenario = load("openb", folder, seed=3, demand=1.3)
    pods = scenario.pods
    assert [(float(at), float(at)) for at in range(len(pods))] == [pod.arrival for pod in pods]
    assert {None} == {pod.departure for pod in pods}
    assert {"p0", "p1", "p2"} == {pod.name for pod in pods[:3]}
    asked = [pod.template.requests.of(GPU_COUNT) * pod.template.requests.of(GPU_MILLI) for pod in pods]
    assert sum(asked[:-1]) < 13_000 <= sum(asked)
    assert len(pods) == len({pod.name for pod in pods})
    assert scenario.duration >= len(pods)


def test_requests(folder: Path) -> None:
    """So many devices, and so many thousandths of each; a model is a required node affinity."""
    pods = {pod.name: pod.template for pod in load("openb", folder).pods}
    requests = {name: pods[name].requests for name in ("p0", "p1", "p2")}
    assert [(500, 1), (1000, 2), (0, 0)] == [(each.of(GPU_MILLI), each.of(GPU_COUNT)) for each in requests.values()]
    assert 3000 == requests["p2"].of(CPU)
    affinity = pods["p1"].spec.affinity
    assert affinity is not None and affinity.node_affinity.required is not None
    assert (Requirement(GPU_MODEL, "In", ("T4", "G2")),) == affinity.node_affinity.required[0].match_expressions


def test_the_seed_decides_the_order(folder: Path) -> None:
    """The same seed gives the same pods, and another one others."""
    names = [[pod.name for pod in load("openb", folder, seed=seed, demand=3.0).pods] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_published_file_names(tmp_path: Path) -> None:
    """The files may be called as they are published, and another list may be chosen."""
    names = {"openb_node_list_gpu_node.csv": OPENB_NODES, "openb_pod_list_cpu050.csv.gz": OPENB_PODS}
    assert 2 == len(load("openb", write_files(tmp_path, names), pod_list="cpu050").nodes)


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("nodes.csv", ",8,G2", ",eight,G2", "nodes.csv:3:17: gpu: 'eight' is not a number"),
        ("nodes.csv", ",model", ",type", "nodes.csv:1:1: model: there is no such column: add it"),
        ("pods_default.csv", "p1,2000", "p1,0.5", "pods_default.csv:3:4: cpu_milli: 0.5 is not an integer"),
        ("pods_default.csv", "p1,", ",", "pods_default.csv:3:1: name: is empty: every line needs a name"),
    ],
)
def test_problems(folder: Path, file: str, old: str, new: str, complaint: str) -> None:
    """What cannot be used is reported with its place."""
    assert old in OPENB[file]
    (folder / file).write_text(OPENB[file].replace(old, new))
    assert [complaint] == problems_of("openb", folder)


def test_lists_without_gpus(folder: Path) -> None:
    """Copies of such pods would never reach the demand."""
    (folder / "pods_default.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,0,0\n")
    assert ["pods_default.csv: no pod uses a GPU: this is not a list of openb"] == problems_of("openb", folder)
    assert [
        "FOLDER: there is no file pods_other.csv or openb_pod_list_other.csv in this folder, plain or with .gz"
    ] == (problems_of("openb", folder, pod_list="other"))
