"""Which nodes fit a pod's claims, what is reserved for them, and when the pod may be bound."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod, term
from tests.core.plugins.ask_plugin import rejections
from tests.core.plugins.storage_builders import GIB, claim, claim_ref, storage_class, uses, volume
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, PreFilterStatus, Reject, StageStatus, Wait
from trimtab.core.model.change import Change
from trimtab.core.model.instructions import BindVolume, SelectNode
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod, Volume
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.model.storage import CsiDriver, CsiNode, CsiStorageCapacity
from trimtab.core.plugins.volume_binding import REASONS, VolumeBinding
from trimtab.core.plugins.volume_binding.matching import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, PV_NOT_EXIST
from trimtab.core.plugins.volume_binding.reservations import SWEEP_SLACK

PLUGIN = VolumeBinding()
A, B = node("a", labels={"host": "a"}), node("b", labels={"host": "b"})
LOCAL, MADE = storage_class(), storage_class("made", "disks")
WEB = pod("web", volumes=uses("data"))
EPHEMERAL = pod("web", volumes=[Volume("ephemeral", "scratch")])


def faults(wanted: Pod, *objects: Object) -> tuple[int, int]:
    """What keeps the pod off nodes a and b, as sets of bits."""
    one, other = (-PLUGIN.filter(cluster(A, B, *objects).view, wanted, ALL_ROWS)).tolist()
    return one, other


@pytest.mark.parametrize(
    ("wanted", "objects", "words"),
    [
        (WEB, (), 'persistentvolumeclaim "data" not found'),
        (WEB, (claim("data", terminating=True),), 'persistentvolumeclaim "data" is being deleted'),
        (
            WEB,
            (claim("data", volume="disk", phase="Lost"),),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "disk"',
        ),
        (WEB, (claim("data"),), "pod has unbound immediate PersistentVolumeClaims"),
        (
            WEB,
            (claim("data", volume="disk", bind_completed=False), LOCAL),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (WEB, (claim("data"), storage_class(binding_mode=None)), 'VolumeBindingMode not set for StorageClass "local"'),
        (
            EPHEMERAL,
            (),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"',
        ),
        (
            EPHEMERAL,
            (claim("web-scratch"),),
            "PVC default/web-scratch was not created for pod default/web (pod is not owner)",
        ),
    ],
)
def test_refused_before_any_node(wanted: Pod, objects: tuple[Object, ...], words: str) -> None:
    """A claim that cannot be used is reported with kube-scheduler's message."""
    assert Reject(words) == PLUGIN.pre_filter(cluster(A, *objects).view, wanted)
    assert {"a": f"! {words}"} == rejections(PLUGIN, wanted, A, *objects)


def test_skipped() -> None:
    """A pod without claims is skipped; one with a usable claim is not."""
    view = cluster(A, claim("data"), LOCAL, claim("web-scratch", controller_uid="uid-web")).view
    assert PLUGIN.pre_filter(view, pod("plain", volumes=[Volume("csi", "v")])) is PreFilterStatus.SKIP
    assert [PreFilterStatus.SUCCESS, PreFilterStatus.SUCCESS] == [
        PLUGIN.pre_filter(view, WEB),
        PLUGIN.pre_filter(view, EPHEMERAL),
    ]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ((volume("disk"),), (0, 0)),
        ((volume("disk", at="a"),), (0, NODE_CONFLICT)),
        ((), (PV_NOT_EXIST, PV_NOT_EXIST)),
        ((volume("disk", terms=()),), (NODE_CONFLICT, NODE_CONFLICT)),
    ],
)
def test_bound_claims(objects: tuple[Object, ...], expected: tuple[int, int]) -> None:
    """A claim that has its volume goes where that can be reached."""
    assert expected == faults(WEB, claim("data", volume="disk"), *objects)


def test_a_migrated_volume_is_reached_by_its_drivers_labels() -> None:
    """On a node where the CSI driver has taken over, its zone label counts; elsewhere the in-tree one."""
    moved = volume("disk", at="b", in_tree="kubernetes.io/gce-pd", migrated_terms=(term("host In a"),))
    bound, driver_there = claim("data", volume="disk"), CsiNode(name="a", uid="csi", migrated=("kubernetes.io/gce-pd",))
    assert (NODE_CONFLICT, 0) == faults(WEB, bound, moved)
    assert (0, 0) == faults(WEB, bound, moved, driver_there)


