"""From a plan to the API server: nothing is sent that is not in the ledger, exceeds a budget, or that a guard refuses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests import build
from tests.core.rescheduling.measured_pods import NOW
from tests.core.rescheduling.move_stage import EVICTING, MoveStage, Store, charged_record, workload_pod
from trimtab.core.model.events import EvictFailed, LedgerRead, LedgerWritten, SurgeFailed
from trimtab.core.model.instructions import EmitEvent, Evict, ReadLedger, StartSurge, WriteLedger
from trimtab.core.model.ledger import MoveState
from trimtab.core.rescheduling.guards import cluster_refusal
from trimtab.core.rescheduling.ledger_keeper import TAKEOVER_WAIT
from trimtab.core.rescheduling.move_budgets import SEND_WITHIN, Budget, Scope
from trimtab.core.rescheduling.settings import Method

PODS = tuple(workload_pod(f"app{number}-x") for number in range(4))


def stage(**fields: object) -> MoveStage:
    return MoveStage(*PODS, **{**EVICTING, **fields})


def test_a_charge_is_written_before_anything_is_sent() -> None:
    """The eviction leaves with the answer to the write, and may be sent for a short time only."""
    scene = stage()
    scene.plan("app0-x")
    assert ([], {"app0-x": "charged"}) == (scene.sent, scene.states)
    scene.answer()
    assert {"app0-x": "charged"} == scene.store.states
    assert [Evict("uid-app0-x", "default", "app0-x", "cpu at 95 %", until=NOW + SEND_WITHIN)] == scene.take(Evict)
    assert ["Rescheduled"] == [each.reason for each in scene.take(EmitEvent)]


@pytest.mark.parametrize("committed", [False, True])
def test_without_an_answer_nothing_is_sent(committed: bool) -> None:
    """Whether the write took place or somebody else wrote: what was charged is cancelled, and the plan is dropped."""
    scene = stage()
    scene.plan("app0-x", "app1-x")
    if not committed:
        scene.store.version += 1
    scene.answer_one(lost=committed)
    assert {"app0-x": "cancelled", "app1-x": "cancelled"} == scene.states
    scene.advance(10)
    assert ([], {"app0-x": "cancelled", "app1-x": "cancelled"}) == (scene.take(Evict), scene.store.states)
    scene.charge("app0-x")
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]


def test_a_charge_that_took_too_long_is_not_sent() -> None:
    """Else more evictions than its budget could fall into a window."""
    scene = stage()
    scene.plan("app0-x")
    scene.at += SEND_WITHIN + 1
    scene.answer()
    assert ([], "the ledger took too long") == (scene.take(Evict), scene.record("app0-x").message)


def test_a_plan_that_is_too_old_is_dropped() -> None:
    """It may have waited for the ledger, or the process was stopped."""
    scene = stage()
    scene.charge("app0-x", at=NOW - 121)
    assert ([], {}) == (scene.take(Evict), scene.states)


def test_a_pause_between_charge_and_send_cancels() -> None:
    """And it ends nothing for the owner: the pod may be moved once the pause is over."""
    scene = stage()
    scene.plan("app0-x")
    scene.execution.pause = "incident"
    scene.answer()
    assert ([], "moves are paused: incident") == (scene.take(Evict), scene.record("app0-x").message)
    scene.execution.pause = ""
    scene.charge("app0-x")
    assert 1 == len(scene.take(Evict))


def test_a_request_that_was_not_sent_is_cancelled() -> None:
    """Paused at the last moment, or the lease was lost: the owner is not held for it; a webhook's refusal holds it."""
    scene = stage()
    scene.charge("app0-x", "app1-x")
    scene.tell(scene.execution.evict_failed(EvictFailed("uid-app0-x", "paused", scene.at, sent=False)))
    scene.tell(scene.execution.evict_failed(EvictFailed("uid-app1-x", "denied", scene.at)))
    assert {"app0-x": "cancelled", "app1-x": "refused"} == scene.states
    held = scene.execution.guard_context(scene.at).holds
    assert {("default", "uid-app1", ""): NOW + 600.0} == held


