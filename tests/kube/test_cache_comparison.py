"""What a watch does not tell is noticed and repaired: on a fake clock, with a server that hides events."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.fake_transport import FakeResponse, FakeStream, json_response
from tests.kube.node_responses import bookmark, is_probe, line, node, query
from tests.kube.reflector_harness import ReflectorHarness, running
from trimtab.kube.cache_comparison import Differences, find_differences
from trimtab.kube.transport import Unreachable
from trimtab.wire.metadata import ObjectMetadata
from trimtab.wire.requests import METADATA_LIST, Request

looptime = pytest.mark.looptime


class HidingServer:
    """Nodes by name with their versions, at a version of its own; what its watches tell is up to the test."""

    def __init__(self, **nodes: int) -> None:
        self.nodes, self.version = dict(nodes), 10
        self.down = False

    def answer(self, request: Request) -> FakeResponse:
        if self.down:
            return Unreachable("refused", sent=False)
        wanted = query(request).get("fieldSelector", "").removeprefix("metadata.name=")
        names = [name for name in sorted(self.nodes) if not wanted or name == wanted]
        shown = names[:1] if is_probe(request) else names
        meta = {"resourceVersion": str(self.version)}
        if len(shown) < len(names):
            meta |= {"continue": "x", "remainingItemCount": len(names) - len(shown)}  # type: ignore[dict-item]
        kind = "PartialObjectMetadataList" if request.accept == METADATA_LIST else "NodeList"
        items = [node(name, self.nodes[name]) for name in shown]
        return json_response({"kind": kind, "metadata": meta, "items": items})


def watching(server: HidingServer) -> ReflectorHarness:
    return ReflectorHarness(answer=server.answer)


def full_lists(harness: ReflectorHarness) -> list[Request]:
    return [request for _, request in harness.transport.sent if "limit=1000" in request.path]


@looptime
async def test_a_hidden_deletion_is_found_by_the_number_of_objects() -> None:
    """The watch goes on without the DELETED line; within half a minute the node is gone, and nothing is listed in full."""
    server = HidingServer(a=3, b=4)
    async with running(watching(server)) as harness:
        del server.nodes["a"]
        server.version, server.nodes["b"] = 21, 21
        harness.stream.push(line("MODIFIED", "b", 21))
        await asyncio.sleep(31.0)
    assert ["+a@3", "+b@4", "Synced", "+b@21", "-a@21"] == harness.names()
    counts = harness.reflector.counts
    assert (1, 0, 0, 1, 0, 1) == (
        *(counts.leftover, counts.missing, counts.outdated, counts.comparisons, counts.stalls, counts.lists),
    )
    assert [METADATA_LIST] == [each.accept for each in full_lists(harness)[1:]]


@looptime
async def test_a_hidden_addition_is_found_and_only_that_object_is_read() -> None:
    """One object too few is known, and the comparison names it."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        server.nodes["b"], server.nodes["a"], server.version = 20, 21, 21
        harness.stream.push(line("MODIFIED", "a", 21))
        await asyncio.sleep(31.0)
    assert ["+a@3", "Synced", "+a@21", "+b@20"] == harness.names()
    assert (1, 1) == (harness.reflector.counts.missing, harness.reflector.counts.lists)


@looptime
async def test_a_hidden_change_is_found_by_the_regular_comparison() -> None:
    """The number of objects is right and bookmarks come, so only reading all versions can tell."""
    server = HidingServer(a=3, b=4)
    async with running(watching(server)) as harness:
        server.nodes["a"], server.version = 21, 30
        for _ in range(80):
            server.version += 1
            harness.stream.push(bookmark(server.version))
            await asyncio.sleep(10.0)
    assert ["+a@3", "+b@4", "Synced", "+a@21"] == harness.names()
    assert (1, 1, 0) == (
        *(harness.reflector.counts.outdated, harness.reflector.counts.lists, harness.reflector.counts.stalls),
    )


@looptime
@pytest.mark.parametrize("change", ["created", "changed", "deleted"])
async def test_a_mute_watch_is_noticed_within_a_minute(change: str) -> None:
    """Every watch is accepted and stays silent; each kind of change is known 60 s later all the same."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        await asyncio.sleep(100.0)
        harness.events.clear()
        server.version = 50
        if change == "deleted":
            del server.nodes["a"]
        else:
            server.nodes["b" if change == "created" else "a"] = 50
        await asyncio.sleep(60.0)
    expected = {"created": "+b@50", "changed": "+a@50", "deleted": "-a@50"}
    assert [expected[change]] == harness.names()
    assert 1 == harness.reflector.counts.stalls


@looptime
async def test_a_watch_that_stays_mute_is_compared_again_and_again() -> None:
    """Once found silent, it is not trusted before it brings something: every change is known a minute later."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        for version in (50, 60, 70, 80):
            server.version = server.nodes["a"] = version
            await asyncio.sleep(200.0 if version == 50 else 60.0)
    assert ["+a@3", "Synced", "+a@50", "+a@60", "+a@70", "+a@80"] == harness.names()


