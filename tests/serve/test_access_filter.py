"""Delegated authentication and authorization on canned answers: what is cached, how long, and what follows from no answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.kube.delegated_reviews import UserInfo
from trimtab.kube.transport import Unreachable
from trimtab.serve.access_filter import AccessFilter, Authorizer
from trimtab.serve.authentication import Authenticator, certificate_user
from trimtab.serve.health import Health
from trimtab.serve.http import create_app
from trimtab.serve.listener import listen, serve
from trimtab.serve.options import Address, AlwaysAllowedPaths, AuthorizationOptions
from trimtab.serve.review_cache import ReviewCache
from trimtab.wire.requests import Request

EVE = {"username": "eve", "groups": ["a"], "extra": {"k": ["v"]}}
FORBIDDEN = json_response({"kind": "Status", "message": "no", "reason": "Forbidden"}, 403)
CERTIFICATE: dict[str, Any] = {
    "subject": ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "eve"),)),
    "notAfter": "Jan  1 00:00:00 2030 GMT",
}


class ApiServer:
    """Knows the token `good`, and lets eve read /metrics."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.failure: FakeResponse | None = None
        self.specs: list[dict[str, Any]] = []

    def __call__(self, request: Request) -> FakeResponse:
        if self.failure is not None:
            return self.failure
        review = json.loads(request.body)
        self.asked[review["kind"]] += 1
        self.specs.append(review["spec"])
        if review["kind"] == "TokenReview":
            good = review["spec"]["token"] == "good"
            return json_response({"status": {"authenticated": good, "user": EVE if good else {}}}, 201)
        allowed = review["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        return json_response({"status": {"allowed": allowed}}, 201)


class Clock:
    """Set by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Pages:
    """One page that says who may read it."""

    def register(self, app: web.Application) -> None:
        app.router.add_get("/metrics", self._metrics)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text="secret")


Get = Callable[..., Any]


@asynccontextmanager
async def filtered_port(server: ApiServer, clock: Clock, *paths: str) -> AsyncIterator[int]:
    """A server behind the filter."""
    transport = FakeTransport(server)
    authorizer = Authorizer(transport, AuthorizationOptions(authorized_ttl=20.0, unauthorized_ttl=5.0), clock)
    allowed = AlwaysAllowedPaths(paths or ("/livez",))
    access = AccessFilter(Authenticator(transport, 10.0, clock, clock, lambda connection: True), authorizer, allowed)
    app = create_app(Health(), None, Pages(), middlewares=[access.middleware])
    async with serve(app, listen(Address("127.0.0.1", 0, ""))) as port:
        yield port


@asynccontextmanager
async def filtered(server: ApiServer, clock: Clock, *paths: str) -> AsyncIterator[Get]:
    """A server behind the filter, and a way to ask it."""
    async with filtered_port(server, clock, *paths) as port, ClientSession() as client:

        async def get(token: str = "", path: str = "/metrics", **headers: str) -> int:
            sent = {"Authorization": f"Bearer {token}"} if token else headers
            async with client.get(f"http://127.0.0.1:{port}{path}", headers=sent) as response:
                return response.status

        yield get


async def test_answers_are_cached() -> None:
    """By token, and by user and path; each for its own time."""
    server, clock = ApiServer(), Clock()
    async with filtered(server, clock) as get:
        for _ in range(3):
            assert (200, 401) == (await get("good"), await get("bad"))
        assert {"TokenReview": 2, "SubjectAccessReview": 1} == server.asked
        clock.now = 10.0
        assert (200, 401, 403) == (await get("good"), await get("bad"), await get("good", "/nodes"))
        assert {"TokenReview": 4, "SubjectAccessReview": 2} == server.asked
        clock.now = 15.0
        assert 403 == await get("good", "/nodes")
        assert {"TokenReview": 4, "SubjectAccessReview": 3} == server.asked


async def test_what_the_api_server_is_asked() -> None:
    """The user is passed on as the token's review named it."""
    server = ApiServer()
    async with filtered(server, Clock()) as get:
        await get("good")
    attributes = {"path": "/metrics", "verb": "get"}
    expected = {"user": "eve", "groups": ["a"], "extra": {"k": ["v"]}, "nonResourceAttributes": attributes}
    assert [{"token": "good"}, expected] == server.specs


@pytest.mark.parametrize(
    "failure",
    [
        Unreachable("no route", sent=False),
        FORBIDDEN,
        json_response({"kind": "Status"}, 500),
        json_response({"status": "nonsense"}, 201),
        json_response({}, 429),
    ],
)
async def test_while_reviews_fail(failure: FakeResponse, caplog: pytest.LogCaptureFixture) -> None:
    """503, never the page; not cached; logged once, and once when it is over. Paths that are always allowed still work."""
    caplog.set_level(logging.INFO)
    server, clock = ApiServer(), Clock()
    server.failure = failure
    async with filtered(server, clock) as get:
        for _ in range(2):
            assert [503, 200, 401] == [await get("good"), await get("", "/livez"), await get()]
        server.failure = None
        assert 200 == await get("good")
        clock.now, server.failure = 10.0, failure
        assert 503 == await get("good")
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert 2 == len(lines) and not any("good" in line for line in lines)
    assert (
        lines[0].startswith("review failed, answering 503: review=TokenReview reason=")
        and "reviews work again: review=TokenReview" in caplog.text
    )


@pytest.mark.parametrize(
    "value", ["good", "Basic good", "Bearer", "Bearer ", "Bearer a b", "Bearer " + "x" * 8190, "Bearer gööd"]
)
async def test_what_is_no_token_is_not_asked_about(value: str) -> None:
    """401 without a question to the API server, or 400 where the header is no header."""
    server = ApiServer()
    async with filtered(server, Clock()) as get:
        assert await get(Authorization=value) in (400, 401)
    assert not server.asked


async def test_the_scheme_is_not_case_sensitive() -> None:
    """As in Go."""
    async with filtered(ApiServer(), Clock()) as get:
        assert 200 == await get(Authorization="bearer  good ")


@pytest.mark.parametrize(
    ("paths", "allowed", "refused"),
    [
        (("/livez",), ("/livez",), ("/livez/", "/livez/ping", "/livezz", "//livez", "/LIVEZ", "/livez%2fping")),
        (("/livez/*",), ("/livez/ping", "/livez/"), ("/livez", "/metrics", "/livez%2f..%2fmetrics/x")),
        (("livez", ""), ("/livez", "/"), ("/metrics",)),
        (("*",), ("/", "/metrics"), ()),
        ((), (), ("/", "/livez")),
    ],
)
def test_paths_that_are_always_allowed(
    paths: tuple[str, ...], allowed: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    """Whole paths, or prefixes with a star; compared as they are sent."""
    found = AlwaysAllowedPaths(paths)
    assert all(each in found for each in allowed) and not any(each in found for each in refused)


async def raw_answer(port: int, target: str) -> bytes:
    """To a request target that is sent as it is: a client library would tidy it up first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/livez", 401),
        ("/livez/ping", 200),
        ("/metrics", 401),
        ("http://x/metrics", 401),
        ("/%6detrics", 401),
        ("/livez/../metrics", 404),
        ("/livez/./../metrics", 404),
        ("/livez/%2e%2e/metrics", 404),
        ("/livez/..%2fmetrics", 404),
        ("/livez%2f..%2fmetrics", 404),
        ("/livez/%252e%252e/metrics", 404),
        ("//metrics", 401),
        ("/metrics;/livez/x", 401),
        ("/metrics%00", 401),
        ("/metrics?/livez/x", 401),
        ("/metrics#/livez/x", 401),
    ],
)
async def test_a_detour_to_a_page_is_refused(target: str, status: int) -> None:
    """No way to write a path makes one page look like another."""
    async with filtered_port(ApiServer(), Clock(), "/livez/*") as port:
        answer = await raw_answer(port, target)
    assert (status, False) == (int(answer.split()[1]), b"secret" in answer)


def test_the_user_of_a_certificate() -> None:
    """Common name and organizations; none if it has no name, or if it has expired since the handshake."""
    assert UserInfo("eve", groups=("a", "b", "system:authenticated")) == certificate_user(CERTIFICATE, 0.0)
    assert certificate_user(CERTIFICATE, 2e9) is None
    assert certificate_user({**CERTIFICATE, "subject": ()}, 0.0) is None


async def test_the_cache_is_bounded_and_shared() -> None:
    """The oldest answer goes first; callers at the same time ask once; an error is not kept, nor is a caller's end."""
    cache: ReviewCache[int, int] = ReviewCache("TokenReview", lambda value: 100.0, lambda: 0.0, max_entries=3)
    asked: Counter[int] = Counter()
    go = asyncio.Event()

    async def ask(key: int) -> int:
        asked[key] += 1
        await go.wait()
        if key == 9:
            raise ValueError
        return key

    waiting = [asyncio.create_task(cache.get(1, lambda: ask(1))) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go.set()
    assert [1, 1] == await asyncio.gather(*waiting[1:])
    for key in (2, 3, 4, 1):
        assert key == await cache.get(key, lambda key=key: ask(key))
    for _ in range(2):
        with pytest.raises(ValueError):
            await cache.get(9, lambda: ask(9))
    assert (3, Counter({1: 2, 9: 2, 2: 1, 3: 1, 4: 1})) == (len(cache), asked)
