"""The reflector lists, watches, backs off and relists at the right moments, on a fake clock."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest

from tests.kube.fake_transport import FakeResponse, FakeStream, json_response
from tests.kube.node_responses import bookmark, expired, line, listing, node, page, query
from tests.kube.reflector_harness import ReflectorHarness, running
from trimtab.core.model.events import NodeUpserted, Synced
from trimtab.core.model.node import Node
from trimtab.kube.store import ResourceVersionRegressed
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
DOWN = Unreachable("refused", sent=False)


async def test_first_a_consistent_list_then_a_watch_from_there() -> None:
    """The first list names no version; the watch goes on from its version, with bookmarks, for 5–10 min."""
    async with running(ReflectorHarness(answer=lambda request: listing(10, node("a", 7)))) as harness:
        harness.stream.push(line("ADDED", "b", 11), line("DELETED", "a", 12))
        await asyncio.sleep(0.01)
    assert ["+a@7", "Synced", "+b@11", "-a@12"] == harness.names()
    assert "/api/v1/nodes?limit=1000" == harness.transport.sent[0][1].path
    asked = query(harness.transport.watched[0][1])
    assert ("10", "true") == (asked["resourceVersion"], asked["allowWatchBookmarks"])
    assert 300 <= int(asked["timeoutSeconds"]) <= 600


async def test_other_tasks_run_during_a_long_batch() -> None:
    """While a thousand lines that arrived at once are handled, other tasks run many times in between."""
    seen = [1]
    async with running(ReflectorHarness()) as harness:
        harness.stream.push(*(line("ADDED", f"n{n}", 11 + n) for n in range(1_000)))
        while seen[-1] < 1_001:
            await asyncio.sleep(0)
            seen.append(len(harness.events))
    assert max(after - before for before, after in pairwise(seen)) <= 8


async def test_other_tasks_run_during_a_long_list() -> None:
    """The same for a list, which after an outage may bring as many changes."""
    seen = [0]
    harness = ReflectorHarness(answer=lambda request: listing(2_000, *(node(f"n{n}", 11 + n) for n in range(1_000))))
    async with running(harness):
        harness.events.clear()
        harness.answer = lambda request: listing(4_000, *(node(f"n{n}", 2_001 + n) for n in range(1_000)))
        refreshing = asyncio.create_task(harness.reflector.refresh())
        while seen[-1] < 1_000:
            await asyncio.sleep(0)
            seen.append(len(harness.events))
        await refreshing
    assert max(after - before for before, after in pairwise(seen)) <= 8


async def test_a_long_list_comes_in_pages() -> None:
    """Each page is requested with the token of the one before; events and Synced follow after the last."""
    pages = {"": page(10, "x/1", node("a", 7)), "x/1": page(10, "x/2", node("b", 8)), "x/2": listing(10, node("c", 9))}
    async with running(ReflectorHarness(answer=lambda request: pages[query(request).get("continue", "")])) as harness:
        pass
    assert ["+a@7", "+b@8", "+c@9", "Synced"] == harness.names()
    assert ["10"] == [query(request)["resourceVersion"] for _, request in harness.transport.watched]
    assert (1, 3) == (harness.reflector.counts.lists, len(harness.lists()))


@pytest.mark.parametrize(
    "second", [json_response({"kind": "Status", "code": 410}, 410), listing(11, node("b", 11)), DOWN]
)
async def test_a_list_that_fails_halfway_starts_again(second: FakeResponse) -> None:
    """A page that expired, is of another version or does not arrive has no effect; the next list starts at its first page."""
    harness = ReflectorHarness(
        answer=lambda request: second if "continue" in query(request) else page(10, "x", node("a", 7))
    )
    async with running(harness):
        assert [] == harness.names()
        harness.answer = lambda request: listing(12, node("b", 11))
        await asyncio.sleep(2.0)
    assert ["+b@11", "Synced"] == harness.names()


async def test_events_carry_the_time_of_the_clock() -> None:
    """`at` is what the injected clock says when the line is taken in."""
    async with running(ReflectorHarness()) as harness:
        await asyncio.sleep(7.0)
        harness.stream.push(line("ADDED", "b", 11))
        await asyncio.sleep(0.01)
    assert NodeUpserted(Node("b", uid="u-b", version=11), pytest.approx(7.01)) == harness.events[-1]


async def test_an_ended_watch_goes_on_where_it_was() -> None:
    """A normal end is followed at once by a watch from the last version, bookmarks included, without a list."""
    async with running(ReflectorHarness()) as harness:
        harness.stream.push(line("ADDED", "b", 11))
        harness.stream.push(bookmark(40))
        harness.stream.end()
        await asyncio.sleep(0.01)
    assert (1, ["10", "40"]) == (
        len(harness.lists()),
        [query(r)["resourceVersion"] for _, r in harness.transport.watched],
    )
    assert harness.watches()[0] == pytest.approx(harness.watches()[1], abs=0.02)


async def test_a_watch_that_ends_at_once_is_not_repeated_at_once() -> None:
    """A server that ends every watch as it begins is contacted less and less often."""
    opened = count()

    def ended(request: Request) -> FakeStream:
        stream = FakeStream()
        if next(opened) < 20:  # whoever asks that often has failed already, and would ask for ever
            stream.end()
        return stream

    async with running(ReflectorHarness(open=ended)) as harness:
        await asyncio.sleep(60.0)
    assert len(harness.watches()) < 10


async def test_an_idle_watch_is_opened_again() -> None:
    """A watch that brings nothing for 45 s is opened again from its version, well within 60 s, without a list."""
    async with running(ReflectorHarness()) as harness:
        await asyncio.sleep(60.0)
    assert [0.0, 45.0] == harness.watches()
    assert (1, 1, 0) == (len(harness.lists()), harness.reflector.counts.silences, harness.reflector.counts.setbacks)


async def test_after_an_idle_timeout_watches_are_short() -> None:
    """So that the bookmark that ends them is heard in time; with the first real line they are long again."""
    async with running(ReflectorHarness()) as harness:
        await asyncio.sleep(46.0)
        harness.stream.push(bookmark(12))
        harness.stream.end()
        await asyncio.sleep(0.01)
        harness.stream.push(line("ADDED", "b", 13))
        harness.stream.end()
        await asyncio.sleep(0.01)
    seconds = [int(query(request)["timeoutSeconds"]) for _, request in harness.transport.watched]
    assert [10, 10] == seconds[1:3]
    assert seconds[0] >= 300 and seconds[3] >= 300


@pytest.mark.parametrize("shape", ["answer", "line"])
async def test_both_shapes_of_410_mean_another_list(shape: str) -> None:
    """HTTP 410 and an ERROR event of code 410 both lead to a new list, and are counted apart."""
    harness = ReflectorHarness(answer=lambda request: listing(10, node("a", 7), node("b", 8)))

    def first_expired(request: Request) -> FakeStream:
        if harness.reflector.counts.lists > 1:
            return FakeStream()
        stream = FakeStream(status=410 if shape == "answer" else 200, text=b'{"kind":"Status","code":410}')
        stream.push(expired())
        return stream

    harness.open = first_expired
    async with running(harness):
        harness.answer = lambda request: listing(30, node("b", 8), node("c", 25))
        await asyncio.sleep(5.0)
    assert ["+a@7", "+b@8", "Synced", "-a@30", "+c@25"] == harness.names()
    counts = harness.reflector.counts
    assert (2, int(shape == "answer"), int(shape == "line")) == (
        counts.lists,
        counts.expired_answers,
        counts.expired_lines,
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>log in</html>",
        b"{",
        b'{"kind":"Status","status":"Failure","message":"no"}',
        b'{"kind":"NodeList","metadata":{},"items":[]}',
        b"[]",
        b"null",
    ],
)
async def test_garbage_is_never_an_empty_cluster(body: bytes) -> None:
    """A 200 whose body is not a list changes nothing; the list is requested again."""
    harness = ReflectorHarness(answer=lambda request: listing(10, node("a", 7)))
    async with running(harness):
        harness.answer = lambda request: json_response(body)
        harness.stream.push(expired())
        await asyncio.sleep(10.0)
        assert {"u-a"} == set(harness.reflector.store.objects())
        assert len(harness.lists()) > 2
    assert ["+a@7", "Synced"] == harness.names()


@pytest.mark.parametrize("garbage", [b"<html>", b'{"type":"WHAT","object":{}}', b'{"type":"ADDED"}'])
async def test_garbage_in_a_watch_means_another_list(garbage: bytes) -> None:
    """An undecodable line may have been a change, so a list follows."""
    async with running(ReflectorHarness()) as harness:
        harness.answer = lambda request: listing(30, node("c", 25))
        harness.stream.push(garbage)
        await asyncio.sleep(2.0)
    assert ["Synced", "+c@25"] == harness.names()


async def test_an_unreachable_server_is_contacted_less_and_less_often() -> None:
    """Waits grow from 0.8 s to 30 s, jittered downwards by at most a quarter, for lists."""
    async with running(ReflectorHarness(answer=lambda request: DOWN)) as harness:
        await asyncio.sleep(200.0)
    times = harness.lists()
    waits = [later - earlier for earlier, later in pairwise(times)]
    for n, wait in enumerate(waits):
        longest = min(30.0, 0.8 * 2**n)
        assert 0.75 * longest - 0.01 <= wait <= longest + 0.01


async def test_back_off_is_forgotten_after_two_calm_minutes() -> None:
    """After a long outage and two minutes of health, the next failure is followed by a short wait again."""
    harness = ReflectorHarness(answer=lambda request: DOWN)
    async with running(harness):
        await asyncio.sleep(100.0)
        harness.answer = lambda request: listing(10)
        await asyncio.sleep(200.0)
        broken = len(harness.watches())
        harness.stream.fail(DOWN)
        await asyncio.sleep(0.85)
        assert broken + 1 == len(harness.watches())


async def test_a_broken_watch_is_opened_again_without_a_list() -> None:
    """An API server that restarts costs a watch from the last version, not a list of everything."""
    harness = ReflectorHarness()
    async with running(harness):
        harness.stream.push(line("ADDED", "b", 11))
        await asyncio.sleep(0.01)
        harness.open = lambda request: DOWN
        harness.stream.fail(Unreachable("reset", sent=True))
        await asyncio.sleep(20.0)
        harness.open = lambda request: FakeStream()
        await asyncio.sleep(30.0)
        assert "11" == query(harness.transport.watched[-1][1])["resourceVersion"]
    assert 1 == len(harness.lists())


async def test_an_error_after_a_watch_that_ended_while_it_was_interrupted_counts() -> None:
    """The server ended the watch as it was to be opened again: the next watch's error is a real one."""
    harness = ReflectorHarness()
    async with running(harness):
        await asyncio.sleep(5.0)
        harness.stream.end()
        harness.reflector.reopen()
        await asyncio.sleep(0.1)
        assert (2, 0) == (len(harness.watches()), harness.reflector.counts.setbacks)
        harness.stream.fail(DOWN)
        await asyncio.sleep(0.1)
        assert 1 == harness.reflector.counts.setbacks


