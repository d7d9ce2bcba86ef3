"""A kind of source is parsed, rejected, dumped and opened by its own declaration, without changes to `config`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.config.config_files import FILE, TRIMTAB_HEAD
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.duration import Duration
from trimtab.core.model.readings import Reading
from trimtab.sources import registry
from trimtab.sources.interface import HistoryRange, Scrape, SourceContext, no_history
from trimtab.sources.metrics_server import MetricsServerSource
from trimtab.sources.registry import SOURCE_KINDS, SOURCE_SETTINGS, SourceKind, open_source
from trimtab.sources.replay import ReplaySettings, ReplaySource

OFTEN = Duration(20)


@dataclass(frozen=True, slots=True)
class Steady:
    """Every node at the same share."""

    kind: ClassVar[str] = "steady"

    name: str
    cpu_share: float = 0.5
    interval: Duration = OFTEN

    def __post_init__(self) -> None:
        if not 0 <= self.cpu_share <= 1:
            raise ValueError(f"cpuShare: {self.cpu_share:g} is not from 0 to 1")


class SteadySource:
    """The least that a source has to have."""

    def __init__(self, steady: Steady, around: SourceContext) -> None:
        self.name, self.interval, self.query_names = steady.name, steady.interval, (steady.name,)
        self._share, self._around = steady.cpu_share, around

    async def read(self) -> Scrape:
        names = tuple(node.name for node in self._around.nodes())
        return Scrape((Reading(self.name, "cpu", names, (self._share,) * len(names), (self._around.now(),)),))

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        return no_history()

    async def close(self) -> None:
        """Nothing is held."""


async def get(path: str) -> tuple[int, bytes]:
    return 404, b""


def problem_of(body: str, kinds: dict[str, type]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(f"{TRIMTAB_HEAD}sources: [{{name: a, {body}}}]\n", FILE, None, kinds)
    return str(caught.value)


def test_a_kind_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings are read with their defaults and what is shown reads back as the same; the table opens it."""
    monkeypatch.setattr(registry, "SOURCE_KINDS", {**SOURCE_KINDS, "steady": SourceKind(Steady, SteadySource)})
    kinds = {"steady": Steady}
    first = parse(f"{TRIMTAB_HEAD}sources: [{{name: calm, steady: {{cpuShare: 0.25}}}}]\n", FILE, None, kinds)
    assert (Steady("calm", 0.25, OFTEN),) == first.trimtab.sources
    assert first.trimtab == parse(dump(first), FILE, None, kinds).trimtab
    source = open_source(first.trimtab.sources[0], lambda: (), get)
    assert isinstance(source, SteadySource)
    assert ("calm", 20.0, ("calm",)) == (source.name, source.interval, source.query_names)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("steady: {cpuShare: 7}", "3:29: sources[0].steady: cpuShare: 7 is not from 0 to 1"),
        ("steady: {cpushare: 1}", "sources[0].steady.cpushare: unknown field (did you mean cpuShare?)"),
        ("steady: {interval: 5}", "sources[0].steady.interval: expected a duration"),
        ("steady: {interval: 2h}", "sources[0].steady: interval: 2h is not between 1s and 1h"),
        ("steady: {interval: 10m}", "sources: a is polled every 10m, but a sample is stale after 5m"),
        ("stedy: {}", "sources[0].stedy: unknown field (did you mean steady?)"),
        ("", "sources[0]: the kind is missing: write one of prometheus, metricsServer, steady"),
        ("steady: {}, metricsServer: {}", "sources[0].steady: a source is of one kind"),
    ],
)
def test_what_makes_no_sense_is_rejected(body: str, expected: str) -> None:
    """By the dataclass itself, by the names of its fields, and as for every source."""
    assert expected in problem_of(body, {"steady": Steady})


def test_recordings() -> None:
    """A recording is read from the file, and one without a path, or with a devious one, is refused."""
    assert ReplaySettings is SOURCE_SETTINGS["replay"]
    found = parse(
        f"{TRIMTAB_HEAD}sources: [{{name: tape, replay: {{path: a.jsonl, interval: 2s}}}}]\n",
        FILE,
        None,
        SOURCE_SETTINGS,
    )
    assert (ReplaySettings("tape", "a.jsonl", 2.0),) == found.trimtab.sources
    assert "sources[0].replay: path is missing" in problem_of("replay: {}", dict(SOURCE_SETTINGS))
    assert "sources[0].replay.path: '../x' contains '..'" in problem_of("replay: {path: ../x}", dict(SOURCE_SETTINGS))


def test_opened(tmp_path: Path) -> None:
    """Each kind of settings has its source."""
    tape = ReplaySettings("tape", str(tmp_path / "tape"))
    assert isinstance(open_source(tape, lambda: (), get), ReplaySource)
    assert isinstance(open_source(MetricsServerSettings("server"), lambda: (), get), MetricsServerSource)