def test_the_target_was_taken_since_the_plan() -> None:
    """It is asked again whether the pod fits, with the moves before it."""
    scene = stage()
    scene.shows(build.pod("filler", on="cold", cpu="8500m"))
    scene.charge("app0-x", "app1-x")
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]


def test_room_of_moves_under_way_is_kept() -> None:
    """The replacement of the first has no node yet."""
    scene = stage()
    scene.charge("app0-x")
    scene.terminates("app0-x")
    scene.shows(build.pod("filler", on="cold", cpu="8500m"))
    scene.charge("app1-x")
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]


def test_so_many_moves_may_wait() -> None:
    """The next is charged when a replacement has its node, or a move has ended."""
    scene = stage(max_in_progress=1)
    scene.charge("app0-x", "app1-x", "app2-x")
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]
    scene.tell(scene.execution.evict_failed(EvictFailed("uid-app0-x", "spent", scene.at, by_budget=True)))
    assert ["app1-x"] == [each.name for each in scene.take(Evict)]
    scene.terminates("app1-x")
    scene.creates("app1-y")
    scene.becomes_ready("app1-y")
    assert ["app2-x"] == [each.name for each in scene.take(Evict)]


def test_only_one_until_a_scheduler_has_shown_itself() -> None:
    """If it is down, one pod has left and no more."""
    scene = stage()
    scene.execution.records.clear()
    scene.charge("app0-x", "app1-x")
    scene.terminates("app0-x")
    scene.creates("app0-y")
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]
    scene.becomes_ready("app0-y")
    assert ["app1-x"] == [each.name for each in scene.take(Evict)]


@pytest.mark.parametrize("scope", list(Scope))
def test_a_budget_is_not_exceeded(scope: Scope) -> None:
    """Over a restart as well; once the window has passed, there is room again."""
    names = ("web-a", "web-b") if scope is Scope.WORKLOAD else ("app0-x", "app1-x")
    pods = tuple(workload_pod(name) for name in names)
    node = build.node("hot", cpu="10", memory="10Gi", labels={"topology.kubernetes.io/zone": "z"})
    fields = {**EVICTING, "budgets": {scope: Budget(1, 900.0)}, "cooldown": 10.0}
    scene = MoveStage(*pods, **fields)
    scene.state.cluster.upsert_node(node)
    scene.charge(*names)
    first = scene.take(Evict)
    assert 1 == len(first)
    scene.tell(scene.execution.evict_failed(EvictFailed(first[0].uid, "?", scene.at, unknown=True)))
    scene.advance(800, step=30.0)
    successor = scene.successor(**fields)
    successor.state.cluster.upsert_node(node)
    successor.advance(TAKEOVER_WAIT + 1)
    successor.charge(*names)
    assert [] == successor.take(Evict)
    successor.advance(105 + SEND_WITHIN)
    successor.charge(*names)
    assert 1 == len(successor.take(Evict))


def test_a_failed_attempt_still_counts_when_the_pod_is_moved_again() -> None:
    """The records of both attempts are kept."""
    scene = stage(budgets={Scope.CLUSTER: Budget(2, 3600.0)}, cooldown=10.0)
    for _ in range(3):
        scene.charge("app0-x")
        scene.advance(200)
    assert 2 == len(scene.take(Evict))
    assert 2 == sum(each.counts for each in scene.store.ledger.records)


def test_holds_double_after_failures() -> None:
    """The owner's pods stay twice as long after the first, four times after the second."""
    scene = stage(cooldown=100.0)
    slot = ("default", "uid-app0", "")
    for times in (2, 4):
        scene.charge("app0-x")
        at = scene.at
        scene.advance(61)
        assert at + times * 100 == scene.execution.guard_context(scene.at).holds[slot]
        scene.advance(times * 100)


# --- a new leader


def test_a_new_leader_writes_its_term_and_waits() -> None:
    """It reads, writes, and moves nothing for as long as an earlier leader could."""
    store = Store(charged_record("other-x", NOW - 3600, MoveState.DONE), term=1)
    scene = MoveStage(*PODS, store=store, term=2, lead=False, **EVICTING)
    scene.perform(scene.execution.lead(2))
    assert [ReadLedger()] == scene.asked
    scene.answer_one()
    (write,) = scene.asked
    assert isinstance(write, WriteLedger) and (2, "1") == (write.ledger.term, write.version)
    scene.plan("app0-x")
    scene.answer()
    assert [] == scene.take(Evict)
    scene.advance(TAKEOVER_WAIT + 1)
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]


