"""Matching series to nodes."""

from __future__ import annotations

import pytest

from trimtab.core.model.node import Node
from trimtab.sources.prometheus.node_matching import MatchFailure, NodeMatcher, strip_port

NODES = [
    Node(name="worker-1", addresses=("10.0.0.1", "worker-1")),
    Node(name="worker-2", addresses=("10.0.0.2", "worker-2.example.org")),
    Node(name="worker-3", addresses=("fd00::3",)),
]


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ({"node": "worker-1"}, "worker-1"),
        ({"kubernetes_node": "worker-1"}, "worker-1"),
        ({"nodename": "worker-2"}, "worker-2"),
        ({"instance": "worker-1"}, "worker-1"),
        ({"instance": "worker-1:9100"}, "worker-1"),
        ({"instance": "10.0.0.2:9100"}, "worker-2"),
        ({"instance": "10.0.0.2"}, "worker-2"),
        ({"instance": "worker-2.example.org:9100"}, "worker-2"),
        ({"instance": "[fd00::3]:9100"}, "worker-3"),
        ({"instance": "fd00::3"}, "worker-3"),
        ({"node": "worker-1", "instance": "10.0.0.1:9100"}, "worker-1"),
        ({"node": "eu-west", "instance": "10.0.0.1:9100"}, "worker-1"),
        ({"node": "", "instance": "10.0.0.1:9100"}, "worker-1"),
        ({"node": "worker-2", "instance": "kubernetes.default.svc:443"}, "worker-2"),
    ],
)
def test_any_of_the_usual_labels_identifies_the_node(labels: dict[str, str], node: str) -> None:
    """A name, a name with port, an address with port: whichever label holds it."""
    assert node == NodeMatcher(NODES).match(labels)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"node": "worker"},
        {"node": "worker-11"},
        {"node": "WORKER-1"},
        {"node": "worker-1 "},
        {"node": "worker-.*"},
        {"instance": "10.0.0.1:9100:9100"},
        {"instance": "10.0.0.1:http"},
        {"instance": "10.0.0.10:9100"},
        {"instance": "fd00::3:9100"},
        {"job": "worker-1"},
        {"node": 'worker-1"} or vector(1) #'},
        {"node": "\u202eworker-1"},
        {"node": "w" * 5000},
    ],
)
def test_a_similar_name_does_not_match(labels: dict[str, str]) -> None:
    """Equality with a known name or address counts, and nothing else."""
    assert MatchFailure.UNMATCHED is NodeMatcher(NODES).match(labels)


def test_labels_that_disagree_are_ambiguous() -> None:
    """Two labels that name two nodes match neither."""
    assert MatchFailure.AMBIGUOUS is NodeMatcher(NODES).match({"node": "worker-1", "instance": "10.0.0.2:9100"})


def test_an_address_of_two_nodes_is_ambiguous() -> None:
    """An address that two nodes have matches neither; their names still do."""
    twins = [Node(name="x", addresses=("10.0.0.9",)), Node(name="y", addresses=("10.0.0.9",))]
    matcher = NodeMatcher(twins)
    assert [MatchFailure.AMBIGUOUS, "x"] == [matcher.match({"instance": "10.0.0.9:1"}), matcher.match({"node": "x"})]


def test_a_configured_label_is_the_only_one_that_counts() -> None:
    """Other labels are ignored, whether they agree or not."""
    matcher = NodeMatcher(NODES, "host")
    assert "worker-1" == matcher.match({"host": "worker-1", "instance": "10.0.0.2:9100"})
    assert MatchFailure.UNMATCHED is matcher.match({"node": "worker-1"})


@pytest.mark.parametrize(
    ("text", "host"),
    [("a:1", "a"), ("a", "a"), ("[::1]:9", "::1"), ("::1", "::1"), ("a:", "a:"), (":9", ""), ("a:٣", "a:٣"), ("", "")],
)
def test_only_a_port_is_stripped(text: str, host: str) -> None:
    """A port is decimal digits after the last colon, and an address with colons stands in brackets before it."""
    assert host == strip_port(text)
