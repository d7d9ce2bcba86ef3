"""Usage dealt out anew among apps."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.recording import RecordedPod, RecordedTrace, vary

APPS = 40
LONG, SHORT = 8, 2  # lifetimes in steps


def recorded(app: int) -> RecordedPod:
    """An app with one pod, whose usage is a share of its limits that only it has; every second app lives long."""
    limit = 1000 * (app + 1), 100 * (app + 1)
    steps = LONG if app % 2 else SHORT
    share = np.full(steps, (app + 1) / APPS, dtype=np.float32)
    return RecordedPod(f"pod-{app}", f"app-{app}", limit, limit, 0, share * limit[0], share * limit[1])


RECORDING = RecordedTrace("x", (("n", 1, 1),), tuple(recorded(app) for app in range(APPS)), LONG, 300.0)


def shares(number: int) -> list[int]:
    """Which app each one has its usage from."""
    varied = vary(RECORDING, TraceOptions(Path(), shuffle_usage=number))
    for pod in varied.pods:
        assert pod.cpu[0] / pod.limit[0] == pytest.approx(pod.memory[0] / pod.limit[1], rel=1e-5)
    return [round(float(pod.cpu[0]) / pod.limit[0] * APPS) - 1 for pod in varied.pods]


def test_every_usage_is_dealt_once() -> None:
    """It is a permutation, relative to the limits, and each number gives another one."""
    one, two = shares(1), shares(2)
    assert list(range(APPS)) == sorted(one) == sorted(two)
    assert one != two != list(range(APPS))
    assert one == shares(1)


def test_lifetimes_stay() -> None:
    """A pod lives as long as before, and has the usage of one that lived about as long."""
    varied = vary(RECORDING, TraceOptions(Path(), shuffle_usage=1))
    assert [len(pod.cpu) for pod in RECORDING.pods] == [len(pod.cpu) for pod in varied.pods]
    alike = [number % 2 == source % 2 for number, source in enumerate(shares(1))]
    assert APPS * 0.8 <= sum(alike)
