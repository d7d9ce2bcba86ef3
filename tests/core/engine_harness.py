"""A small stage for tests of the engine: makes pods and nodes, drives one engine, keeps what it asked for; judges nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE
from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.framework.profile import Profile, TieBreak, multipoint
from trimtab.core.model.events import Event, LeaseAcquired, NodeUpserted, PodUpserted, Synced, Tick, Turn
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.node import Node
from trimtab.core.model.plan import Plan
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, PODS, PodRequests
from trimtab.core.model.schedule_result import Decision
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState
from trimtab.core.settings import Settings

OURS = "trimtab"
MANY_PODS = 110
Wish = TypeVar("Wish", bound=Instruction)


def pod(name: str, cpu: int = 0, memory: int = 0, **fields: Any) -> Pod:
    """A pod of ours; cpu in thousandths, memory in bytes."""
    amounts = ((CPU, cpu), (MEMORY, memory))
    demand = PodRequests(amounts, nonzero=amounts, assigned_nonzero_cpu=cpu, assigned_nonzero_memory=memory)
    given = {"uid": f"uid-{name}", "namespace": "default", "name": name, "scheduler_name": OURS, "requests": demand}
    return Pod(**{**given, **fields})


def node(name: str, cpu: int = 4000, memory: int = 1 << 34, pods: int = MANY_PODS, **fields: Any) -> Node:
    room = ((CPU, cpu), (MEMORY, memory), (PODS, pods))
    return Node(**{"name": name, "uid": f"uid-{name}", "allocatable": room, **fields})


def profile(*extra: Any, tie_break: TieBreak = TieBreak.NAME, without: tuple[str, ...] = ()) -> Profile:
    """The default plugins that are built, and then these."""
    names = [each for each in DEFAULT_PLUGINS if each in IN_TREE and each not in without]
    built = [(IN_TREE[each](), DEFAULT_PLUGINS[each] or 1) for each in names]
    return multipoint(OURS, [*built, *((each, 1) for each in extra)], tie_break)


WEB = pod("web", cpu=1000)
BIND = Bind("uid-web", "default", "web", "a")


def of_kind(kind: type[Wish], instructions: Iterable[Instruction]) -> list[Wish]:
    return [wish for wish in instructions if isinstance(wish, kind)]


def instructions(outputs: Iterable[Output]) -> list[Instruction]:
    """What is to be done; decisions are left out."""
    return [output for output in outputs if not isinstance(output, Decision | Plan)]


class EngineHarness:
    """One engine, already synced and leading (or only of further kinds synced), with a clock that moves when asked."""

    def __init__(
        self,
        *plugins: Any,
        ready: bool = True,
        recorder: MetricsRecorder | None = None,
        without: tuple[str, ...] = (),
        **settings: Any,
    ) -> None:
        self.engine = Engine(Settings((profile(*plugins, without=without),), **settings), recorder)
        self.at = 0.0
        self.version = 100
        kinds = self.engine.state.settings.kinds
        self.handle(*(Synced(kind, 0.0) for kind in (kinds if ready else kinds[2:])))
        if ready:
            self.handle(LeaseAcquired(1, 0.0))

    def handle(self, *events: Event) -> list[Instruction]:
        return [wish for event in events for wish in instructions(self.engine.handle(event))]

    def upsert(self, *objects: Pod | Node) -> list[Instruction]:
        """The watch shows these, each as a newer version than anything before."""
        wishes: list[Instruction] = []
        for each in objects:
            self.version += 1
            newer = replace(each, version=self.version)
            wishes += self.handle(
                PodUpserted(newer, self.at) if isinstance(newer, Pod) else NodeUpserted(newer, self.at)
            )
        return wishes

    def bound(self, pod: Pod, node: str, **fields: Any) -> list[Instruction]:
        """The watch shows the pod on a node."""
        return self.upsert(replace(pod, node=node, **fields))

    def turn(self, decisions: int = 10) -> list[Instruction]:
        return self.handle(Turn(decisions, self.at))

    def advance(self, seconds: float) -> list[Instruction]:
        """Time passes, and the engine hears of it."""
        self.at += seconds
        return self.handle(Tick(self.at))

    def binds(self, decisions: int = 10) -> dict[str, str]:
        """What one turn binds, pod by name to node."""
        return {bind.name: bind.node for bind in of_kind(Bind, self.turn(decisions))}

    def queue_state(self, pod: Pod) -> QueueState | None:
        waiting = self.engine.controller(Scheduling).queue.pods.get(pod.uid)
        return waiting.state if waiting is not None else None

    def requested(self, node: str) -> int:
        """Thousandths of CPU that count against the node."""
        columns = self.engine.cluster.node_table
        return columns.requested[CPU].exact.get(columns.row[node], 0) if CPU in columns.requested else 0


def with_pending_pod(*plugins: Any, **settings: Any) -> EngineHarness:
    """`web` has been decided on, with one node `a` to go to."""
    scene = EngineHarness(*plugins, **settings)
    scene.upsert(node("a"), WEB)
    return scene
