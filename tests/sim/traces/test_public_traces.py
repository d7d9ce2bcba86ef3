"""The public traces load, where they are at hand, with the counts that their publishers give."""

from pathlib import Path

import numpy as np
import pytest

from tests.sim.traces.trace_files import PUBLIC, load
from trimtab.core.model.resources import CPU
from trimtab.sim.scenario import TracedPod
from trimtab.sim.traces.openb import GPU_COUNT, GPU_MILLI
from trimtab.sim.usage_patterns import Recorded


def folder(name: str) -> Path:
    if not (PUBLIC / name).is_dir():
        pytest.skip(f"the public trace {name} is not here")
    return PUBLIC / name


def samples(pods: tuple[TracedPod, ...]) -> int:
    """How many values of CPU there are."""
    return sum(len(pod.template.cpu.values) for pod in pods if isinstance(pod.template.cpu, Recorded))


def test_the_mix() -> None:
    """5,197 pods of 2,316 apps on 32 nodes, and the peak of requests."""
    scenario = load("trace", folder("k8s-mix-a"), labels=True)
    assert (32, 5197, 345_402, 2316) == (
        len(scenario.nodes),
        len(scenario.pods),
        samples(scenario.pods),
        len(scenario.objects),
    )
    assert (259_200.0, 300.0, 86_400.0) == (scenario.duration, scenario.step, scenario.warm_up)
    requested = np.zeros(864)
    for pod in scenario.pods:
        end = scenario.duration if pod.departure is None else pod.departure
        requested[int(pod.arrival[0] // 300) : int(end // 300)] += pod.template.requests.of(CPU)
    assert 435_000 == pytest.approx(requested.max(), rel=0.02)


def test_variants_of_the_mix() -> None:
    """Fewer nodes, lower requests, and usage dealt out anew: another recording of the same pods."""
    one, two = (load("trace", folder("k8s-mix-a"), nodes=27, requests=0.85, shuffle_usage=n) for n in (1, 2))
    assert (27, 5197, 345_402) == (len(one.nodes), len(one.pods), samples(one.pods))
    totals = [
        sum(float(pod.template.cpu.values.sum()) for pod in each.pods if isinstance(pod.template.cpu, Recorded))
        for each in (one, two)
    ]
    assert totals[0] != totals[1]


def test_bitbrains() -> None:
    """495 machines for 14 days; all but one, which comes later, begin on a node."""
    scenario = load("trace", folder("bitbrains-2013-08"), initial_placement=True)
    assert (28, 495, 14 * 86_400.0) == (len(scenario.nodes), len(scenario.pods), scenario.duration)
    assert ["bb-446"] == [pod.name for pod in scenario.pods if not pod.node]
    assert {np.dtype(np.float32)} == {
        pod.template.cpu.values.dtype for pod in scenario.pods if isinstance(pod.template.cpu, Recorded)
    }


@pytest.mark.parametrize("pod_list", ["default", "cpu050", "gpushare40", "multigpu20", "gpuspec10"])
def test_openb(pod_list: str) -> None:
    """1,213 nodes with 6,212 GPUs, and pods that ask for 130 % of them."""
    scenario = load("openb", folder("openb-2023"), seed=42, pod_list=pod_list)
    assert (1213, 6212) == (
        len(scenario.nodes),
        sum(dict(each.node.allocatable)[GPU_COUNT] for each in scenario.nodes),
    )
    requests = [pod.template.requests for pod in scenario.pods]
    asked = sum(each.of(GPU_COUNT) * each.of(GPU_MILLI) for each in requests)
    assert 1.3 == pytest.approx(asked / 6_212_000, abs=0.002)


def test_planetlab() -> None:
    """1,052 machines on the first day, with the mean that is published."""
    scenario = load("planetlab", folder("planetlab-2011"))
    assert (800, 1052, 1052 * 288) == (len(scenario.nodes), len(scenario.pods), samples(scenario.pods))
    shares = [
        float(pod.template.cpu.values.mean()) / pod.template.requests.of(CPU)
        for pod in scenario.pods
        if isinstance(pod.template.cpu, Recorded)
    ]
    assert 12.31 == pytest.approx(100 * float(np.mean(shares)), abs=0.01)
