"""Keeps the room of moves under way: for a plan their replacements run already where they are meant to.

Until a replacement has a node, nothing of it is on the target: neither its requests nor what it will use. Another plan would
fill the same room again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.pod import Pod, replacement_of
from trimtab.core.model.steps import Steps, finish
from trimtab.core.rescheduling.guards.context import UnderWay


def with_replacements(cluster: Cluster, under_way: Mapping[str, UnderWay]) -> Cluster:
    """A fork with the replacements on their targets, and without the load of the pods that leave; the cluster itself if
    there is nothing to reserve."""
    return finish(with_replacements_in_steps(cluster, under_way))


def with_replacements_in_steps(cluster: Cluster, under_way: Mapping[str, UnderWay]) -> Steps[Cluster]:
    """The same in several steps, of a cluster that does not change in between."""
    waiting = {uid: each for uid, each in under_way.items() if _waits(cluster, each)}
    if not waiting:
        return cluster
    fork = yield from cluster.fork_in_steps()
    yield
    yield from fork.load_store.unshare_pods()
    for uid, each in waiting.items():
        replacement = _replacement(fork, each)
        fork.nominated.pop(replacement.uid, None)  # else its room would be kept twice
        fork.assume(replacement, each.target)
        _hand_over(fork, uid, replacement)
    return fork


def _waits(cluster: Cluster, move: UnderWay) -> bool:
    """A replacement that has a node counts there; one that is meant for a node that is gone counts nowhere."""
    return move.pod is not None and move.target in cluster.node_table.row and move.replacement not in cluster.placements


def _replacement(fork: Cluster, move: UnderWay) -> Pod:
    """As it was created, or else like the pod that leaves."""
    created = fork.pods.get(move.replacement)
    if created is not None:
        return created
    assert move.pod is not None
    return replacement_of(move.pod)


def _hand_over(fork: Cluster, uid: str, replacement: Pod) -> None:
    """What the pod that leaves has used, the replacement will use, and not both of them; once it is gone, its snapshots
    stand in by themselves."""
    leaving = fork.pods.get(uid)
    if leaving is None or uid not in fork.placements:
        return
    slots = fork.pod_table.slot
    for snapshots in fork.load_store.snapshots.values():
        snapshots.copy_pod(slots[uid], slots[replacement.uid])
    fork.upsert_pod(replace(leaving, terminating=True))