@looptime
async def test_a_quiet_kind_with_bookmarks_is_never_compared_on_suspicion() -> None:
    """The version of the cluster rises, nothing happens to the kind, and each short watch ends with a bookmark."""
    server = HidingServer(a=3)

    def brief(request: Request) -> FakeStream:
        stream, seconds = FakeStream(), float(query(request)["timeoutSeconds"])

        async def end() -> None:
            await asyncio.sleep(seconds - 2.0)
            stream.push(bookmark(server.version))
            await asyncio.sleep(2.0)
            stream.end()

        tasks.append(asyncio.create_task(end()))
        return stream

    tasks: list[asyncio.Task[None]] = []
    harness = ReflectorHarness(answer=server.answer, open=brief)
    async with running(harness):
        for _ in range(400):
            server.version += 5
            await asyncio.sleep(1.0)
    for task in tasks:
        task.cancel()
    counts = harness.reflector.counts
    assert (0, 0, 1) == (counts.comparisons, counts.stalls, counts.lists)


@looptime
async def test_a_server_without_bookmarks_is_compared_less_and_less_often() -> None:
    """Silence and quiet look the same there; comparing finds nothing, so it happens every ten minutes in the end."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        for _ in range(3_600):
            server.version += 1
            await asyncio.sleep(1.0)
    counts = harness.reflector.counts
    assert (0, 1, ["+a@3", "Synced"]) == (counts.stalls, counts.lists, harness.names())
    assert 6 <= counts.comparisons <= 12


@looptime
async def test_an_outage_is_no_difference() -> None:
    """A server that cannot be reached shows nothing, and nothing is deleted for that."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        server.down = True
        await asyncio.sleep(2_000.0)
        assert ["+a@3", "Synced"] == harness.names()
        server.down = False
        await asyncio.sleep(60.0)
    assert ["+a@3", "Synced"] == harness.names()


@looptime
async def test_a_suspicion_that_cannot_be_checked_is_kept() -> None:
    """The list fails for a minute; soon after that the node that the watch lost is known, without a second suspicion."""
    server = HidingServer(a=3, b=4)
    async with running(watching(server)) as harness:
        del server.nodes["a"]
        server.version = 21
        server.down = True
        harness.reflector.suspect("a pod is gone")
        await asyncio.sleep(60.0)
        harness.reflector.suspect = lambda reason: None  # type: ignore[method-assign]
        server.down = False
        await asyncio.sleep(25.0)
    assert ["+a@3", "+b@4", "Synced", "-a@21"] == harness.names()
    assert len(full_lists(harness)) < 10


@looptime
async def test_a_suspicion_while_a_list_is_due_is_not_wrong() -> None:
    """It is not compared, and makes no later suspicion wait."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        server.down = True
        harness.reflector.relist()
        await asyncio.sleep(0.1)
        harness.reflector.suspect("one")
        await asyncio.sleep(0.1)
        assert (False, 0) == (harness.reflector.watching, harness.reflector.counts.comparisons)
        server.down = False
        await asyncio.sleep(5.0)
        assert harness.reflector.watching
        harness.reflector.suspect("two")
        await asyncio.sleep(1.0)
        assert 1 == harness.reflector.counts.comparisons


@looptime
async def test_what_arrives_while_lists_are_compared_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The DELETED line comes while a thread compares: neither counted nor warned about as an event that the watch lost."""
    server, compare = HidingServer(a=3, b=4), asyncio.to_thread
    async with running(watching(server)) as harness:

        async def compare_slowly(*args: Any) -> Any:
            found = await compare(*args)
            if not harness.names().count("-a@21"):
                harness.stream.push(line("DELETED", "a", 21))
                await asyncio.sleep(0.1)
            return found

        monkeypatch.setattr("trimtab.kube.cache_comparison.asyncio.to_thread", compare_slowly)
        del server.nodes["a"]
        server.version = 21
        harness.reflector.suspect("a pod is gone")
        await asyncio.sleep(1.0)
    assert ["+a@3", "+b@4", "Synced", "-a@21"] == harness.names()
    assert (1, 0) == (harness.reflector.counts.comparisons, harness.reflector.counts.leftover)