def test_the_writes_of_an_earlier_leader_fail() -> None:
    """Its charge is refused, and it sends nothing."""
    old = stage()
    old.plan("app0-x")
    old.successor(**EVICTING)
    old.answer_one()
    assert ([], {"app0-x": "cancelled"}) == (old.take(Evict), old.states)


def test_two_processes_charge_the_same_pod() -> None:
    """The ledger takes one of them; the other cancels its own attempt, and must not cancel that of the first."""
    one = stage(budgets={Scope.CLUSTER: Budget(1, 900.0)})
    two = one.successor(term=1, now=one.at + 1, **EVICTING, budgets={Scope.CLUSTER: Budget(1, 900.0)})
    one.advance(10)
    two.advance(10)
    one.advance(10)
    two.at = one.at + 1
    two.tell(two.execution.tick(two.at))
    one.plan("app0-x")
    two.plan("app0-x")
    for each in (one, two):
        each.answer()
    for _ in range(4):
        one.advance(5)
        two.advance(5)
    assert 1 == len([*one.take(Evict), *two.take(Evict)])
    one.charge("app1-x")
    two.charge("app1-x")
    assert [] == [*one.take(Evict), *two.take(Evict)]


def test_what_a_new_leader_cannot_know_counts() -> None:
    """A charged move fails when nothing was seen of it, and its budget is spent; one whose pod terminates goes on."""
    store = Store(charged_record("app0-x"), charged_record("app1-x"), term=1)
    pods = (PODS[0], build.pod("filler", on="cool"), PODS[2])
    scene = MoveStage(*pods, store=store, term=2, **EVICTING)
    assert {"app0-x": "charged", "app1-x": "evicted"} == scene.states
    scene.advance(61)
    assert {"app0-x": "failed", "app1-x": "evicted"} == scene.states
    assert [] == scene.take(Evict)


def test_a_clock_that_was_ahead() -> None:
    """Its records count from now on, and not for years."""
    store = Store(charged_record("app0-x", NOW + 1e9, MoveState.FAILED), term=1)
    scene = MoveStage(*PODS, store=store, term=2, budgets={Scope.CLUSTER: Budget(1, 900.0)}, **EVICTING)
    assert NOW == scene.record("app0-x").at
    scene.advance(TAKEOVER_WAIT + 1)
    scene.charge("app1-x")
    assert [] == scene.take(Evict)
    scene.advance(900 + SEND_WITHIN)
    scene.charge("app1-x")
    assert 1 == len(scene.take(Evict))


def test_an_answer_to_an_earlier_term_is_no_answer_to_this_one() -> None:
    """The process lost the lease while it wrote, and has it again: the old answer must not confirm a new charge."""
    scene = stage()
    scene.plan("app0-x")
    (old,) = scene.asked
    scene.execution.stop()
    scene.perform(scene.execution.lead(3))
    assert [old] == scene.asked  # it is waited for
    scene.tell(scene.execution.ledger_written(LedgerWritten("7", scene.at)))
    assert [] == scene.take(Evict)
    scene.asked.clear()
    scene.advance(5)
    assert (3, []) == (scene.store.ledger.term, scene.take(Evict))


def test_a_deleted_ledger_is_written_again() -> None:
    """With what this process knows: deleting it does not renew a budget while the process runs."""
    scene = stage(budgets={Scope.CLUSTER: Budget(1, 900.0)})
    scene.charge("app0-x")
    scene.store.ledger, scene.store.version = Store().ledger, 0
    scene.terminates("app0-x")
    scene.advance(20)
    assert {"app0-x": "evicted"} == scene.store.states
    scene.charge("app1-x")
    assert 1 == len(scene.take(Evict))


def test_moves_that_ended_stay_ended_after_a_conflict() -> None:
    """The ledger shows an earlier state, which a lost write would have changed."""
    scene = stage()
    scene.charge("app0-x")
    scene.terminates("app0-x")
    scene.creates("app0-y")
    scene.store.version += 1
    scene.becomes_ready("app0-y")
    scene.advance(20)
    assert ({"app0-x": "done"}, {"app0-x": "done"}) == (scene.states, scene.store.states)


