"""Proves that a kind of source is read, refused, shown and opened by what its own file says of it, without `config`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.config.files import FILE, OWN_HEAD
from trimtab.config.own.settings import FurtherSettings, MetricsServerSettings
from trimtab.config.problem import ConfigError
from trimtab.config.scheduler import read
from trimtab.config.show import shown
from trimtab.core.model.sample import Reading
from trimtab.core.model.span import Span
from trimtab.sources import opening
from trimtab.sources.contract import Around, Past, Scrape, nothing
from trimtab.sources.metrics_server import MetricsServer
from trimtab.sources.opening import FURTHER, KINDS, Kind, opened
from trimtab.sources.replay import Recording, Replay

OFTEN = Span(20)


@dataclass(frozen=True, slots=True)
class Steady:
    """Every node at the same share."""

    cpu_share: float = 0.5
    interval: Span = OFTEN

    def __post_init__(self) -> None:
        if not 0 <= self.cpu_share <= 1:
            raise ValueError(f"cpuShare: {self.cpu_share:g} is not from 0 to 1")


class SteadySource:
    """The least that a source has to have."""

    def __init__(self, name: str, steady: Steady, around: Around) -> None:
        self.name, self.interval, self.parts = name, steady.interval, (name,)
        self._share, self._around = steady.cpu_share, around

    async def read(self) -> Scrape:
        names = tuple(node.name for node in self._around.nodes())
        return Scrape((Reading(self.name, "cpu", names, (self._share,) * len(names), (self._around.now(),)),))

    def recall(self, spans: Sequence[Past]) -> AsyncIterator[tuple[Reading, ...]]:
        return nothing()

    async def close(self) -> None:
        """Nothing is held."""


async def get(path: str) -> tuple[int, bytes]:
    return 404, b""


def complaint(body: str, kinds: dict[str, type]) -> str:
    with pytest.raises(ConfigError) as caught:
        read(f"{OWN_HEAD}sources: [{{name: a, {body}}}]\n", FILE, None, kinds)
    return str(caught.value)


def test_a_kind_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are read with their defaults and what is shown reads back as the same; the table opens it."""
    monkeypatch.setattr(opening, "FURTHER", {**FURTHER, "steady": Kind(Steady, SteadySource)})
    kinds = {"steady": Steady}
    first = read(f"{OWN_HEAD}sources: [{{name: calm, steady: {{cpuShare: 0.25}}}}]\n", FILE, None, kinds)
    assert (FurtherSettings("calm", "steady", Steady(0.25, OFTEN)),) == first.own.sources
    assert first.own == read(shown(first), FILE, None, kinds).own
    source = opened(first.own.sources[0], lambda: (), get)
    assert isinstance(source, SteadySource)
    assert ("calm", 20.0, ("calm",)) == (source.name, source.interval, source.parts)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("steady: {cpuShare: 7}", "3:29: sources[0].steady: cpuShare: 7 is not from 0 to 1"),
        ("steady: {cpushare: 1}", "sources[0].steady.cpushare: unknown field (did you mean cpuShare?)"),
        ("steady: {interval: 5}", "sources[0].steady.interval: expected a duration"),
        ("steady: {interval: 2h}", "sources[0].steady: interval: 2h is not between 1s and 1h"),
        ("steady: {interval: 10m}", "sources: a is asked every 10m, but a sample counts for nothing after 5m"),
        ("stedy: {}", "sources[0].stedy: unknown field (did you mean steady?)"),
        ("", "sources[0]: a source is one of prometheus, metricsServer, steady"),
        ("steady: {}, metricsServer: {}", "sources[0].steady: a source is of one kind"),
    ],
)
def test_what_makes_no_sense_is_refused(body: str, expected: str) -> None:
    """By the dataclass itself, by the names of its fields, and as for every source."""
    assert expected in complaint(body, {"steady": Steady})


def test_recordings() -> None:
    """A recording is read from the file, and one without a path, or with a devious one, is refused."""
    assert Recording is KINDS["replay"]
    found = read(f"{OWN_HEAD}sources: [{{name: tape, replay: {{path: a.jsonl, interval: 2s}}}}]\n", FILE, None, KINDS)
    assert (FurtherSettings("tape", "replay", Recording("a.jsonl", Span(2))),) == found.own.sources
    assert "sources[0].replay: path is missing" in complaint("replay: {}", dict(KINDS))
    assert "sources[0].replay: path: '../x' leads through '..'" in complaint("replay: {path: ../x}", dict(KINDS))


def test_opened(tmp_path: Path) -> None:
    """Each kind of settings has its source."""
    tape = FurtherSettings("tape", "replay", Recording(str(tmp_path / "tape")))
    assert isinstance(opened(tape, lambda: (), get), Replay)
    assert isinstance(opened(MetricsServerSettings("server"), lambda: (), get), MetricsServer)
