"""Which quotas count the pods of a template, and whether they have room for one more."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from trimtab.wire.quota import PodTemplate, exhausted_quota

FULL = {"hard": {"pods": "2"}, "used": {"pods": "2"}}
SMALL = {"resources": {"requests": {"cpu": "1"}}}


def template(*containers: dict[str, Any], **spec: Any) -> PodTemplate:
    return msgspec.json.decode(json.dumps({"spec": {"containers": containers, **spec}}), type=PodTemplate)


def exhausted(found: PodTemplate, **spec: Any) -> bool:
    """Whether a full quota with this spec counts pods of the template."""
    quota = {"metadata": {"name": "small"}, "spec": spec, "status": FULL}
    return bool(exhausted_quota(found, json.dumps({"items": [quota]}).encode()))


@pytest.mark.parametrize(
    ("scope", "counted", "not_counted"),
    [
        ("Terminating", template(activeDeadlineSeconds=60), template()),
        ("NotTerminating", template(), template(activeDeadlineSeconds=60)),
        ("BestEffort", template({}), template({}, SMALL)),
        ("BestEffort", template({}), template({"resources": {"limits": {"memory": "1Gi"}}})),
        ("NotBestEffort", template(SMALL), None),
        ("CrossNamespacePodAffinity", template(), None),
    ],
)
def test_scopes(scope: str, counted: PodTemplate, not_counted: PodTemplate | None) -> None:
    """A scope that the template alone does not decide counts."""
    assert exhausted(counted, scopes=[scope])
    assert not_counted is None or not exhausted(not_counted, scopes=[scope])
    assert not_counted is None or not exhausted(not_counted, scopes=[scope, "CrossNamespacePodAffinity"])


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [
        ("In", ["high", "top"], True),
        ("In", ["low"], False),
        ("NotIn", ["high"], False),
        ("NotIn", ["low"], True),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
    ],
)
def test_a_class_of_priorities(operator: str, values: list[str] | None, counted: bool) -> None:
    """A pod without one may get the default class, so it counts."""
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    selector = {"matchExpressions": [expression]}
    assert counted == exhausted(template(priorityClassName="high"), scopeSelector=selector)
    assert exhausted(template(), scopeSelector=selector)


def test_no_scopes() -> None:
    """All pods count."""
    assert exhausted(template())


def cpu(requests: str = "", limits: str = "", **more: Any) -> dict[str, Any]:
    given = {"requests": requests, "limits": limits}
    return {"resources": {kind: {"cpu": amount} for kind, amount in given.items() if amount}, **more}


@pytest.mark.parametrize(
    ("found", "requests", "limits"),
    [
        (template(cpu("1"), cpu("100m", "2")), 1100, 2000),
        (template(cpu(limits="2")), 2000, 2000),
        (template(cpu("1"), initContainers=[cpu("3")]), 3000, 0),
        (template(cpu("1"), initContainers=[cpu("500m", "1", restartPolicy="Always")]), 1500, 1000),
        (template(cpu("1", "1"), overhead={"cpu": "250m"}), 1250, 1250),
        (template(cpu("1"), cpu("1"), **cpu("3", "4")), 3000, 4000),
        (template(cpu("1"), cpu("1"), **cpu(limits="4")), 2000, 4000),
        (template({}, **cpu(limits="4")), 4000, 4000),
    ],
    ids=["sum", "limit alone", "init", "sidecar", "overhead", "pod level", "pod-level limit", "pod-level limit alone"],
)
def test_needs_are_what_the_api_server_charges(found: PodTemplate, requests: int, limits: int) -> None:
    """Of all containers, the pod's own resources and its overhead; a request that is left out is the limit."""
    units = 10**6
    assert (requests * units,) * 2 == (found.needs("cpu"), found.needs("requests.cpu"))
    assert limits * units == found.needs("limits.cpu")
    assert found.needs("pods") == 10**9 and not found.needs("services") and not found.needs("example.com/gpu")


def test_a_quota_without_room_for_the_init_container() -> None:
    """The request of the largest init step is what the pod is charged with."""
    status = {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "2"}}
    body = json.dumps({"items": [{"metadata": {"name": "small"}, "status": status}]}).encode()
    assert "" == exhausted_quota(template(cpu("1"), initContainers=[cpu("2")]), body)
    reason = "quota small has no room for a further pod: requests.cpu"
    assert reason == exhausted_quota(template(cpu("1"), initContainers=[cpu("2001m")]), body)


def test_overhead_alone_is_best_effort() -> None:
    """As is the quality of service; a request of an init container is enough for another."""
    assert template({}, overhead={"cpu": "1"}).best_effort
    assert not template({}, initContainers=[cpu("1m")]).best_effort
    assert not template({}, **cpu(limits="1")).best_effort
