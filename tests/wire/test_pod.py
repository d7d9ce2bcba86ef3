"""Pods are decoded: each field, each default, and the error when a field cannot be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.wire.json_objects import Json, container, encoded, pod_json, read_pod
from trimtab.core.model.pod import Owner, Pod, PodSpec
from trimtab.core.model.resources import PodRequests
from trimtab.wire.decoding import Malformed
from trimtab.wire.pod import PodReader
from trimtab.wire.pod_json import PodSpecShape, PodStatusShape

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o-1", "controller": True}
CONDITIONS = [
    {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:30Z"},
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"},
    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
]
RESTARTED = [{"name": "web", "restartCount": 2}, {"name": "log", "restartCount": 1}, {"name": "x"}]
BACKUP = {"apiVersion": "v1", "kind": "Backup", "name": "b", "uid": "o-2"}


def test_every_field_lands_where_it_belongs() -> None:
    """Each field of the model is read from its own field of the object, so that none is taken for another."""
    spec: Json = {
        "nodeName": "n-1",
        "schedulerName": "trimtab",
        "priority": 7,
        "preemptionPolicy": "Never",
        "schedulingGates": [{"name": "example.com/wait"}],
        "hostNetwork": True,
        "containers": [container(requests={"cpu": "250m"})],
    }
    status: Json = {
        "phase": "Running",
        "nominatedNodeName": "n-2",
        "startTime": "1970-01-01T00:01:00Z",
        "conditions": CONDITIONS,
        "containerStatuses": RESTARTED,
    }
    pod = read_pod(
        pod_json(
            spec,
            status,
            labels={"app": "web"},
            ownerReferences=[BACKUP, OWNER],
            creationTimestamp="1970-01-01T00:00:30Z",
            deletionTimestamp="1970-01-01T00:02:00Z",
            annotations={"trimtab.dev/evict": "never"},
        )
    )
    expected = Pod(
        uid="u-1",
        namespace="shop",
        name="web-1",
        version=41,
        labels={"app": "web"},
        owner=Owner(kind="ReplicaSet", name="web", uid="o-1", api_version="apps/v1"),
        created=30.0,
        terminating=True,
        node="n-1",
        nominated_node="n-2",
        scheduler_name="trimtab",
        priority=7,
        may_preempt=False,
        scheduling_gates=("example.com/wait",),
        spec=PodSpec(images=("web:1",), host_network=True),
        requests=pod.requests,
        phase="Running",
        started=60.0,
        ready=True,
        unschedulable_condition=("Unschedulable", "no room"),
        spec_error="",
        preempted=True,
        annotations={"trimtab.dev/evict": "never"},
        ready_since=90.0,
        restarts=3,
    )
    assert (expected, (("cpu", 250),)) == (pod, pod.requests.amounts)


@pytest.mark.parametrize("empty", [{}, {"spec": None, "status": None}, {"spec": {}, "status": {}}])
def test_what_is_absent_has_its_default(empty: Json) -> None:
    """A pod with nothing but an identity reads as the model's default, and so do nulls."""
    value = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, **empty}
    pod = read_pod(value)
    assert Pod(uid="c", namespace="b", name="a", requests=pod.requests) == pod
    assert () == pod.requests.amounts


def _fields(shape: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(shape)]


def test_nulls_are_absent_everywhere() -> None:
    """Every field that is null reads as if it were not there, as in Go."""
    spec, status = dict.fromkeys(_fields(PodSpecShape)), dict.fromkeys(_fields(PodStatusShape))
    metadata: dict[str, Any] = dict.fromkeys(("labels", "ownerReferences", "creationTimestamp", "deletionTimestamp"))
    pod = read_pod(pod_json(spec, status, **metadata))
    assert "" == pod.spec_error
    assert Pod(uid="u-1", namespace="shop", name="web-1", version=41, requests=pod.requests) == pod


