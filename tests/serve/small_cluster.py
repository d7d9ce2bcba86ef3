"""A small cluster for tests of metrics: one pod for each way a scheduling attempt can end."""

from trimtab.config.registry import default_profile
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    LeaseAcquired,
    NodeUpserted,
    PodUpserted,
    Synced,
    Turn,
)
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import PodRequests
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.settings import ReschedulingSettings
from trimtab.core.settings import Settings

ALLOCATABLE = (("cpu", 4_000), ("memory", 8 << 30), ("pods", 110))
PROFILE = "default-scheduler"


class SmallCluster:
    """An engine with two nodes and a clock that the test moves."""

    def __init__(
        self, recorder: MetricsRecorder, at: float = 100.0, rescheduling: ReschedulingSettings | None = None
    ) -> None:
        """Lead a cluster of two nodes from the start."""
        self.at = at
        self.engine = Engine(Settings(profiles=(default_profile(PROFILE),), rescheduling=rescheduling), recorder)
        for name in ("one", "two"):
            self.engine.handle(NodeUpserted(Node(name, uid=name, version=1, allocatable=ALLOCATABLE), at))
        for kind in self.engine.state.settings.kinds:
            self.engine.handle(Synced(kind, at))
        self.engine.handle(LeaseAcquired(1, at))

    def pod(
        self, name: str, cpu: int = 100, gates: tuple[str, ...] = (), version: int = 1, created: float = 0.0
    ) -> None:
        """See a pod that wants so many thousandths of a core."""
        demand = PodRequests(amounts=(("cpu", cpu),), nonzero=(("cpu", cpu), ("memory", 0)))
        pod = Pod(name, "default", name, version=version, scheduling_gates=gates, requests=demand, created=created)
        self.engine.handle(PodUpserted(pod, self.at))

    def decide(self) -> list[Bind]:
        """Give one turn and return the binds that it asks for."""
        outputs = self.engine.handle(Turn(100, self.at))
        return [output for output in outputs if isinstance(output, Bind)]

    def accept(self, bind: Bind) -> None:
        """Let the API server accept it."""
        self.engine.handle(BindDone(bind.uid, bind.node, self.at))

    def fail(self, bind: Bind, fault: BindFailure) -> None:
        """Let the bind go wrong."""
        self.engine.handle(BindFailed(bind.uid, bind.node, fault, "no", self.at))


def run_every_outcome(recorder: MetricsRecorder) -> SmallCluster:
    """Pods that are bound, rejected by the API server, too big, and gated."""
    cluster = SmallCluster(recorder)
    for number in range(12):
        cluster.pod(f"bound-{number}")
    for bind in cluster.decide():
        cluster.at += 0.25
        cluster.accept(bind)
    cluster.pod("refused")
    for bind in cluster.decide():
        cluster.fail(bind, BindFailure.REFUSED)
    cluster.pod("big", cpu=100_000)
    cluster.pod("gated", gates=("example.com/later",))
    cluster.decide()
    return cluster
