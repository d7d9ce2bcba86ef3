"""Decides what happens in the small cluster that metrics are tested on: one pod for each way a scheduling attempt can end."""

from trimtab.config.registry import default_profile
from trimtab.core.engine import Engine
from trimtab.core.model.event import BindDone, BindFailed, Fault, Leading, NodeSeen, PodSeen, Synced, Turn
from trimtab.core.model.instruction import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import Demand
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.settings import Settings

ROOM = (("cpu", 4_000), ("memory", 8 << 30), ("pods", 110))
PROFILE = "default-scheduler"


class SmallCluster:
    """An engine with two nodes and a clock that the test moves."""

    def __init__(self, tally: MetricsRecorder, at: float = 100.0) -> None:
        """Lead a cluster of two nodes from the start."""
        self.at = at
        self.engine = Engine(Settings(profiles=(default_profile(PROFILE),)), tally)
        for name in ("one", "two"):
            self.engine.handle(NodeSeen(Node(name, uid=name, version=1, allocatable=ROOM), at))
        for kind in self.engine.state.settings.kinds:
            self.engine.handle(Synced(kind, at))
        self.engine.handle(Leading(1, at))

    def pod(self, name: str, cpu: int = 100, gates: tuple[str, ...] = (), version: int = 1) -> None:
        """See a pod that wants so many thousandths of a core."""
        demand = Demand(amounts=(("cpu", cpu),), scored=(("cpu", cpu), ("memory", 0)))
        self.engine.handle(PodSeen(Pod(name, "default", name, version=version, gates=gates, demand=demand), self.at))

    def decide(self) -> list[Bind]:
        """Give one turn and return the binds that it asks for."""
        wishes = self.engine.handle(Turn(100, self.at))
        return [wish for wish in wishes if isinstance(wish, Bind)]

    def accept(self, bind: Bind) -> None:
        """Let the API server accept it."""
        self.engine.handle(BindDone(bind.uid, bind.node, self.at))

    def fail(self, bind: Bind, fault: Fault) -> None:
        """Let the bind go wrong."""
        self.engine.handle(BindFailed(bind.uid, bind.node, fault, "no", self.at))


def live_through_everything(tally: MetricsRecorder) -> SmallCluster:
    """Pods that are bound, refused by the API server, too big, and gated: every way there is."""
    cluster = SmallCluster(tally)
    for number in range(12):
        cluster.pod(f"bound-{number}")
    for bind in cluster.decide():
        cluster.at += 0.25
        cluster.accept(bind)
    cluster.pod("refused")
    for bind in cluster.decide():
        cluster.fail(bind, Fault.REFUSED)
    cluster.pod("big", cpu=100_000)
    cluster.pod("gated", gates=("example.com/later",))
    cluster.decide()
    return cluster