def test_a_pod_that_is_not_ready_is_so_since_no_time() -> None:
    """The condition's time is then when it ceased to be."""
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:30Z"}
    assert read_pod(pod_json({}, {"conditions": [condition]})).ready_since is None


@pytest.mark.parametrize(("status", "reason"), [("False", "PreemptionByScheduler"), ("True", "EvictionByEvictionAPI")])
def test_only_preemption_makes_a_victim(status: str, reason: str) -> None:
    """A disruption of another kind, or one that was taken back, does not count as preemption."""
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    assert not read_pod(pod_json({}, {"conditions": [condition]})).preempted


def test_the_first_controller_is_the_owner() -> None:
    """Of two controllers the first counts; an owner that does not control is none."""
    second = {**OWNER, "name": "other"}
    assert "web" == getattr(read_pod(pod_json(ownerReferences=[OWNER, second])).owner, "name", None)
    assert read_pod(pod_json(ownerReferences=[BACKUP])).owner is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("9999-12-31T23:59:59Z", 253402300799.0),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_times_of_any_year_are_read(text: str, seconds: float) -> None:
    """Times from the first to the last year, and of any zone, are seconds since 1970."""
    assert seconds == read_pod(pod_json(creationTimestamp=text)).created


@pytest.mark.parametrize("condition", [{"type": "PodScheduled", "status": "True"}, {"type": "Odd", "status": "False"}])
def test_only_a_false_pod_scheduled_is_unscheduled(condition: Json) -> None:
    """Other conditions, and a true one, leave the pod without a reason to wait."""
    assert read_pod(pod_json(status={"conditions": [condition]})).unschedulable_condition is None


@pytest.mark.parametrize("phase", ["Unknown", "Invented", "Succeeded"])
def test_any_phase_is_kept_as_it_is(phase: str) -> None:
    """An unknown phase is no error; an empty one counts as Pending."""
    assert phase == read_pod(pod_json(status={"phase": phase})).phase
    assert "Pending" == read_pod(pod_json(status={"phase": ""})).phase


FAULTS = [
    ({"priority": "high"}, "spec.priority"),
    ({"nodeName": 5}, "spec.nodeName"),
    ({"containers": [{"image": 5}]}, "spec.containers[0].image"),
    ({"containers": "none"}, "spec.containers"),
    ({"containers": [container(requests={"cpu": "12 cores"})]}, "spec.containers[0].resources.requests.cpu"),
    ({"containers": [container(limits={"memory": "-1"})]}, "spec.containers[0].resources.limits.memory"),
    ({"containers": [container(requests={"cpu": True})]}, "spec.containers[0].resources"),
    ({"initContainers": [container(requests={"cpu": "1K"})]}, "spec.initContainers[0].resources.requests.cpu"),
    ({"containers": [{"name": "a", "ports": [{"hostPort": "x"}]}]}, "spec.containers[name=a].ports"),
    ({"overhead": {"cpu": "x"}}, "spec.overhead.cpu"),
    ({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
    ({"affinity": {"nodeAffinity": []}}, "spec.affinity.nodeAffinity"),
    ({"tolerations": {}}, "spec.tolerations"),
    ({"topologySpreadConstraints": [{"maxSkew": "1"}]}, "spec.topologySpreadConstraints[0].maxSkew"),
    ({"nodeSelector": {"a": 1}}, "spec.nodeSelector"),
    ({"schedulingGates": 1}, "spec.schedulingGates"),
    ({"volumes": [{"name": "v", "rbd": 3}]}, "spec.volumes[name=v].rbd"),
    ({"resourceClaims": 3}, "spec.resourceClaims"),
    ({"workloadRef": 3}, "spec.workloadRef"),
    ({"schedulingGroup": 3}, "spec.schedulingGroup"),
]


@pytest.mark.parametrize(("spec", "path"), FAULTS)
def test_an_unreadable_field_is_named(spec: Json, path: str) -> None:
    """A pod with one bad field keeps its identity and the rest; the error names the field and what to do."""
    pod = read_pod(pod_json({"schedulerName": "trimtab", **spec}))
    assert pod.spec_error.startswith(path)
    assert pod.spec_error.endswith("; correct the field")
    assert ("u-1", "shop/web-1", 41, "trimtab") == (pod.uid, pod.key, pod.version, pod.scheduler_name)


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"labels": {"a": 1}}, "metadata.labels"),
        ({"labels": ["a"]}, "metadata.labels"),
        ({"ownerReferences": {}}, "metadata.ownerReferences"),
        ({"creationTimestamp": "yesterday"}, "metadata.creationTimestamp"),
        ({"creationTimestamp": "2026-01-01T00:00:00"}, "metadata.creationTimestamp"),
    ],
)
def test_unreadable_metadata_is_named_too(metadata: Json, path: str) -> None:
    """Metadata beside the identity may be unreadable without the pod getting lost."""
    assert read_pod(pod_json(**metadata)).spec_error.startswith(path)


