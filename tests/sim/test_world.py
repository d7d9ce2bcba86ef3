"""The simulated API server: versions, binds, conditions, labels, deletions, volumes; and the kubelets' part in them."""

import pytest
from msgspec.structs import replace

from tests.sim.small_world import GIB, RecordedWorld, node, nodes, template
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    Event,
    GetPodDone,
    LabelDone,
    LabelFailed,
    NodeDeleted,
    NodeUpserted,
    ObjectDeleted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
    PreemptDone,
    StageAnswered,
)
from trimtab.core.model.instructions import (
    BindVolume,
    EmitEvent,
    GetPod,
    LabelNode,
    Nominate,
    Preempt,
    SelectNode,
    SetUnschedulable,
)
from trimtab.core.model.objects import Service
from trimtab.core.model.storage import PersistentVolume, PersistentVolumeClaim
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint
from trimtab.sim.scenario import SimulatedNode

PRESSURE = "pressure.trimtab.dev/cpu"


class OnePod(RecordedWorld):
    """A node and a pending pod."""

    def __init__(self) -> None:
        super().__init__(*nodes(1))
        self.uid = self.world.create_pod("web", template())

    @property
    def pod(self) -> object:
        return self.world.pods[self.uid]

    def bound(self) -> "OnePod":
        self.bind(self.uid, "n1")
        self.run(10.0)
        return self


@pytest.fixture
def one() -> OnePod:
    return OnePod()


def kinds(events: list[Event]) -> list[type]:
    return [type(event) for event in events]


def test_changes_are_emitted_with_increasing_versions(one: OnePod) -> None:
    """Each change has the next resourceVersion, in that order."""
    simulated = one.world.nodes["n1"]
    one.world.put_node(replace(simulated, node=replace(simulated.node, unschedulable=True)))
    events = one.run(1.0)
    assert [NodeUpserted, PodUpserted, NodeUpserted] == kinds(events)
    versions = [event.node.version if isinstance(event, NodeUpserted) else event.pod.version for event in events]  # type: ignore[union-attr]
    assert [1, 2, 3] == versions


def test_a_bind_is_answered_then_watched_and_then_the_pod_runs(one: OnePod) -> None:
    """The answer comes first, then the watch event, and later Running."""
    one.run(1.0)
    one.bind(one.uid, "n1")
    assert [NodeUpserted, PodUpserted] == kinds(one.events), "nothing happens before the delay"
    answer, bound, running = one.run(10.0)
    assert isinstance(answer, BindDone) and isinstance(bound, PodUpserted) and isinstance(running, PodUpserted)
    assert ("n1", "n1", "Pending") == (answer.node, bound.pod.node, bound.pod.phase)
    assert ("Running", True) == (running.pod.phase, running.pod.ready)
    assert answer.at < bound.at < running.at


def test_a_pod_starts_after_its_delay_and_is_ready_after_another() -> None:
    """Both drawn or fixed by its template, from the bind on."""
    world = RecordedWorld(*nodes(1))
    uid = world.world.create_pod("web", template(ready_delay=5.0))
    world.bind(uid, "n1")
    world.run(10.0)
    life = world.world.lives[uid]
    pod = world.world.pods[uid]
    assert life.bound is not None and pod.started is not None and life.ready_at is not None
    assert (2.0, 7.0) == pytest.approx((pod.started - life.bound, life.ready_at - life.bound))


def test_a_pod_that_is_created_with_a_node_is_never_pending() -> None:
    """Its first event shows it bound, so no scheduler takes it up, and it runs from the start."""
    world = RecordedWorld(*nodes(1))
    uid = world.world.create_pod("web", template(), node="n1")
    _, created, running = world.run(0.5)
    assert isinstance(created, PodUpserted) and isinstance(running, PodUpserted)
    assert ("n1", False, "Running", 0.0) == (
        created.pod.node,
        created.pod.pending,
        running.pod.phase,
        running.pod.started,
    )
    assert (0.0, "n1") == (world.world.lives[uid].bound, world.world.lives[uid].node)


