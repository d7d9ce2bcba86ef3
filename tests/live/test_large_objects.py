"""Objects of more than a megabyte on a real API server: the pods beside them are bound as ever."""

from __future__ import annotations

import json
import time

import pytest

from bench.large_objects import MAX_BYTES, labels, node_with, strange_pod
from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
PLAIN, PROMPT = 20, 15.0  # seconds, on a busy machine; each takes milliseconds


def test_a_pod_of_a_megabyte_delays_no_others(rig: Rig) -> None:
    """It asks for 90,000 labels, and there is a node with 10,000: the pod gets a reason, and all others a node."""
    huge = strange_pod(nodeSelector=labels(90_000), scheduler=trimtab_process.SCHEDULER)
    assert 1_000_000 < len(json.dumps(huge)) < MAX_BYTES
    trimtab_process.install(rig)
    rig.admin.create_many([*(node(f"worker-{n}") for n in range(5)), node_with(labels=labels(10_000))])
    rig.admin.create(huge)
    trimtab = trimtab_process.start(rig)
    try:
        trimtab_process.wait_for(lambda: "at most 10,000" in _message(rig), 150, "the pod has a reason", trimtab)
        started = time.monotonic()
        rig.admin.create_many(pod(f"plain-{n}", scheduler=trimtab_process.SCHEDULER) for n in range(PLAIN))
        rig.admin.create(node("late", labels=labels(10_000)))  # the parked pod is not asked again
        trimtab_process.wait_for(lambda: len(trimtab_process.bound(rig)) == PLAIN, 60, "plain pods bound", trimtab)
        assert time.monotonic() - started < PROMPT
        assert "spec.nodeSelector: 90,000 labels" in rig.kubectl("describe", "pod", huge["metadata"]["name"])
    finally:
        code = trimtab.terminate()
    assert 0 == code


def _message(rig: Rig) -> str:
    """Of the condition PodScheduled."""
    conditions = json.loads(rig.kubectl("get", "pod", "strange", "-o", "json"))["status"].get("conditions", ())
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
