"""The audit checker finds each kind of violation in a hand-made audit log, and none in a correct one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from tests.live.audit_checker import Report, check_audit, grants
from tests.live.node_accounting import parse_quantity, pod_requests

US = "system:serviceaccount:trimtab:trimtab"
START = datetime(2026, 1, 1, tzinfo=UTC)


def event(at: float, verb: str, resource: str, answer: Any = None, user: str = "admin", **more: Any) -> dict[str, Any]:
    """One audit event, answered a tenth of a second after its arrival."""
    arrived = START + timedelta(seconds=at)
    main, _, sub = resource.partition("/")
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": f"/api/v1/{resource}",
        "user": {"username": user},
        "objectRef": {"resource": main, "subresource": sub, "namespace": "default", "name": "some"},
        "responseStatus": {"code": 200},
        "responseObject": answer,
        "requestReceivedTimestamp": arrived.isoformat(),
        "stageTimestamp": (arrived + timedelta(seconds=0.1)).isoformat(),
        **more,
    }


def pod(uid: str, cpu: str = "1", scheduler: str = "trimtab", **spec: Any) -> dict[str, Any]:
    """A pod with a CPU request."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    meta = {"uid": uid, "namespace": "default", "name": uid}
    return {"kind": "Pod", "metadata": meta, "spec": {"schedulerName": scheduler, "containers": [container], **spec}}


def node(cpu: str = "2", **more: str) -> dict[str, Any]:
    """The node of these tests."""
    return {
        "kind": "Node",
        "metadata": {"uid": "n", "name": "node"},
        "status": {"allocatable": {"cpu": cpu, "pods": "3", **more}},
    }


def created(at: float, thing: dict[str, Any]) -> dict[str, Any]:
    """The creation of a pod or node."""
    return event(at, "create", "pods" if thing["kind"] == "Pod" else "nodes", thing)


def bind(at: float, uid: str, user: str = US, code: int = 201, target: str = "node") -> dict[str, Any]:
    """A bind of a pod."""
    request = {"metadata": {"uid": uid}, "target": {"name": target}}
    return event(
        at, "create", "pods/binding", {"kind": "Status"}, user, requestObject=request, responseStatus={"code": code}
    )


def violations_of(
    *events: dict[str, Any], pods: Sequence[dict[str, Any]] = (), nodes: Sequence[dict[str, Any]] = ()
) -> Report:
    """The checker's violations for these events, after the creation of a node."""
    return check_audit([created(0, node()), *events], pods, nodes, US, ["trimtab"])


def test_a_correct_run_has_no_violations() -> None:
    """A scheduler may fill a node exactly while another pod terminates."""
    gone = pod("a", "2")
    report = violations_of(
        *[created(1, gone), bind(2, "a"), event(8, "delete", "pods", gone)],
        *[created(9, pod("b")), bind(10, "b"), created(11, pod("c")), bind(12, "c")],
        pods=[pod("b", nodeName="node"), pod("c", nodeName="node")],
        nodes=[node()],
    )
    assert () == report.violations
    assert {"a": "node", "b": "node", "c": "node"} == report.bound
    assert {201: 3} == report.answers


@pytest.mark.parametrize(
    ("named", "events"),
    [
        ("default/some was bound twice: to node, then to node", [created(1, pod("a")), bind(2, "a"), bind(3, "a")]),
        ("default/a on node: cpu 2001 of 2000", [created(1, pod("a", "2001m")), bind(2, "a")]),
        (
            "default/b on node: cpu 3000 of 2000",
            [created(1, pod("a", "2")), created(1, pod("b")), bind(2, "a"), bind(3, "b")],
        ),
        (
            "default/b on node: cpu 3000 of 2000",
            [created(1, pod("a", "2", nodeName="node")), created(1, pod("b")), bind(9, "b")],
        ),
        (
            "default/b on node: cpu 3000 of 2000",
            [created(1, pod("a", "2", "other")), created(1, pod("b")), bind(2, "a", "other"), bind(9, "b")],
        ),
        (
            "default/a on node: cpu 1000 of 500",
            [created(1, pod("a")), event(2, "patch", "nodes/status", node("500m")), bind(9, "a")],
        ),
        (
            "default/d on node: pods 4 of 3",
            [created(1, pod(uid, "0")) for uid in "abcd"] + [bind(n, uid) for n, uid in enumerate("abcd", start=2)],
        ),
        (
            "default/b on node: host port 80/TCP",
            [created(1, pod(uid, "0", ports=[{"hostPort": 80}])) for uid in "ab"] + [bind(2, "a"), bind(3, "b")],
        ),
        ("default/a on gone: the node was not there", [created(1, pod("a")), bind(2, "a", target="gone")]),
        (
            "default/a on node: the node was not there",
            [created(1, pod("a")), event(2, "delete", "nodes", node()), bind(9, "a")],
        ),
        (
            "bind of default/some to node: the pod belongs to scheduler other",
            [created(1, pod("a", scheduler="other")), bind(2, "a", code=409)],
        ),
        (
            "bind of default/some to node: the pod was gated",
            [created(1, pod("a", schedulingGates=[{"name": "wait"}])), bind(2, "a", code=409)],
        ),
        (
            "bind of default/some to node: the pod was deleted",
            [created(1, pod("a")), event(2, "delete", "pods", pod("a")), bind(3, "a")],
        ),
        ("bind of default/some to node: without the pod's UID", [bind(2, "")]),
        ("bind of default/some to node: no pod was ever seen with UID a", [bind(2, "a")]),
        (
            "refused with 403: list  secrets",
            [event(1, "list", "secrets", user=US, responseStatus={"code": 403})],
        ),
        (
            "refused with 403: create  pods/binding",
            [event(1, "create", "pods/binding", user=US, responseStatus={"code": 403})],
        ),
    ],
)
def test_each_violation_is_reported(named: str, events: list[dict[str, Any]]) -> None:
    """One violation in the log is one in the report."""
    assert (named,) == violations_of(*events).violations