async def test_retry_after_is_honoured() -> None:
    """A server is not contacted before its Retry-After."""
    harness = ReflectorHarness(answer=lambda request: json_response(b"busy", 429, **{"Retry-After": "25"}))
    async with running(harness):
        await asyncio.sleep(26.0)
    assert [0.0, 25.0] == harness.lists()


async def test_refresh_waits_for_a_list_that_began_later() -> None:
    """Whoever asks gets a list begun after asking, at once, in the middle of a quiet watch."""
    harness = ReflectorHarness()
    async with running(harness):
        await asyncio.sleep(3.0)
        harness.answer = lambda request: listing(20, node("late", 15))
        await harness.reflector.refresh()
        assert ["Synced", "+late@15"] == harness.names()
        assert asyncio.get_running_loop().time() == pytest.approx(3.01, abs=0.02)
        await asyncio.sleep(0.01)
    assert 2 == len(harness.watches())


async def test_refresh_during_a_list_is_not_served_by_it() -> None:
    """A list that was under way when refresh was called may be too old; another one follows."""
    harness = ReflectorHarness()
    slow = asyncio.Event()

    async def slowly() -> FakeResponse:
        await slow.wait()
        return listing(10)

    harness.answer = lambda request: slowly()  # type: ignore[return-value]
    async with running(harness):
        waiting = asyncio.create_task(harness.reflector.refresh())
        await asyncio.sleep(1.0)
        slow.set()
        await waiting
    assert 2 == harness.reflector.counts.lists


