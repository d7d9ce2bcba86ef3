"""When a pod fits, the reasons when it does not, and the three scoring strategies."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import rejection, scores
from trimtab.core.framework.resource_amounts import ResourceWeight
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import ContainerRequests, pod_requests
from trimtab.core.plugins.node_resources_fit import (
    NodeResourcesFit,
    RequestedToCapacityRatio,
    ScoringStrategy,
    ShapePoint,
)
from trimtab.wire.quantity import nanos

GPU = "nvidia.com/gpu"
FIT = NodeResourcesFit()
NODE = node("a", cpu="4", memory="8Gi", extra={GPU: "2"})
STANDING = pod("old", cpu="3", memory="6Gi", extra={GPU: "1"}, on="a")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pod("web"), ""),
        (pod("web", cpu="1", memory="2Gi", extra={GPU: "1"}), ""),
        (pod("web", cpu="1001m"), "Insufficient cpu"),
        (pod("web", cpu="5"), "! Insufficient cpu"),
        (pod("web", cpu="2", memory="3Gi"), "Insufficient cpu, Insufficient memory"),
        (pod("web", cpu="2", memory="9Gi"), "! Insufficient cpu, Insufficient memory"),
        (pod("web", extra={GPU: "2"}), f"Insufficient {GPU}"),
        (pod("web", extra={"example.com/foo": "1"}), "! Insufficient example.com/foo"),
        (pod("web", extra={"example.com/foo": "0"}), ""),
        (pod("web", extra={"hugepages-2Mi": "2Mi"}), "! Insufficient hugepages-2Mi"),
        (pod("web", extra={"ephemeral-storage": "101Gi"}), "! Insufficient ephemeral-storage"),
    ],
)
def test_room(wanted: Pod, expected: str) -> None:
    """Each short resource is named; when the node could never hold the pod, no eviction helps."""
    assert expected == rejection(FIT, wanted, NODE, STANDING)


@pytest.mark.parametrize("amount", ["7Ei", "8Ei", "12E", "1e19", "1e100", "9223372036854775808"])
@pytest.mark.parametrize("resource", ["cpu", "memory", GPU, "ephemeral-storage"])
def test_too_much_for_any_node(resource: str, amount: str) -> None:
    """Amounts beyond 64 bits never wrap into something small: the pod is rejected, for good."""
    assert f"! Insufficient {resource}" == rejection(FIT, pod("web", extra={resource: amount}), NODE)


def test_huge_pods_do_not_make_room() -> None:
    """Pods of absurd size on a node add up to a full node, not to an empty one."""
    standing = [pod(f"huge-{number}", cpu="12E", on="a") for number in range(5)]
    assert "Insufficient cpu" == rejection(FIT, pod("web", cpu="1m"), NODE, *standing)


@pytest.mark.parametrize(("most", "expected"), [("2", ""), ("1", "Too many pods"), ("0", "Too many pods")])
def test_number_of_pods(most: str, expected: str) -> None:
    """A node holds so many pods and no more, whatever they ask for."""
    assert expected == rejection(FIT, pod("web"), node("a", pods=most), pod("old", on="a"))


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (FIT, "! Insufficient example.com/foo"),
        (NodeResourcesFit(ignored_resources=("example.com/foo",)), ""),
        (NodeResourcesFit(ignored_resources=("cpu",)), "! Insufficient example.com/foo"),
        (NodeResourcesFit(ignored_resource_groups=("example.com",)), ""),
        (NodeResourcesFit(ignored_resource_groups=("example",)), "! Insufficient example.com/foo"),
    ],
)
def test_ignored(plugin: NodeResourcesFit, expected: str) -> None:
    """Resources outside Kubernetes' own can be left to somebody else, one by one or by their domain."""
    assert expected == rejection(plugin, pod("web", extra={"example.com/foo": "1"}), NODE)


def strategy(kind: str, *resources: tuple[str, int], shape: tuple[tuple[int, int], ...] = ()) -> NodeResourcesFit:
    weights = tuple(ResourceWeight(name, weight) for name, weight in resources or (("cpu", 1), ("memory", 1)))
    ratio = RequestedToCapacityRatio(tuple(ShapePoint(*each) for each in shape)) if shape else None
    return NodeResourcesFit(scoring_strategy=ScoringStrategy(kind, weights, ratio))


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (strategy("LeastAllocated"), {"empty": 75, "half": 25}),
        (strategy("MostAllocated"), {"empty": 25, "half": 75}),
        (strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), {"empty": 75, "half": 25}),
        (strategy("LeastAllocated", (GPU, 9), ("cpu", 1)), {"empty": 75, "half": 25}),
        (strategy("RequestedToCapacityRatio", shape=((0, 0), (100, 10))), {"empty": 25, "half": 75}),
        (strategy("RequestedToCapacityRatio", shape=((0, 10), (100, 0))), {"empty": 75, "half": 25}),
        (strategy("RequestedToCapacityRatio", shape=((30, 0), (70, 10))), {"empty": 0, "half": 100}),
        (strategy("RequestedToCapacityRatio", shape=((0, 0), (50, 10), (100, 0))), {"empty": 50, "half": 50}),
    ],
)
def test_strategies(plugin: NodeResourcesFit, expected: dict[str, int]) -> None:
    """Emptier, fuller, or by the shape; a device that the pod does not request does not count."""
    seen: list[Node | Pod] = [
        node("empty"),
        node("half", extra={GPU: "1"}),
        pod("old", cpu="2", memory="4Gi", on="half"),
    ]
    assert expected == scores(plugin, pod("web", cpu="1", memory="2Gi"), *seen)


def test_full_node() -> None:
    """A node that would be overfull scores nothing by least, everything by most."""
    seen: list[Node | Pod] = [node("a"), pod("old", cpu="4", memory="8Gi", on="a")]
    assert {"a": 0} == scores(strategy("LeastAllocated"), pod("web", cpu="12E", memory="1Gi"), *seen)
    assert {"a": 100} == scores(strategy("MostAllocated"), pod("web", cpu="12E", memory="1Gi"), *seen)


def test_silent_containers() -> None:
    """Containers that ask for nothing count 100m and 200 MiB in scores, so that they spread too."""
    seen: list[Node | Pod] = [
        node("a", cpu="1", memory="400Mi"),
        node("b", cpu="1", memory="400Mi"),
        pod("old", on="b"),
    ]
    assert {"a": 70, "b": 40} == scores(FIT, pod("web"), *seen)


def test_whole_pod_counts_once_it_stands() -> None:
    """Pod-level requests are left out of scores while the pod has no node, and counted once it has one."""
    demand = pod_requests(
        [ContainerRequests()], pod_level=ContainerRequests({"cpu": nanos("2"), "memory": nanos("4Gi")})
    )
    seen: list[Node | Pod] = [node("a"), node("b"), pod("old", requests=demand, on="b")]
    assert {"a": 97, "b": 47} == scores(FIT, pod("web", requests=demand), *seen)


def test_unknown_strategy() -> None:
    """A strategy that does not exist is rejected when the plugin is made."""
    with pytest.raises(ValueError, match="BestAllocated"):
        strategy("BestAllocated")
