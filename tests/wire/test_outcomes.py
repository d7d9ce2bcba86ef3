"""What an answer means: only the API server itself can say what became of a write."""

from __future__ import annotations

import pytest

from tests.wire.json_objects import Json, encoded, pod_json
from trimtab.core.model.events import (
    BindDone,
    BindFailed,
    BindFailure,
    EvictDone,
    EvictFailed,
    GetPodDone,
    GetPodFailed,
)
from trimtab.core.model.instructions import Bind, Evict, GetPod
from trimtab.wire.decoding import Status, read_status
from trimtab.wire.outcomes import (
    DisruptionBudget,
    Reply,
    Throttled,
    bind_outcome,
    evict_outcome,
    get_pod_outcome,
    throttle,
)
from trimtab.wire.pod import PodReader

BIND = Bind("u", "ns", "web", "n")
GET = GetPod("u-1", "ns", "web")
SUCCESS = encoded({"kind": "Status", "status": "Success", "code": 201})
LOGIN = b"<!DOCTYPE html><html><body>Please sign in</body></html>"


def _failure(code: int, reason: str, **more: object) -> bytes:
    return encoded(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "because", **more}
    )


def test_a_success_is_done() -> None:
    """201 with a Status of success is the one answer that means bound."""
    assert BindDone("u", "n", 5.0) == bind_outcome(BIND, Reply(201, SUCCESS), 5.0)


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (404, _failure(404, "NotFound"), BindFailure.GONE),
        (409, _failure(409, "Conflict"), BindFailure.CONFLICT),
        (400, _failure(400, "BadRequest"), BindFailure.REFUSED),
        (401, _failure(401, "Unauthorized"), BindFailure.REFUSED),
        (403, _failure(403, "Forbidden"), BindFailure.REFUSED),
        (422, _failure(422, "Invalid"), BindFailure.REFUSED),
        (429, b"Too many requests, please try again later.", BindFailure.NOT_SENT),
        (500, _failure(500, ""), BindFailure.UNKNOWN),
        (503, b"", BindFailure.UNKNOWN),
        (504, _failure(504, "Timeout"), BindFailure.UNKNOWN),
        (408, b"", BindFailure.UNKNOWN),
        (302, b"", BindFailure.UNKNOWN),
        (0, b"", BindFailure.UNKNOWN),
        (200, LOGIN, BindFailure.UNKNOWN),
        (200, b"", BindFailure.UNKNOWN),
        (200, _failure(500, "InternalError"), BindFailure.UNKNOWN),
        (404, b"404 page not found", BindFailure.UNKNOWN),
    ],
)
def test_each_failure_has_its_meaning(status: int, body: bytes, fault: BindFailure) -> None:
    """Refusals differ from conflicts, and whatever leaves open whether the write took effect is unknown."""
    outcome = bind_outcome(BIND, Reply(status, body), 5.0)
    assert isinstance(outcome, BindFailed)
    assert ("u", "n", fault, 5.0) == (outcome.uid, outcome.node, outcome.reason, outcome.at)
    assert outcome.message


def test_the_message_is_the_servers() -> None:
    """The server's message is passed on; without one it is the status, or that there was no answer."""
    messages = [
        getattr(bind_outcome(BIND, Reply(status, body), 0), "message", "")
        for status, body in ((409, _failure(409, "Conflict")), (503, b""), (0, b""))
    ]
    assert ["because", "HTTP status 503", "no answer"] == messages


def test_a_reread_gives_the_pod() -> None:
    """The pod is decoded as any other."""
    outcome = get_pod_outcome(GET, Reply(200, encoded(pod_json({"nodeName": "n-1"}))), 5.0, PodReader())
    assert isinstance(outcome, GetPodDone)
    assert outcome.pod is not None
    assert "n-1" == outcome.pod.node


@pytest.mark.parametrize(
    ("status", "body"), [(404, _failure(404, "NotFound")), (200, encoded(pod_json(uid="u-2", name="web-1")))]
)
def test_another_uid_means_gone(status: int, body: bytes) -> None:
    """A missing pod, and a new pod of the same name, both say that the old one no longer exists."""
    assert GetPodDone("u-1", None, 5.0) == get_pod_outcome(GET, Reply(status, body), 5.0, PodReader())


