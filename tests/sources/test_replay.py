"""Recording and replaying readings."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.core.model.events import SamplesRead
from trimtab.core.model.readings import Reading, Unit
from trimtab.sources.interface import SourceContext, SourceError
from trimtab.sources.replay import ReplaySettings, ReplaySource, record


def event(at: float, value: float) -> SamplesRead:
    return SamplesRead(
        (Reading("prom/nodeCPU", "cpu", ("a",), (value,), (at - 7,), unit=Unit.FRACTION, window=60.0),), at
    )


async def unasked(path: str) -> tuple[int, bytes]:
    raise AssertionError(path)


LATER = SourceContext(lambda: (), unasked, lambda: 5000.0)


def recorded(path: Path, *events: SamplesRead) -> ReplaySource:
    with path.open("wb") as file:
        for each in events:
            record(file, each)
    return ReplaySource(ReplaySettings("tape", str(path)), LATER)


async def test_samples_keep_their_age(tmp_path: Path) -> None:
    """One line per poll, in order, with every time shifted to now, under the configured name."""
    source = recorded(tmp_path / "tape", event(100.0, 0.5), event(115.0, 0.6))
    first, second = (await source.read()).readings[0], (await source.read()).readings[0]
    assert [(0.5,), (0.6,)] == [first.values, second.values]
    assert (4993.0,) == first.measured == second.measured
    assert ("tape", Unit.FRACTION, 60.0) == (first.source, first.unit, first.window)


async def test_a_recording_ends(tmp_path: Path) -> None:
    """After its last line the source fails; lines appended later are read."""
    path = tmp_path / "tape"
    source = recorded(path, event(100.0, 0.5))
    await source.read()
    with pytest.raises(SourceError, match="ended after 1 lines"):
        await source.read()
    with path.open("ab") as file:
        record(file, event(200.0, 0.7))
    assert (0.7,) == (await source.read()).readings[0].values


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"{}",
        b'{"type":"SamplesRead","readings":[],"at":"now"}',
        b'{"type":"SamplesRead","readings":[{"source":"s","resource":"cpu","names":["a"],"values":[],"measured":[]}],"at":1}',
        b'{"type":"SamplesRead","readings":[{"source":"s","resource":"cpu","names":["a"],"values":[NaN],"measured":[1]}],"at":1}',
    ],
)
async def test_a_malformed_line_is_reported_and_skipped(line: bytes, tmp_path: Path) -> None:
    """The error names file and line; the next poll reads the next line."""
    path = tmp_path / "tape"
    recorded(path, event(100.0, 0.5))
    path.write_bytes(line + b"\n" + path.read_bytes())
    source = ReplaySource(ReplaySettings("tape", str(path)), LATER)
    with pytest.raises(SourceError, match=r"tape:1: "):
        await source.read()
    assert (0.5,) == (await source.read()).readings[0].values


async def test_a_missing_file(tmp_path: Path) -> None:
    """With the reason and what to check."""
    with pytest.raises(SourceError, match=r"No such file.*check"):
        await ReplaySource(ReplaySettings("tape", str(tmp_path / "none")), LATER).read()
