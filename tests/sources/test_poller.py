"""The poller: its rhythm, retries, failures reported once, history, and that nothing ends the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from random import Random

import pytest

from trimtab.core.model.events import HistoryRead, SamplesRead, SourceFailed
from trimtab.core.model.readings import Reading, Subject
from trimtab.sources.interface import Failure, HistoryRange, Scrape, SourceError
from trimtab.sources.poller import Poller, SourceEvent

pytestmark = pytest.mark.looptime

CPU, MEMORY = "s/cpu", "s/memory"
GONE = SourceError("gone", "look for it")


def reading(query: str) -> Reading:
    return Reading(query, query.removeprefix("s/"), ("a",), (1.0,), (1.0,))


BOTH = Scrape((reading(CPU), reading(MEMORY)))
Step = Scrape | Exception | Callable[[], Scrape]


class ScriptedSource:
    """A source that goes through the given steps and repeats the last one."""

    name, interval, query_names = "s", 10.0, (CPU, MEMORY)

    def __init__(
        self, *steps: Step, seconds: float = 0.0, history: Sequence[tuple[Reading, ...] | Exception] = ()
    ) -> None:
        self.steps, self.seconds, self.history = list(steps), seconds, history
        self.polls: list[float] = []
        self.closed = False

    async def read(self) -> Scrape:
        self.polls.append(asyncio.get_running_loop().time())
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        await asyncio.sleep(self.seconds)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Scrape) else step()

    async def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        for each in self.history:
            await asyncio.sleep(1.0)
            if isinstance(each, Exception):
                raise each
            yield each

    async def close(self) -> None:
        self.closed = True


async def polled(source: ScriptedSource, seconds: float = 35.0) -> list[SourceEvent]:
    """The events emitted in that time."""
    events: list[SourceEvent] = []
    ranges = (HistoryRange(Subject.NODES, 60.0, 0.0, 30.0),)
    task = asyncio.create_task(Poller(source, events.append, lambda: 7.0, Random(1), ranges).run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert source.closed
    return events


def summary(events: Sequence[SourceEvent]) -> list[str]:
    """One word per event: the queries that returned readings, or -query for one that failed."""
    return [
        f"-{event.source}" if isinstance(event, SourceFailed) else "+".join(each.source for each in event.readings)
        for event in events
    ]


async def test_a_source_is_polled_at_its_interval() -> None:
    """About every ten seconds with jitter, starting within the first second."""
    source = ScriptedSource(BOTH)
    assert 4 == len(await polled(source))
    gaps = [later - earlier for earlier, later in zip(source.polls, source.polls[1:], strict=False)]
    assert source.polls[0] <= 1.0 and all(9.5 <= gap <= 10.5 for gap in gaps) and len(set(gaps)) == len(gaps)


async def test_a_slow_source_gets_a_pause() -> None:
    """However long a poll takes, the next one waits a little, and two never overlap."""
    source = ScriptedSource(BOTH, seconds=25.0)
    await polled(source, 80.0)
    assert all(later - earlier >= 26.0 for earlier, later in zip(source.polls, source.polls[1:], strict=False))


async def test_a_failure_is_reported_once_and_recovery_within_a_cycle() -> None:
    """Every query fails with the poll, is reported once however long it lasts, and recovers with the next readings."""
    events = await polled(ScriptedSource(BOTH, GONE, GONE, BOTH))
    both = f"{CPU}+{MEMORY}"
    assert [both, f"-{CPU}", f"-{MEMORY}", both] == summary(events)
    failed = next(event for event in events if isinstance(event, SourceFailed))
    assert (7.0, "gone: look for it") == (failed.at, failed.problem)


async def test_only_an_invalid_answer_discards_samples() -> None:
    """Without an answer they age; if nonsense follows, they are discarded, once, until the query recovers."""
    nonsense = Scrape((), (Failure(CPU, SourceError("not JSON", invalid=True)), Failure(MEMORY, GONE)))
    events = await polled(ScriptedSource(BOTH, GONE, nonsense, nonsense, GONE, BOTH, GONE), seconds=65.0)
    failed = [(event.source, event.discard_samples) for event in events if isinstance(event, SourceFailed)]
    assert [(CPU, False), (MEMORY, False), (CPU, True), (CPU, False), (MEMORY, False)] == failed


async def test_a_single_query_fails_on_its_own() -> None:
    """The others go on, and it recovers on its own."""
    half = Scrape((reading(MEMORY),), (Failure(CPU, GONE),))
    assert [MEMORY, f"-{CPU}", MEMORY, f"{CPU}+{MEMORY}", MEMORY, f"-{CPU}"] == summary(
        await polled(ScriptedSource(half, half, BOTH, half))
    )


async def test_a_transient_error_is_retried_within_the_cycle() -> None:
    """A single one is not even reported."""
    source = ScriptedSource(SourceError("busy", transient=True), BOTH)
    assert [f"{CPU}+{MEMORY}"] == summary(await polled(source, 5.0))


async def test_one_retry_and_only_if_there_is_time() -> None:
    """A poll that took half of the interval is not retried; a failed retry is reported once."""
    quick = ScriptedSource(SourceError("busy", transient=True))
    assert [f"-{CPU}", f"-{MEMORY}"] == summary(await polled(quick, 5.0)) and 2 == len(quick.polls)
    slow = ScriptedSource(SourceError("busy", transient=True), seconds=6.0)
    assert [f"-{CPU}", f"-{MEMORY}"] == summary(await polled(slow, 9.0)) and 1 == len(slow.polls)


async def test_an_internal_error_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Any exception is a failure of the source, logged with its traceback, and the next poll takes place."""
    events = await polled(ScriptedSource(ZeroDivisionError("oops"), BOTH))
    assert [f"-{CPU}", f"-{MEMORY}", f"{CPU}+{MEMORY}"] == summary(events)[:3]
    assert "oops" in caplog.text


