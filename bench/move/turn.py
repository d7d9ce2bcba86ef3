"""One turn of `make bench-move`: an hour of one rescheduler, or of none, beside a new kube-scheduler.

pods are created and bound ──▶ five minutes of metrics ──▶ the rescheduler starts, one hour is measured ──▶ all is deleted
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.move.cluster import MoveCluster
from bench.move.replay import Measures, Replay
from bench.move.reschedulers import Turn
from bench.move.workload import Workload
from tools.controlplane.process import Process
from trimtab.core.model.duration import MINUTE

WARM_UP_MINUTES = 5
STOP_SECONDS = 30.0


class RescheduleFailed(Exception):
    """The rescheduler ended before the turn did."""


@dataclass(frozen=True)
class Result:
    """What one turn, or the mean of several, measured, in simulated time."""

    hot_node_minutes: float
    moved: float  # pods that left, however they were made to
    evicted: float
    moved_again: float  # places that more than one pod left
    lost_pod_seconds: float


Note = Callable[[str], None]


def take_turn(
    turn: Turn, cluster: MoveCluster, workload: Workload, namespace: str, minutes: float, note: Note
) -> Result:
    """Run the turn and clean up; `note` is told about its progress."""
    rig = cluster.rig
    with ExitStack() as opened:
        prometheus = opened.enter_context(cluster.prometheus())
        places = cluster.create(workload, namespace)
        opened.callback(cluster.delete, workload, namespace)
        replay = Replay(cluster, workload, namespace, places)
        opened.callback(replay.end)
        scheduler = rig.start_kube_scheduler()
        opened.callback(scheduler.kill)
        note(f"{len(places)} pods are ready, and {WARM_UP_MINUTES} minutes of metrics are collected")
        replay.run(-WARM_UP_MINUTES * MINUTE, 0)
        process = turn.start(cluster, prometheus, f"{namespace}-{turn.key}") if turn.start else None
        if process is not None:
            opened.callback(_stop, process)
        replay.run(0, minutes * MINUTE, lambda measures: _report(measures, process, note))
        return _result(replay, time.time())


def _result(replay: Replay, ended: float) -> Result:
    measures = replay.measures
    return Result(
        hot_node_minutes=measures.hot_node_seconds / MINUTE,
        moved=measures.moved.total(),
        evicted=replay.evictions(ended),
        moved_again=sum(count > 1 for count in measures.moved.values()),
        lost_pod_seconds=measures.lost_pod_seconds,
    )


def _report(measures: Measures, process: Process | None, note: Note) -> None:
    """A line of progress; a rescheduler that has ended ends the turn."""
    if process is not None and not process.running():
        raise RescheduleFailed(f"{process.log.name}: ended with {process.exit_code()}:\n{process.log_tail()}")
    note(
        f"minute {measures.minute:.0f}: {measures.hot_now} nodes hot, {measures.hot_node_seconds / MINUTE:.0f} "
        f"hot node-minutes, {measures.moved.total()} pods moved"
    )


def _stop(process: Process) -> None:
    if process.running():
        process.terminate(STOP_SECONDS)