@looptime
async def test_what_is_read_while_a_list_is_under_way_is_left_to_the_watch() -> None:
    """The lost node b is replaced by another b, newer than the list under way: that list would delete it, for good."""
    server, harness = HidingServer(a=3), watching(HidingServer())

    async def read(request: Request) -> FakeResponse:
        del server.nodes["b"]
        server.version = 30
        harness.reflector.relist()
        await asyncio.sleep(0.5)
        server.nodes["b"] = server.version = 31
        return server.answer(request)

    async def answer_late(response: FakeResponse) -> FakeResponse:
        await asyncio.sleep(1.0)
        return response

    def answer(request: Request) -> Any:
        if "fieldSelector" in request.path:
            return read(request)
        response = server.answer(request)
        return answer_late(response) if server.version == 30 else response

    harness.answer = answer
    async with running(harness):
        server.nodes["b"], server.nodes["a"], server.version = 20, 21, 21
        harness.stream.push(line("MODIFIED", "a", 21))
        await asyncio.sleep(31.0)
        harness.stream.push(line("ADDED", "b", 31))
        await asyncio.sleep(1.0)
    assert ["+a@3", "Synced", "+a@21", "+b@31"] == harness.names()


@looptime
async def test_many_differences_mean_another_list() -> None:
    """Reading fifty objects one by one would cost more."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        server.nodes |= {f"n{number}": 20 + number for number in range(50)}
        server.version = 80
        await asyncio.sleep(60.0)
    assert (2, 50) == (harness.reflector.counts.lists, harness.reflector.counts.missing)
    assert 51 == len(harness.reflector.store)


@looptime
async def test_a_malformed_object_is_not_missing() -> None:
    """It exists, its newest version was seen, and no comparison reports it."""
    server = HidingServer(a=3)
    async with running(watching(server)) as harness:
        meta = {"name": 7, "uid": "u-b", "resourceVersion": "20"}
        harness.stream.push({"type": "ADDED", "object": {"kind": "Node", "metadata": meta}})
        server.nodes["b"], server.version = 20, 20
        await asyncio.sleep(1_000.0)
    counts = harness.reflector.counts
    assert counts.comparisons >= 1 and 1 == harness.reflector.store.malformed
    assert (0, 0, 0) == (counts.missing, counts.outdated, counts.leftover)


UIDS = st.sampled_from("abcdef")


@given(
    history=st.lists(st.tuples(UIDS, st.booleans()), max_size=30),
    listed_at=st.integers(0, 30),
    hidden=st.sets(st.integers(0, 30)),
)
def test_differences_are_what_was_hidden(history: list[tuple[str, bool]], listed_at: int, hidden: set[int]) -> None:
    """A cache that has passed the list's version differs exactly where hiding events made it differ from the truth."""
    listed_at = min(listed_at, len(history))
    truth = _replayed(history[:listed_at], set())
    held, deleted = _replayed(history, hidden), set()
    for version, (uid, exists) in enumerate(history):
        if not exists and version not in hidden and version >= listed_at:
            deleted.add(f"{uid}{_generation(history, version)}")
    found = find_differences([ObjectMetadata(uid, uid, at) for uid, at in truth.items()], listed_at, held, deleted)
    at_list = _replayed(history[:listed_at], hidden)
    wrong = {uid for uid in {*truth, *at_list} if truth.get(uid) != at_list.get(uid)}
    reported = {each.uid for each in (*found.missing, *found.outdated)} | {*found.leftover}
    assert reported <= wrong
    later = _replayed(history[listed_at:], hidden - set(range(listed_at)), listed_at)
    assert {uid for uid in wrong if uid not in later and uid not in deleted} <= reported


def _generation(history: list[tuple[str, bool]], until: int) -> int:
    """How often the object was deleted before: each time it gets a new UID."""
    uid = history[until][0]
    return sum(each == (uid, False) for each in history[:until])


def _replayed(history: list[tuple[str, bool]], hidden: set[int], first: int = 0) -> dict[str, int]:
    """Versions by UID after these events, without the hidden ones; version 1 is the first event's."""
    held: dict[str, int] = {}
    for number, (uid, exists) in enumerate(history):
        key = f"{uid}{_generation(history, number)}"
        if number + first in hidden:
            continue
        if exists:
            held[key] = number + first + 1
        else:
            held.pop(key, None)
    return held


def test_nothing_that_is_newer_than_the_list_is_a_leftover() -> None:
    """It was created after the list, so the list cannot have it."""
    assert Differences([], [], []) == find_differences([], 10, {"new": 11})
