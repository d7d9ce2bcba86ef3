"""The rescheduler of `trimtab apply`: what it is configured to do, what becomes of each move, and how it is interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec.structs import replace as struct_replace

from tests.config.config_files import FILE, TRIMTAB_HEAD
from tests.core.rescheduling.measured_pods import large, readings, running
from trimtab.apps.apply.plan_file import CannotApply
from trimtab.apps.apply.process import IDLE_TIMEOUT, INTERRUPTED, ApplyProcess, Listener, Verdict, apply_configuration
from trimtab.apps.apply.text import progress_line, result_lines
from trimtab.config.configuration import Configuration
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.core.model.events import (
    EvictDone,
    EvictFailed,
    LeaseAcquired,
    LedgerRead,
    LedgerWritten,
    NodeUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    Synced,
    Tick,
)
from trimtab.core.model.ledger import Ledger, MoveRecord, MoveState
from trimtab.core.model.plan import Move, Plan
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.settings import Method, Mode, ReschedulingSettings
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig

pytestmark = pytest.mark.looptime
CREDENTIALS = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")
WEB = Move("uid-web", "default/web", "a", "b", "ResourceOptimization", "cpu at 90%, above 80%", 80.0, 32.0)
DB = Move("uid-db", "default/db", "a", "b", "ResourceOptimization", "cpu at 90%, above 80%", 80.0, 32.0)


def configured(**fields: object) -> Configuration:
    own = ReschedulingSettings(**{"method": Method.EVICTION, "allow_last_replica": True, **fields})  # type: ignore[arg-type]
    found = default_configuration()
    return replace(found, settings=replace(found.settings, rescheduling=own))


def test_what_it_is_configured_to_do() -> None:
    """It suggests nothing itself, nobody elects it, and the other settings hold; metrics-server is the default source."""
    found = apply_configuration(configured(max_in_progress=3), {}, "")
    own = found.settings.rescheduling
    assert own is not None and (Mode.APPROVE, (), 3) == (own.mode, own.strategies, own.max_in_progress)
    assert (False, "trimtab") == (found.leader_election.enabled, found.leader_election.namespace)
    assert ((), {"trimtab", "default-scheduler"}) == (
        found.settings.profiles,
        {each.name for each in found.settings.other_profiles},
    )
    assert ["metrics-server"] == [each.name for each in found.trimtab.sources]
    assert "ops" == apply_configuration(default_configuration(), {}, "ops").leader_election.namespace


def test_the_namespace_of_the_file() -> None:
    """The ledger is where the leases are."""
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    file = parse(f"{text}leaderElection: {{resourceNamespace: ops}}\n---\n{TRIMTAB_HEAD}rescheduling: {{}}\n", FILE)
    assert "ops" == apply_configuration(file, {}, "").leader_election.namespace


class Applying(ApplyProcess):
    """One whose sources and API server are the test."""

    def __init__(self, *moves: Move, max_age: float = 600.0) -> None:
        self.heard: list[str] = []
        listener = Listener(
            lambda record: self.heard.append(f"{record.pod} {record.state.value}"),
            lambda move, reason: self.heard.append(f"{move.pod} skipped: {reason}"),
            self.heard.append,
        )
        plan = Plan(0.0, moves)
        super().__init__(apply_configuration(configured(), {}, ""), CREDENTIALS, plan, max_age, listener)
        self._plan = struct_replace(plan, at=self.clock.wall())
        self.version = 0

    def start(self) -> None:
        now, put = self.clock(), self.runtime.put
        for kind in self.engine.state.settings.kinds:
            put(Synced(kind, now))
        for node in (large("a"), large("b")):
            put(NodeUpserted(node, now))
        for name in ("web", "db", "rest"):
            pod = struct_replace(running(name, "a", name), scheduler_name="trimtab", phase="Running")
            put(PodUpserted(pod, now))
        usage: Mapping[str, float] = {"web": 3000.0, "db": 3000.0, "rest": 3000.0}
        cluster = self.engine.cluster
        put(SamplesRead((*readings(cluster, CPU, usage, now), *readings(cluster, MEMORY, {}, now)), now))
        put(LeaseAcquired(self._term, now))
        put(Tick(now))
        put(LedgerRead(Ledger(), now, "0"))
        self.written()

    def written(self) -> None:
        self.version += 1
        self.runtime.put(LedgerWritten(str(self.version), self.clock()))

    def step(self) -> None:
        """One round of its loop."""
        self._submit()
        self._collect()
        if reason := self._why_give_up():
            self._give_up(reason)


async def started(*moves: Move, max_age: float = 600.0) -> Applying:
    process = Applying(*moves, max_age=max_age)
    process.start()
    process._changed_at = process.clock()
    return process


async def test_a_move_that_is_done_and_one_that_is_not_there() -> None:
    """Each state is told as it comes; the pod that is gone is skipped with the reason."""
    process = await started(WEB, struct_replace(DB, uid="uid-gone"))
    process.step()
    process.written()
    now = process.clock()
    process.runtime.put(EvictDone("uid-web", now))
    process.runtime.put(PodDeleted("uid-web", now))
    fresh = struct_replace(running("new", "", "web", created=now), node="", ready=False)
    process.runtime.put(PodUpserted(fresh, now))
    process.runtime.put(PodUpserted(struct_replace(fresh, node="b", ready=True, version=2), now))
    process.step()
    assert ["db", "web", "web", "web", "web"] == sorted(each.split()[0].rpartition("/")[2] for each in process.heard)
    assert "default/db skipped: there is no pod with its UID any more" in process.heard
    verdicts = {uid: each.verdict for uid, each in process.results.items()}
    assert {"uid-web": Verdict.DONE, "uid-gone": Verdict.SKIPPED} == verdicts
    assert [] == process._unsettled()


async def test_a_refused_move_has_failed() -> None:
    """The API server's words are the reason."""
    process = await started(WEB)
    process.step()
    process.written()
    process.runtime.put(EvictFailed("uid-web", "no", process.clock()))
    process.step()
    assert (Verdict.FAILED, "no") == process.results["uid-web"][1:3]