@pytest.mark.parametrize(
    ("disk", "fits"),
    [
        (volume("disk", at="a"), True),
        (volume("disk", at="a", gib=9), True),
        (volume("disk", at="a", claim=claim_ref("data"), phase=""), True),
        (volume("disk", at="a", claim=claim_ref("data", "uid-data"), phase=""), True),
        (volume("disk", at="a", claim=claim_ref("data", "another")), False),
        (volume("disk", at="a", claim=claim_ref("other")), False),
        (volume("disk", at="a", gib=0), False),
        (volume("disk", at="a", phase="Released"), False),
        (volume("disk", at="a", volume_mode="Block"), False),
        (volume("disk", at="a", access_modes=("ReadOnlyMany",)), False),
        (volume("disk", at="a", volume_attributes_class="gold"), False),
        (volume("disk", at="a", given="other"), False),
        (volume("disk", at="a", terminating=True), False),
    ],
)
def test_free_volumes(disk: Object, fits: bool) -> None:
    """A claim without a volume can have one that is free or kept for it, of its class and kind, and large enough."""
    assert (0 if fits else BIND_CONFLICT, BIND_CONFLICT) == faults(WEB, claim("data"), LOCAL, disk)


@pytest.mark.parametrize(("labels", "expected"), [({"tier": "fast"}, 0), ({}, BIND_CONFLICT)])
def test_selector(labels: dict[str, str], expected: int) -> None:
    """A claim may ask for volumes by their labels."""
    picky = claim("data", selector=LabelSelector((("tier", "fast"),)))
    assert (expected, expected) == faults(WEB, picky, LOCAL, volume("disk", labels=labels))


def test_a_volume_kept_for_the_claim_goes_before_all_others() -> None:
    """Where it cannot be reached there is none for the claim, whatever else is free."""
    kept = volume("kept", at="b", claim=claim_ref("data"))
    assert (BIND_CONFLICT, 0) == faults(WEB, claim("data"), LOCAL, kept, volume("free", at="a"))


@pytest.mark.parametrize(
    ("disks", "expected"),
    [
        ((volume("x", at="a"), volume("y", at="a", gib=5), volume("z", at="b")), (0, BIND_CONFLICT)),
        ((volume("x", at="a"), volume("y", at="a")), (BIND_CONFLICT, BIND_CONFLICT)),
        ((volume("x"), volume("y", at="b", gib=5)), (BIND_CONFLICT, 0)),
        ((volume("x", gib=5), volume("y", gib=6)), (0, 0)),
        ((volume("x", gib=5), volume("y", gib=1, at="a")), (0, BIND_CONFLICT)),
    ],
)
def test_two_claims_get_two_volumes(disks: tuple[Object, ...], expected: tuple[int, int]) -> None:
    """The smaller claim takes the smaller volume, and no volume serves both."""
    two = pod("web", volumes=uses("large", "small"))
    assert expected == faults(two, claim("large", gib=5), claim("small"), LOCAL, *disks)


@pytest.mark.parametrize(
    ("given", "objects", "expected"),
    [
        (storage_class("made", "kubernetes.io/no-provisioner"), (), (BIND_CONFLICT, BIND_CONFLICT)),
        (MADE, (), (0, 0)),
        (replace(MADE, allowed_topologies=(term("host In a"),)), (), (0, BIND_CONFLICT)),
        (MADE, (CsiDriver(name="disks", uid="d"),), (0, 0)),
        (MADE, (CsiDriver(name="disks", uid="d", tracks_capacity=True),), (NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE)),
    ],
)
def test_volumes_to_be_made(given: Object, objects: tuple[Object, ...], expected: tuple[int, int]) -> None:
    """Without a free volume one can be provisioned, where the class allows it and its driver has capacity."""
    assert expected == faults(WEB, claim("data", given="made"), given, *objects)


@pytest.mark.parametrize(
    ("host", "largest", "expected"),
    [
        ("a", 2 * GIB, (0, NOT_ENOUGH_SPACE)),
        ("a", GIB, (0, NOT_ENOUGH_SPACE)),
        ("a", GIB - 1, (NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE)),
        ("a", None, (NOT_ENOUGH_SPACE, NOT_ENOUGH_SPACE)),
        ("", 2 * GIB, (0, 0)),
    ],
)
def test_capacity(host: str, largest: int | None, expected: tuple[int, int]) -> None:
    """A driver that tracks capacity must have enough within the node's reach."""
    where = LabelSelector((("host", host),)) if host else LabelSelector()
    left = CsiStorageCapacity(name="x", uid="x", storage_class="made", topology=where, max_volume_size=largest)
    counted = CsiDriver(name="disks", uid="d", tracks_capacity=True)
    assert expected == faults(WEB, claim("data", given="made"), MADE, counted, left)


def test_a_claim_that_was_given_to_a_node_stays_there() -> None:
    """Only the node that its volume is being made for will do."""
    assert (BIND_CONFLICT, 0) == faults(WEB, claim("data", given="made", selected_node="b"), MADE)


