"""Each instruction becomes the request that the API server expects."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.instructions import Bind, EmitEvent, Evict, GetPod, Nominate, Preempt, SetUnschedulable
from trimtab.wire.requests import (
    JSON,
    MERGE_PATCH,
    NODES,
    PODS,
    STRATEGIC_PATCH,
    Request,
    bind_request,
    delete_pod_request,
    disruption_target_request,
    event_name,
    event_request,
    evict_request,
    get_pod_request,
    list_request,
    pod_status_request,
    quote,
    series_request,
    truncate,
    watch_request,
)

NOW = "2026-10-01T10:00:00.000000Z"
TELL = EmitEvent("u-1", "shop", "web-1", "FailedScheduling", "no room", warning=True, scheduler_name="trimtab")


def test_a_bind_names_pod_uid_and_node() -> None:
    """A bind is a Binding with the pod's UID, so that a new pod of the same name is not bound by mistake."""
    request = bind_request(Bind("u-1", "shop", "web-1", "n-1"))
    assert ("POST", "/api/v1/namespaces/shop/pods/web-1/binding", JSON) == (
        request.method,
        request.path,
        request.content_type,
    )
    assert {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "web-1", "uid": "u-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n-1"},
    } == json.loads(request.body)


def test_a_reread_asks_for_no_version() -> None:
    """Reading back goes to etcd: a version of 0 would be answered from a cache."""
    assert Request("GET", "/api/v1/namespaces/shop/pods/web-1") == get_pod_request(GetPod("u-1", "shop", "web-1"))


def test_the_condition_is_patched_by_uid() -> None:
    """The condition goes into the status by a patch that the server refuses for another UID."""
    request = pod_status_request(SetUnschedulable("u-1", "shop", "web-1", "Unschedulable", "no room"), None, NOW)
    assert ("PATCH", "/api/v1/namespaces/shop/pods/web-1/status", STRATEGIC_PATCH) == (
        request.method,
        request.path,
        request.content_type,
    )
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    times = {"lastTransitionTime": NOW}
    assert {"metadata": {"uid": "u-1"}, "status": {"conditions": [{**condition, **times}]}} == json.loads(request.body)


def test_a_condition_that_was_false_keeps_its_time() -> None:
    """Without a time of change the patch leaves the one that is there."""
    body = json.loads(pod_status_request(SetUnschedulable("u", "a", "b", "r", "m"), None).body)
    assert {"type", "status", "reason", "message"} == set(body["status"]["conditions"][0])


def test_a_nomination_shares_the_patch() -> None:
    """The nominated node goes out with the condition, or alone; an empty one removes the field."""
    mark, nominate = SetUnschedulable("u", "a", "b", "r", "m"), Nominate("u", "a", "b", "n-1")
    both = json.loads(pod_status_request(mark, nominate).body)
    assert ("n-1", "PodScheduled") == (both["status"]["nominatedNodeName"], both["status"]["conditions"][0]["type"])
    alone = json.loads(pod_status_request(None, Nominate("u", "a", "b", "")).body)
    assert {"metadata": {"uid": "u"}, "status": {"nominatedNodeName": None}} == alone


def test_a_victim_gets_its_condition_and_is_then_deleted() -> None:
    """The condition names the scheduler; the delete carries the UID and leaves the grace to the pod."""
    preempt = Preempt("u-1", "shop", "web-1", "u-2", "trimtab")
    told = disruption_target_request(preempt, NOW)
    assert ("PATCH", "/api/v1/namespaces/shop/pods/web-1/status") == (told.method, told.path)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "trimtab: preempting to accommodate a higher priority pod",
        "lastTransitionTime": NOW,
    }
    assert {"metadata": {"uid": "u-1"}, "status": {"conditions": [condition]}} == json.loads(told.body)
    deleted = delete_pod_request(preempt)
    assert ("DELETE", "/api/v1/namespaces/shop/pods/web-1") == (deleted.method, deleted.path)
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1"}}
    assert options == json.loads(deleted.body)