def test_a_second_bind_is_a_conflict_and_changes_nothing(one: OnePod) -> None:
    """A pod is bound once; the error of the second bind names its node."""
    one.bound().bind(one.uid, "n2")
    (answer,) = one.run(1.0)
    assert isinstance(answer, BindFailed)
    assert (BindFailure.CONFLICT, "pod web is already assigned to node n1") == (answer.reason, answer.message)
    assert "n1" == one.world.pods[one.uid].node


def test_a_bind_of_a_pod_that_is_gone(one: OnePod) -> None:
    """It fails as gone, not as a conflict."""
    one.bind(one.uid, "n1")
    one.world.delete_pod(one.uid)
    answer = next(event for event in one.run(1.0) if isinstance(event, BindFailed))
    assert BindFailure.GONE is answer.reason


def test_a_pod_that_is_bound_to_a_node_that_was_deleted_never_runs_and_is_removed(one: OnePod) -> None:
    """As the pod garbage collector does, after 40 s."""
    one.bind(one.uid, "n1")
    one.world.delete_node("n1")
    one.run(30.0)
    assert ("n1", "Pending") == (one.world.pods[one.uid].node, one.world.pods[one.uid].phase)
    one.run(15.0)
    assert ({}, "node removed") == (one.world.pods, one.world.lives[one.uid].left)


def test_get_pod_returns_the_pod_or_none(one: OnePod) -> None:
    """The stored object, and None for an unknown UID."""
    one.run(1.0)
    one.world.perform(GetPod(one.uid, "default", "web"))
    one.world.perform(GetPod("nobody", "default", "web"))
    answers = {event.uid: event.pod for event in one.run(1.0) if isinstance(event, GetPodDone)}
    assert {one.uid: one.pod, "nobody": None} == answers


def test_the_unschedulable_condition_is_cleared_by_the_bind(one: OnePod) -> None:
    """The pod has it until it has a node."""
    one.run(1.0)
    one.world.perform(SetUnschedulable(one.uid, "default", "web", "Unschedulable", "0/1"))
    (seen,) = one.run(1.0)
    assert isinstance(seen, PodUpserted)
    assert ("Unschedulable", "0/1") == seen.pod.unschedulable_condition
    one.bound()
    assert one.world.pods[one.uid].unschedulable_condition is None


def test_kubernetes_events_are_collected(one: OnePod) -> None:
    """Unchanged."""
    emitted = EmitEvent("u", "default", "web", "Scheduled", "note")
    one.world.perform(emitted)
    assert [emitted] == one.world.kube_events


def test_pending_pods_are_listed_until_they_have_a_node(one: OnePod) -> None:
    """Or until they are deleted, which is at once."""
    other = one.world.create_pod("other", template())
    assert {one.uid, other} == {*one.world.pending}
    one.world.delete_pod(other)
    one.bound()
    assert ({}, [one.uid]) == (one.world.pending, [*one.world.pods])


# --- deletion and preemption


def test_a_deleted_pod_runs_until_it_has_terminated(one: OnePod) -> None:
    """It is not ready at once, uses what it did, holds its requests, and is gone within its grace period."""
    one.bound().world.delete_pod(one.uid)
    assert (True, False) == (one.world.pods[one.uid].terminating, one.world.pods[one.uid].ready)
    assert one.world.usage.runs(one.uid)
    assert 100.0 == one.world.usage.requested[0, 0]
    assert [PodUpserted, PodDeleted] == kinds(one.run(3.1))
    assert (False, 0.0) == (one.world.usage.runs(one.uid), one.world.usage.requested[0, 0])


def test_a_grace_period_of_zero_kills_at_once() -> None:
    """The grace period is the longest that termination may take."""
    world = RecordedWorld(*nodes(1))
    uid = world.running("web", template(grace_period=0.0), "n1")
    world.run(1.0)
    world.world.delete_pod(uid)
    world.run(0.1)
    assert {} == world.world.pods


