"""Sources are replaced while the process runs, and only those that changed; a bad one stops no other."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from trimtab.apps.source_pollers import SourcePollers
from trimtab.config.trimtab.settings import MetricsServerSettings, SourceSettings
from trimtab.core.model.events import SamplesRead, SourceFailed
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Reading
from trimtab.sources import registry
from trimtab.sources.interface import HistoryRange, Scrape, Source, SourceError, no_history
from trimtab.sources.poller import SourceEvent
from trimtab.sources.replay import ReplaySettings


async def until(done: Callable[[], bool]) -> None:
    """Wait up to half a minute."""
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110 -- a list that others fill
            await asyncio.sleep(0.01)


async def get(path: str) -> tuple[int, bytes]:
    """A metrics-server with one node and no pods."""
    item = {
        "metadata": {"name": "a"},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10s",
        "usage": {"cpu": "1", "memory": "1Ki"},
    }
    return 200, json.dumps({"items": [item] if path.partition("?")[0].endswith("nodes") else []}).encode()


async def test_exchanged(tmp_path: Path) -> None:
    """After a change each query of the old source has failed once, and the new source is polled."""
    told: list[SourceEvent] = []
    first, second = MetricsServerSettings("one", interval=1.0), MetricsServerSettings("two", interval=1.0)
    pollers = SourcePollers((first,), lambda: [Node("a")], get, told.append, lambda: 1.0, history=())
    running = asyncio.create_task(pollers.run())
    await until(lambda: any(isinstance(each, SamplesRead) for each in told))
    told.clear()
    assert {"one/nodes": 0, "one/pods": 0} == pollers.failing()
    pollers.change((second, ReplaySettings("lost", str(tmp_path / "nowhere.jsonl"))))
    await until(lambda: any(isinstance(each, SamplesRead) for each in told))
    await until(lambda: {"two/nodes": 0, "two/pods": 0, "lost": 1} == pollers.failing())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gone = [each.source for each in told if isinstance(each, SourceFailed) and each.source.startswith("one")]
    read = {reading.source for each in told if isinstance(each, SamplesRead) for reading in each.readings}
    assert ["one/nodes", "one/pods"] == sorted(gone)
    assert {"two/nodes"} <= read


class FakeSource:
    """A source that counts polls and notes when it is closed; one named "bad" cannot be opened."""

    interval = 0.02

    def __init__(self, settings: SourceSettings, context: object) -> None:
        name = settings.name
        if name == "bad":
            raise SourceError("its address is nonsense", "write another")
        self.name, self.query_names = name, (name,)
        self.polls, self.closed = 0, False
        CREATED.append(self)

    async def read(self) -> Scrape:
        self.polls += 1
        return Scrape((Reading(self.name, "cpu", ("a",), (1.0,), (1.0,)),))

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        return no_history()

    async def close(self) -> None:
        self.closed = True


CREATED: list[FakeSource] = []


class PollersHarness:
    """A running `SourcePollers`, the sources that it opened, and its events."""

    def __init__(self, *sources: SourceSettings) -> None:
        CREATED.clear()
        self.told: list[SourceEvent] = []
        self.pollers = SourcePollers(sources, lambda: [Node("a")], get, self.told.append, lambda: 1.0, history=())
        self.running = asyncio.create_task(self.pollers.run())

    def states(self) -> list[tuple[str, bool]]:
        """Of all that were ever made: the name, and whether it is closed."""
        return [(each.name, each.closed) for each in CREATED]

    @property
    def failed(self) -> list[str]:
        return [each.source for each in self.told if isinstance(each, SourceFailed)]

    async def polled(self, place: int, times: int = 1) -> None:
        """Until the source that was made in this place has been asked so often."""
        await until(lambda: len(CREATED) > place and CREATED[place].polls >= times)


@pytest.fixture
async def harness(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PollersHarness]:
    """Two sources, polled once each."""
    monkeypatch.setitem(registry.SOURCE_KINDS, "replay", registry.SourceKind(ReplaySettings, FakeSource))  # type: ignore[arg-type]
    made = PollersHarness(source_settings("one"), source_settings("two"))
    await made.polled(0)
    await made.polled(1)
    yield made
    made.running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await made.running
    assert all(closed for _, closed in made.states())


def source_settings(name: str, path: str = "tape") -> ReplaySettings:
    return ReplaySettings(name, path, 0.01)


async def test_only_what_changed_is_exchanged(harness: PollersHarness) -> None:
    """The other source is the same object, still polled and trusted."""
    harness.pollers.change((source_settings("one"), source_settings("two", "another")))
    await harness.polled(2)
    assert [("one", False), ("two", True), ("two", False)] == harness.states()
    await harness.polled(0, CREATED[0].polls + 1)
    assert ["two"] == harness.failed


async def test_another_order_is_no_change(harness: PollersHarness) -> None:
    """Nor is the same configuration again."""
    harness.pollers.change((source_settings("two"), source_settings("one")))
    await harness.polled(0, CREATED[0].polls + 1)
    assert ([("one", False), ("two", False)], []) == (harness.states(), harness.failed)


async def test_one_that_comes_and_one_that_goes(harness: PollersHarness) -> None:
    """A removed source is closed and not trusted any more; a new one is polled."""
    harness.pollers.change((source_settings("two"), source_settings("three")))
    await harness.polled(2)
    assert [("one", True), ("two", False), ("three", False)] == harness.states()
    assert ["one"] == harness.failed


async def test_one_that_cannot_be_opened_keeps_all_as_it_is(harness: PollersHarness) -> None:
    """The caller gets the error; sources opened before it are closed without being polled."""
    before = harness.pollers.sources
    with pytest.raises(SourceError, match="its address is nonsense"):
        harness.pollers.change((source_settings("one"), source_settings("three"), source_settings("bad")))
    await until(lambda: CREATED[2].closed)
    await harness.polled(1, CREATED[1].polls + 1)
    assert [("one", False), ("two", False), ("three", True)] == harness.states()
    assert (before, 0, []) == (harness.pollers.sources, CREATED[2].polls, harness.failed)


async def test_one_that_could_not_be_opened_before_is_no_reason_to_refuse(
    harness: PollersHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged at the start and again, and the change of another source is applied."""
    harness.running.cancel()
    await asyncio.gather(harness.running, return_exceptions=True)
    bad = source_settings("bad")
    harness.__init__(source_settings("one"), bad)  # type: ignore[misc]
    await harness.polled(0)
    harness.pollers.change((source_settings("one", "another"), bad))
    await harness.polled(1)
    assert [("one", True), ("one", False)] == harness.states()
    assert 2 == caplog.text.count("failed to open source: source=bad error=its address is nonsense: write another")


