"""Lists and watch events become the right events."""

from __future__ import annotations

import logging

import pytest

from trimtab.core.model.events import NodeDeleted, NodeUpserted, PodDeleted, PodUpserted
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.kinds import node_kind, pod_kind
from trimtab.kube.store import ResourceVersionRegressed, Store
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.watch import ListPage, WatchEvent


def pod(uid: str, version: int) -> Pod:
    return Pod(uid=uid, namespace="ns", name=f"name-{uid}", version=version)


def filled_store(*items: Pod | Malformed, version: int = 10) -> Store[Pod]:
    store = Store(pod_kind(PodReader()))
    list(store.replace(ListPage(version, "", items), 0.0))
    return store


def test_a_first_list_is_all_new() -> None:
    """Every object of a first list is a event."""
    store = Store(pod_kind(PodReader()))
    events = list(store.replace(ListPage(10, "", (pod("a", 3), pod("b", 7))), 1.5))
    assert [PodUpserted(pod("a", 3), 1.5), PodUpserted(pod("b", 7), 1.5)] == events
    assert (10, 2) == (store.version, len(store))


def test_a_later_list_becomes_the_difference() -> None:
    """First deletions, then what is new or changed; the rest is not repeated."""
    store = filled_store(pod("kept", 3), pod("changed", 4), pod("vanished", 5))
    listed = ListPage(20, "", (pod("kept", 3), pod("changed", 15), pod("new", 16)))
    expected = [PodDeleted("vanished", 2.0, 20), PodUpserted(pod("changed", 15), 2.0), PodUpserted(pod("new", 16), 2.0)]
    assert expected == list(store.replace(listed, 2.0))
    assert {"kept", "changed", "new"} == store.objects().keys()


def test_a_node_recreated_under_its_name() -> None:
    """A node recreated during an outage is deleted by its old UID before it is added by its new one."""
    store = Store(node_kind(NodeReader()))
    list(store.replace(ListPage(10, "", (Node("n", uid="old", version=3),)), 0.0))
    events = list(store.replace(ListPage(20, "", (Node("n", uid="new", version=15),)), 1.0))
    assert [NodeDeleted("n", 1.0, "old", 20), NodeUpserted(Node("n", uid="new", version=15), 1.0)] == events


def test_a_list_from_the_past_is_refused() -> None:
    """No list with a lower version than one already seen is believed, and nothing changes by it."""
    store = filled_store(pod("a", 3), version=10)
    with pytest.raises(ResourceVersionRegressed, match="listed at version 9, but 10 was seen before"):
        list(store.replace(ListPage(9, "", ()), 1.0))
    assert (10, {"a"}) == (store.version, set(store.objects()))


def test_an_object_read_beside_the_watch_counts_if_it_is_newer() -> None:
    """One that the watch has overtaken changes nothing."""
    store = filled_store(pod("a", 3))
    assert None is store.upsert(pod("a", 2), 1.0)
    assert None is store.upsert(pod("a", 3), 1.0)
    assert PodUpserted(pod("a", 4), 1.0) == store.upsert(pod("a", 4), 1.0)
    assert {"a": 4} == store.versions()


def test_watch_events_become_events() -> None:
    """Added and modified objects are seen, deleted ones gone, and a bookmark only moves the version."""
    store = filled_store()
    assert PodUpserted(pod("a", 11), 1.0) == store.apply(WatchEvent("ADDED", pod("a", 11), 11), 1.0)
    assert PodUpserted(pod("a", 12), 2.0) == store.apply(WatchEvent("MODIFIED", pod("a", 12), 12), 2.0)
    assert PodDeleted("a", 3.0, 13) == store.apply(WatchEvent("DELETED", pod("a", 13), 13), 3.0)
    assert store.apply(WatchEvent("BOOKMARK", version=99), 4.0) is None
    assert (99, 0) == (store.version, len(store))


@pytest.mark.parametrize("version", [1, 10])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
def test_repeats_are_ignored(kind: str, version: int) -> None:
    """A line that is not newer than what is known changes nothing: not its object, not the version."""
    store = filled_store(pod("a", 3), version=10)
    found = None if kind == "BOOKMARK" else pod("a", version)
    assert store.apply(WatchEvent(kind, found, version), 1.0) is None
    assert ({"a": pod("a", 3)}, 10) == (store.objects(), store.version)


def test_a_malformed_object_is_not_deleted() -> None:
    """An object in the list that cannot be read is skipped, and not taken for deleted: known by UID or by name."""
    store = filled_store(pod("a", 3), pod("b", 3), pod("c", 3))
    broken = (Malformed("Pod", "", "a", "bad"), Malformed("Pod", "ns/name-b", "", "bad"))
    assert [PodDeleted("c", 1.0, 20)] == list(store.replace(ListPage(20, "", broken), 1.0))
    assert 2 == store.malformed


def test_a_malformed_object_can_be_deleted() -> None:
    """The deletion of a malformed object is an event if its UID is known, else none."""
    store = filled_store(pod("a", 3))
    assert PodDeleted("a", 1.0, 11) == store.apply(WatchEvent("DELETED", Malformed("Pod", "", "a", "bad"), 11), 1.0)
    assert store.apply(WatchEvent("DELETED", Malformed("Pod", "", "z", "bad"), 12), 1.0) is None
    assert store.apply(WatchEvent("ADDED", Malformed("Pod", "", "z", "bad"), 13), 1.0) is None
    assert 13 == store.version


def test_each_uid_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """A malformed object is counted each time and logged once; another one has a line of its own."""
    store = filled_store()
    with caplog.at_level(logging.WARNING):
        for version, uid in ((11, "a"), (12, "a"), (13, "b")):
            store.apply(WatchEvent("MODIFIED", Malformed("Pod", "ns/x", uid, "bad"), version), 1.0)
    assert (3, 2) == (store.malformed, len(caplog.records))


def test_a_node_with_an_invalid_field_is_kept_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The engine gets the node without that field; the log names the field."""
    store = Store(node_kind(NodeReader()))
    with caplog.at_level(logging.WARNING):
        for version in (11, 12):
            node = Node("n", uid="u", version=version, error="status.images: not a list")
            assert NodeUpserted(node, 1.0) == store.apply(WatchEvent("MODIFIED", node, version), 1.0)
    assert ["object has an invalid field: kind=nodes key=n error=status.images: not a list"] == caplog.messages