def test_a_preempted_pod_terminates_after_its_grace_period(one: OnePod) -> None:
    """It is terminating at once and deleted later; the request is answered."""
    one.bound().world.perform(Preempt(one.uid, "default", "web", "u-2", "trimtab"))
    events = one.run(10.0)
    answer, *changes, deleted = events
    assert isinstance(answer, PreemptDone) and isinstance(deleted, PodDeleted)
    last = changes[-1]
    assert isinstance(last, PodUpserted)
    assert (True, True) == (last.pod.terminating, last.pod.preempted)
    assert ({}, "preempted") == (one.world.pods, one.world.lives[one.uid].left)


def test_a_preempted_pod_does_not_start(one: OnePod) -> None:
    """Preempted right after its bind, it never runs."""
    one.bind(one.uid, "n1")
    one.run(0.2)
    one.world.perform(Preempt(one.uid, "default", "web", "u-2", "trimtab"))
    assert all(event.pod.phase == "Pending" for event in one.run(20.0) if isinstance(event, PodUpserted))


def test_a_nomination_is_stored(one: OnePod) -> None:
    """A pending pod has its nominated node."""
    one.run(1.0)
    one.world.perform(Nominate(one.uid, "default", "web", "n1"))
    one.run(1.0)
    assert "n1" == one.world.pods[one.uid].nominated_node


def test_the_same_name_comes_back_with_another_uid(one: OnePod) -> None:
    """As a StatefulSet's pods do; and pods of other schedulers' names get the policy's first one."""
    one.world.delete_pod(one.uid)
    again = one.world.create_pod("web", template(scheduler_name="somebody-else"))
    assert one.uid != again
    assert "trimtab" == one.world.pods[again].scheduler_name


def test_names_and_uids_do_not_depend_on_delays_drawn_in_between() -> None:
    """Pods have the same UIDs in two worlds of one seed, however many calls were made before."""
    uids = []
    for calls in (0, 5):
        world = RecordedWorld(*nodes(1)).world
        for _ in range(calls):
            world.perform(GetPod("nobody", "default", "web"))
        uids.append(world.create_pod("web", template()))
    assert uids[0] == uids[1]


# --- nodes and other objects


def test_deleting_a_node_deletes_its_pods(one: OnePod) -> None:
    """At once, and pods elsewhere stay."""
    one.world.put_node(SimulatedNode(node("n2")))
    other = one.running("other", template(), "n2")
    one.bound().world.delete_node("n1")
    assert [other] == [*one.world.pods]
    assert {NodeDeleted, PodDeleted} <= {*kinds(one.run(1.0))}


def test_objects_are_put_and_deleted() -> None:
    """Each with its event, and a version beyond those before."""
    world = RecordedWorld()
    service = Service(name="web", uid="s", namespace="default")
    world.world.put_object(service)
    world.world.put_object(service)
    world.world.delete_object(service)
    *put, deleted = world.run(1.0)
    assert [1, 2] == [event.object.version for event in put if isinstance(event, ObjectUpserted)]
    assert isinstance(deleted, ObjectDeleted)
    assert (3, {}) == (deleted.version, world.world.objects)


def label(one: OnePod, patch: LabelNode) -> Event:
    one.world.perform(patch)
    return next(event for event in one.run(1.0) if isinstance(event, LabelDone | LabelFailed))