async def test_refresh_does_not_wait_for_a_back_off() -> None:
    """After an outage the next try may be 30 s away; a new leader gets it at once, and only once."""
    harness = ReflectorHarness(answer=lambda request: DOWN)
    async with running(harness):
        await asyncio.sleep(60.0)
        before = harness.lists()
        refreshing = asyncio.create_task(harness.reflector.refresh())
        await asyncio.sleep(0.1)
        assert [60.01] == [at for at in harness.lists() if at not in before]
        harness.answer = lambda request: listing(20)
        other = asyncio.create_task(harness.reflector.refresh())
        await asyncio.wait_for(asyncio.gather(refreshing, other), 0.1)


async def test_a_reflector_that_is_woken_and_cancelled_at_once_ends() -> None:
    """A process that is told to end while a new leader lists must not go on for ever."""
    harness = ReflectorHarness(answer=lambda request: DOWN)
    running = asyncio.create_task(harness.reflector.run())
    await asyncio.sleep(60.0)
    harness.reflector.relist()
    running.cancel()
    await asyncio.wait({running}, timeout=1.0)
    assert running.done()


async def test_refresh_honours_retry_after() -> None:
    """A Retry-After is waited out all the same."""
    harness = ReflectorHarness(answer=lambda request: json_response(b"busy", 429, **{"Retry-After": "25"}))
    async with running(harness):
        await asyncio.sleep(1.0)
        harness.answer = lambda request: listing(20)
        await harness.reflector.refresh()
    assert [0.0, 25.0] == harness.lists()


