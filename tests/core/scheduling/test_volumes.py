"""Proves that a pod waits for its volumes on the node that was chosen, and what sends it back."""

from __future__ import annotations

from msgspec.structs import replace

from tests.build import assumed_on
from tests.build import pod as built_pod
from tests.core.engine_harness import OURS, EngineHarness, node, of_kind
from tests.core.plugins.storage_builders import claim, claim_ref, storage_class, uses, volume
from trimtab.core.model.events import NodeDeleted, ObjectDeleted, ObjectUpserted, PodDeleted, StageAnswered
from trimtab.core.model.instructions import Bind, BindVolume, EmitEvent, Instruction, SelectNode
from trimtab.core.model.objects import POD_GROUP_LABEL, Object, PodGroup
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.scheduling.queue.queued_pod import QueueState

NODE = node("a", labels={"host": "a"})
DISK, DATA = volume("disk", at="a", version=7), claim("data", version=5)
WEB = built_pod("web", volumes=uses("data"), scheduler=OURS)
OTHER = built_pod("other", volumes=uses("wish"), scheduler=OURS)
PROMISED = replace(DISK, version=8, claim=claim_ref("data", "uid-data"))
BOUND = replace(DATA, version=9, volume="disk", bind_completed=True)


def scene(*objects: Object) -> EngineHarness:
    made = EngineHarness()
    shown(made, *objects)
    made.upsert(NODE)
    return made


def shown(scene: EngineHarness, *objects: Object) -> list[Instruction]:
    return scene.handle(*(ObjectUpserted(each, scene.at) for each in objects))


def notes(instructions: list[Instruction]) -> list[str]:
    return [each.note for each in of_kind(EmitEvent, instructions)]


def test_a_pod_is_bound_after_its_claim() -> None:
    """The volume is promised once; nothing else happens until the volume controller says that the claim is bound."""
    made = scene(storage_class(), DATA, DISK)
    made.upsert(WEB)
    assert [BindVolume("uid-web", "disk", 7, "default", "data", "uid-data")] == made.turn()
    assert [] == made.handle(StageAnswered(WEB.uid, 1.0))
    assert [] == shown(made, PROMISED)
    assert [Bind("uid-web", "default", "web", "a")] == shown(made, BOUND)


def test_a_refused_promise_sends_the_pod_back() -> None:
    """The room and the volume are free again, people hear why, and the pod tries again."""
    made = scene(storage_class(), DATA, DISK, claim("wish", version=6))
    made.upsert(WEB)
    made.turn()
    wishes = made.handle(StageAnswered(WEB.uid, 1.0, "volume disk could not be prepared: modified"))
    assert ["VolumeBinding: volume disk could not be prepared: modified"] == notes(wishes)
    assert (QueueState.BACKOFF, 0) == (made.queue_state(WEB), made.engine.cluster.view.pod_count[0])
    made.upsert(OTHER)
    assert [BindVolume("uid-other", "disk", 7, "default", "wish", "uid-wish")] == of_kind(BindVolume, made.turn())


def test_a_claim_is_given_to_the_node_and_taken_back_by_the_provisioner() -> None:
    """When the annotation is gone again, the volume cannot be made there and the pod looks again."""
    fresh = claim("data", given="made", version=5)
    made = scene(storage_class("made", "disks"), fresh)
    made.upsert(WEB)
    assert [SelectNode("uid-web", "default", "data", 5, "a")] == made.turn()
    assert [] == shown(made, replace(fresh, version=6, selected_node="a"))
    assert ['VolumeBinding: binding volumes: provisioning failed for PVC "data"'] == notes(
        shown(made, replace(fresh, version=7))
    )


def test_a_pod_does_not_wait_for_ever() -> None:
    """After ten minutes it looks again."""
    made = scene(storage_class(), DATA, DISK)
    made.upsert(WEB)
    made.turn()
    assert [] == made.advance(599.0)
    assert ["VolumeBinding: timed out waiting"] == notes(made.advance(2.0))


def test_a_pod_that_goes_gives_its_volume_back() -> None:
    """The next one can have it."""
    made = scene(storage_class(), DATA, DISK, claim("wish", version=6))
    made.upsert(WEB)
    made.turn()
    made.upsert(OTHER)
    (told,) = notes(made.turn())
    assert told.startswith("0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.")
    made.handle(PodDeleted(WEB.uid, made.at))
    made.advance(11.0)
    assert [BindVolume("uid-other", "disk", 7, "default", "wish", "uid-wish")] == of_kind(BindVolume, made.turn())


def test_a_volume_given_back_is_heard_of_where_no_room_is() -> None:
    """Who waits for the volume is stirred though the node where it had been promised is closed, and fits elsewhere."""
    made = scene(storage_class(), DATA, volume("disk", version=7), claim("wish", version=6))
    made.upsert(WEB)
    made.turn()
    made.upsert(replace(NODE, unschedulable=True), node("b", labels={"host": "b"}), OTHER)
    made.turn()
    made.advance(2.0)
    assert QueueState.UNSCHEDULABLE is made.queue_state(OTHER)
    made.handle(PodDeleted(WEB.uid, made.at))
    made.turn()
    assert "b" == assumed_on(made.engine.cluster, OTHER.uid)


def test_a_claim_that_is_deleted_meanwhile_sends_the_pod_back() -> None:
    """And it waits for the claim to come again, in kube-scheduler's words."""
    made = scene(storage_class(), DATA, DISK)
    made.upsert(WEB)
    made.turn()
    gone = made.handle(ObjectDeleted("persistentvolumeclaims", "default/data", 1.0))
    assert ["VolumeBinding: binding volumes: default/data no longer exists"] == notes(gone)
    made.advance(11.0)
    (told,) = notes(made.turn())
    assert told.startswith('0/1 nodes are available: persistentvolumeclaim "data" not found.')
    assert QueueState.UNSCHEDULABLE is made.queue_state(WEB)
    shown(made, replace(DATA, uid="again", version=30))
    made.advance(11.0)
    assert 1 == len(of_kind(BindVolume, made.turn()))


def test_a_node_that_goes_is_not_waited_for() -> None:
    """Nobody would ever make a volume there: the pod looks for another node at once, not after ten minutes."""
    made = scene(storage_class("made", "disks"), claim("data", given="made", version=5))
    made.upsert(WEB)
    made.turn()
    gone = made.handle(NodeDeleted("a", made.at))
    assert ["VolumeBinding: node a no longer exists"] == notes(gone)
    assert QueueState.BACKOFF is made.queue_state(WEB)


def test_a_gang_hears_of_the_claims_of_each_member() -> None:
    """One of two members is enough: when its claim comes the gang is tried, though the other's never does."""
    made = EngineHarness(Coscheduling())
    made.handle(ObjectUpserted(PodGroup(name="g", uid="g", namespace="default", min_member=1), 0.0))
    made.upsert(NODE)
    pods = [built_pod(f"m{n}", volumes=uses(f"c{n}"), scheduler=OURS, labels={POD_GROUP_LABEL: "g"}) for n in range(2)]
    made.upsert(*pods)
    made.turn()
    made.advance(31.0)
    shown(made, volume("disk", at="a"), storage_class(), claim("c0"))
    assert QueueState.ACTIVE in [made.queue_state(each) for each in pods]
