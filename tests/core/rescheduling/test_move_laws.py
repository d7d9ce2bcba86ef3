"""Laws of moves under any order of events: two processes share a ledger, answers are lost, late or repeated, and leaders die.

A small API server keeps pods, workloads and the ledger. Instructions reach it late, in any order, also those of a process
that has died since; what a process sees of the pods is late, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.rescheduling.measured_pods import NOW
from tests.core.rescheduling.move_stage import SHOWN, MoveStage, Store, charged_record, workload_pod
from trimtab.core.controllers import Output
from trimtab.core.model.events import EvictDone, EvictFailed, LedgerFailed, SurgeDone, SurgeFailed
from trimtab.core.model.instructions import EndSurge, Evict, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import MoveState
from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.move_budgets import SEND_WITHIN, Budget, Scope

BUDGETS = {Scope.CLUSTER: Budget(3, 400.0), Scope.WORKLOAD: Budget(2, 900.0)}
COOLDOWN = 200.0
OWNERS = 4
FIELDS = {"budgets": BUDGETS, "cooldown": COOLDOWN, "allow_last_replica": True, "max_in_progress": 5}
Sent = Evict | StartSurge | EndSurge | ReadLedger | WriteLedger


@dataclass
class InFlight:
    """An instruction on its way, or its answer."""

    process: int
    wish: Sent


@dataclass
class Api:
    """Pods by UID, surges by owner, and what moved when."""

    at: float = NOW
    pods: dict[str, Pod] = field(default_factory=dict)
    surges: dict[str, str] = field(default_factory=dict)
    moved: list[tuple[float, str]] = field(default_factory=list)  # time and owner
    created: int = 0

    def owned(self, owner: str) -> list[Pod]:
        return [each for each in self.pods.values() if each.owner and each.owner.name == owner and not each.terminating]

    def reconcile(self, owner: str) -> None:
        """As a ReplicaSet does: one pod, or two while it surges."""
        wanted, found = 1 + (owner in self.surges), self.owned(owner)
        if len(found) < wanted:
            self.created += 1
            new = workload_pod(f"{owner}-{self.created}", "", created=self.at)
            self.pods[new.uid] = replace(new, ready=False, phase="Pending")
        elif len(found) > wanted:
            gone = min(found, key=lambda pod: (pod.ready, -pod.created))
            self.pods[gone.uid] = replace(gone, terminating=True)

    def start_all(self, ready: bool) -> None:
        """Kubelets: what terminates is gone, and what waits gets a node."""
        self.pods = {uid: pod for uid, pod in self.pods.items() if not pod.terminating}
        for uid, pod in self.pods.items():
            if not pod.ready:
                self.pods[uid] = replace(pod, node="cold", phase="Running", ready=ready)

    def perform(self, wish: Evict | StartSurge | EndSurge) -> EvictDone | EvictFailed | SurgeDone | SurgeFailed:
        pod = self.pods.get(wish.uid)
        if isinstance(wish, EndSurge):
            if self.surges.get(wish.workload) == wish.uid:
                del self.surges[wish.workload]
                for each in self.owned(wish.workload):
                    if each.name == wish.leaves:
                        self.pods[each.uid] = replace(each, terminating=True)
            return SurgeDone(wish.uid, self.at, ended=True)
        assert wish.until is not None
        late = self.at > wish.until
        if isinstance(wish, Evict):
            if late:
                return EvictFailed(wish.uid, "late", self.at, sent=False)
            if pod is not None and not pod.terminating:
                assert pod.owner is not None
                self.moved.append((self.at, pod.owner.name))
                self.pods[pod.uid] = replace(pod, terminating=True)
            return EvictDone(wish.uid, self.at)
        if late or wish.workload in self.surges or wish.workload.endswith("3"):
            return SurgeFailed(wish.uid, "no", self.at, impossible=not late and wish.workload.endswith("3"))
        self.surges[wish.workload] = wish.uid
        self.moved.append((self.at, wish.workload))
        return SurgeDone(wish.uid, self.at)


class Cluster:
    """The API server, the ledger, two processes at most, and what is under way between them."""

    def __init__(self) -> None:
        shown = charged_record(SHOWN, NOW, MoveState.CANCELLED, node="cold")  # so several moves may be in progress
        self.api, self.store = Api(), Store(shown)
        for number in range(OWNERS):
            pod = workload_pod(f"app{number}-x")
            self.api.pods[pod.uid] = pod
        self.term = 0
        self.processes: list[MoveStage] = []
        self.flying: list[InFlight] = []
        self.start(0)

    def start(self, process: int) -> None:
        """A new leader in place of this process, which dies; the others think that they lead, too."""
        self.term += 1
        new = MoveStage(
            *self.api.pods.values(), store=self.store, term=self.term, now=self.api.at, lead=False, **FIELDS
        )
        self.processes[process : process + 1] = [new]
        for each in self.flying:  # their answers reach nobody
            each.process = -1 if each.process == process else each.process
        self.do(process, new.execution.lead(self.term))

    def do(self, process: int, outputs: object) -> None:
        assert isinstance(outputs, list | tuple)
        for each in outputs:
            self.check(each)
            if isinstance(each, Sent):
                self.flying.append(InFlight(process, each))

    def check(self, wish: Output) -> None:
        """Law: nothing is sent that is not charged in the ledger."""
        if isinstance(wish, Evict | StartSurge):
            assert any(each.uid == wish.uid and each.counts for each in self.store.ledger.records), wish

    def arrive(self, index: int, fate: str) -> None:
        """The instruction reaches the API server; its answer is delivered, lost, or given twice."""
        if not self.flying:
            return
        sent = self.flying.pop(index % len(self.flying))
        stage = self.processes[sent.process] if 0 <= sent.process < len(self.processes) else None
        if isinstance(sent.wish, ReadLedger | WriteLedger):
            if stage is not None:
                self.answer_ledger(sent.process, stage, sent.wish, fate)
            elif isinstance(sent.wish, WriteLedger):
                self.store.write(sent.wish, self.api.at)
            return
        answer = self.api.perform(sent.wish)
        if stage is None:
            return
        if fate == "lost":
            failed = EvictFailed if isinstance(sent.wish, Evict) else SurgeFailed
            answer = failed(sent.wish.uid, "no answer", self.api.at, unknown=True)
        for _ in range(2 if fate == "twice" else 1):
            self.tell(sent.process, stage, answer)

    def answer_ledger(self, process: int, stage: MoveStage, wish: ReadLedger | WriteLedger, fate: str) -> None:
        execution, at = stage.execution, self.api.at
        if isinstance(wish, ReadLedger):
            self.do(process, execution.ledger_read(self.store.read(at)))
            return
        answer = self.store.write(wish, at)
        if fate == "lost" or isinstance(answer, LedgerFailed):
            self.do(process, execution.ledger_failed(LedgerFailed("no answer", at)))
        else:
            self.do(process, execution.ledger_written(answer))

    def tell(self, process: int, stage: MoveStage, answer: EvictDone | EvictFailed | SurgeDone | SurgeFailed) -> None:
        execution = stage.execution
        match answer:
            case EvictDone():
                self.do(process, execution.evict_done(answer))
            case EvictFailed():
                self.do(process, execution.evict_failed(answer))
            case SurgeDone():
                self.do(process, execution.surge_done(answer))
            case SurgeFailed():
                self.do(process, execution.surge_failed(answer))

    def watch(self, process: int) -> None:
        """The process sees all pods as they are."""
        stage = self.processes[process % len(self.processes)]
        process, cluster = process % len(self.processes), stage.state.cluster
        for uid in [uid for uid in cluster.pods if uid not in self.api.pods]:
            cluster.delete_pod(uid)
            self.do(process, stage.execution.pod_deleted(uid, self.api.at))
        for uid, pod in self.api.pods.items():
            before = cluster.pods.get(uid)
            stage.version += 1
            newer = replace(pod, version=stage.version)
            if before is None or replace(before, version=0, nominated_node="") != replace(
                newer, version=0, nominated_node=""
            ):
                cluster.upsert_pod(newer)
                self.do(process, stage.execution.pod_upserted(before, newer, self.api.at))

    def advance(self, seconds: float) -> None:
        self.api.at += seconds
        for process, stage in enumerate(self.processes):
            stage.at = self.api.at
            self.do(process, stage.execution.tick(self.api.at))

    def plan(self, process: int, which: int) -> None:
        """All pods of `hot` are to move, from a different one on each time."""
        process %= len(self.processes)
        stage = self.processes[process]
        names = sorted(pod.name for pod in stage.state.cluster.pods.values() if pod.ready and not pod.terminating)
        which %= max(len(names), 1)
        for name in (names[which:] + names[:which])[:3]:
            source = stage.pod(name).node
            stage.plan(name, target="hot" if source != "hot" else "cold")
        self.do(process, [*stage.asked, *stage.sent])
        stage.asked, stage.sent = [], []

    # --- laws

    def check_budgets(self) -> None:
        """In no window more moves than its budget; no owner twice within its cool-down."""
        moved = sorted(self.api.moved)
        for index, (at, owner) in enumerate(moved):
            later = [(time - at, other == owner) for time, other in moved[index:]]
            cluster, workload = BUDGETS[Scope.CLUSTER], BUDGETS[Scope.WORKLOAD]
            assert sum(after < cluster.within for after, _ in later) <= cluster.moves, moved
            assert sum(after < workload.within for after, same in later if same) <= workload.moves, moved
            assert not any(after < COOLDOWN - SEND_WITHIN for after, same in later[1:] if same), moved

    def check_surges(self) -> None:
        """A surge is recorded as under way until it was ended."""
        recorded = {each.uid for each in self.store.ledger.records if each.under_way}
        pending = {each.wish.uid for each in self.flying if isinstance(each.wish, EndSurge)}
        assert set(self.api.surges.values()) <= recorded | pending

    def round(self, number: int) -> None:
        """A plan is carried out without a fault."""
        self.plan(number, number)
        for _ in range(3):
            self.undisturbed()

    def race(self, number: int) -> None:
        """All processes plan the same at nearly the same time."""
        for process in range(len(self.processes)):
            self.api.at += 0.01
            self.processes[process].at = self.api.at
            self.plan(process, number)
        self.undisturbed()

    def undisturbed(self) -> None:
        """All that is under way arrives, owners and kubelets do their part, and everybody sees it."""
        for _ in range(200):
            self.arrive(0, "")
        for owner in range(OWNERS):
            self.api.reconcile(f"app{owner}")
        self.api.start_all(ready=True)
        for process in range(len(self.processes)):
            self.watch(process)
        self.advance(3.0)

    def settle(self) -> None:
        """Nothing more is lost, and a new leader comes: in the end no workload has a further replica."""
        self.start(0)
        for _ in range(60):
            self.undisturbed()
            self.advance(12.0)
        assert {} == self.api.surges
        assert not [each for each in self.store.ledger.records if each.under_way]


NUMBER = st.integers(0, 7)
STEPS = st.one_of(
    st.tuples(st.just("plan"), NUMBER),
    st.tuples(st.just("arrive"), NUMBER, st.sampled_from(["", "", "", "lost", "twice"])),
    st.tuples(st.just("arrive all")),
    st.tuples(st.just("watch"), NUMBER),
    st.tuples(st.just("owners")),
    st.tuples(st.just("kubelets"), st.booleans()),
    st.tuples(st.just("round"), NUMBER),
    st.tuples(st.just("race"), NUMBER),
    st.tuples(st.just("advance"), st.sampled_from([1.0, 5.0, 16.0, 61.0, 150.0, 301.0])),
    st.tuples(st.just("start"), st.integers(0, 1)),
)


def take(cluster: Cluster, step: tuple[object, ...]) -> None:
    match step:
        case ("plan", int(number)):
            cluster.plan(number, number)
        case ("arrive", int(number), str(fate)):
            cluster.arrive(number, fate)
        case ("arrive all",):
            for _ in range(12):
                cluster.arrive(0, "")
        case ("watch", int(number)):
            cluster.watch(number)
        case ("owners",):
            for owner in range(OWNERS):
                cluster.api.reconcile(f"app{owner}")
        case ("kubelets", bool(ready)):
            cluster.api.start_all(ready)
        case ("race", int(number)):
            cluster.race(number)
        case ("round", int(number)):
            cluster.round(number)
        case ("advance", float(seconds)):
            cluster.advance(seconds)
        case ("start", int(process)):
            cluster.start(min(process, len(cluster.processes)))


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=10, max_size=50))
def test_laws_of_moves(steps: list[tuple[object, ...]]) -> None:
    """In any order: no window exceeds its budget, nothing is sent uncharged, and every surge is ended or recorded."""
    cluster = Cluster()
    for _ in range(3):
        take(cluster, ("arrive all",))
    for step in steps:
        take(cluster, step)
        cluster.check_surges()
    cluster.check_budgets()
    cluster.settle()
    cluster.check_budgets()
