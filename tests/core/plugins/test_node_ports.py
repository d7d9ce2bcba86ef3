"""When host ports conflict: same protocol and port, on one address or on all."""

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.ask_plugin import rejection
from trimtab.core.framework.interface import PreFilterStatus
from trimtab.core.model.pod import HostPort
from trimtab.core.plugins.node_ports import NodePorts

TAKEN = "node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ([], [80], ""),
        ([80], [80], TAKEN),
        ([80], [81], ""),
        ([80], [81, 80], TAKEN),
        ([HostPort("UDP", "0.0.0.0", 80)], [80], ""),
        ([HostPort("TCP", "10.0.0.1", 80)], [80], TAKEN),
        ([80], [HostPort("TCP", "10.0.0.1", 80)], TAKEN),
        ([HostPort("TCP", "10.0.0.1", 80)], [HostPort("TCP", "10.0.0.2", 80)], ""),
        ([HostPort("TCP", "10.0.0.1", 80)], [HostPort("TCP", "10.0.0.1", 80)], TAKEN),
    ],
)
def test_clash(held: list[int | HostPort], wanted: list[int | HostPort], expected: str) -> None:
    """A port on 0.0.0.0 clashes with every address, others only with their own."""
    assert expected == rejection(NodePorts(), pod("web", ports=wanted), node("a"), pod("old", ports=held, on="a"))


def test_freed() -> None:
    """A port is free again when its pod is deleted."""
    held = cluster(node("a"), pod("old", ports=[80], on="a"))
    assert [1] == NodePorts().filter(held.view, pod("web", ports=[80]), slice(None)).tolist()
    held.delete_pod("uid-old")
    assert [0] == NodePorts().filter(held.view, pod("web", ports=[80]), slice(None)).tolist()


@pytest.mark.parametrize(("ports", "expected"), [([], PreFilterStatus.SKIP), ([80], PreFilterStatus.SUCCESS)])
def test_prefilter(ports: list[int], expected: PreFilterStatus) -> None:
    """A pod without host ports is skipped."""
    assert expected == NodePorts().pre_filter(cluster(node("a")).view, pod("web", ports=ports))
