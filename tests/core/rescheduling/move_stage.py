"""A stage for moves: processes that carry out plans, one ledger that they share, and the pods they see; judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW, PROFILE, large, measured, running
from trimtab.core.controllers import EngineState, Output
from trimtab.core.model.events import LedgerFailed, LedgerRead, LedgerWritten
from trimtab.core.model.instructions import ReadLedger, WriteLedger
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.pod import Pod
from trimtab.core.recorder import MetricsRecorder
from trimtab.core.rescheduling.execution import Execution
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.core.settings import Settings

DAY = 86_400.0
SHOWN = "earlier-x"
EVICTING = {"method": Method.EVICTION, "allow_last_replica": True}
Wish = TypeVar("Wish", bound=Output)


class Store:
    """The ledger in the cluster: a write needs the version of the last one."""

    def __init__(self, *records: MoveRecord, term: int = 0) -> None:
        self.ledger, self.version = Ledger(term=term, records=records), len(records)

    def read(self, at: float) -> LedgerRead:
        return LedgerRead(self.ledger, at, str(self.version) if self.version else "")

    def write(self, wish: WriteLedger, at: float) -> LedgerWritten | LedgerFailed:
        if wish.version != (str(self.version) if self.version else ""):
            return LedgerFailed("the object has been modified", at)
        self.ledger, self.version = wish.ledger, self.version + 1
        return LedgerWritten(str(self.version), at)

    @property
    def states(self) -> dict[str, str]:
        return {each.pod: str(each.state) for each in self.ledger.records if each.pod != SHOWN}


def workload_pod(name: str, on: str = "hot", **more: Any) -> Pod:
    """A ready pod of a ReplicaSet that is called as the pod without its last part."""
    return running(name, on, owner=name.rpartition("-")[0] or name, cpu="1", **more)


def settings(**fields: Any) -> Settings:
    quick: dict[str, Any] = {"min_pod_age": 0.0, "settle_time": 0.0, "cooldown": 300.0, "max_metrics_age": DAY}
    return Settings((PROFILE,), rescheduling=ReschedulingSettings(mode=Mode.AUTO, **{**quick, **fields}))


class MoveStage:
    """One process that leads; `sent` is what it asked for, without the ledger."""

    def __init__(
        self, *pods: Pod, store: Store | None = None, term: int = 1, now: float = NOW, lead: bool = True, **fields: Any
    ) -> None:
        self.store = store if store is not None else Store()
        self.at, self.version, self.term = now, 1, term
        cluster = measured(large("hot"), large("cold"), large("cool"), *pods)
        self.state = EngineState(settings(**fields), MetricsRecorder(), cluster, term=term)
        self.execution = Execution(self.state)
        self.sent: list[Output] = []
        self.asked: list[ReadLedger | WriteLedger] = []
        if lead:
            self.perform(self.execution.lead(term))
            self.answer()
            self.show_scheduler()

    def show_scheduler(self) -> None:
        """A replacement of late got a node, so several moves may be in progress; no budget or hold counts that move."""
        shown = charged_record(SHOWN, self.at, MoveState.CANCELLED, node="cold")
        self.execution.records[shown.uid] = shown

    # --- instructions

    def perform(self, outputs: Iterable[Output]) -> None:
        for each in outputs:
            if isinstance(each, ReadLedger | WriteLedger):
                self.asked.append(each)
            else:
                self.sent.append(each)

    def answer(self) -> None:
        """The store answers all reads and writes."""
        while self.asked:
            self.answer_one()

    def answer_one(self, *, lost: bool = False) -> None:
        """The next one; a write whose answer is `lost` has taken place."""
        wish = self.asked.pop(0)
        if isinstance(wish, ReadLedger):
            self.perform(self.execution.ledger_read(self.store.read(self.at)))
            return
        answer = self.store.write(wish, self.at)
        if lost:
            answer = LedgerFailed("no answer", self.at)
        known = isinstance(answer, LedgerWritten)
        self.perform(self.execution.ledger_written(answer) if known else self.execution.ledger_failed(answer))

    def take(self, kind: type[Wish]) -> list[Wish]:
        """What was sent of this kind since it was last asked for."""
        found = [each for each in self.sent if isinstance(each, kind)]
        self.sent = [each for each in self.sent if not isinstance(each, kind)]
        return found

    # --- what happens

    def plan(self, *names: str, target: str = "cold", at: float | None = None) -> None:
        """Moves of these pods are to be carried out; the ledger is not answered yet."""
        moves = tuple(self._move(name, target) for name in names)
        self.perform(self.execution.carry_out(Plan(self.at if at is None else at, moves), self.at))

    def _move(self, name: str, target: str) -> Move:
        pod = self.pod(name)
        return Move(pod.uid, pod.key, pod.node, target, "ResourceOptimization", "cpu at 95 %", 50.0, 32.0)

    def pod(self, name: str) -> Pod:
        return next(each for each in self.state.cluster.pods.values() if each.name == name)

    def charge(self, *names: str, **more: Any) -> None:
        """And the charge is written."""
        self.plan(*names, **more)
        self.answer()

    def tell(self, outputs: Sequence[Output]) -> None:
        self.perform(outputs)
        self.answer()

    def shows(self, pod: Pod) -> None:
        """The watch shows the pod."""
        self.version += 1
        before = self.state.cluster.pods.get(pod.uid)
        newer = replace(pod, version=self.version)
        self.state.cluster.upsert_pod(newer)
        self.tell(self.execution.pod_upserted(before, newer, self.at))

    def creates(self, name: str, **more: Any) -> Pod:
        """The owner creates a pod."""
        created = replace(workload_pod(name, "", **more), created=self.at, ready=False, phase="Pending")
        self.shows(created)
        return created

    def terminates(self, name: str) -> None:
        self.shows(replace(self.pod(name), terminating=True))

    def deletes(self, name: str) -> None:
        uid = self.pod(name).uid
        self.state.cluster.delete_pod(uid)
        self.tell(self.execution.pod_deleted(uid, self.at))

    def becomes_ready(self, name: str, on: str = "cold") -> None:
        self.shows(replace(self.pod(name), node=on, phase="Running", ready=True))

    def advance(self, seconds: float, step: float = 5.0) -> None:
        """Time passes tick by tick, and the ledger is answered."""
        end = self.at + seconds
        while self.at < end:
            self.at = min(self.at + step, end)
            self.tell(self.execution.tick(self.at))

    # --- what is known

    @property
    def states(self) -> dict[str, str]:
        return {each.pod: str(each.state) for each in self.execution.records.values() if each.pod != SHOWN}

    def record(self, name: str) -> MoveRecord:
        return self.execution.records[self.pod_uid(name)]

    @staticmethod
    def pod_uid(name: str) -> str:
        return workload_pod(name).uid

    def successor(self, **more: Any) -> MoveStage:
        """A new leader that sees the same cluster and ledger."""
        fields = {"term": self.term + 1, "now": self.at, **more}
        successor = MoveStage(store=self.store, lead=False, **fields)
        for pod in self.state.cluster.pods.values():
            successor.state.cluster.upsert_pod(pod)
        successor.perform(successor.execution.lead(successor.term))
        successor.answer()
        successor.show_scheduler()
        return successor


def charged_record(name: str, at: float = NOW, state: MoveState = MoveState.CHARGED, **more: Any) -> MoveRecord:
    """A record of a move from `hot` to `cold`."""
    pod = workload_pod(name)
    assert pod.owner is not None
    fields: dict[str, Any] = {
        "uid": pod.uid,
        "namespace": pod.namespace,
        "pod": name,
        "workload": f"ReplicaSet {pod.owner.name}",
        "slot": (pod.namespace, pod.owner.uid, ""),
        "source": "hot",
        "target": "cold",
        "strategy": "s",
    }
    return MoveRecord(**{**fields, "at": at, "state": state, **more})
