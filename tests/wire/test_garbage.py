"""No input makes a decoder raise: the result is a value, an error or Malformed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api_objects import node, pending_pod, running_pod
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.kube.kinds import EXTRA_KINDS
from trimtab.wire.decoding import Malformed
from trimtab.wire.lease import read_lease
from trimtab.wire.node import NodeReader
from trimtab.wire.outcomes import Reply, bind_outcome, throttle
from trimtab.wire.pod import PodReader
from trimtab.wire.watch import ListPage, WatchEvent, decode_list, decode_watch_event

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
ANY_JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
BYTES = st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode())
AMOUNTS = st.sampled_from(["1e999", "9" * 40, "-1", "1e-999", 1e308, 10**400, "", "Gi"])
PODS, NODES = PodReader(), NodeReader()

GOOD_POD: Any = json.loads(running_pod(0))
GOOD_NODE: Any = json.loads(node(0))
# All that any further kind is read for, in one object.
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
GOOD_OBJECT: Any = {
    "metadata": {
        "name": "n",
        "uid": "u",
        "namespace": "ns",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"topology.kubernetes.io/zone": "z1__z2"},
        "annotations": {"volume.kubernetes.io/selected-node": "a", "storage.alpha.kubernetes.io/migrated-plugins": "x"},
        "ownerReferences": [{"uid": "o", "controller": True}],
    },
    "spec": {
        "selector": SELECTOR,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "ns", "name": "c", "uid": "u"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": SELECTOR["matchExpressions"]}]}},
        "gcePersistentDisk": {"pdName": "disk"},
        "drivers": [{"name": "d", "allocatable": {"count": 3}}],
        "attacher": "d",
        "nodeName": "a",
        "source": {"persistentVolumeName": "v"},
        "minMember": 3,
        "minResources": {"cpu": "1"},
    },
    "status": {"phase": "Bound", "disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
    "provisioner": "d",
    "volumeBindingMode": "Immediate",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
    "nodeTopology": SELECTOR,
    "capacity": "1Gi",
}
WATCHED = ("metadata", "spec", "status")


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in _places(part, (*path, key)))]


def _changed(value: Any, place: tuple[str | int, ...], part: Any) -> bytes:
    whole = {"": copy.deepcopy(value)}
    target: Any = whole
    for key in ("", *place)[:-1]:
        target = target[key]
    target[("", *place)[-1]] = part
    return json.dumps(whole[""]).encode()


@given(BYTES)
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    """Every reader answers any bytes at all with one of its values."""
    assert isinstance(PODS.read(data), Pod | Malformed)
    assert isinstance(NODES.read(data), Node | Malformed)
    assert isinstance(decode_list(data, PODS), ListPage | Malformed)
    assert isinstance(decode_watch_event(data, NODES), WatchEvent)
    assert read_lease(data) is not None
    assert bind_outcome(Bind("u", "ns", "web", "n"), Reply(200, data), 0.0).uid == "u"
    assert throttle(429, {}, data) is not None


@settings(max_examples=300)
@given(st.sampled_from(_places(GOOD_POD)), ANY_JSON)
def test_any_field_of_a_pod_may_hold_anything(place: tuple[str | int, ...], part: Any) -> None:
    """A good pod with one part replaced is a pod, or malformed; and read in a list or a watch it is the same."""
    data = _changed(GOOD_POD, place, part)
    alone = PODS.read(data)
    assert isinstance(alone, Pod | Malformed)
    line = decode_watch_event(b'{"type":"ADDED","object":' + data + b"}", PODS)
    assert repr(alone) == repr(line.object)
    listed = decode_list(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[' + data + b"]}", PODS)
    assert isinstance(listed, ListPage)
    assert repr(alone) == repr(listed.items[0])


@settings(max_examples=200)
@given(st.sampled_from(_places(GOOD_NODE)), ANY_JSON)
def test_any_field_of_a_node_may_hold_anything(place: tuple[str | int, ...], part: Any) -> None:
    """A good node with one part replaced is a node, or malformed."""
    assert isinstance(NODES.read(_changed(GOOD_NODE, place, part)), Node | Malformed)


@pytest.mark.parametrize("kind", EXTRA_KINDS)
@settings(max_examples=100)
@given(place=st.sampled_from(_places(GOOD_OBJECT)), part=ANY_JSON | AMOUNTS)
def test_any_field_of_a_further_object_may_hold_anything(kind: str, place: tuple[str | int, ...], part: Any) -> None:
    """A good object of any further kind with one part replaced is an object, or malformed."""
    reader = EXTRA_KINDS[kind].reader()
    data = _changed(GOOD_OBJECT, place, part)
    alone = reader.read(data)
    assert isinstance(alone, Object | Malformed)
    assert repr(alone) == repr(decode_watch_event(b'{"type":"ADDED","object":' + data + b"}", reader).object)


@given(st.integers(0, 6000), st.integers(0, 255))
def test_damaged_bytes_are_read_without_an_exception(at: int, byte: int) -> None:
    """One byte replaced, or the rest cut off, gives a value all the same."""
    good = running_pod(3)
    at %= len(good)
    assert isinstance(PODS.read(good[:at] + bytes([byte]) + good[at + 1 :]), Pod | Malformed)
    assert isinstance(PODS.read(good[:at]), Malformed)


@given(st.integers(0, 10_000))
def test_what_is_ignored_changes_nothing(i: int) -> None:
    """A pod without the fields that are not used is the same pod."""
    whole = json.loads(pending_pod(i))
    for ignored in ("managedFields", "annotations", "generateName"):
        del whole["metadata"][ignored]
    lean = PodReader().read(json.dumps({key: whole[key] for key in WATCHED}).encode())
    assert lean == PodReader().read(pending_pod(i))