# --- what is promised


def reserved(held: Cluster, wanted: Pod, where: str) -> StageStatus | Reject:
    memory, answer = PLUGIN.reserve(held.view, held.plugin_state.get(PLUGIN.name), wanted, where)
    held.set_plugin_state(PLUGIN.name, memory)
    return answer


def forgotten(held: Cluster, wanted: Pod, where: str) -> None:
    held.set_plugin_state(PLUGIN.name, PLUGIN.unreserve(held.plugin_state.get(PLUGIN.name), wanted, where))


OTHER = pod("other", volumes=uses("wish"))
DISK = volume("disk", at="a", version=7)
FREE = (A, B, LOCAL, claim("data", version=5), claim("wish", version=6), DISK)


def test_a_promised_volume_is_not_promised_twice() -> None:
    """The next pod finds it taken, until the reservation is removed or the API server reports otherwise."""
    held = cluster(*FREE)
    assert [0, -BIND_CONFLICT] == PLUGIN.filter(held.view, OTHER, ALL_ROWS).tolist()
    assert reserved(held, WEB, "a") is StageStatus.SUCCESS
    assert [-BIND_CONFLICT] * 2 == PLUGIN.filter(held.view, OTHER, ALL_ROWS).tolist()
    assert isinstance(reserved(held, OTHER, "a"), Reject)
    forgotten(held, WEB, "a")
    assert [0, -BIND_CONFLICT] == PLUGIN.filter(held.view, OTHER, ALL_ROWS).tolist()
    assert reserved(held, OTHER, "a") is StageStatus.SUCCESS
    held.upsert_object(replace(DISK, version=8, labels={"new": "er"}))
    assert [0, -BIND_CONFLICT] == PLUGIN.filter(held.view, WEB, ALL_ROWS).tolist()


def test_nothing_is_promised_to_claims_that_have_their_volume() -> None:
    """The memory stays as it is."""
    held = cluster(A, claim("data", volume="disk"), volume("disk"))
    assert (None, StageStatus.SUCCESS) == PLUGIN.reserve(held.view, None, WEB, "a")
    assert (None, StageStatus.SUCCESS) == PLUGIN.reserve(held.view, None, pod("plain"), "a")
    assert [StageStatus.SUCCESS, StageStatus.SUCCESS] == [
        PLUGIN.pre_bind(held.view, each, "a") for each in (WEB, pod("plain"))
    ]


def test_the_api_server_is_told_and_waited_for() -> None:
    """A free volume is reserved in the observed version; the pod continues when the claim is bound."""
    held = cluster(*FREE)
    reserved(held, WEB, "a")
    bind = BindVolume("uid-web", "disk", 7, "default", "data", "uid-data")
    assert Wait(600, (bind,), Change.STORAGE) == PLUGIN.pre_bind(held.view, WEB, "a")
    held.upsert_object(replace(DISK, version=8, claim=claim_ref("data", "uid-data")))
    assert isinstance(PLUGIN.pre_bind(held.view, WEB, "a"), Wait)
    held.upsert_object(claim("data", version=9, volume="disk"))
    assert PLUGIN.pre_bind(held.view, WEB, "a") is StageStatus.SUCCESS


@pytest.mark.parametrize(
    ("kept", "instructions"),
    [
        (
            claim_ref("data"),
            (BindVolume("uid-web", "disk", 7, "default", "data", "uid-data", bound_by_controller=False),),
        ),
        (claim_ref("data", "uid-data"), ()),
    ],
)
def test_a_volume_kept_for_the_claim_needs_less_telling(kept: object, instructions: tuple[BindVolume, ...]) -> None:
    """Only the UID is added; where it is there, all that is left is to wait."""
    held = cluster(A, LOCAL, claim("data", version=5), replace(DISK, claim=kept))
    reserved(held, WEB, "a")
    answer = PLUGIN.pre_bind(held.view, WEB, "a")
    assert isinstance(answer, Wait)
    assert instructions == answer.instructions


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace(DISK, version=8), 'ClaimRef got reset for pv "disk"'),
        (replace(DISK, version=8, claim=claim_ref("wish", "uid-wish")), 'ClaimRef got reset for pv "disk"'),
        (
            replace(DISK, version=8, claim=claim_ref("data", "uid-data"), terms=(term("host In b"),)),
            'pv "disk" node affinity doesn\'t match node "a"',
        ),
    ],
)
def test_a_promise_that_comes_to_nothing(change: Object, words: str) -> None:
    """The pod must look for a node again."""
    held = cluster(*FREE)
    reserved(held, WEB, "a")
    held.upsert_object(change)
    assert Reject(f"binding volumes: {words}", unresolvable=False) == PLUGIN.pre_bind(held.view, WEB, "a")


