"""Pods leave nodes that no longer match their node selector or affinity."""

from tests.build import term
from tests.core.rescheduling.measured_pods import context, large, measured, running, suggested_pods
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_affinity import RemovePodsViolatingNodeAffinity

STRATEGY = RemovePodsViolatingNodeAffinity()
SSD, HDD = large("ssd", labels={"disk": "ssd"}), large("hdd", labels={"disk": "hdd"})


def test_pods_that_leave() -> None:
    """By node selector, and by required affinity; a pod that may run anywhere stays."""
    pods = [
        running("selects", on="hdd", selector={"disk": "ssd"}),
        running("requires", on="hdd", required=[term("disk In ssd")]),
        running("matches", on="ssd", selector={"disk": "ssd"}),
        running("anywhere", on="hdd"),
    ]
    assert ["requires", "selects"] == suggested_pods(STRATEGY, measured(SSD, HDD, *pods))


def test_nowhere_better() -> None:
    """A pod stays if no node matches, or those that match have no room."""
    nowhere = running("nowhere", on="hdd", selector={"disk": "nvme"})
    too_large = running("large", on="hdd", selector={"disk": "ssd"}, cpu="9")
    filler = running("filler", on="ssd", cpu="5", owner="filler")
    assert [] == suggested_pods(STRATEGY, measured(SSD, HDD, nowhere, too_large, filler))


def test_unknown_scheduler() -> None:
    """Pods of another scheduler stay: nobody knows where it would place them."""
    cluster = measured(SSD, HDD, running("web", on="hdd", selector={"disk": "ssd"}))
    assert [] == suggested_pods(STRATEGY, cluster, profile_of=lambda name: None)


def test_suggestion() -> None:
    """One for each node, worth a little more than a disruption costs, with a reason for the pod."""
    cluster = measured(SSD, HDD, running("web", on="hdd", selector={"disk": "ssd"}))
    (found,) = STRATEGY.suggest(context(cluster, cost=32.0))
    assert ("hdd", 40.0) == (found.node, found.worth)
    assert "the pod's node selector or required node affinity does not match its node" == found.reason
