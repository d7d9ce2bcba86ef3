"""Runs each part of the demo once per seed and records it."""

from __future__ import annotations

from functools import cache

from trimtab.apps.demo import MOVES, SCHEDULING, Demo
from trimtab.apps.demo_events import (
    ClusterFrame,
    DemoEvent,
    NodeLabelled,
    PodDecided,
    SceneStarted,
    SchedulingEnded,
)
from trimtab.sim.demo.hot_node import HOT_NODE_PLAY
from trimtab.sim.demo.snapshot import WorldSnapshot

DAY_STARTS = len(HOT_NODE_PLAY.scenes)


class RecordedScene:
    """The events of one scene."""

    def __init__(self) -> None:
        self.decided: list[PodDecided] = []
        self.labelled: list[NodeLabelled] = []
        self.snapshots: list[WorldSnapshot] = []


@cache
def record_demo(seed: int = 1) -> tuple[list[RecordedScene], SchedulingEnded]:
    scenes: list[RecordedScene] = []
    moment: DemoEvent | None = None
    for moment in Demo(seed, SCHEDULING).events():
        match moment:
            case SceneStarted():
                scenes.append(RecordedScene())
            case PodDecided():
                scenes[-1].decided.append(moment)
            case NodeLabelled():
                scenes[-1].labelled.append(moment)
            case ClusterFrame():
                scenes[-1].snapshots.append(moment.picture)
    assert isinstance(moment, SchedulingEnded)
    return scenes, moment


@cache
def record_moves(seed: int = 1) -> tuple[DemoEvent, ...]:
    return tuple(Demo(seed, MOVES).events())


def hot_node_scenes(seed: int = 1) -> list[RecordedScene]:
    return record_demo(seed)[0][:DAY_STARTS]


def day_scenes(seed: int = 1) -> list[RecordedScene]:
    return record_demo(seed)[0][DAY_STARTS:]
