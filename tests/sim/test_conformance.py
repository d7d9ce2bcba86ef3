"""Recorded sequences of kube-scheduler, pod by pod through the simulator: every placement agrees."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.conformance.corpus import FOLDER, Case, cases, read_node, read_pod
from tests.conformance.extra_objects import extra_objects
from tests.sim.small_world import SCHEDULER, scenario, stock
from trimtab.core.framework.profile import TieBreak
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Decision, Placement
from trimtab.sim.pod_life import PodLife
from trimtab.sim.scenario import PodTemplate, SimulatedNode
from trimtab.sim.simulation import Simulation

OWN = Path(__file__).parents[1] / "conformance" / "recorded"
PARTS = 6


@cache
def sequences() -> tuple[Case, ...]:
    name = "DefaultProfileSequence"
    return (*cases(OWN)[name], *cases(FOLDER).get(name, ()))


class Replayed:
    """The nodes, objects and pods of a case in a simulated cluster; its pending pods come one after the other."""

    def __init__(self, case: Case) -> None:
        nodes = (SimulatedNode(read_node(each)) for each in case.get("nodes") or ())
        self.verdicts: dict[str, Any] = {}
        self.simulation = Simulation(
            scenario(nodes, objects=tuple(extra_objects(case))), stock(TieBreak.NAME), 1, self._decided
        )
        for pod in case.get("existingPods") or ():
            self.add(read_pod(pod))
        self.simulation.run_until(5.0)

    def _decided(self, decision: Decision) -> None:
        self.verdicts.setdefault(decision.uid, decision.verdict)

    def add(self, pod: Pod) -> None:
        """Store the pod as it is; it does not preempt, as in the recorded sequences."""
        world = self.simulation.world
        world.templates[pod.uid] = PodTemplate(pod.requests)
        world.lives[pod.uid] = PodLife(pod.key, world.clock.now, SCHEDULER)
        world.put_pod(replace(pod, scheduler_name=SCHEDULER, may_preempt=False))

    def place(self, pod: Pod) -> dict[str, Any]:
        self.add(pod)
        self.simulation.run_until(self.simulation.clock.now + 5.0)
        node, verdict = self.simulation.world.pods[pod.uid].node, self.verdicts[pod.uid]
        if not node:
            self.simulation.world.delete_pod(pod.uid)
        placed = isinstance(verdict, Placement)
        return {
            "pod": pod.key,
            "node": node,
            "totalScore": verdict.total if placed else 0,
            "feasibleNodes": verdict.feasible if placed else 0,
        }


@pytest.mark.parametrize("part", range(PARTS))
def test_every_placement_is_kube_schedulers(part: int) -> None:
    """Node, total score and number of feasible nodes of each pod, with each one bound before the next."""
    for case in sequences()[part::PARTS]:
        replayed = Replayed(case)
        expected = [
            {key: each[key] for key in ("pod", "node", "totalScore", "feasibleNodes")}
            for each in case["expected"]["placements"]
        ]
        assert expected == [replayed.place(read_pod(pod)) for pod in case["pendingPods"]], case["id"]


def test_there_are_enough_sequences() -> None:
    """Some dozens come with the repository."""
    assert 50 < len(sequences())
