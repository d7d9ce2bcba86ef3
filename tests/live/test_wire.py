"""The real API server accepts every request that the wire package builds, and stores what it then reads."""

import json
from typing import Any

import msgspec
import pytest

from tools.controlplane.objects import node
from tools.controlplane.rig import Rig
from trimtab.core.model.events import BindDone, BindFailed, BindFailure
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, SetUnschedulable
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import amounts
from trimtab.wire.lease import Lease, create_lease_request, get_lease_request, read_lease, update_lease_request
from trimtab.wire.node import NodeReader
from trimtab.wire.outcomes import Reply, bind_outcome
from trimtab.wire.pod import PodReader
from trimtab.wire.quantity import nanos
from trimtab.wire.requests import (
    NODES,
    PODS,
    Request,
    bind_request,
    event_name,
    event_request,
    get_pod_request,
    list_request,
    pod_status_request,
    series_request,
)
from trimtab.wire.watch import ListPage, decode_list

pytestmark = pytest.mark.live

NOW = "2026-10-01T10:00:00.000000Z"
ODD = (
    "1e3",
    "1E",
    "100m",
    "0.1m",
    "1n",
    "1.5Gi",
    "0.1Gi",
    "+1",
    "1.",
    ".5",
    "1.G",
    "00012",
    "7Ei",
    "8Ei",
    "12E",
    "1e100",
)
REFUSED = ("1K", "1ki", "1Zi", "1e3Mi", "0x10", "1_000", "１２", "NaN", "-1", "")


def _ask(rig: Rig, request: Request) -> tuple[int, bytes]:
    return rig.admin.raw(request.method, request.path, request.body or None, request.content_type)


def _bind(rig: Rig, bind: Bind) -> BindDone | BindFailed:
    return bind_outcome(bind, Reply(*_ask(rig, bind_request(bind))), 0.0)


def _pod(rig: Rig, name: str, **spec: Any) -> Pod:
    container = {"name": "main", "image": "main:1", **spec.pop("container", {})}
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": [container], "automountServiceAccountToken": False, **spec}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    status, body = rig.admin.raw("POST", "/api/v1/namespaces/default/pods", json.dumps(document).encode())
    assert 201 == status, body
    pod = PodReader().read(body)
    assert isinstance(pod, Pod)
    return pod


@pytest.fixture(scope="module", autouse=True)
def account(rig: Rig) -> None:
    """Pods need a service account, and there is no controller that would make one."""
    rig.admin.raw(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts",
        json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}).encode(),
    )


@pytest.mark.parametrize("text", ODD)
def test_odd_quantities_come_back_with_their_value(rig: Rig, text: str) -> None:
    """What the server makes of an odd quantity is read as the same amount, without a fault."""
    name = f"odd-{ODD.index(text)}"
    pod = _pod(rig, name, container={"resources": {"requests": {"memory": text}}})
    assert "" == pod.spec_error
    assert amounts({"memory": nanos(text)}) == pod.requests.amounts


