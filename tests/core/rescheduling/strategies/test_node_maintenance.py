"""All pods leave nodes under maintenance."""

import pytest

from tests.core.rescheduling.measured_pods import context, large, measured, suggested
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.rescheduling.strategies.interface import MUST_GO, AvoidsTargets
from trimtab.core.rescheduling.strategies.node_maintenance import NodeMaintenance

LABEL = "scheduler.alpha.kubernetes.io/maintenance"


def maintained() -> Cluster:
    return measured(
        large("a", labels={LABEL: "true"}),
        large("b", labels={LABEL: "false"}),
        large("c", unschedulable=True),
        large("d", labels={"repair": "soon"}),
    )


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (NodeMaintenance(), {"a": "the node is under maintenance"}),
        (NodeMaintenance(labels=("repair",)), {"d": "the node is under maintenance"}),
        (NodeMaintenance(labels=()), {}),
        (
            NodeMaintenance(drain_cordoned=True),
            {"a": "the node is under maintenance", "c": "the node is cordoned"},
        ),
    ],
)
def test_drained_nodes(strategy: NodeMaintenance, expected: dict[str, str]) -> None:
    """By label, and cordoned ones if asked for."""
    assert expected == suggested(strategy, maintained())


def test_every_pod_goes() -> None:
    """No disruption costs more than staying."""
    assert [MUST_GO] == [each.worth for each in NodeMaintenance().suggest(context(maintained()))]


def test_no_targets() -> None:
    """Nothing is moved to a node under maintenance."""
    strategy = NodeMaintenance()
    assert isinstance(strategy, AvoidsTargets)
    assert [True, False, False, False] == strategy.avoid(context(maintained())).tolist()


def test_invalid_label() -> None:
    """A label is a key, or a key and a value."""
    with pytest.raises(ValueError, match="a b=c is not a label: write `key=value`, or `key` for any value"):
        NodeMaintenance(labels=("a b=c",))
