"""What of an object may leave the cluster: the fields that scheduling decodes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw, Struct, inspect
from msgspec.structs import replace

from tests.wire.json_objects import Json, encoded, node_json, pod_json
from tests.wire.planted_secrets import LABEL_SECRET, SECRET, cluster
from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.core.model.pod import Pod
from trimtab.kube.kinds import EXTRA_KINDS
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.readers import OBJECT_READERS
from trimtab.wire.reduction import Reduced, Reduction, reduced_shape
from trimtab.wire.watch import Reader


def reader_of(kind: str) -> Reader[Any]:
    own: dict[str, Reader[Any]] = {"pods": PodReader(), "nodes": NodeReader(NODE_ANNOTATIONS)}
    return own[kind] if kind in own else OBJECT_READERS[kind]()


def reduced(kind: str, document: Json) -> Reduced:
    found = Reduction(reader_of(kind)).read(encoded(document))
    assert isinstance(found, Reduced), found
    return found


EVERY_KIND = ("pods", "nodes", *OBJECT_READERS)


def test_every_kind_that_can_be_watched_has_a_reader() -> None:
    """The table of readers is that of the kinds, without their paths."""
    assert {kind: each.reader for kind, each in EXTRA_KINDS.items()} == dict(OBJECT_READERS)


def types_in(info: Any) -> Iterator[Any]:
    """The type and all types in it."""
    yield info
    for inner in (*getattr(info, "types", ()), *(getattr(info, "item_types", None) or ())):
        yield from types_in(inner)
    for name in ("item_type", "key_type", "value_type"):
        if (inner := getattr(info, name, None)) is not None:
            yield from types_in(inner)
    for field in getattr(info, "fields", ()):
        yield from types_in(field.type)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_nothing_of_a_reduced_shape_is_open(kind: str) -> None:
    """No field takes just anything, or bytes that nobody has looked at: a list of what may pass would have a hole."""
    found = [*types_in(inspect.type_info(reduced_shape(reader_of(kind).shape)))]
    assert [] == [each for each in found if isinstance(each, inspect.AnyType | inspect.RawType)]


@pytest.mark.parametrize(("kind", "documents"), cluster().items())
def test_no_secret_passes(kind: str, documents: list[Json]) -> None:
    """Neither from environment, arguments, annotations and volumes, nor from messages, names of Secrets and probes."""
    for each in documents:
        assert SECRET.encode() not in reduced(kind, each).content


def test_labels_pass() -> None:
    """Any label may be selected by a policy that is not known yet, so they are all kept."""
    found = reduced("pods", cluster()["pods"][0]).content
    assert LABEL_SECRET.encode() in found


@pytest.mark.parametrize(("kind", "documents"), cluster().items())
def test_the_reader_finds_the_same_object(kind: str, documents: list[Json]) -> None:
    """But for what decides nothing: the message of a condition, and fields of disks that do not tell them apart."""
    for each in documents:
        before, after = reader_of(kind).read(encoded(each)), reader_of(kind).read(reduced(kind, each).content)
        assert essence(before) == essence(after)


def essence(found: Any) -> Any:
    if not isinstance(found, Pod):
        return found
    volumes = tuple(replace(each, source=()) for each in found.spec.volumes)
    condition = found.unschedulable_condition and (found.unschedulable_condition[0], "")
    return replace(found, spec=replace(found.spec, volumes=volumes), unschedulable_condition=condition)


@pytest.mark.parametrize(
    "document",
    [
        pod_json(spec={}),
        pod_json(spec={"nodeSelector": {}, "containers": []}),
        pod_json(spec={"nodeSelector": None, "affinity": {}, "tolerations": [{}]}),
        pod_json({"containers": [{"name": "a"}]}, {"containerStatuses": [{"name": "a", "resources": {}}]}),
        pod_json(
            {"overhead": {"cpu": 1}, "priority": -5, "preemptionPolicy": "Never", "schedulingGates": [{"name": "g"}]}
        ),
        pod_json(
            {
                "volumes": [
                    {"name": "e", "ephemeral": {"x": 1}},
                    {"name": "a", "awsElasticBlockStore": {"volumeID": "v"}},
                ]
            }
        ),
        pod_json(deletionTimestamp="2026-01-31T08:00:00Z", creationTimestamp="2026-01-31T08:00:00.123456Z"),
    ],
)
def test_empty_and_missing_stay_apart(document: Json) -> None:
    """An empty nodeSelector, affinity or set of resources is not the same as none."""
    assert PodReader().read(encoded(document)) == PodReader().read(reduced("pods", document).content)


def test_annotations_that_plugins_read_pass() -> None:
    """By their keys, with all others left out."""
    key = next(iter(NODE_ANNOTATIONS))
    document = node_json(annotations={key: '{"usageThresholds":{"cpu":70}}', "other": SECRET})
    found = reduced("nodes", document)
    assert SECRET.encode() not in found.content and key.encode() in found.content


@pytest.mark.parametrize(
    "spec", [{"affinity": 7}, {"containers": [{"resources": {"requests": [1]}}]}, {"volumes": "x"}]
)
def test_a_field_of_another_type_is_malformed(spec: Json) -> None:
    """Half of such an object could mislead, so it is named and left out."""
    found = Reduction(PodReader()).read(encoded(pod_json(spec)))
    assert isinstance(found, Malformed) and "shop/web-1" == found.key and "spec" in found.error


@pytest.mark.parametrize("document", [b"", b"[]", b"{", b"\xff", b'{"metadata": {}}', b"[" * 100_000])
def test_garbage_is_malformed(document: bytes) -> None:
    """Whatever bytes there are, nothing is raised."""
    assert isinstance(Reduction(PodReader()).read(document), Malformed)


def test_defaults_are_plain_values() -> None:
    """An undecoded null would be written as a value of the file."""
    for kind in EVERY_KIND:
        for each in types_in(inspect.type_info(reduced_shape(reader_of(kind).shape))):
            if isinstance(each, inspect.StructType):
                assert issubclass(each.cls, Struct)
                assert not [field for field in each.fields if isinstance(field.default, Raw)]
