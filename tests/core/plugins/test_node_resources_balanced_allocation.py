"""Nodes whose resources are used evenly score higher."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import scores
from trimtab.core.framework.resource_amounts import ResourceWeight
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation

GPU = "nvidia.com/gpu"
THREE = NodeResourcesBalancedAllocation(tuple(map(ResourceWeight, ("cpu", "memory", GPU))))


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ("1", "2Gi", 100),
        ("4", "", 50),
        ("2", "2Gi", 87),
        ("400", "8Gi", 100),
        ("12E", "", 50),
        ("", "1", 99),
    ],
)
def test_two_resources(cpu: str, memory: str, expected: int) -> None:
    """100 less half the distance of the two shares, in percent; a share is at most the whole."""
    wanted = pod("web", cpu=cpu, memory=memory)
    assert {"a": expected} == scores(NodeResourcesBalancedAllocation(), wanted, node("a", cpu="4", memory="8Gi"))


def test_what_stands_there_counts() -> None:
    """Fractions are of requests including the pod's, without defaults for missing requests."""
    seen: list[Node | Pod] = [node("even"), node("odd"), pod("one", cpu="1", on="odd"), pod("silent", on="even")]
    wanted = pod("web", cpu="1", memory="2Gi")
    assert {"even": 100, "odd": 87} == scores(NodeResourcesBalancedAllocation(), wanted, *seen)


def test_three_resources() -> None:
    """With three it is the standard deviation over those that a node has."""
    seen = [node("gpu", extra={GPU: "4"}), node("plain")]
    wanted = pod("web", cpu="2", memory="4Gi", extra={GPU: "4"})
    assert {"gpu": 76, "plain": 100} == scores(THREE, wanted, *seen)


@pytest.mark.parametrize(("cpu", "memory"), [("", ""), ("0", "0")])
def test_best_effort(cpu: str, memory: str) -> None:
    """There is no opinion on pods that ask for nothing, lest they all go to one node."""
    assert None is scores(NodeResourcesBalancedAllocation(), pod("web", cpu=cpu, memory=memory), node("a"))
