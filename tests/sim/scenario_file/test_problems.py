"""Every problem of a scenario file is reported, with its line, column, field and remedy.

The places of problems are marked in the texts by », in the order in which they are reported.
"""

from pathlib import Path

import pytest

from tests.sim.scenario_file.scenario_texts import HEAD, NODES, check, problems_of_body
from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario_file import read_scenario

BEGINS, TRACE = 'begins: "08:00"\n', "trace:"
NODE = "{name: a, cpu: 1, memory: 1Gi}"


@pytest.mark.parametrize(
    ("content", "complaints"),
    [
        ("a: [\n»", ["not YAML: did not find expected node content"]),
        ("»[]\n", ["expected a mapping, got a list"]),
        (
            "»kind: »Senario\nduration: 1h\nnodes: »[]\n",
            [
                "apiVersion is missing: write trimtab.dev/v1alpha1",
                "kind: 'Senario' is not supported: write Scenario",
                "nodes: nodes is missing: a scenario needs at least one",
            ],
        ),
        (f"»{HEAD}nodes: [{NODE}]\n", ["duration is missing: write how long it lasts, such as 1h"]),
        (
            f"{HEAD}duration: 10m\nstep: »7m\nwarmUp: »10m\n»nodez: []\nnodes: [{NODE}]\n",
            [
                "step: the step 7m does not divide the duration 10m: write one that does",
                "warmUp: the warm-up of 10m leaves nothing to measure",
                "nodez: unknown field (did you mean nodes?)",
            ],
        ),
        (f"{HEAD}duration: 1h\nstep: »1ms\nnodes: [{NODE}]\n", ["step: 0.001s is too short: write 1s or more"]),
        (
            f"{HEAD}duration: 8000h\nstep: »1s\nnodes: [{NODE}]\nmetrics: {{interval: »2s}}\n",
            [
                "step: is 28,800,000 times in the scenario: at most 10,000,000 are simulated, so make it longer",
                "metrics.interval: is 14,400,000 times in the scenario: at most 10,000,000 are simulated, so make it longer",
            ],
        ),
        (
            f'{HEAD}duration: 1h\nbegins: »"24:30"\nnodes: [{NODE}]\n',
            ["begins: must be on the first day: write a time before 24:00"],
        ),
        (
            f"{HEAD}duration: 1h\nbegins: »08:00\nnodes: [{NODE}]\n",
            ["begins: 08:00 is not a plain decimal number: write it as one, or quote it if it is a string"],
        ),
        (f"{HEAD}{NODES}---\n»{HEAD}", ["more than one document: write one scenario in a file"]),
    ],
)
def test_the_file(content: str, complaints: list[str]) -> None:
    """Problems of the file as a whole and of its first fields."""
    check(content, complaints)


@pytest.mark.parametrize(
    ("nodes", "complaints"),
    [
        (
            "[{name: a, cpu: 1, memory: 1Gi, resources: {nvidia.com/gpu: »500m}}]",
            ["nodes[0].resources.nvidia.com/gpu: nvidia.com/gpu is counted in whole numbers: write one"],
        ),
        (
            "[{name: a, cpu: »-1, memory: 1Gi}]",
            ['nodes[0].cpu: -1 is below zero and not a quantity: write it as "500m" or "2Gi"'],
        ),
        ("[{name: a, cpu: »0, memory: 1Gi}]", ["nodes[0].cpu: must be above 0"]),
        ("[»{name: a, cpu: 1}]", ["nodes[0]: memory is missing: write a quantity such as 32Gi"]),
        (
            "[{name: a, cpu: 1, memory: 1Gi}, »{name: a, cpu: 1, memory: 1Gi}]",
            ["nodes[1]: there is another node a: names must be unique"],
        ),
        (
            "[{name: a, count: »2, cpu: 1, memory: 1Gi}]",
            ["nodes[0].count: name is for one node: remove one of the two"],
        ),
        (
            "[{name: »A_b, cpu: 1, memory: 1Gi}]",
            ["nodes[0].name: 'A_b' is not a name: use lower case letters, digits, '-' and '.', at most 253"],
        ),
        (
            "[{name: a, cpu: 1, memory: 1Gi, taints: [{key: x, effect: »NoSchedul}]}]",
            [
                (
                    "nodes[0].taints[0].effect: 'NoSchedul' is not one of NoExecute, NoSchedule, "
                    "PreferNoSchedule (did you mean NoSchedule?)"
                )
            ],
        ),
        (
            "[{name: a, cpu: 1, memory: 1Gi, labels: {x: »1}}]",
            ["nodes[0].labels.x: expected a string, got the number 1: put it in quotes"],
        ),
        (
            "[{name: a, cpu: 1, memory: 1Gi, resources: {cpu: »4}}]",
            ["nodes[0].resources.cpu: write cpu as a field of the node, not under resources"],
        ),
        (
            "[{name: a, cpu: 1, memory: 1Gi, joins: »3h}]",
            ["nodes[0].joins: 03:00 is after the scenario ends (01:00): make duration longer"],
        ),
        (
            "[{name: a, cpu: 1, memory: 1Gi, systemUsage: {cpu: {»dayly: {}}}}]",
            ["nodes[0].systemUsage.cpu.dayly: unknown field (did you mean daily?)"],
        ),
    ],
)
def test_nodes(nodes: str, complaints: list[str]) -> None:
    """Problems of nodes."""
    check(f"{HEAD}duration: 1h\nnodes: {nodes}\n", complaints)


