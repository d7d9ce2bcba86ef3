"""Nodes are decoded; where a field cannot be, the node offers less, never more."""

from __future__ import annotations

import pytest

from tests.wire.json_objects import Json, encoded, node_json, read_node
from trimtab.core.model.node import Image, Node
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.core.model.taints import Taint
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import MAX_SHARED_IMAGES, NodeReader


@pytest.mark.parametrize("last", [{"names": ["z"], "sizeBytes": 5}, None, {"names": 7}])
def test_very_many_images_are_read_like_few(last: object) -> None:
    """Also where one is null, or cannot be read."""
    few: list[object] = [{"names": ["a"], "sizeBytes": 12}, last]
    many = read_node(node_json({}, {"images": few * MAX_SHARED_IMAGES}))
    expected = read_node(node_json({}, {"images": few}))
    assert (expected.images * MAX_SHARED_IMAGES, expected.error) == (many.images, many.error)


def test_every_field_lands_where_it_belongs() -> None:
    """Each field of the model is read from its own field of the object."""
    node = read_node(
        node_json(
            {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c"}]},
            {
                "allocatable": {"cpu": "3920m", "memory": "7Gi", "pods": "110"},
                "capacity": {"cpu": "4"},
                "images": [{"names": ["a", "b"], "sizeBytes": 12}, {"names": None}],
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "ExternalIP", "address": "1.2.3.4"},
                    {"type": "Hostname", "address": "n-1"},
                ],
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
            labels={"zone": "a"},
        )
    )
    expected = Node(
        name="n-1",
        uid="nu-1",
        version=7,
        labels={"zone": "a"},
        taints=(Taint("a", "b", "NoSchedule"), Taint("c")),
        unschedulable=True,
        allocatable=(("cpu", 3920), ("memory", 7 * 2**30), ("pods", 110)),
        images=(Image(("a", "b"), 12), Image((), 0)),
        addresses=("10.0.0.1", "n-1"),
        ready=True,
        capacity=(("cpu", 4000),),
    )
    assert expected == node


@pytest.mark.parametrize(
    "value", [{"metadata": {"name": "n"}}, {"metadata": {"name": "n"}, "spec": None, "status": None}]
)
def test_what_is_absent_has_its_default(value: Json) -> None:
    """A node without status offers nothing, and is otherwise valid."""
    assert Node(name="n") == read_node(value)


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        ({"capacity": {"cpu": "4"}}, (("cpu", 4000),)),
        ({"capacity": {"cpu": "4"}, "allocatable": None}, (("cpu", 4000),)),
        ({"capacity": {"cpu": "4"}, "allocatable": {}}, ()),
        ({"capacity": {"cpu": "2"}, "allocatable": {"cpu": "4"}}, (("cpu", 4000),)),
        ({"allocatable": {"cpu": "0", "x.y/gpu": "2"}}, (("cpu", 0), ("x.y/gpu", 2))),
        ({"allocatable": {"cpu": "7Ei", "memory": "10e99"}}, (("cpu", MAX_AMOUNT), ("memory", MAX_AMOUNT))),
    ],
)
def test_capacity_stands_in_only_when_allocatable_is_absent(status: Json, offered: tuple[tuple[str, int], ...]) -> None:
    """Allocatable counts as it is, however odd; without any the capacity does, as in the API server."""
    assert offered == read_node(node_json(status=status)).allocatable


def test_parts_of_a_unit_count_as_a_whole_one() -> None:
    """What is offered is rounded up to thousandths of a core and to bytes, as kube-scheduler does."""
    status = {"allocatable": {"cpu": "1500.1m", "memory": "1m", "pods": "10.1"}}
    assert (("cpu", 1501), ("memory", 1), ("pods", 11)) == read_node(node_json(status=status)).allocatable


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_ready_means_that_it_says_so(status: str | None, ready: bool) -> None:
    """A node whose Ready condition is anything but True is not ready."""
    assert ready is read_node(node_json(status={"conditions": [{"type": "Ready", "status": status}]})).ready