async def test_an_interruption_starts_nothing_further() -> None:
    """What is under way is waited for, until a second interruption; then it is said what is left to do."""
    process = await started(WEB, DB)
    process._dispatch([WEB])
    process.interrupt()
    process.step()
    assert (INTERRUPTED, ["uid-web"]) == (process.results["uid-db"].reason, [each.uid for each in process._unsettled()])
    assert not process._aborted.is_set()
    process.interrupt()
    assert process._aborted.is_set()
    left = process._left(WEB)
    assert (Verdict.LEFT, "charged") == left[1:3]
    lines = ["".join(text for text, _ in line) for line in result_lines([*process.results.values(), left])]
    assert "Applied: 0 done, 1 skipped, 0 failed, 1 still under way." in lines
    assert "  default/web: see whether its replacement becomes ready: `kubectl -n default get pods`" == lines[-1]


@pytest.mark.parametrize(
    ("max_age", "idle", "reason"),
    [
        (600.0, IDLE_TIMEOUT + 1.0, "it could not be started within 2m: stopped: the ledger is somebody's"),
        (-1.0, 0.0, "the plan is older than "),
    ],
)
async def test_moves_that_cannot_be_started_are_given_up(max_age: float, idle: float, reason: str) -> None:
    """After two minutes without progress, or once the plan is too old."""
    process = await started(WEB, max_age=max_age)
    process._execution._keeper.problem = "the ledger is somebody's"
    process._changed_at -= idle
    process.step()
    assert process.results["uid-web"].reason.startswith(reason)
    assert not process._execution._queue


async def test_what_it_waits_for_at_the_start() -> None:
    """Lists first, then the ledger, the metrics and their history."""
    process = Applying(WEB)
    assert "nodes" in process._why_not_ready() and process._why_not_ready().endswith("are listed")
    process.start()
    assert "the metric sources are asked for the last day" == process._why_not_ready()
    process._execution._keeper.problem = "the ledger of moves cannot be read"
    assert "the ledger of moves cannot be read" == process._why_not_ready()


async def test_it_does_not_wait_for_ever() -> None:
    """An interruption ends it before anything is sent."""
    process = Applying(WEB)
    process.interrupt()
    with pytest.raises(CannotApply, match="interrupted before any move was started"):
        await process._wait_until_ready()


@pytest.mark.parametrize("state", MoveState)
def test_every_state_has_words(state: MoveState) -> None:
    """And a surge that is left behind says which workload may have a replica too many."""
    slot = ("default", "u", "")
    record = MoveRecord("u", "default", "web", "Deployment web", slot, "a", "b", "HotSpot", 1.0, state, node="b")
    assert "default/web: " == progress_line(record)[0][0] and progress_line(record)[1][0]
