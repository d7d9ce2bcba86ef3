"""When Coscheduling lets a gang be tried, and when enough members have a node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.build import asks, cluster, node, pod
from trimtab.core.framework.interface import Gang, Reject, StageStatus, Wait
from trimtab.core.model.objects import LEGACY_POD_GROUP_LABEL, POD_GROUP_LABEL, PodGroup, pod_group_key
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.coscheduling import Coscheduling

NODES = (node("a", cpu="2", pods="3"), node("b", cpu="2", pods="3"))
MINE = pod("mine", cpu="1", on="a")


def group(least: int, **fields: Any) -> PodGroup:
    return PodGroup(name="train", uid="train", namespace="default", min_member=least, **fields)


def gang(made: PodGroup | None, *members: Pod, standing: dict[str, str] | None = None, **fields: Any) -> Gang:
    return Gang("default/train", made, {each.uid: each for each in members}, standing or {}, **fields)


PODS = tuple(pod(f"p{number}") for number in range(3))


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        (gang(None, *PODS), None),
        (gang(group(3), *PODS), None),
        (
            gang(group(4), *PODS),
            "pre-filter pod p0 cannot find enough sibling pods, current pods number: 3, minMember of group: 4",
        ),
        (gang(group(4), *PODS, pod("held", gates=["g"])), "cannot proceed due to gated pods in the same PodGroup"),
        (gang(group(3), *PODS, pod("held", gates=["g"])), None),
        (gang(group(3), *PODS, backing_off=True), "podGroup default/train failed recently"),
        (gang(group(3, min_resources=asks(cpu="3")), *PODS), None),
        (gang(group(3, min_resources=asks(cpu="3500m")), *PODS), "resource gap: cpu"),
        (gang(group(3, min_resources=asks(cpu="3500m")), *PODS, resources_checked=True), None),
        (gang(group(3, min_resources=asks(cpu="4")), MINE, *PODS, standing={MINE.uid: "a"}), None),
        (gang(group(3, min_resources=asks(extra={"gpu": "1"})), *PODS), "resource gap: gpu"),
        (gang(group(3, min_resources=asks(memory="17Gi")), *PODS), "resource gap: memory"),
        (gang(group(3, min_resources=asks()), *PODS), None),
    ],
)
def test_may_it_be_tried(tried: Gang, words: str | None) -> None:
    """Enough members, enough of them ungated, no recent failure, and `minResources` available in all nodes together."""
    told = Coscheduling().pre_filter_gang(cluster(*NODES, MINE).view, PODS[0], tried)
    assert (words is None) == (told is None)
    assert told is None or (words is not None and words in told.reason)


@pytest.mark.parametrize(
    ("counted", "answer"),
    [
        (gang(None), Reject("PodGroup not found", unresolvable=False)),
        (gang(group(2), standing={"x": "a"}), Wait(60.0)),
        (gang(group(2, timeout=5), standing={"x": "a"}), Wait(5.0)),
        (gang(group(2), standing={"x": "a", "y": "a"}), StageStatus.SUCCESS),
        (gang(group(1), standing={"x": "a", "y": "a"}), StageStatus.SUCCESS),
    ],
)
def test_is_it_enough(counted: Gang, answer: object) -> None:
    """Placed members are compared with minMember; the group's timeout overrides the plugin's."""
    assert answer == Coscheduling().permit_gang(counted)


def test_the_last_node_need_not_make_up_for_an_overfull_one() -> None:
    """What is found on the way through the nodes counts, though a later node has less than nothing left."""
    crowded = cluster(*NODES, pod("fat", cpu="6", on="b"))
    enough = gang(group(1, min_resources=asks(cpu="2")), *PODS)
    assert None is Coscheduling().pre_filter_gang(crowded.view, PODS[0], enough)


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({POD_GROUP_LABEL: "new"}, "default/new"),
        ({LEGACY_POD_GROUP_LABEL: "old"}, "default/old"),
        ({LEGACY_POD_GROUP_LABEL: "old", POD_GROUP_LABEL: "new"}, "default/new"),
        ({POD_GROUP_LABEL: ""}, ""),
    ],
)
def test_which_group_a_label_names(labels: dict[str, str], key: str) -> None:
    """The group is in the pod's own namespace; the newer label goes before the older."""
    assert key == pod_group_key(pod("web", labels=labels))


@pytest.mark.parametrize(
    "arguments",
    [
        {"permit_waiting_time_seconds": -1},
        {"pod_group_backoff_seconds": -1},
        {"pod_group_reject_percentage": 101},
        {"pod_group_reject_percentage": -1},
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, int]) -> None:
    """They are rejected with a sentence that names the argument."""
    with pytest.raises(ValueError, match=r"must be|is not between"):
        Coscheduling(**arguments)