@pytest.mark.parametrize("status", [{"phase": 3}, {"conditions": {}}, {"startTime": "noon"}, {"containerStatuses": 3}])
def test_an_unreadable_status_leaves_the_pod_in_place(status: Json) -> None:
    """A bound pod whose status cannot be read still takes its room."""
    pod = read_pod(pod_json({"nodeName": "n-1", "containers": [container(requests={"cpu": "1"})]}, status))
    assert pod.spec_error.startswith(f"status.{next(iter(status))}")
    assert pod.holds_resources
    assert 1000 == pod.requests.of("cpu")


def test_an_error_is_reported_for_the_next_pod_of_the_template() -> None:
    """The second pod of a faulty template is as faulty as the first, although nothing is decoded for it."""
    reader, spec = PodReader(), {"containers": [container(requests={"cpu": "-1"})]}
    first, second = (read_pod(pod_json(spec, uid=uid), reader) for uid in ("a", "b"))
    assert first.spec_error == second.spec_error != ""
    assert 0 == second.requests.of("cpu")


def test_several_errors_are_counted() -> None:
    """The first error is given in full, the others by number."""
    pod = read_pod(pod_json({"containers": [container(requests={"cpu": "x", "memory": "y"})]}))
    assert "(and 1 more)" in pod.spec_error


@pytest.mark.parametrize(
    ("data", "key", "uid"),
    [
        (b"", "", ""),
        (b"null", "", ""),
        (b"[]", "", ""),
        (b"<html>", "", ""),
        (b'{"metadata":{"name":"\xff","namespace":"b","uid":"c"}}', "b", "c"),
        (encoded({"metadata": None}), "", ""),
        (encoded({"metadata": {"name": "a", "namespace": "b"}}), "b/a", ""),
        (encoded({"metadata": {"name": "a", "namespace": "b", "uid": ""}}), "b/a", ""),
        (encoded({"metadata": {"name": "a", "namespace": "b", "uid": 5}}), "b/a", ""),
        (encoded({"metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": 5}}), "b/a", "c"),
        (encoded({"metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "x"}}), "b/a", "c"),
        (b'{"metadata":' + b"[" * 100_000, "", ""),
    ],
)
def test_without_identity_it_is_malformed(data: bytes, key: str, uid: str) -> None:
    """A pod that cannot be identified is Malformed, with as much of its identity as there is."""
    found = PodReader().read(data)
    assert isinstance(found, Malformed)
    assert ("Pod", key, uid) == (found.kind, found.key, found.uid)
    assert found.error


def test_an_unreadable_spec_asks_for_nothing() -> None:
    """A spec of the wrong type leaves spec and demand empty rather than guessed."""
    pod = read_pod({**pod_json(), "spec": "lost"})
    assert pod.spec_error.startswith("spec: ")
    assert (PodSpec(), ()) == (pod.spec, pod.requests.amounts)
    assert isinstance(pod.requests, PodRequests)
