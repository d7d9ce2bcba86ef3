"""The remedy ladder: what is done for a hot node beside moving its pods.

    hot node ─▶ steer new pods away ─▶ resize pods that ask for it ─▶ move pods ─▶ ask for capacity
                (a soft taint)         (in place, to what they use)   (the plan)   (an Event, if nothing could move)

Each rung has a switch, and each use of one is counted. Scores that go by load steer new pods away without any of this. What
a node carries is compared at each plan, so a patch of a node that failed is simply sent again with the next one. A resize
that failed is tried again by a plan after a back-off, which doubles with each failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from math import inf
from typing import NamedTuple

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.events import ResizeDone
from trimtab.core.model.instructions import EmitEvent, Instruction, LabelNode, ResizePod
from trimtab.core.model.node import Node
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import RESIZE, Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint, is_soft
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.settings import RemedySettings

HOT_TAINT = Taint("trimtab.dev/hot", "", PREFER_NO_SCHEDULE)
RESIZE_REQUESTS = "requests"  # the value of the annotation
MIN_GROWTH = 1.2  # a request is raised only if usage is above it by this factor
PLANS_WITHOUT_RELIEF = 3  # then capacity is missing
INITIAL_RESIZE_BACKOFF, MAX_RESIZE_BACKOFF = 300.0, 3600.0  # seconds after a resize that failed


class Rung(StrEnum):
    """A step of the ladder, as it is counted."""

    SOFT_TAINT = "softTaint"
    RESIZE = "resize"
    MOVE = "move"
    CAPACITY = "capacity"


class ResizeAttempt(NamedTuple):
    """The last resize of a pod: the back-off before it, and when another may be tried; never, unless it fails."""

    backoff: float = 0.0
    next_at: float = inf


class Remedies:
    """Remembers for how many plans each node has been hot without relief, and which pods were resized."""

    def __init__(self) -> None:
        self.without_relief: dict[str, int] = {}
        self._resizes: dict[str, ResizeAttempt] = {}  # by UID

    def copy(self) -> Remedies:
        copied = Remedies()
        copied.without_relief, copied._resizes = self.without_relief.copy(), self._resizes.copy()
        return copied

    def apply(
        self, cluster: Cluster, plan: Plan, settings: RemedySettings, recorder: MetricsRecorder
    ) -> list[Instruction]:
        """What follows from a plan that is to be carried out."""
        moves = plan.moves if settings.move else ()
        relieved = {move.source for move in moves}
        self.without_relief = {
            name: 0 if name in relieved else self.without_relief.get(name, 0) + 1 for name in plan.hot
        }
        if moves:
            recorder.remedy_used(Rung.MOVE, len(moves))
        used: list[tuple[Rung, Instruction]] = []
        if settings.soft_taint:
            used += [(Rung.SOFT_TAINT, each) for each in _taints(cluster, plan)]
        if settings.resize:
            used += [(Rung.RESIZE, each) for each in self._resize(cluster, plan)]
        if settings.capacity:
            used += [(Rung.CAPACITY, each) for each in self._requests_for_capacity(cluster, plan)]
        for rung, _ in used:
            recorder.remedy_used(rung, 1)
        return [*(output for _, output in used), *self.untaint(cluster, plan.hot if settings.soft_taint else ())]

    # --- a soft taint

    def untaint(self, cluster: Cluster, hot: Collection[str] = ()) -> list[LabelNode]:
        """Remove the soft taint from all nodes but these, whoever set it: an earlier leader, or this process."""
        return [
            LabelNode(
                node.name,
                node.uid,
                node.version,
                remove_taints=((found, HOT_TAINT.key),),
                reason="it is no longer hot, or soft taints are switched off",
            )
            for node in cluster.node_table.nodes
            if node.name not in hot and (found := _taint_index(node)) is not None
        ]

    # --- resizing in place

    def _resize(self, cluster: Cluster, plan: Plan) -> Iterator[ResizePod]:
        """Each pod once, unless that fails: then its request is what it uses."""
        self._resizes = {uid: each for uid, each in self._resizes.items() if uid in cluster.pods}
        for name in plan.hot:
            for pod in cluster.on_node.get(name, {}).values():
                last = self._resizes.get(pod.uid)
                if pod.annotations.get(RESIZE) == RESIZE_REQUESTS and (last is None or last.next_at <= plan.at):
                    wanted = _wanted_request(cluster, pod)
                    if wanted is not None:
                        self._resizes[pod.uid] = ResizeAttempt(last.backoff if last is not None else 0.0)
                        yield ResizePod(pod.uid, pod.namespace, pod.name, wanted)

    def resize_done(self, done: ResizeDone) -> Sequence[Instruction]:
        """A resize that failed may be tried again after its back-off."""
        last = self._resizes.get(done.uid)
        if done.error and last is not None:
            backoff = min(2 * last.backoff or INITIAL_RESIZE_BACKOFF, MAX_RESIZE_BACKOFF)
            self._resizes[done.uid] = ResizeAttempt(backoff, done.at + backoff)
        return ()

    # --- capacity

    def _requests_for_capacity(self, cluster: Cluster, plan: Plan) -> Iterator[EmitEvent]:
        for name, plans in self.without_relief.items():
            row = cluster.node_table.row.get(name)
            if plans == PLANS_WITHOUT_RELIEF and row is not None:
                note = (
                    f"{plan.hot[name]}, for {plans} plans in a row, and none of its pods could be moved: "
                    f"trimtab explain node/{name} says why; the cluster may need more capacity"
                )
                uid = cluster.node_table.nodes[row].uid
                yield EmitEvent(
                    uid, "default", name, "CapacityNeeded", note, warning=True, action="Rescheduling", kind="Node"
                )


def _taints(cluster: Cluster, plan: Plan) -> Iterator[LabelNode]:
    for node in cluster.node_table.nodes:
        if node.name in plan.hot and _taint_index(node) is None:
            yield LabelNode(
                node.name,
                node.uid,
                node.version,
                add_taints=(HOT_TAINT,),
                has_no_taints=not node.taints,
                reason="it is hot",
            )


def _taint_index(node: Node) -> int | None:
    """Of another effect the taint is somebody else's."""
    return next((index for index, each in enumerate(node.taints) if is_soft(each, HOT_TAINT.key)), None)


def _wanted_request(cluster: Cluster, pod: Pod) -> int | None:
    """Millicores that the pod uses of late, if that is well above its request and was measured."""
    slot, request = cluster.pod_table.slot.get(pod.uid), pod.requests.of(CPU)
    usage = cluster.load_store.accounting[CPU].pods
    if slot is None or not request or not bool(usage.pod_measured[slot]):
        return None
    used = float(usage.mean[slot])
    return int(used) if used > MIN_GROWTH * request else None