async def test_an_idle_watch_with_bookmarks_is_not_stalled() -> None:
    """Bookmarks that pass the cluster's version show that nothing was missed: no list."""
    harness = ReflectorHarness()
    async with running(harness):
        for version in range(20, 60):
            harness.answer = lambda request, now=version: listing(now)
            harness.stream.push(bookmark(version))
            await asyncio.sleep(30.0)
    assert (0, 1) == (harness.reflector.counts.stalls, harness.reflector.counts.lists)


async def test_a_cluster_that_went_back_in_time_ends_the_run() -> None:
    """After a restore from backup the watch stays idle for ever; that is noticed within five minutes, without events."""
    harness = ReflectorHarness(answer=lambda request: listing(1_000, node("a", 900)))
    async with running(harness):
        harness.answer = lambda request: listing(500)
        with pytest.raises(ExceptionGroup) as group:
            await asyncio.wait_for(harness.task, 300.0)
    assert isinstance(group.value.exceptions[0], ResourceVersionRegressed)
    assert ["+a@900", "Synced"] == harness.names()


async def test_synced_is_sent_once() -> None:
    """Later lists repair; they do not begin anything."""
    harness = ReflectorHarness()
    async with running(harness):
        await harness.reflector.refresh()
        await harness.reflector.refresh()
    assert [Synced("nodes", pytest.approx(0.0, abs=0.02))] == harness.events
