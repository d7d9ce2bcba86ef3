"""The events of the demo: what `apps/demo.py` and `apps/demo_moves.py` tell, and the CLI shows."""

from __future__ import annotations

from msgspec import Struct

from trimtab.apps.plan.make import PlannedMoves
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.ledger import Grade, MoveRecord
from trimtab.core.model.pod import Pod
from trimtab.sim.demo.hot_node import Outcome
from trimtab.sim.demo.morning import DayOutcome
from trimtab.sim.demo.scene import Scene
from trimtab.sim.demo.snapshot import WorldSnapshot


class SceneStarted(Struct, frozen=True):
    """A scene starts; `number` counts from 1 over all scenarios."""

    number: int
    of: int
    scene: Scene


class PodDecided(Struct, frozen=True):
    """The engine decided about a pod; `node` is empty if it is unschedulable."""

    at: float
    pod: Pod
    node: str
    attempt: int
    why: str
    in_short: str


class NodeLabelled(Struct, frozen=True):
    """A label was added to a node or removed."""

    at: float
    instruction: LabelNode


class ClusterFrame(Struct, frozen=True):
    """A snapshot of the cluster; `last` is the end of a scene. `brief`: the nodes' CPU is what matters."""

    picture: WorldSnapshot
    last: bool
    brief: bool = False


class SchedulingEnded(Struct, frozen=True):
    """The end of the first part: the last decision about each pod, the cluster and the Events written, all of the day.

    measured: the outcome of the hot node. requested: its outcome with pods scheduled by requests.
    """

    rows: tuple[PodDecided, ...]
    picture: WorldSnapshot
    events: tuple[tuple[str, int], ...]
    measured: Outcome
    requested: Outcome


class PlanMade(Struct, frozen=True):
    """The first plan with moves, as `trimtab plan` would print it."""

    planned: PlannedMoves


class MoveAdvanced(Struct, frozen=True):
    """A move reached another state; of its workload's `wanted` pods so many are ready."""

    at: float
    record: MoveRecord
    ready: int
    wanted: int


class MoveGraded(Struct, frozen=True):
    """What a move was worth is measured."""

    at: float
    record: MoveRecord
    grade: Grade


class MovesEnded(Struct, frozen=True):
    """The end of the second part: the records of all moves, and the same day with and without them."""

    records: tuple[MoveRecord, ...]
    moved: DayOutcome
    unmoved: DayOutcome


DemoEvent = (
    SceneStarted
    | PodDecided
    | NodeLabelled
    | ClusterFrame
    | SchedulingEnded
    | PlanMade
    | MoveAdvanced
    | MoveGraded
    | MovesEnded
)