NEW = claim("data", given="made", version=5)


def test_a_volume_is_made_where_the_pod_goes() -> None:
    """The claim is given to the node; the pod goes on when a volume was made that its node can reach, and bound."""
    held = cluster(A, B, MADE, NEW)
    reserved(held, WEB, "a")
    answer = PLUGIN.pre_bind(held.view, WEB, "a")
    assert isinstance(answer, Wait)
    assert (SelectNode("uid-web", "default", "data", 5, "a"),) == answer.instructions
    held.upsert_object(replace(NEW, version=6, selected_node="a"))
    assert isinstance(PLUGIN.pre_bind(held.view, WEB, "a"), Wait)
    held.upsert_object(replace(NEW, version=7, selected_node="a", volume="made-for-it", bind_completed=True))
    assert isinstance(PLUGIN.pre_bind(held.view, WEB, "a"), Wait)
    held.upsert_object(volume("made-for-it", at="a"))
    assert PLUGIN.pre_bind(held.view, WEB, "a") is StageStatus.SUCCESS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replace(NEW, version=6, phase="Pending"), 'provisioning failed for PVC "data"'),
        (replace(NEW, version=6, selected_node="b"), 'provisioning failed for PVC "data"'),
    ],
)
def test_a_volume_that_cannot_be_made(change: Object, words: str) -> None:
    """The provisioner takes the annotation away, and the pod looks for a node again."""
    held = cluster(A, B, MADE, NEW)
    reserved(held, WEB, "a")
    held.upsert_object(change)
    assert Reject(f"binding volumes: {words}", unresolvable=False) == PLUGIN.pre_bind(held.view, WEB, "a")


def test_what_is_gone_is_not_waited_for() -> None:
    """A claim or volume deleted meanwhile, or a lost reservation, rejects the pod."""
    held = cluster(*FREE)
    reserved(held, WEB, "a")
    lost = held.fork()
    lost.delete_object("persistentvolumes", "disk")
    assert Reject("binding volumes: disk no longer exists", unresolvable=False) == PLUGIN.pre_bind(lost.view, WEB, "a")
    forgotten(held, WEB, "a")
    assert Reject("the volumes are no longer reserved", unresolvable=False) == PLUGIN.pre_bind(held.view, WEB, "a")


def test_plans_are_forgotten_when_they_are_facts() -> None:
    """Nobody tells the plugin that a pod was bound: plans whose claims are bound go when enough have come together."""
    wanted = [claim(f"data-{number}", given="made", version=1) for number in range(SWEEP_SLACK + 1)]
    held = cluster(A, MADE, *wanted, NEW)
    for each in wanted:
        reserved(held, pod(each.name, volumes=uses(each.name)), "a")
    first, second, *others = (
        replace(each, version=2, volume=f"disk-{each.name}", bind_completed=True) for each in wanted
    )
    for each in (first, second, *others):
        held.upsert_object(each)
    for each in others:
        held.upsert_object(volume(each.volume, given="made"))
    reserved(held, WEB, "a")
    unseen = "their volumes are not seen yet, and their pods may wait for that"
    assert {f"uid-{first.name}", f"uid-{second.name}", WEB.uid} == set(held.plugin_state[PLUGIN.name].by_pod), unseen
    held.upsert_object(volume(second.volume, given="made"))
    reserved(held, pod("again", volumes=uses("data")), "a")
    assert 4 == len(held.plugin_state[PLUGIN.name].by_pod), "so few are not looked for"


def test_wakes() -> None:
    """An unschedulable pod is woken by the volume that it can have, not by any other change."""
    held = cluster(A, LOCAL, claim("data"))
    assert not PLUGIN.queueing_hint(held.view, WEB, PLUGIN.requeue_on, ALL_ROWS)
    held.upsert_object(volume("disk", at="b"))
    assert not PLUGIN.queueing_hint(held.view, WEB, PLUGIN.requeue_on, ALL_ROWS)
    held.upsert_object(volume("disk-2", at="a"))
    assert PLUGIN.queueing_hint(held.view, WEB, PLUGIN.requeue_on, ALL_ROWS)


def test_arguments() -> None:
    """What Kubernetes rejects is rejected."""
    with pytest.raises(ValueError, match="bindTimeoutSeconds"):
        VolumeBinding(bind_timeout_seconds=-1)
    with pytest.raises(ValueError, match="shape"):
        VolumeBinding(shape=("x",))


def test_words() -> None:
    """Each bit of a code has its own reason."""
    view = cluster(A, LOCAL, claim("data")).view
    assert tuple(REASONS.values()) == PLUGIN.reasons(view, WEB, -15)