def test_labels_and_soft_taints_are_added_and_removed(one: OnePod) -> None:
    """Foreign labels and taints stay; the watch shows the result, and the patches are recorded."""
    theirs, ours = Taint("theirs", "", PREFER_NO_SCHEDULE), Taint(PRESSURE, "", PREFER_NO_SCHEDULE)
    one.world.put_node(SimulatedNode(node("n1", 4, 8, theirs)))
    put = LabelNode("n1", "n1", one.world.nodes["n1"].node.version, ((PRESSURE, "high"),), (ours,))
    assert isinstance(label(one, put), LabelDone)
    pressed = one.world.nodes["n1"].node
    assert {"kubernetes.io/hostname": "n1", PRESSURE: "high"} == pressed.labels
    assert (theirs, ours) == pressed.taints
    assert any(isinstance(event, NodeUpserted) and event.node == pressed for event in one.events)
    take = LabelNode("n1", "n1", pressed.version, ((ours.key, None),), remove_taints=((1, ours.key),))
    assert isinstance(label(one, take), LabelDone)
    cleared = one.world.nodes["n1"].node
    assert ({"kubernetes.io/hostname": "n1"}, (theirs,)) == (cleared.labels, cleared.taints)
    assert [put, take] == one.world.label_patches


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (LabelNode("n9", "n9", 1, ((PRESSURE, "high"),)), "node not found"),
        (LabelNode("n1", "another", 1, ((PRESSURE, "high"),)), "node not found"),
        (LabelNode("n1", "n1", 99, add_taints=(Taint(PRESSURE, "", PREFER_NO_SCHEDULE),)), "modified"),
    ],
)
def test_a_patch_for_another_uid_or_version_fails(one: OnePod, patch: LabelNode, problem: str) -> None:
    """A node with another UID is not changed, and taints only at the given resourceVersion."""
    before = one.world.nodes["n1"]
    answer = label(one, patch)
    assert isinstance(answer, LabelFailed)
    assert problem in answer.message
    assert (before, []) == (one.world.nodes["n1"], one.world.label_patches)


def test_an_observe_only_patch_changes_nothing(one: OnePod) -> None:
    """It is neither applied nor answered."""
    one.run(1.0)
    one.world.perform(LabelNode("n1", "n1", 1, ((PRESSURE, "high"),), observe_only=True))
    assert [] == one.run(1.0)


# --- volumes

CLAIM = PersistentVolumeClaim(name="data", uid="c", namespace="default", requested=GIB, storage_class="fast")
VOLUME = PersistentVolume(name="pv", uid="v", capacity=GIB, storage_class="fast")


def answered(world: RecordedWorld) -> str:
    return next(event.error for event in world.run(1.0) if isinstance(event, StageAnswered))


def test_a_volume_and_its_claim_are_bound_to_each_other() -> None:
    """Both objects change, and the binding cycle is answered."""
    world = RecordedWorld()
    for each in (CLAIM, VOLUME):
        world.world.put_object(each)
    version = world.world.objects[VOLUME.kind, "pv"].version
    world.world.perform(BindVolume("u", "pv", version, "default", "data", "c"))
    assert "" == answered(world)
    volume, claim = world.world.objects[VOLUME.kind, "pv"], world.world.objects[CLAIM.kind, "default/data"]
    assert isinstance(volume, PersistentVolume) and isinstance(claim, PersistentVolumeClaim)
    assert volume.claim is not None
    assert ("data", "pv", True, "Bound") == (volume.claim.name, claim.volume, claim.bind_completed, claim.phase)


@pytest.mark.parametrize(
    ("objects", "version", "error"),
    [((CLAIM,), 1, "the volume or the claim was deleted"), ((CLAIM, VOLUME), 99, "the volume has been modified")],
)
def test_a_volume_that_is_gone_or_changed_is_not_bound(
    objects: tuple[PersistentVolume | PersistentVolumeClaim, ...], version: int, error: str
) -> None:
    """The answer says why, and nothing changes."""
    world = RecordedWorld()
    for each in objects:
        world.world.put_object(each)
    world.world.perform(BindVolume("u", "pv", version, "default", "data", "c"))
    assert error == answered(world)
    claim = world.world.objects[CLAIM.kind, "default/data"]
    assert isinstance(claim, PersistentVolumeClaim) and not claim.volume


def test_a_provisioned_volume_is_reachable_from_its_node_only() -> None:
    """The claim is bound to a new volume of the size that it asks for."""
    world = RecordedWorld()
    world.world.put_object(CLAIM)
    world.world.perform(SelectNode("u", "default", "data", 1, "n1"))
    assert "" == answered(world)
    volume = world.world.objects[VOLUME.kind, "pvc-c"]
    assert isinstance(volume, PersistentVolume)
    assert (GIB, "fast") == (volume.capacity, volume.storage_class)
    assert (("n1",),) == tuple(line.values for term in volume.terms or () for line in term.match_expressions)