async def test_history_is_read_after_the_first_readings() -> None:
    """Once, in chunks, while polling goes on."""
    history = [(reading(CPU),), (reading(MEMORY),)]
    events = await polled(ScriptedSource(GONE, BOTH, history=history))
    kinds = [type(event) for event in events]
    assert [SourceFailed, SourceFailed, SamplesRead, HistoryRead, HistoryRead, SamplesRead] == kinds[:6]
    assert 2 == kinds.count(HistoryRead)


@pytest.mark.parametrize("error", [GONE, ZeroDivisionError("oops")])
async def test_history_that_fails_is_skipped(error: Exception) -> None:
    """What was read before the error counts, and polling goes on."""
    events = await polled(ScriptedSource(BOTH, history=[(reading(CPU),), error]))
    assert [SamplesRead, HistoryRead, SamplesRead] == [type(event) for event in events[:3]]


async def test_the_receiver_of_events_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and polling goes on: one scrape that the core cannot process must not stop all later ones."""

    def emit(event: SourceEvent) -> None:
        raise ZeroDivisionError

    source = ScriptedSource(BOTH)
    task = asyncio.create_task(Poller(source, emit, lambda: 7.0, Random(1), ()).run())
    await asyncio.sleep(35.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 3 <= len(source.polls)
    assert "processing samples failed" in caplog.text


async def test_failing_is_what_failed_at_the_last_poll() -> None:
    """An optional query fails with its source, and recovers when the source responds, even without its readings."""
    half = Scrape((reading(CPU),), (Failure(MEMORY, GONE),))
    poller = Poller(ScriptedSource(GONE, Scrape((reading(CPU),)), half, BOTH), lambda _: None, ranges=())
    failing = []
    for _ in range(4):
        await poller.poll()
        failing.append(sorted(poller.failing))
    assert [[CPU, MEMORY], [], [MEMORY], []] == failing
