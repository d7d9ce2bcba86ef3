"""Proves that a pod waits for its volumes on the node that was chosen, and what sends it back."""

from __future__ import annotations

from msgspec.structs import replace

from tests.build import pod as built_pod
from tests.core.engine.scene import OURS, Scene, node, of_kind
from tests.core.plugins.storage import claim, kept_for, storage_class, uses, volume
from trimtab.core.model.event import NodeGone, ObjectGone, ObjectSeen, PodGone, StageAnswered
from trimtab.core.model.instruction import Bind, BindVolume, Instruction, SelectNode, Tell
from trimtab.core.model.objects import GROUP_LABEL, Object, PodGroup
from trimtab.core.plugins.coscheduling import Coscheduling
from trimtab.core.scheduling.queue.queue import Part

NODE = node("a", labels={"host": "a"})
DISK, DATA = volume("disk", at="a", version=7), claim("data", version=5)
WEB = built_pod("web", volumes=uses("data"), scheduler=OURS)
OTHER = built_pod("other", volumes=uses("wish"), scheduler=OURS)
PROMISED = replace(DISK, version=8, claim=kept_for("data", "uid-data"))
BOUND = replace(DATA, version=9, volume="disk", completed=True)


def scene(*objects: Object) -> Scene:
    made = Scene()
    shown(made, *objects)
    made.sees(NODE)
    return made


def shown(scene: Scene, *objects: Object) -> list[Instruction]:
    return scene.tells(*(ObjectSeen(each, scene.at) for each in objects))


def notes(wishes: list[Instruction]) -> list[str]:
    return [each.note for each in of_kind(Tell, wishes)]


def test_a_pod_is_bound_after_its_claim() -> None:
    """The volume is promised once; nothing else happens until the volume controller says that the claim is bound."""
    made = scene(storage_class(), DATA, DISK)
    made.sees(WEB)
    assert [BindVolume("uid-web", "disk", 7, "default", "data", "uid-data")] == made.turn()
    assert [] == made.tells(StageAnswered(WEB.uid, 1.0))
    assert [] == shown(made, PROMISED)
    assert [Bind("uid-web", "default", "web", "a")] == shown(made, BOUND)


def test_a_refused_promise_sends_the_pod_back() -> None:
    """The room and the volume are free again, people hear why, and the pod tries again."""
    made = scene(storage_class(), DATA, DISK, claim("wish", version=6))
    made.sees(WEB)
    made.turn()
    wishes = made.tells(StageAnswered(WEB.uid, 1.0, "volume disk could not be prepared: modified"))
    assert ["VolumeBinding: volume disk could not be prepared: modified"] == notes(wishes)
    assert (Part.BACKING_OFF, 0) == (made.part(WEB), made.engine.cluster.view.pod_count[0])
    made.sees(OTHER)
    assert [BindVolume("uid-other", "disk", 7, "default", "wish", "uid-wish")] == of_kind(BindVolume, made.turn())


def test_a_claim_is_given_to_the_node_and_taken_back_by_the_provisioner() -> None:
    """When the annotation is gone again, the volume cannot be made there and the pod looks again."""
    fresh = claim("data", given="made", version=5)
    made = scene(storage_class("made", "disks"), fresh)
    made.sees(WEB)
    assert [SelectNode("uid-web", "default", "data", 5, "a")] == made.turn()
    assert [] == shown(made, replace(fresh, version=6, selected_node="a"))
    assert ['VolumeBinding: binding volumes: provisioning failed for PVC "data"'] == notes(
        shown(made, replace(fresh, version=7))
    )


def test_a_pod_does_not_wait_for_ever() -> None:
    """After ten minutes it looks again."""
    made = scene(storage_class(), DATA, DISK)
    made.sees(WEB)
    made.turn()
    assert [] == made.later(599.0)
    assert ["VolumeBinding: timed out waiting"] == notes(made.later(2.0))


def test_a_pod_that_goes_gives_its_volume_back() -> None:
    """The next one can have it."""
    made = scene(storage_class(), DATA, DISK, claim("wish", version=6))
    made.sees(WEB)
    made.turn()
    made.sees(OTHER)
    (told,) = notes(made.turn())
    assert told.startswith("0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.")
    made.tells(PodGone(WEB.uid, made.at))
    made.later(11.0)
    assert [BindVolume("uid-other", "disk", 7, "default", "wish", "uid-wish")] == of_kind(BindVolume, made.turn())


def test_a_volume_given_back_is_heard_of_where_no_room_is() -> None:
    """Who waits for the volume is stirred though the node where it had been promised is closed, and fits elsewhere."""
    made = scene(storage_class(), DATA, volume("disk", version=7), claim("wish", version=6))
    made.sees(WEB)
    made.turn()
    made.sees(replace(NODE, unschedulable=True), node("b", labels={"host": "b"}), OTHER)
    made.turn()
    made.later(2.0)
    assert Part.PARKED is made.part(OTHER)
    made.tells(PodGone(WEB.uid, made.at))
    made.turn()
    assert "b" == made.engine.cluster.assumed_on(OTHER.uid)


def test_a_claim_that_is_deleted_meanwhile_sends_the_pod_back() -> None:
    """And it waits for the claim to come again, in kube-scheduler's words."""
    made = scene(storage_class(), DATA, DISK)
    made.sees(WEB)
    made.turn()
    gone = made.tells(ObjectGone("persistentvolumeclaims", "default/data", 1.0))
    assert ["VolumeBinding: binding volumes: default/data is gone"] == notes(gone)
    made.later(11.0)
    (told,) = notes(made.turn())
    assert told.startswith('0/1 nodes are available: persistentvolumeclaim "data" not found.')
    assert Part.PARKED is made.part(WEB)
    shown(made, replace(DATA, uid="again", version=30))
    made.later(11.0)
    assert 1 == len(of_kind(BindVolume, made.turn()))


def test_a_node_that_goes_is_not_waited_for() -> None:
    """Nobody would ever make a volume there: the pod looks for another node at once, not after ten minutes."""
    made = scene(storage_class("made", "disks"), claim("data", given="made", version=5))
    made.sees(WEB)
    made.turn()
    gone = made.tells(NodeGone("a", made.at))
    assert ["VolumeBinding: node a no longer exists"] == notes(gone)
    assert Part.BACKING_OFF is made.part(WEB)


def test_a_gang_hears_of_the_claims_of_each_member() -> None:
    """One of two members is enough: when its claim comes the gang is tried, though the other's never does."""
    made = Scene(Coscheduling())
    made.tells(ObjectSeen(PodGroup(name="g", uid="g", namespace="default", min_member=1), 0.0))
    made.sees(NODE)
    pods = [built_pod(f"m{n}", volumes=uses(f"c{n}"), scheduler=OURS, labels={GROUP_LABEL: "g"}) for n in range(2)]
    made.sees(*pods)
    made.turn()
    made.later(31.0)
    shown(made, volume("disk", at="a"), storage_class(), claim("c0"))
    assert Part.READY in [made.part(each) for each in pods]