async def test_changes_in_a_row(harness: PollersHarness) -> None:
    """Also before the first is applied: the last one wins."""
    for path in ("x", "y", "z"):
        harness.pollers.change((source_settings("one"), source_settings("two", path)))
    await harness.polled(4)
    await until(lambda: all(each.closed for each in CREATED[1:4]))
    assert not CREATED[0].closed and not CREATED[4].closed
    assert [0, 0] == [each.polls for each in CREATED[2:4]]
    assert ["two"] == harness.failed


async def test_one_that_ends_by_itself_is_told(harness: PollersHarness, caplog: pytest.LogCaptureFixture) -> None:
    """After an unexpected exception it is not trusted any more, and the others go on."""

    async def strange() -> Scrape:
        raise asyncio.CancelledError

    CREATED[0].read = strange  # type: ignore[method-assign]
    await until(lambda: ["one"] == harness.failed)
    assert "source is not polled any more: source=one" in caplog.text and "error=CancelledError" in caplog.text
    await harness.polled(1, CREATED[1].polls + 1)


async def test_one_that_cannot_be_made_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises, the others are polled, and the process goes on."""

    def broken(settings: SourceSettings, context: object) -> Source:
        raise RuntimeError(settings.name)

    monkeypatch.setitem(registry.SOURCE_KINDS, "replay", registry.SourceKind(ReplaySettings, broken))
    told: list[SourceEvent] = []
    sources = (
        ReplaySettings("bad", "tape"),
        MetricsServerSettings("good", interval=1.0),
    )
    running = asyncio.create_task(
        SourcePollers(sources, lambda: [Node("a")], get, told.append, lambda: 1.0, history=()).run()
    )
    await until(lambda: bool(told) or running.done())
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
