"""A scenario that replays a trace, and what the file may add to it."""

from pathlib import Path

import pytest

from tests.sim.scenario_file.scenario_texts import FILE, HEAD, problems_of
from tests.sim.traces.trace_files import FILES, OPENB, write_files
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path, {f"tiny/{name}": text for name, text in FILES.items()})


def parse(folder: Path, body: str, seed: int = 0) -> Scenario:
    return parse_scenario(HEAD + body, FILE, folder, seed)


def test_the_trace_alone(folder: Path) -> None:
    """Its times are the scenario's, and the folder is relative to the file; the name is the file's."""
    scenario = parse(folder, "trace: {folder: tiny}\n")
    assert ("s", 1200.0, 300.0, 300.0, 2, 3, False) == (
        scenario.name,
        scenario.duration,
        scenario.step,
        scenario.warm_up,
        len(scenario.nodes),
        len(scenario.pods),
        scenario.oom_kills,
    )


def test_what_the_file_adds(folder: Path) -> None:
    """Nodes, workloads, events and metrics go with those of the trace; times may be shorter and steps finer."""
    body = """\
duration: 15m
step: 1m
warmUp: 0s
oomKills: true
trace: {folder: tiny, nodes: 1, requests: 50%, labels: true, initialPlacement: true, readyDelay: 1m, stagger: 9m, usage: 110%}
nodes: [{name: more, cpu: 4, memory: 8Gi}]
workloads: [{name: x}]
services: [{name: x, selector: {app: x}}]
events: [{at: 5m, action: cordon, node: n1}]
metrics: {delay: 10s}
"""
    scenario = parse(folder, body)
    assert (900.0, 60.0, 0.0, True) == (scenario.duration, scenario.step, scenario.warm_up, scenario.oom_kills)
    assert ["n1", "more"] == [each.node.name for each in scenario.nodes]
    assert (3, 1, 3) == (len(scenario.pods), len(scenario.workloads), len(scenario.objects))
    assert (300.0, 10.0) == (scenario.metrics.interval, scenario.metrics.delay)
    assert {60.0} == {each.template.ready_delay for each in scenario.pods}
    assert ["n1"] == [each.node for each in scenario.node_events]


def test_the_seed_is_handed_on(tmp_path: Path) -> None:
    """For what a trace leaves to chance."""
    write_files(tmp_path, OPENB)
    body = "trace: {format: openb, folder: ., podList: default, demand: 300%}\n"
    orders = [[pod.name for pod in parse(tmp_path, body, seed).pods] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_seeds_share_a_trace(folder: Path) -> None:
    """It is loaded once for several seeds that make no difference to it, and again when a file has changed."""
    one, two = (parse(folder, "trace: {folder: tiny}\n", seed) for seed in (1, 2))
    assert one.pods is two.pods
    path = folder / "tiny" / "usage.csv"
    path.write_text(FILES["usage.csv"].replace("100 200 300 400", "1000 2000 3000 4000"))
    assert one.pods is not parse(folder, "trace: {folder: tiny}\n").pods


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('trace: {folder: tiny}\nbegins: "08:00"\n', "s.yaml:4:9: begins: a trace has its own times: remove it"),
        ("trace: {folder: tiny}\nduration: 30m\n", "s.yaml:4:11: duration: the trace lasts 20m only"),
        ("trace: {folder: tiny}\nstep: 4m\n", "s.yaml:4:7: step: does not divide 5m, the step of the trace"),
        (
            "trace: {folder: tiny}\nnodes: [{name: n1, cpu: 1, memory: 1Gi}]\n",
            "s.yaml:4:9: nodes[0]: there is another node n1: names must be unique",
        ),
        (
            "trace: {folder: tiny, labels: true}\nservices: [{name: a, selector: {app: a}}]\n",
            "s.yaml:4:12: services[0]: there is another Service default/a: rename one",
        ),
        ("trace: {folder: tiny, requests: 0}\n", "s.yaml:3:33: trace.requests: must be above 0"),
    ],
)
def test_problems(folder: Path, body: str, complaint: str) -> None:
    """What does not go with the trace."""
    assert [complaint] == problems_of(HEAD + body, folder)


def test_a_folder_that_is_not_there(folder: Path) -> None:
    """The place is that in the scenario."""
    complaint = f"{folder}/tyni: there is no such folder: a path is relative to the scenario's file"
    assert [f"s.yaml:3:17: trace.folder: {complaint}"] == problems_of(HEAD + "trace: {folder: tyni}\n", folder)


def test_problems_of_the_trace_and_the_file(folder: Path) -> None:
    """Both are reported, each with its own file."""
    (folder / "tiny" / "nodes.csv").write_text("node,cpu_milli\n")
    found = problems_of(f"{HEAD}trace: {{folder: tiny}}\nnodez: []\n", folder)
    assert [
        f"{folder}/tiny/nodes.csv:1:1: memory_mib: there is no such column: add it",
        "s.yaml:4:1: nodez: unknown field (did you mean nodes?)",
    ] == found