@pytest.mark.parametrize("text", ["-1", "many", "1K"])
def test_a_bad_quantity_offers_nothing_of_it(text: str) -> None:
    """A resource whose amount is below zero or no quantity is offered as nothing, and named; the others stay."""
    node = read_node(node_json(status={"allocatable": {"cpu": text, "memory": "1Gi"}}))
    assert (("cpu", 0), ("memory", 2**30)) == node.allocatable
    assert node.error.startswith("status.allocatable.cpu")
    assert not node.unschedulable


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (node_json(labels={"a": 1}), "metadata.labels"),
        (node_json({"taints": "none"}), "spec.taints"),
        (node_json({"unschedulable": "yes"}), "spec.unschedulable"),
        ({**node_json(), "spec": 5}, "spec"),
    ],
)
def test_a_node_that_cannot_be_judged_takes_no_pods(value: Json, path: str) -> None:
    """Without its labels or taints a node counts as unschedulable, and its error says why."""
    node = read_node(value)
    assert node.unschedulable
    assert node.error.startswith(path)


@pytest.mark.parametrize(
    ("status", "path"),
    [
        ({"images": [{"names": 5}]}, "status.images"),
        ({"addresses": 5}, "status.addresses"),
        ({"conditions": 5}, "status.conditions"),
        ({"allocatable": 5}, "status.allocatable"),
    ],
)
def test_other_errors_leave_it_schedulable(status: Json, path: str) -> None:
    """What does not decide where pods may go is named and left out."""
    node = read_node(node_json(status=status))
    assert node.error.startswith(path)
    assert not node.unschedulable


def test_nodes_share_images_and_sizes() -> None:
    """An image that many nodes hold, and a size that many have, are one value."""
    reader = NodeReader()
    status = {"allocatable": {"cpu": "4"}, "images": [{"names": ["a"], "sizeBytes": 1}]}
    first, second = (reader.read(encoded(node_json(status=status, name=name))) for name in ("a", "b"))
    assert not isinstance(first, Malformed)
    assert not isinstance(second, Malformed)
    assert first.images[0] is second.images[0]
    assert first.allocatable is second.allocatable


@pytest.mark.parametrize(
    ("data", "name", "uid"),
    [
        (b"", "", ""),
        (b"null", "", ""),
        (encoded({"metadata": {"uid": "u"}}), "", "u"),
        (encoded({"metadata": {"name": "n", "uid": 5}}), "n", ""),
        (encoded({"metadata": {"name": "n", "uid": "u", "resourceVersion": "x"}}), "n", "u"),
    ],
)
def test_without_identity_it_is_malformed(data: bytes, name: str, uid: str) -> None:
    """What has no name or version is no node; as much of its identity as there is comes along."""
    found = NodeReader().read(data)
    assert isinstance(found, Malformed)
    assert ("Node", name, uid) == (found.kind, found.key, found.uid)


@pytest.mark.parametrize("name", ["1", "n" * 253])
def test_any_name_will_do(name: str) -> None:
    """A name of one digit or of 253 letters is a name, and a hundred taints are a hundred taints."""
    taints = [{"key": f"t{index}", "effect": "Invented"} for index in range(100)]
    node = read_node(node_json({"taints": taints}, name=name))
    assert (name, 100) == (node.name, len(node.taints))


def parse_even(text: str) -> int | None:
    """The number in the annotation, None for 0; odd ones are invalid."""
    number = int(text)
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number or None


def annotated(text: object, **others: object) -> Node | Malformed:
    reader = NodeReader({"example.com/even": parse_even, "example.com/other": parse_even})
    return reader.read(encoded({"metadata": {"name": "n", "annotations": {"example.com/even": text, **others}}}))


@pytest.mark.parametrize(("text", "expected"), [("4", {"example.com/even": "4"}), ("0", {}), ("", {}), (None, {})])
def test_annotations_that_a_plugin_reads_are_kept(text: str | None, expected: dict[str, str]) -> None:
    """As text; one without effect is dropped, and so are all the others."""
    assert Node(name="n", annotations=expected) == annotated(text, foreign="x" * 1000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "metadata.annotations[example.com/even]: 3 is odd; correct the field"),
        ("x", "metadata.annotations[example.com/even]: invalid literal"),
        (7, "metadata.annotations"),
    ],
)
def test_invalid_annotations_are_dropped_and_named(text: object, words: str) -> None:
    """The node is kept without the annotation, and pods may go there as before."""
    node = annotated(text)
    assert isinstance(node, Node)
    assert ({}, False) == (node.annotations, node.unschedulable)
    assert words in node.error