@pytest.mark.parametrize("text", REFUSED)
def test_the_server_refuses_what_we_refuse(rig: Rig, text: str) -> None:
    """No text that the wire calls no quantity can be stored as one."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"memory": text}}}
    metadata = {"name": "refused", "namespace": "default"}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    status, _ = rig.admin.raw("POST", "/api/v1/namespaces/default/pods", json.dumps(document).encode())
    assert status in (400, 422)


def test_a_bind_is_done_once(rig: Rig) -> None:
    """The first bind is done, any other is a conflict, and reading back shows the first."""
    pod = _pod(rig, "bound")
    first = _bind(rig, Bind(pod.uid, "default", "bound", "n-1"))
    assert BindDone(pod.uid, "n-1", 0.0) == first
    again = _bind(rig, Bind(pod.uid, "default", "bound", "n-2"))
    assert isinstance(again, BindFailed)
    assert BindFailure.CONFLICT == again.reason
    _, body = _ask(rig, get_pod_request(GetPod(pod.uid, "default", "bound")))
    assert "n-1" == getattr(PodReader().read(body), "node", None)


@pytest.mark.parametrize(
    ("uid", "name", "fault"),
    [("wrong", "free", BindFailure.CONFLICT), ("", "gated", BindFailure.CONFLICT), ("x", "no-pod", BindFailure.GONE)],
)
def test_binds_that_cannot_be(rig: Rig, uid: str, name: str, fault: BindFailure) -> None:
    """A wrong UID and a gated pod are conflicts, a missing pod is gone."""
    if name != "no-pod":
        pod = _pod(rig, name, **({"schedulingGates": [{"name": "a.b/c"}]} if name == "gated" else {}))
        uid = uid or pod.uid
    outcome = _bind(rig, Bind(uid, "default", name, "n-1"))
    assert fault == getattr(outcome, "reason", None)


def test_the_condition_is_set_and_guarded(rig: Rig) -> None:
    """The condition is read back as it was written; for another UID the server refuses it."""
    pod = _pod(rig, "waiting")
    mark = SetUnschedulable(pod.uid, "default", "waiting", "Unschedulable", "0/3 nodes are available")
    status, body = _ask(rig, pod_status_request(mark, None, NOW))
    assert 200 == status, body
    assert ("Unschedulable", "0/3 nodes are available") == getattr(
        PodReader().read(body), "unschedulable_condition", None
    )
    status, body = _ask(rig, pod_status_request(msgspec.structs.replace(mark, message="other"), None))
    changed = json.loads(body)["status"]["conditions"][0]
    assert ("other", NOW[:19] + "Z") == (changed["message"], changed["lastTransitionTime"])
    assert 422 == _ask(rig, pod_status_request(msgspec.structs.replace(mark, uid="wrong"), None))[0]


def test_an_event_and_its_repeats_are_accepted(rig: Rig) -> None:
    """An Event with a note that is far too long is stored, and its series counts on."""
    tell = EmitEvent("u-1", "default", "p" * 253, "FailedScheduling", "é" * 5000, warning=True)
    name = event_name(tell, 0x1234)
    status, body = _ask(rig, event_request(tell, NOW, name, "trimtab-0"))
    assert 201 == status, body
    status, body = _ask(rig, series_request("default", name, 2, NOW))
    assert 200 == status, body
    assert 2 == json.loads(body)["series"]["count"]


def test_a_lease_changes_hands_once(rig: Rig) -> None:
    """Of two writers that read the same lease, the second is refused."""
    assert 201 == _ask(rig, create_lease_request(Lease("default", "trimtab", "a", 15, NOW, NOW)))[0]
    read = read_lease(_ask(rig, get_lease_request("default", "trimtab"))[1])
    assert isinstance(read, Lease)
    assert ("a", 15, NOW) == (read.holder, read.duration_seconds, read.renew_time)
    assert 200 == _ask(rig, update_lease_request(msgspec.structs.replace(read, holder="b", transitions=1)))[0]
    assert 409 == _ask(rig, update_lease_request(msgspec.structs.replace(read, holder="c", transitions=1)))[0]


def test_pages_make_up_the_list(rig: Rig) -> None:
    """Pages asked for with the token of the one before hold every node once; half a token is refused."""
    rig.admin.create_many(node(f"page-{number}") for number in range(5))
    names, token = [], ""
    while True:
        page = decode_list(_ask(rig, list_request(NODES, limit=2, continue_token=token))[1], NodeReader())
        assert isinstance(page, ListPage)
        assert 0 < page.version
        names += [item.name for item in page.items if isinstance(item, Node)]
        token = page.continue_token
        if not token:
            break
    assert sorted(set(names)) == sorted(names)
    assert {f"page-{number}" for number in range(5)} <= set(names)
    assert 400 == _ask(rig, list_request(PODS, limit=2, continue_token="x"))[0]
