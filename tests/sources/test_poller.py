"""Decides whether looks go on whatever a source does, and whether the core hears of every change once."""

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


def reading(part: str) -> Reading:
    return Reading(part, part.removeprefix("s/"), ("a",), (1.0,), (1.0,))


BOTH = Scrape((reading(CPU), reading(MEMORY)))
Step = Scrape | Exception | Callable[[], Scrape]


class ScriptedSource:
    """A source that does one thing after another, and the last for ever."""

    name, interval, query_names = "s", 10.0, (CPU, MEMORY)

    def __init__(self, *steps: Step, takes: float = 0.0, past: Sequence[tuple[Reading, ...] | Exception] = ()) -> None:
        self.steps, self.takes, self.past = list(steps), takes, past
        self.looks: list[float] = []
        self.closed = False

    async def read(self) -> Scrape:
        self.looks.append(asyncio.get_running_loop().time())
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        await asyncio.sleep(self.takes)
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, Scrape) else step()

    async def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        for each in self.past:
            await asyncio.sleep(1.0)
            if isinstance(each, Exception):
                raise each
            yield each

    async def close(self) -> None:
        self.closed = True


async def polled(source: ScriptedSource, seconds: float = 35.0) -> list[SourceEvent]:
    """What the core hears in that time."""
    heard: list[SourceEvent] = []
    spans = (HistoryRange(Subject.NODES, 60.0, 0.0, 30.0),)
    task = asyncio.create_task(Poller(source, heard.append, lambda: 7.0, Random(1), spans).run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert source.closed
    return heard


def told(events: Sequence[SourceEvent]) -> list[str]:
    """In short."""
    return [
        f"-{event.source}" if isinstance(event, SourceFailed) else "+".join(each.source for each in event.readings)
        for event in events
    ]


async def test_a_source_is_looked_at_on_its_interval() -> None:
    """About every ten seconds, a little apart each time, from the first second on."""
    source = ScriptedSource(BOTH)
    assert 4 == len(await polled(source))
    gaps = [later - earlier for earlier, later in zip(source.looks, source.looks[1:], strict=False)]
    assert source.looks[0] <= 1.0 and all(9.5 <= gap <= 10.5 for gap in gaps) and len(set(gaps)) == len(gaps)


async def test_a_slow_source_gets_its_breather() -> None:
    """However long a look takes, the next does not follow on its heels, and never two at once."""
    source = ScriptedSource(BOTH, takes=25.0)
    await polled(source, 80.0)
    assert all(later - earlier >= 26.0 for earlier, later in zip(source.looks, source.looks[1:], strict=False))


async def test_a_failure_is_told_once_and_recovery_within_a_cycle() -> None:
    """Every part is lost at the look that fails, told once however long it lasts, and back with the next answer."""
    heard = await polled(ScriptedSource(BOTH, GONE, GONE, BOTH))
    both = f"{CPU}+{MEMORY}"
    assert [both, f"-{CPU}", f"-{MEMORY}", both] == told(heard)
    failed = next(event for event in heard if isinstance(event, SourceFailed))
    assert (7.0, "gone: look for it") == (failed.at, failed.problem)


async def test_a_part_that_fails_is_told_apart() -> None:
    """The others go on, and it comes back by itself."""
    half = Scrape((reading(MEMORY),), (Failure(CPU, GONE),))
    assert [MEMORY, f"-{CPU}", MEMORY, f"{CPU}+{MEMORY}", MEMORY, f"-{CPU}"] == told(
        await polled(ScriptedSource(half, half, BOTH, half))
    )


async def test_what_may_pass_is_tried_again_within_the_cycle() -> None:
    """One hiccup is not even noticed."""
    source = ScriptedSource(SourceError("busy", transient=True), BOTH)
    assert [f"{CPU}+{MEMORY}"] == told(await polled(source, 5.0))


async def test_only_one_more_try_and_only_if_there_is_time() -> None:
    """A look that has used up half the interval is not repeated; two failures in a row are one."""
    quick = ScriptedSource(SourceError("busy", transient=True))
    assert [f"-{CPU}", f"-{MEMORY}"] == told(await polled(quick, 5.0)) and 2 == len(quick.looks)
    slow = ScriptedSource(SourceError("busy", transient=True), takes=6.0)
    assert [f"-{CPU}", f"-{MEMORY}"] == told(await polled(slow, 9.0)) and 1 == len(slow.looks)


async def test_a_fault_of_our_own_does_not_end_the_looks(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a source raises is a failure of it, logged with its trace, and the next look takes place."""
    heard = await polled(ScriptedSource(ZeroDivisionError("oops"), BOTH))
    assert [f"-{CPU}", f"-{MEMORY}", f"{CPU}+{MEMORY}"] == told(heard)[:3]
    assert "oops" in caplog.text


async def test_the_past_follows_the_first_answer() -> None:
    """Asked once, piece by piece, while the looks go on."""
    past = [(reading(CPU),), (reading(MEMORY),)]
    heard = await polled(ScriptedSource(GONE, BOTH, past=past))
    kinds = [type(event) for event in heard]
    assert [SourceFailed, SourceFailed, SamplesRead, HistoryRead, HistoryRead, SamplesRead] == kinds[:6]
    assert 2 == kinds.count(HistoryRead)


@pytest.mark.parametrize("trouble", [GONE, ZeroDivisionError("oops")])
async def test_a_past_that_cannot_be_had_is_done_without(trouble: Exception) -> None:
    """What came before the trouble counts, and nothing else is lost."""
    heard = await polled(ScriptedSource(BOTH, past=[(reading(CPU),), trouble]))
    assert [SamplesRead, HistoryRead, SamplesRead] == [type(event) for event in heard[:3]]


async def test_whoever_takes_the_news_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    """The looks go on, and it is logged: one scrape that the core cannot take must not blind it for ever."""

    def hand(event: SourceEvent) -> None:
        raise ZeroDivisionError

    source = ScriptedSource(BOTH)
    task = asyncio.create_task(Poller(source, hand, lambda: 7.0, Random(1), ()).run())
    await asyncio.sleep(35.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 3 <= len(source.looks)
    assert "what it said was not taken" in caplog.text


async def test_what_fails_now_is_what_failed_at_the_last_look() -> None:
    """A part that need not be there, such as recorded rules, fails with its source, and is well again without an answer."""
    half = Scrape((reading(CPU),), (Failure(MEMORY, GONE),))
    polling = Poller(ScriptedSource(GONE, Scrape((reading(CPU),)), half, BOTH), lambda _: None, ranges=())
    failing = []
    for _ in range(4):
        await polling.poll()
        failing.append(sorted(polling.failing))
    assert [[CPU, MEMORY], [], [MEMORY], []] == failing
