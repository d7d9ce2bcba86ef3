"""Objects beyond pods and nodes become model values, or Malformed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.json_objects import Json, encoded
from trimtab.core.model.objects import (
    Namespace,
    Object,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import LabelSelector, Requirement
from trimtab.wire.decoding import Malformed
from trimtab.wire.objects import (
    budgets,
    namespaces,
    pod_groups,
    replica_sets,
    replication_controllers,
    services,
    stateful_sets,
)
from trimtab.wire.watch import ListPage, decode_list

IDENTITY: dict[str, Any] = {"name": "web", "namespace": "shop", "uid": "u-1", "version": 41}
READERS = (namespaces, services, replication_controllers, replica_sets, stateful_sets, budgets, pod_groups)


def an_object(spec: Any = None, status: Any = None, **metadata: Any) -> Json:
    whole = {"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "41", **metadata}
    return {"apiVersion": "x/v1", "kind": "X", "metadata": whole, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("reader", "spec", "expected"),
    [
        (services, None, Service(**IDENTITY)),
        (services, {}, Service(**IDENTITY)),
        (services, {"selector": None}, Service(**IDENTITY)),
        (services, {"selector": {}}, Service(**IDENTITY, selector=LabelSelector())),
        (
            services,
            {"selector": {"b": "2", "a": "1"}},
            Service(**IDENTITY, selector=LabelSelector((("a", "1"), ("b", "2")))),
        ),
        (
            replication_controllers,
            {"selector": {"a": "1"}, "replicas": 3},
            ReplicationController(**IDENTITY, selector=LabelSelector((("a", "1"),))),
        ),
        (replica_sets, {"replicas": 1}, ReplicaSet(**IDENTITY)),
        (replica_sets, {"selector": {}}, ReplicaSet(**IDENTITY, selector=LabelSelector())),
        (
            stateful_sets,
            {"selector": {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}},
            StatefulSet(**IDENTITY, selector=LabelSelector((("a", "1"),), (Requirement("b", "Exists"),))),
        ),
    ],
)
def test_what_is_selected(reader: Any, spec: Json | None, expected: Object) -> None:
    """Services and controllers are their selectors; no selector and an empty one are told apart."""
    assert expected == reader().read(encoded(an_object(spec)))


def test_a_namespace_is_its_labels() -> None:
    """Labels are kept, no labels are none, and equal ones exist once."""
    reader = namespaces()
    found: list[Any] = [
        reader.read(encoded(an_object(uid=uid, namespace=None, labels={"team": "a"}))) for uid in ("u-1", "u-2")
    ]
    assert [Namespace(name="web", uid=uid, version=41, labels={"team": "a"}) for uid in ("u-1", "u-2")] == found
    assert found[0].labels is found[1].labels
    assert Namespace(name="web", uid="u-1", version=41) == reader.read(encoded(an_object(namespace=None)))


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (None, None, PodDisruptionBudget(**IDENTITY)),
        ({"minAvailable": 2}, {"disruptionsAllowed": None, "disruptedPods": None}, PodDisruptionBudget(**IDENTITY)),
        (
            {"selector": {}},
            {"disruptionsAllowed": 2, "disruptedPods": {"web-2": "2024-05-01T10:00:00Z", "web-1": None}},
            PodDisruptionBudget(
                **IDENTITY, selector=LabelSelector(), disruptions_allowed=2, disrupted_pods=("web-1", "web-2")
            ),
        ),
        (None, {"desiredHealthy": 3}, PodDisruptionBudget(**IDENTITY, desired_healthy=3)),
    ],
)
def test_a_budget_allows_what_its_status_says(
    spec: Json | None, status: Json | None, expected: PodDisruptionBudget
) -> None:
    """Before the disruption controller has looked at it, it allows nothing."""
    assert expected == budgets().read(encoded(an_object(spec, status)))


@pytest.mark.parametrize(("observed", "expected"), [(None, False), (1, False), (2, True)])
def test_a_status_of_an_older_spec_is_told_apart(observed: int | None, expected: bool) -> None:
    """The API server refuses evictions until the disruption controller has seen the present spec."""
    found = budgets().read(encoded(an_object(status={"observedGeneration": observed}, generation=2)))
    assert isinstance(found, PodDisruptionBudget)
    assert expected is found.observed


def test_a_stateful_set_has_its_replicas() -> None:
    """By them one sees that a pod is missing."""
    found = stateful_sets().read(encoded(an_object({"replicas": 3})))
    assert StatefulSet(**IDENTITY, replicas=3) == found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, PodGroup(**IDENTITY)),
        ({"minMember": 0}, PodGroup(**IDENTITY)),
        (
            {"minMember": 3, "scheduleTimeoutSeconds": 600},
            PodGroup(**IDENTITY, min_member=3, timeout=600),
        ),
        (
            {"minResources": {"cpu": "1500m", "memory": "1Gi"}},
            PodGroup(**IDENTITY, min_resources=PodRequests(amounts=(("cpu", 1500), ("memory", 1 << 30)))),
        ),
    ],
)
def test_a_gang_is_read_with_its_numbers(spec: Json | None, expected: PodGroup) -> None:
    """Absent fields have defaults: one member, no resources, the plugin's own timeout."""
    assert expected == pod_groups().read(encoded(an_object(spec)))


def test_a_gang_knows_when_it_was_made() -> None:
    """The time of its creation decides between gangs of one priority."""
    found = pod_groups().read(encoded(an_object(creationTimestamp="1970-01-01T00:01:40Z")))
    assert PodGroup(**IDENTITY, created=100.0) == found


@pytest.mark.parametrize(
    ("reader", "value", "field"),
    [
        (services, an_object({"selector": {"a": 1}}), "spec.selector"),
        (replica_sets, an_object({"selector": {"matchExpressions": [{"operator": 5}]}}), "spec.selector.matchExp"),
        (budgets, an_object(status={"disruptionsAllowed": "many"}), "status.disruptionsAllowed"),
        (pod_groups, an_object({"minMember": "three"}), "spec.minMember"),
        (pod_groups, an_object({"minResources": {"cpu": "lots"}}), "spec.minResources.cpu"),
        (namespaces, an_object(labels={"a": 1}), "metadata.labels"),
        (pod_groups, an_object(creationTimestamp="yesterday"), "metadata.creationTimestamp"),
    ],
)
def test_what_cannot_be_read_is_named(reader: Any, value: Json, field: str) -> None:
    """An object with an unreadable field is Malformed as a whole, with its identity and the field."""
    found = reader().read(encoded(value))
    assert isinstance(found, Malformed)
    assert ("shop/web", "u-1") == (found.key, found.uid)
    assert found.error.startswith(field)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'{"metadata":{}}', b'{"metadata":{"name":"a"}}', b"[" * 5000])
def test_without_identity_it_is_malformed(reader: Any, data: bytes) -> None:
    """What has no name or UID is no object of any kind, and nothing is raised."""
    assert isinstance(reader().read(data), Malformed)


@pytest.mark.parametrize("reader", READERS)
def test_one_bad_object_leaves_the_rest(reader: Any) -> None:
    """In a list the good ones are read beside the bad one."""
    items = [an_object(uid="a"), an_object(uid="b", resourceVersion="x"), an_object(uid="c")]
    body = {"kind": "XList", "metadata": {"resourceVersion": "50"}, "items": items}
    listed = decode_list(encoded(body), reader())
    assert isinstance(listed, ListPage)
    assert [False, True, False] == [isinstance(each, Malformed) for each in listed.items]
