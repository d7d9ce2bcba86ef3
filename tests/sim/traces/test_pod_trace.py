"""The trace format: what becomes of it, its variants, and every problem with its file, line, column and field."""

from pathlib import Path

import numpy as np
import pytest

from tests.sim.traces.trace_files import FILES, META, NODES, PODS, USAGE, load, problems_of, write_files
from trimtab.core.model.objects import Service
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.scenario import Scenario, TracedPod
from trimtab.sim.usage_patterns import Recorded

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path, FILES)


def usage(pod: TracedPod) -> tuple[list[float], list[float]]:
    """CPU in millicores and memory in MiB, as recorded."""
    cpu, memory = pod.template.cpu, pod.template.memory
    assert isinstance(cpu, Recorded) and isinstance(memory, Recorded)
    return cpu.values.tolist(), (memory.values / MIB).tolist()


def by_name(scenario: Scenario) -> dict[str, TracedPod]:
    return {pod.name: pod for pod in scenario.pods}


def test_the_scenario(folder: Path) -> None:
    """Times and nodes are those of the trace, and metrics are scraped once a step."""
    scenario = load("trace", folder)
    assert ("tiny", 1200.0, 300.0, 300.0, 300.0, False) == (
        scenario.name,
        scenario.duration,
        scenario.step,
        scenario.warm_up,
        scenario.metrics.interval,
        scenario.oom_kills,
    )
    sizes = [(each.node.name, dict(each.node.allocatable)) for each in scenario.nodes]
    assert [
        ("n1", {CPU: 4000, MEMORY: 8192 * MIB, "pods": 1000}),
        ("n2", {CPU: 8000, MEMORY: 16384 * MIB, "pods": 1000}),
    ] == sizes
    assert ((), ()) == (scenario.objects, scenario.workloads)


def test_pods(folder: Path) -> None:
    """A pod arrives within its first step and leaves at the end of its last one, unless that is the end of the trace."""
    pods = by_name(load("trace", folder))
    assert {"a-1": (0.0, 270.0), "a-2": (0.0, 270.0), "b-1": (600.0, 870.0)} == {
        name: pod.arrival for name, pod in pods.items()
    }
    assert {"a-1": None, "a-2": 900.0, "b-1": None} == {name: pod.departure for name, pod in pods.items()}
    assert {"a-1": "a", "a-2": "a", "b-1": "b"} == {name: pod.owner for name, pod in pods.items()}
    requests = pods["b-1"].template.requests
    assert (1000, 200 * MIB, 2000, 400 * MIB) == (
        requests.of(CPU),
        requests.of(MEMORY),
        requests.limit_of(CPU),
        requests.limit_of(MEMORY),
    )


def test_usage(folder: Path) -> None:
    """Where there is no sample the one before counts; usage belongs to the time when it was recorded."""
    pods = by_name(load("trace", folder))
    assert ([100.0, 100.0, 300.0], [50.0, 50.0, 50.0]) == usage(pods["a-2"])
    late = pods["b-1"].template.cpu
    assert isinstance(late, Recorded)
    assert (600.0, 4) == (late.begins, late.values.itemsize)
    assert [1500.0, 1600.0] == late.amounts(np.array([700.0, 1100.0]), 699.0, 0).tolist()


def test_optional_columns(tmp_path: Path) -> None:
    """Only requests and arrivals are needed: a pod without an app is one, and without limits it has none."""
    pods = "arrival_s,pod,cpu_request_milli,memory_request_mib\n0,x,100,10\n"
    meta = '{"name": "tiny", "step_seconds": 300, "steps": 4}'
    use = "pod,first_step,cpu_milli,memory_mib\nx,0,1,1\n"
    write_files(tmp_path, {"meta.json": meta, "nodes.csv.gz": NODES, "pods.csv": pods, "usage.csv.gz": use})
    (pod,) = load("trace", tmp_path).pods
    assert ("x", (), "") == (pod.owner, pod.template.requests.limits, pod.node)


@pytest.mark.parametrize("departure", ["601", "700", "900", ""])
def test_a_pod_departs_in_its_last_step(departure: str, tmp_path: Path) -> None:
    """Or at its end, as the usage says; a departure that is not known contradicts nothing."""
    write_files(tmp_path, {**FILES, "pods.csv": PODS.replace("20,700,n2", f"20,{departure},n2")})
    assert 900.0 == by_name(load("trace", tmp_path))["a-2"].departure