@pytest.mark.parametrize(
    "events",
    [
        [created(1, pod("a", "2", nodeName="node")), created(1, pod("b")), bind(1.5, "b")],
        [created(1, pod("a")), event(2, "patch", "nodes/status", node("500m")), bind(2.5, "a")],
        [created(1, pod("a")), event(2, "delete", "pods", pod("a")), bind(2.05, "a")],
        [created(1, pod("a")), event(2, "delete", "nodes", node()), bind(2.5, "a")],
        [created(1, pod("a", "2")), bind(2, "a", code=409), created(3, pod("b")), bind(4, "b")],
        [
            created(1, pod("a", "2")),
            bind(2, "a"),
            event(3, "delete", "pods", pod("a")),
            created(3, pod("b")),
            bind(3, "b"),
        ],
        [
            created(1, pod("a", schedulingGates=[{"name": "wait"}])),
            event(2, "patch", "pods", pod("a")),
            bind(2.05, "a"),
        ],
    ],
)
def test_an_unavoidable_race_is_no_violation(events: list[dict[str, Any]]) -> None:
    """What the scheduler could not have known yet does not count."""
    assert () == violations_of(*events).violations


def test_the_final_list_is_compared_with_the_log() -> None:
    """A pod on another node, an overcommitted node, and a bind without a log line are found."""
    report = violations_of(
        *[created(1, pod("a")), bind(2, "a")],
        pods=[pod("a", nodeName="other"), pod("b", nodeName="node"), pod("c", "2", nodeName="node")],
        nodes=[node()],
    )
    expected = {"default/a was bound to node but is on other", "at the end node is over: cpu 3000 of 2000"}
    assert expected == set(report.violations)
    assert ("default/b", "default/c") == report.unlogged


def test_used_permissions_are_compared_with_granted_ones() -> None:
    """A verb that a role grants but the log never has is reported."""
    role = {"kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]}
    watching = event(1, "watch", "pods", user=US, stage="ResponseStarted")
    assert {("list", "", "pods")} == grants([role]) - violations_of(watching).used


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", 1610612736),
        ("1E3", 1000),
        ("1E", 10**18),
        ("7Ei", 7 * 2**60),
        (".5", Fraction(1, 2)),
        ("1e-9", Fraction(1, 10**9)),
        ("00012", 12),
    ],
)
def test_quantities_are_exact(text: str, value: Fraction) -> None:
    """Quantities are parsed as the API server stores them, without rounding."""
    assert value == parse_quantity(text)


@pytest.mark.parametrize("text", ["1K", "1_000", "１２", "1e3Mi", "NaN", "1 ", "1e2147483648"])
def test_an_invalid_quantity_is_an_error(text: str) -> None:
    """The checker does not guess."""
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


def test_pod_requests_are_the_maximum_over_its_phases() -> None:
    """Sidecars run with the init containers after them and with the containers; overhead is added."""
    step = {"resources": {"requests": {"cpu": "3"}}}
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1", "memory": "1"}}}
    spec: dict[str, Any] = {"initContainers": [sidecar, step], "overhead": {"cpu": "1m", "memory": "100m"}}
    assert {"cpu": 4001, "memory": 2, "pods": 1} == pod_requests(pod("a", "2", **spec))


def test_pod_level_requests_replace_those_of_containers() -> None:
    """Only for the resources that they name."""
    whole = {"requests": {"memory": "5"}}
    assert {"cpu": 1000, "memory": 5, "pods": 1} == pod_requests(pod("a", resources=whole))