def test_a_ledger_that_cannot_be_read_stops_all_moves() -> None:
    """And is read again."""
    scene = MoveStage(*PODS, lead=False, **EVICTING)
    scene.perform(scene.execution.lead(1))
    scene.asked.clear()
    scene.tell(scene.execution.ledger_read(LedgerRead(None, scene.at, problem="it was edited by hand")))
    assert "it was edited by hand" == scene.execution.why_stopped(scene.at)
    scene.charge("app0-x")
    assert [] == scene.take(Evict)
    scene.advance(15)
    assert "" == scene.execution.why_stopped(scene.at)
    assert ["app0-x"] == [each.name for each in scene.take(Evict)]


def test_one_who_does_not_lead_follows_nothing() -> None:
    """It asks for nothing, whatever it sees."""
    scene = stage()
    scene.charge("app0-x")
    scene.execution.stop()
    scene.sent.clear()
    scene.terminates("app0-x")
    scene.creates("app0-y")
    assert ([], []) == (scene.sent, scene.asked)


# --- which way


def test_replacement_first_for_whom_it_is_possible() -> None:
    """A pod of a StatefulSet is evicted, unless the settings forbid all evictions."""
    stateful = workload_pod("db-0", kind="StatefulSet")
    for method, evicted in ((Method.REPLACEMENT_FIRST, ["db-0"]), (Method.REPLACEMENT_ONLY, [])):
        scene = MoveStage(PODS[0], stateful, method=method, allow_last_replica=True)
        scene.charge("app0-x", "db-0")
        surge = StartSurge("uid-app0-x", "default", "ReplicaSet", "app0", NOW + SEND_WITHIN)
        assert ([surge], evicted) == (scene.take(StartSurge), [each.name for each in scene.take(Evict)])


@pytest.mark.parametrize(
    ("fields", "failure", "evicted", "state"),
    [
        ({"allow_last_replica": True}, {"impossible": True}, 1, "charged"),
        ({}, {"impossible": True}, 0, "cancelled"),
        ({"method": Method.REPLACEMENT_ONLY}, {"impossible": True}, 0, "refused"),
        ({"allow_last_replica": True}, {}, 0, "cancelled"),
        ({"allow_last_replica": True}, {"unknown": True}, 0, "charged"),
    ],
    ids=["evicted instead", "last replica", "replacement only", "another time", "unknown"],
)
def test_a_workload_that_cannot_have_a_further_replica(
    fields: dict[str, object], failure: dict[str, bool], evicted: int, state: str
) -> None:
    """Its pod is evicted, if it may be; not if the API server was only slow, or nobody knows what happened."""
    scene = MoveStage(PODS[0], **fields)
    scene.charge("app0-x")
    scene.tell(scene.execution.surge_failed(SurgeFailed("uid-app0-x", "because", scene.at, **failure)))
    assert (evicted, {"app0-x": state}) == (len(scene.take(Evict)), scene.states)


def test_changed_settings_drop_what_is_not_sent() -> None:
    """Somebody may have turned moves off."""
    scene = stage()
    scene.plan("app0-x")
    scene.execution.settings_changed(scene.at)
    scene.answer()
    assert ([], {"app0-x": "cancelled"}) == (scene.take(Evict), scene.states)
    scene.advance(5)
    assert {"app0-x": "cancelled"} == scene.store.states


def test_unready_nodes_stop_moves_until_half_as_many_are() -> None:
    """Of three nodes one may be unready. With two nothing moves; with one still nothing, and with none moves go on."""
    scene = stage(max_unready_nodes=0.4)
    cluster, refused = scene.state.cluster, []
    for unready in (("cool",), ("cool", "cold"), ("cool",), ()):
        for name in ("cool", "cold"):
            node = cluster.node_table.nodes[cluster.node_table.row[name]]
            scene.version += 1
            cluster.upsert_node(replace(node, ready=name not in unready, version=scene.version))
        refused.append(cluster_refusal(scene.execution.guard_context(scene.at)) is not None)
    assert [False, True, True, False] == refused
