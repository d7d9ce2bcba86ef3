"""Meters: pods and nodes agree, and nobody uses more than there is."""

import pytest

from tests.build import pod
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.demo.scene import node
from trimtab.sim.metrics import WantedUsage, readings

GIB = 1024.0**3


def read(cpu: float) -> dict[tuple[str, Subject], Reading]:
    """One node of 8 cores, a pod that wants so much of it, and as much beside it."""
    web = pod("web", on="n1")
    wants = WantedUsage({"n1": {CPU: 2 * cpu, MEMORY: GIB}}, {web.uid: {CPU: cpu, MEMORY: GIB / 2}})
    found = readings({"n1": node("n1", 8, 16)}, {web.uid: web}, wants, 60.0)
    return {(each.resource, each.subject): each for each in found}


def test_both_resources_of_nodes_and_pods_are_read() -> None:
    """Nodes go by name, pods by namespace and name, each with the time at which it was measured."""
    found = read(1000.0)
    assert {(CPU, Subject.NODES), (CPU, Subject.PODS), (MEMORY, Subject.NODES), (MEMORY, Subject.PODS)} == {*found}
    nodes, pods = found[CPU, Subject.NODES], found[CPU, Subject.PODS]
    assert (("n1",), (2000.0,), (60.0,)) == (nodes.names, nodes.values, nodes.measured)
    assert (("default/web",), (1000.0,), (60.0,)) == (pods.names, pods.values, pods.measured)


@pytest.mark.parametrize(("wanted", "used"), [(3000.0, 3000.0), (4000.0, 4000.0), (8000.0, 4000.0), (16_000.0, 4000.0)])
def test_where_there_is_too_little_each_gets_the_same_part(wanted: float, used: float) -> None:
    """The node shows what it has, and the pod its half of that."""
    found = read(wanted)
    assert (used,) == found[CPU, Subject.PODS].values
    assert (2 * used,) == found[CPU, Subject.NODES].values