def test_fewer_nodes_and_other_requests(folder: Path) -> None:
    """Requests are scaled and limits are not."""
    scenario = load("trace", folder, nodes=1, requests=0.85)
    requests = by_name(scenario)["a-1"].template.requests
    assert (["n1"], 425, 1000) == (
        [each.node.name for each in scenario.nodes],
        requests.of(CPU),
        requests.limit_of(CPU),
    )


def test_more_usage(folder: Path) -> None:
    """Memory stays within its limit."""
    cpu, memory = usage(by_name(load("trace", folder, usage=1.5))["b-1"])
    assert ([2250.0, 2400.0], [400.0, 400.0]) == (cpu, memory)


def test_siblings_arrive_one_after_the_other(folder: Path) -> None:
    """Those that arrived in one step are spread over the given time, and what does not fit the trace is cut."""
    pods = by_name(load("trace", folder, stagger=600.0))
    assert {"a-1": (0.0, 270.0), "a-2": (300.0, 570.0), "b-1": (600.0, 870.0)} == {
        name: pod.arrival for name, pod in pods.items()
    }
    assert (None, [100.0, 100.0, 300.0]) == (pods["a-2"].departure, usage(pods["a-2"])[0])


def test_labels_and_services(folder: Path) -> None:
    """With labels every app has a Service that selects its pods."""
    scenario = load("trace", folder, labels=True)
    services = [each for each in scenario.objects if isinstance(each, Service)]
    assert ["a", "b"] == [each.name for each in services]
    pods = by_name(scenario)
    for name, app in (("a-1", 0), ("a-2", 0), ("b-1", 1)):
        chosen = services[app].selector
        assert chosen is not None and chosen.matches(pods[name].template.labels)


def test_pods_become_ready_later(folder: Path) -> None:
    """At once unless asked for."""
    assert ({0.0}, {300.0}) == tuple(
        {pod.template.ready_delay for pod in load("trace", folder, **more).pods}
        for more in ({}, {"ready_delay": 300.0})
    )


def test_initial_placement(folder: Path) -> None:
    """Only if asked for, and only on nodes that are left."""
    assert {""} == {pod.node for pod in load("trace", folder).pods}
    assert {"a-1": "n1", "a-2": "n2", "b-1": ""} == {
        pod.name: pod.node for pod in load("trace", folder, initial_placement=True).pods
    }
    assert "" == by_name(load("trace", folder, initial_placement=True, nodes=1))["a-2"].node


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("meta.json", META, "{", "meta.json: cannot be read: Input data was truncated"),
        ("meta.json", '"steps": 4', '"steps": "x"', "meta.json: steps: Expected `int`, got `str`"),
        ("meta.json", '"steps": 4', '"steps": 0', "meta.json: steps: 0 is not between 1 and 1000000"),
        ("nodes.csv", "n2,8000,16384\n", "", "nodes.csv: has 1 nodes instead of 2: the trace may be cut short"),
        (
            "nodes.csv",
            "n2,8000,16384",
            "n2,8",
            "nodes.csv:3:1: has 2 fields, and the header 3: the trace may be cut short",
        ),
        ("nodes.csv", "n2,8000", "n2,-8", "nodes.csv:3:4: cpu_milli: -8 is not between 1 and 1e+15"),
        ("nodes.csv", "n2,8000", "n1,8000", "nodes.csv:3:1: node: n1 is there twice"),
        (
            "nodes.csv",
            "cpu_milli",
            "cpu_mill",
            "nodes.csv:1:1: cpu_milli: there is no such column (did you mean cpu_mill?): add it",
        ),
        ("nodes.csv", NODES, "", "nodes.csv: is empty: the trace may be cut short"),
        ("pods.csv", "b-1,b,1000", "b-1,b,many", "pods.csv:4:7: cpu_request_milli: 'many' is not a number"),
        ("pods.csv", "b-1,b,1000", "b-1,b,nan", "pods.csv:4:7: cpu_request_milli: nan is not between 0 and 1e+15"),
        (
            "pods.csv",
            "b-1,b,1000,200,2000",
            "b-1,b,1000,200,20",
            "pods.csv:4:16: cpu_limit_milli: is below the request",
        ),
        ("pods.csv", "650,1190", "650,600", "pods.csv:4:29: departure_s: is before arrival_s"),
        ("pods.csv", "10,,n1", "10,,n9", "pods.csv:2:28: initial_node: nodes.csv has no node 'n9'"),
        ("pods.csv", "a-2,a", "a-1,a", "pods.csv:3:1: pod: a-1 is there twice, first in line 2"),
        ("usage.csv", "b-1,2", "c-1,2", "usage.csv:4:1: pod: pods.csv has no pod 'c-1'"),
        (
            "usage.csv",
            "b-1,2,1500 1600,300 400\n",
            "",
            "usage.csv: has 2 pods instead of 3: the trace may be cut short",
        ),
        (
            "pods.csv",
            "20,700,n2",
            "20,590,n2",
            "usage.csv:3:7: cpu_milli: ends with step 2, but by pods.csv the pod departs in step 1",
        ),
        (
            "pods.csv",
            "20,700,n2",
            "20,5000,n2",
            "usage.csv:3:7: cpu_milli: ends with step 2, but by pods.csv the pod departs in step 3",
        ),
        (
            "usage.csv",
            "300 400\n",
            "300 40",
            "usage.csv:4:1: ends without a newline: the trace may be cut short. If it is whole, add one",
        ),
        ("usage.csv", "b-1,2", "b-1,1", "usage.csv:4:5: first_step: is 1, but by pods.csv the pod arrives in step 2"),
        (
            "usage.csv",
            "b-1,2,1500 1600",
            "b-1,2,1500 lots",
            "usage.csv:4:7: cpu_milli: value 2, 'lots', is not a number",
        ),
        (
            "usage.csv",
            "1500 1600",
            "1500 nan",
            "usage.csv:4:7: cpu_milli: value 2, nan, is not usage: write 0 or more, or -1 for no sample",
        ),
        (
            "usage.csv",
            "1500 1600",
            "1500 -2",
            "usage.csv:4:7: cpu_milli: value 2, -2, is not usage: write 0 or more, or -1 for no sample",
        ),
        ("usage.csv", "1500 1600", "-1 -1", "usage.csv:4:7: cpu_milli: has no sample at all"),
        ("usage.csv", "1500 1600", "", "usage.csv:4:7: cpu_milli: is empty: the trace may be cut short"),
        ("usage.csv", ",300 400", ",300", "usage.csv:4:17: memory_mib: has 1 values, and cpu_milli 2"),
        (
            "usage.csv",
            "1500 1600,300 400",
            "1 2 3,1 2 3",
            "usage.csv:4:5: first_step: the usage ends after step 5, and the trace after step 4",
        ),
    ],
)
def test_problems(folder: Path, file: str, old: str, new: str, complaint: str) -> None:
    """A trace that is cut short, contradicts itself or has values that are none."""
    assert old in FILES[file]
    (folder / file).write_text(FILES[file].replace(old, new))
    assert [complaint] == problems_of("trace", folder)


