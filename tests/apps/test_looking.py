"""Proves that sources are exchanged while it runs: the old are no longer believed, and one bad one stops no other."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.apps.looking import Looking
from trimtab.config.own.settings import FurtherSettings, MetricsServerSettings
from trimtab.core.model.event import SamplesRead, SourceFailed
from trimtab.core.model.node import Node
from trimtab.sources import opening
from trimtab.sources.contract import Source
from trimtab.sources.polling import Measured
from trimtab.sources.replay import Recording


async def until(done: Callable[[], bool]) -> None:
    """Wait for it, five seconds at most."""
    async with asyncio.timeout(5):
        while not done():  # noqa: ASYNC110 -- a list that others fill
            await asyncio.sleep(0.01)


async def get(path: str) -> tuple[int, bytes]:
    """A metrics-server that knows one node and no pod."""
    item = {
        "metadata": {"name": "a"},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10s",
        "usage": {"cpu": "1", "memory": "1Ki"},
    }
    return 200, json.dumps({"items": [item] if path.partition("?")[0].endswith("nodes") else []}).encode()


async def test_exchanged(tmp_path: Path) -> None:
    """After a change each part of the source of before has failed, once, and the new one is asked."""
    told: list[Measured] = []
    first, second = MetricsServerSettings("one", interval=1.0), MetricsServerSettings("two", interval=1.0)
    looking = Looking((first,), lambda: [Node("a")], get, told.append, lambda: 1.0, spans=())
    running = asyncio.create_task(looking.run())
    await until(lambda: any(isinstance(each, SamplesRead) for each in told))
    told.clear()
    looking.change((second, FurtherSettings("lost", "replay", Recording(str(tmp_path / "nowhere.jsonl")))))
    await until(lambda: any(isinstance(each, SamplesRead) for each in told))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gone = [each.source for each in told if isinstance(each, SourceFailed) and each.source.startswith("one")]
    read = {reading.source for each in told if isinstance(each, SamplesRead) for reading in each.readings}
    assert ["one/nodes", "one/pods"] == sorted(gone)
    assert {"two/nodes"} <= read


async def test_one_that_cannot_be_made_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises: the others are asked, and the scheduler goes on."""

    def broken(name: str, settings: object, around: object) -> Source:
        raise RuntimeError(name)

    monkeypatch.setitem(opening.FURTHER, "replay", opening.Kind(Recording, broken))
    told: list[Measured] = []
    sources = (FurtherSettings("bad", "replay", Recording("tape")), MetricsServerSettings("good", interval=1.0))
    running = asyncio.create_task(Looking(sources, lambda: [Node("a")], get, told.append, lambda: 1.0, spans=()).run())
    await until(lambda: bool(told) or running.done())
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