@pytest.mark.parametrize(
    ("status", "body"),
    [(0, b""), (500, b""), (403, _failure(403, "Forbidden")), (404, b"nothing here"), (200, LOGIN), (200, b"{}")],
)
def test_a_reread_that_shows_nothing_proves_nothing(status: int, body: bytes) -> None:
    """Whatever is not the server's word about the pod leaves its fate unknown."""
    assert GetPodFailed("u-1", 5.0) == get_pod_outcome(GET, Reply(status, body), 5.0, PodReader())


BUDGET: Json = {"causes": [{"reason": "DisruptionBudget", "message": "needs 1 healthy pod"}]}


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (429, {"Retry-After": "1"}, b"Too many requests, please try again later.", Throttled(1)),
        (429, {"retry-after": "7"}, b"", Throttled(7)),
        (429, {}, b"", Throttled(1)),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"", Throttled(1)),
        (429, {"Retry-After": "999999999"}, b"", Throttled(300)),
        (429, {}, _failure(429, "TooManyRequests", details={"retryAfterSeconds": 4}), Throttled(4)),
        (429, {}, _failure(429, "TooManyRequests", details=BUDGET), DisruptionBudget("because", 0)),
        (429, {"Retry-After": "10"}, _failure(429, "TooManyRequests", details=BUDGET), DisruptionBudget("because", 10)),
        (503, {"Retry-After": "1"}, b"", None),
        (200, {}, b"", None),
    ],
)
def test_two_kinds_of_429_are_told_apart(
    status: int, headers: dict[str, str], body: bytes, expected: DisruptionBudget | Throttled | None
) -> None:
    """A spent disruption budget is not an overloaded server, whichever way either is written."""
    assert expected == throttle(status, headers, body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", Status()),
        (b"plain  text\n\x1b[31m", Status(message="plain text [31m")),
        (b"\xff\xfe", Status(message="\ufffd\ufffd")),
        (b"null", Status(message="null")),
        (b'{"kind":"Status","code":"x"}', Status(message='{"kind":"Status","code":"x"}')),
        (SUCCESS, Status(succeeded=True, code=201)),
        (_failure(410, "Expired"), Status(code=410, reason="Expired", message="because")),
    ],
)
def test_any_body_says_something_or_nothing(body: bytes, expected: Status) -> None:
    """A Status is read as one; anything else is printable text in one line."""
    assert expected == read_status(body)


def test_a_huge_body_is_cut() -> None:
    """However long the body, the message stays short."""
    assert 400 == len(read_status(b"x" * 10_000_000).message)


BY_BUDGET = _failure(429, "TooManyRequests", details={"causes": [{"reason": "DisruptionBudget"}]})
OTHER_UID = encoded({"kind": "Status", "reason": "Conflict", "message": "Precondition failed: UID in precondition: u"})


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(201, SUCCESS), EvictDone("u1", 5.0)),
        (Reply(404, _failure(404, "NotFound")), EvictDone("u1", 5.0)),
        (Reply(409, OTHER_UID), EvictDone("u1", 5.0)),
        (Reply(409, _failure(409, "Conflict")), EvictFailed),
        (Reply(429, BY_BUDGET), EvictFailed("u1", "because", 5.0, by_budget=True)),
        (Reply(429, _failure(429, "TooManyRequests")), EvictFailed("u1", "because", 5.0)),
        (Reply(500, _failure(500, "")), EvictFailed),
        (Reply(404, b"<html>"), EvictFailed),
        (Reply(0, error="no answer"), EvictFailed),
    ],
)
def test_evictions(reply: Reply, expected: EvictDone | EvictFailed | type) -> None:
    """A pod that is gone is evicted; a budget is told apart from throttling; whatever is unclear has failed."""
    found = evict_outcome(Evict("u1", "shop", "web", "hot"), reply, 5.0)
    assert expected in (found, type(found))