def test_several_problems(folder: Path) -> None:
    """All lines of a file are looked at."""
    (folder / "pods.csv").write_text(PODS.replace("500,100", "x,100"))
    assert [
        "pods.csv:2:7: cpu_request_milli: 'x' is not a number",
        "pods.csv:3:7: cpu_request_milli: 'x' is not a number",
    ] == problems_of("trace", folder)


def test_compressed_data_that_is_cut(folder: Path) -> None:
    """A gzip file that ends too early, or is none, is one problem."""
    (folder / "usage.csv").unlink()
    write_files(folder, {"usage.csv.gz": USAGE})
    assert [] == problems_of("trace", folder)
    data = (folder / "usage.csv.gz").read_bytes()
    (folder / "usage.csv.gz").write_bytes(data[:-12])
    assert ["usage.csv.gz: ends in the middle of the compressed data: copy it again"] == problems_of("trace", folder)
    (folder / "usage.csv.gz").write_text(USAGE)
    expected = "usage.csv.gz: is not a gzip file: remove .gz from its name if it is plain text"
    assert [expected] == problems_of("trace", folder)


def test_missing_files(folder: Path) -> None:
    """The folder and the file are named."""
    (folder / "usage.csv").unlink()
    expected = "FOLDER: there is no file usage.csv in this folder, plain or with .gz"
    assert [expected] == problems_of("trace", folder)
    nowhere = folder / "nowhere"
    expected = "FOLDER: there is no such folder: a path in a scenario is relative to its file"
    assert [expected] == problems_of("trace", nowhere)


def test_a_byte_order_mark(folder: Path) -> None:
    """Spreadsheets write one; it is no part of the first column's name."""
    (folder / "nodes.csv").write_bytes(b"\xef\xbb\xbf" + NODES.encode())
    assert 2 == len(load("trace", folder).nodes)


def test_not_text(folder: Path) -> None:
    """Binary data is not a traceback."""
    (folder / "pods.csv").write_bytes(b"pod,\xff\xfe\0\n")
    (found,) = problems_of("trace", folder)
    assert found.startswith("pods.csv: is not a CSV file: ")