def test_an_eviction_carries_the_uid_and_leaves_the_grace_to_the_pod() -> None:
    """Through the Eviction API, which respects disruption budgets."""
    request = evict_request(Evict("u-1", "shop", "web-1", "cpu at 95 %"))
    assert ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction") == (request.method, request.path)
    assert {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u-1"}},
    } == json.loads(request.body)
    shorter = evict_request(Evict("u-1", "shop", "web-1", "cpu at 95 %", grace=5))
    assert 5 == json.loads(shorter.body)["deleteOptions"]["gracePeriodSeconds"]


def test_an_event_is_about_the_pod() -> None:
    """An Event regards the pod by UID, names its reporter, and is a warning only if it says so."""
    request = event_request(TELL, NOW, "web-1.1", "trimtab-0")
    assert ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events") == (request.method, request.path)
    assert {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop", "name": "web-1.1"},
        "eventTime": NOW,
        "reportingController": "trimtab",
        "reportingInstance": "trimtab-0",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "u-1"},
        "note": "no room",
        "type": "Warning",
    } == json.loads(request.body)
    assert "Normal" == json.loads(event_request(EmitEvent("u", "a", "b", "r", "n"), NOW, "e", "i").body)["type"]


@given(st.text(max_size=3000))
def test_notes_are_cut_between_characters(note: str) -> None:
    """Whatever the note, what is sent has at most 1,024 bytes and is the beginning of the note."""
    tell = EmitEvent("u", "a", "b", "r", note)
    sent = json.loads(event_request(tell, NOW, "e", "i").body)["note"]
    whole = note.encode(errors="replace")
    assert 1024 >= len(sent.encode())
    assert whole.decode().startswith(sent)
    assert len(sent.encode()) == len(whole) or len(sent.encode()) > 1020


def test_a_cut_never_splits_a_character() -> None:
    """A character that does not fit whole is left out."""
    assert "aé" == truncate("aéé", 4)


def test_event_names_fit() -> None:
    """A name is at most 253 bytes long, however long the pod's, and differs by its stamp."""
    tell = EmitEvent("u", "a", "b" * 253, "r", "n")
    first, second = event_name(tell, 1), event_name(tell, 2)
    assert 253 == len(first)
    assert first != second


def test_a_repeat_is_counted_on_the_event() -> None:
    """A repeat patches count and time of the series, nothing else."""
    request = series_request("shop", "web-1.1", 3, NOW)
    assert ("PATCH", "/apis/events.k8s.io/v1/namespaces/shop/events/web-1.1", MERGE_PATCH) == (
        request.method,
        request.path,
        request.content_type,
    )
    assert {"series": {"count": 3, "lastObservedTime": NOW}} == json.loads(request.body)


@pytest.mark.parametrize(
    ("request_", "path", "query"),
    [
        (list_request(PODS), "/api/v1/pods", {}),
        (
            list_request(NODES, limit=500, continue_token="a+b/c=", version="0", fields="metadata.name!=x"),
            "/api/v1/nodes",
            {"limit": "500", "continue": "a+b/c=", "resourceVersion": "0", "fieldSelector": "metadata.name!=x"},
        ),
        (
            watch_request(PODS, 41, 300),
            "/api/v1/pods",
            {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "41", "timeoutSeconds": "300"},
        ),
    ],
)
def test_lists_and_watches_say_what_they_want(request_: Request, path: str, query: dict[str, str]) -> None:
    """Parameters that are given arrive as they were meant, those that are not are left out."""
    parts = urlsplit(request_.path)
    assert ("GET", path) == (request_.method, parts.path)
    assert {name: [value] for name, value in query.items()} == parse_qs(parts.query)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=50))
def test_any_name_is_one_segment(name: str) -> None:
    """Whatever the name, it stays within its segment of the path and means itself."""
    assert name == unquote(quote(name))
    path = bind_request(Bind("u", name, "p", "n")).path
    assert 8 == len(path.split("/"))
    assert not set(path) & set("?# ")
