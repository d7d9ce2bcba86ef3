"""The contract between the engine and its controllers, and the state that they share.

    event ──▶ Engine: cluster state ──▶ on_change of every controller ──▶ outputs
    answer to a write ─────────────────▶ on_answer of the controller that takes that type
    Tick ──▶ tick          Turn(n) ──▶ turn(n), only while synced and leading

A controller holds what it needs to decide (a queue, a state machine) and never acts: what it wants done leaves as
instructions, and what it decided as `Decision` values. A new controller is a package beside `scheduling` and `labelling`
and a line in `engine.CONTROLLERS`; to run live it also has a `ControllerSpec` in `apps/process.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.change import Change
from trimtab.core.model.events import Event, PodDeleted
from trimtab.core.model.instructions import Instruction
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Decision
from trimtab.core.pending_writes import PendingWrites
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.settings import Settings

Output = Instruction | Decision | Plan


class Changed(NamedTuple):
    """What an event did; `before` and `after` are the object that it is about, None where there is none."""

    event: Event
    change: Change = Change.NOTHING
    before: Pod | Node | Object | None = None
    after: Pod | Node | Object | None = None


@dataclass(slots=True)
class EngineState:
    """What the engine owns and its controllers share."""

    settings: Settings
    recorder: MetricsRecorder
    cluster: Cluster = field(default_factory=Cluster)
    writes: PendingWrites = field(default_factory=PendingWrites)
    unsynced: set[str] = field(default_factory=set)  # needed kinds without which nothing is decided
    term: int | None = None  # of the lease, while this process holds it
    forbidden: dict[str, str] = field(default_factory=dict)  # kinds that may not be listed, and why
    listed: set[str] = field(default_factory=set)  # kinds that were listed, needed now or not

    @property
    def may_decide(self) -> bool:
        return not self.unsynced and self.term is not None

    def fork(self) -> EngineState:
        """A copy that records no metrics."""
        cluster, writes = self.cluster.fork(), self.writes.copy()
        kinds = self.unsynced.copy(), self.term, self.forbidden.copy(), self.listed.copy()
        return EngineState(self.settings, MetricsRecorder(), cluster, writes, *kinds)


class Controller(Protocol):
    """One control loop of the engine; constructed with the shared state."""

    listens_to: ClassVar[frozenset[type] | None] = None  # the events that `on_change` hears of; None stands for all
    answers: ClassVar[frozenset[type]] = frozenset()  # the answers to its own writes
    gives_way: ClassVar[bool] = (
        False  # its turns are short, and only taken if the controllers before it decided nothing
    )

    def on_change(self, changed: Changed) -> Sequence[Output]:
        """The cluster, the settings or the leadership changed; the shared state shows it already."""
        return ()

    def on_answer(self, answer: Event) -> Sequence[Output | PodDeleted]:
        """One of `answers` arrived; where it says that a pod no longer exists, that is returned for all to know."""
        return ()

    def tick(self, now: float) -> Sequence[Output]:
        """Time has passed; called on a standby, too."""
        return ()

    def has_work(self) -> bool:
        """Whether a turn would decide anything now."""
        return False

    def turn(self, budget: int, now: float) -> Sequence[Output]:
        """Make at most `budget` decisions."""
        return ()

    def fork(self, state: EngineState) -> Controller:
        """A copy on a copy of the shared state: nothing done to it is seen here."""
        ...