@pytest.mark.parametrize(
    ("pattern", "complaints"),
    [
        (
            "»{}",
            ["workloads[0].usage.cpu: names no pattern: write one of steady, daily, bursty, ramp, surge, recorded"],
        ),
        ("{steady: 5, noise: »200%}", ["workloads[0].usage.cpu.noise: 200% is more than 100%"]),
        (
            '{daily: {low: »2, high: 1, peak: »"25"}}',
            [
                "workloads[0].usage.cpu.daily.low: is above high: exchange the two",
                (
                    "workloads[0].usage.cpu.daily.peak: '25' is not a time of day: write hours and minutes, such "
                    'as "08:00"'
                ),
            ],
        ),
        ("{ramp: »{to: 1}}", ["workloads[0].usage.cpu.ramp: over is missing: write a duration such as 2h"]),
        (
            "{surge: {level: 1, begins: 20m, ends: »10m}}",
            ["workloads[0].usage.cpu.surge.ends: is not after begins: times must be in order"],
        ),
        ("{bursty: {low: 1, high: 2, share: »2}}", ["workloads[0].usage.cpu.bursty.share: 200% is more than 100%"]),
        ("{recorded: »{}}", ["workloads[0].usage.cpu.recorded: needs either values or file"]),
        ("{recorded: {values: »[]}}", ["workloads[0].usage.cpu.recorded.values: must not be empty"]),
        (
            "{recorded: {file: »none.csv}}",
            [
                (
                    "workloads[0].usage.cpu.recorded.file: none.csv cannot be read (No such file or directory): "
                    "the path is relative to the scenario"
                )
            ],
        ),
    ],
)
def test_patterns(pattern: str, complaints: list[str]) -> None:
    """Problems of usage patterns."""
    check(f"{HEAD}{NODES}workloads: [{{name: x, usage: {{cpu: {pattern}}}}}]\n", complaints)


@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        ("events: [{at: 10m, action: cordon, node: »c}]", ["events[0].node: there is no node 'c'"]),
        (
            "events: [{at: 10m, action: »cordn, node: a}]",
            [
                (
                    "events[0].action: 'cordn' is not one of cordon, drain, fail, failover, recover, remove, "
                    "uncordon (did you mean cordon?)"
                )
            ],
        ),
        (
            "events: [{at: 10m, action: failover}, {at: »5m, action: failover}]",
            ["events[1].at: is before 08:10, the time of the event before it: put events in order"],
        ),
        ("events: [{at: »10m, action: drain, node: b}]", ["events[0].at: b joins at 09:00 only: write a later time"]),
        (
            "events: [{at: 10m, action: failover, node: »a}]",
            ["events[0].node: a failover is of the scheduler, not of a node: remove it"],
        ),
        ("metrics: {interval: »0s}", ["metrics.interval: 0s is too short: write 1s or more"]),
        ("metrics: {interval: »1ns}", ["metrics.interval: 1e-09s is too short: write 1s or more"]),
        ("metrics: {loss: »-1}", ["metrics.loss: -1 is not between 0 and 1000"]),
        (
            "metrics: {loss: »much}",
            ["metrics.loss: 'much' is not a share: write a percentage such as \"85%\", or 0.85"],
        ),
        (
            "metrics: {outages: [{begins: 10m, ends: »5m, nodes: [»aa]}]}",
            [
                "metrics.outages[0].ends: is not after begins: times must be in order",
                "metrics.outages[0].nodes[0]: there is no node 'aa' (did you mean a?)",
            ],
        ),
        (
            "services: [»{name: x}]",
            ["services[0]: selector is missing: write the labels of its pods, such as {app: web}"],
        ),
        ("services: [{name: x, selector: »{}}]", ["services[0].selector: must not be empty: it would select nothing"]),
        (
            "clusterAutoscaler: »{node: {cpu: 1, memory: 1Gi, »name: x}}",
            [
                "clusterAutoscaler: maxNodes is missing: write how many it may add",
                "clusterAutoscaler.node.name: unknown field",
            ],
        ),
        (
            "trace: {format: »opnb, folder: x}",
            ["trace.format: 'opnb' is not one of openb, planetlab, trace (did you mean openb?)"],
        ),
        (
            "trace: {format: openb, folder: x, usage: »1}",
            ["trace.usage: the format openb has no such option: remove it"],
        ),
        ("trace: »{nodes: 3}", ["trace: folder is missing: write the folder of its files"]),
    ],
)
def test_faults(body: str, complaints: list[str]) -> None:
    """Problems of what happens to nodes, metrics and the leader, and of traces."""
    check(f"{HEAD}{NODES.replace(BEGINS, '') if body.startswith(TRACE) else NODES}{body}\n", complaints)


def test_a_csv_file(tmp_path: Path) -> None:
    """Problems of a file with recorded values have its own name and lines."""
    (tmp_path / "use.csv").write_text("time,cpu\n0,100m\n1,\n2,lots\n")
    body = "workloads: [{{name: x, usage: {{cpu: {{recorded: {{file: use.csv{}}}}}}}}}]\n"
    file = tmp_path / "use.csv"
    assert [
        f"{file}:3:3: cpu: is empty: write a level, such as 250m or 80%",
        f'{file}:4:3: cpu: \'lots\' is not a quantity: write it as "500m" or "2Gi"',
    ] == problems_of_body(body.format(""), tmp_path)
    missing = problems_of_body(body.format(", column: cpus"), tmp_path)
    assert [f"{file}:1:1: cpus: has no column cpus (did you mean cpu?): it has time, cpu"] == missing


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is one problem, without a position."""
    with pytest.raises(ConfigError) as caught:
        read_scenario(tmp_path / "none.yaml")
    assert f"{tmp_path}/none.yaml: cannot be read (No such file or directory)" == str(caught.value)
