"""What a snapshot says of usage: trusted samples in absolute amounts, history on a grid, and notes on what failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.build import node, pod
from trimtab.apps.snapshot import measurements
from trimtab.apps.snapshot.measurements import HistoryOptions, Measured, Meter
from trimtab.config.kube_scheduler import default_configuration
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.model.readings import Reading, Subject, Unit
from trimtab.sim.snapshot_document import PastUsage, Sample, Usage
from trimtab.sources.interface import Failure, HistoryRange, Scrape, SourceError

NOW, GIB = 1_800_000_000.0, 1 << 30
NODES = [node("a", cpu="4", memory="8Gi"), node("b", cpu="4", memory="8Gi")]
PODS = [pod("web", on="a"), pod("new")]


class FakeSource:
    """Answers with these readings, and with these of the past."""

    name, interval, query_names = "prom", 15.0, ("prom/nodeCPU",)

    def __init__(self, scrape: Scrape | Exception, past: Sequence[Reading] = ()) -> None:
        self._scrape, self._past = scrape, past
        self.closed = False

    async def read(self) -> Scrape:
        if isinstance(self._scrape, Exception):
            raise self._scrape
        return self._scrape

    async def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        for each in self._past:
            yield (each,)

    async def close(self) -> None:
        self.closed = True


def reading(resource: str, values: dict[str, float], at: float = NOW - 5, **more: Any) -> Reading:
    return Reading("prom/x", resource, tuple(values), tuple(values.values()), (at,) * len(values), **more)


async def measure(
    monkeypatch: pytest.MonkeyPatch, source: FakeSource, history: HistoryOptions | None = None
) -> Measured:
    configuration = default_configuration()
    settings = PrometheusSettings(name="prom", url="http://prometheus:9090")
    configuration = replace(configuration, trimtab=replace(configuration.trimtab, sources=(settings,)))
    monkeypatch.setattr(measurements, "open_source", lambda *arguments: source)

    async def get(path: str) -> tuple[int, bytes]:
        raise AssertionError(path)

    found = await Meter(configuration, NODES, PODS, get, lambda: NOW, history).measure()
    assert source.closed
    return found


async def test_samples_are_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fraction of a node's capacity becomes millicores or bytes; other metrics stay as they are."""
    scrape = Scrape(
        (
            reading("cpu", {"a": 0.25}, unit=Unit.FRACTION),
            reading("memory", {"a": 2.0 * GIB, "b": 1.0 * GIB}),
            reading("psi.cpu", {"a": 0.125}, unit=Unit.RAW),
            reading("cpu", {"default/web": 300.04}, subject=Subject.PODS),
        )
    )
    found = await measure(monkeypatch, FakeSource(scrape))
    nodes = {"a": Sample(NOW - 5, 1000.0, 2.0 * GIB, {"psi.cpu": 0.125}), "b": Sample(NOW - 5, None, 1.0 * GIB)}
    assert Usage(nodes, {"default/web": Sample(NOW - 5, 300.0)}) == found.usage
    assert (None, 15.0, ()) == (found.history, found.interval, found.notes)


async def test_custom_metrics_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in the snapshot with their past, for limits that they may get; negative values are no amounts."""
    now = [reading("network", {"default/web": 7.5}, subject=Subject.PODS, unit=Unit.RAW), reading("cpu", {"a": 1.0})]
    past = [
        reading("network", {"default/web": value}, at=NOW - ago, subject=Subject.PODS, unit=Unit.RAW)
        for ago, value in ((900.0, 2.0), (600.0, -1.0), (300.0, 3.0))
    ]
    found = await measure(monkeypatch, FakeSource(Scrape(tuple(now)), past), HistoryOptions(3600.0, 300.0))
    assert found.usage is not None and {"default/web": Sample(NOW - 5, custom={"network": 7.5})} == found.usage.pods
    assert found.history is not None
    assert {"default/web": PastUsage(custom={"network": (2.0, None, 3.0)})} == found.history.pods


async def test_what_cannot_be_trusted_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old samples and those that cannot be true; with none left there is no usage, and a note."""
    scrape = Scrape((reading("cpu", {"a": 500.0}, at=NOW - 7200), reading("memory", {"a": 900.0 * GIB})))
    found = await measure(monkeypatch, FakeSource(scrape))
    assert found.usage is None
    assert ["no source returned a sample that can be trusted, so usage is unknown: see `trimtab doctor`"] == [
        each.text for each in found.notes
    ]


async def test_failures_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the error, which may name hosts; where names are hashed it is left out."""
    failure = Failure("prom/podCPU", SourceError("no series for cpu of pods", "let Prometheus scrape cadvisor"))
    found = await measure(monkeypatch, FakeSource(Scrape((reading("cpu", {"a": 1.0}),), (failure,))))
    assert [
        (
            "query prom/podCPU failed: no series for cpu of pods: let Prometheus scrape cadvisor",
            "a metric source failed",
        )
    ] == [tuple(each) for each in found.notes]
    down = await measure(monkeypatch, FakeSource(SourceError("http://prometheus:9090 cannot be reached")))
    assert down.usage is None
    assert "source prom failed: http://prometheus:9090 cannot be reached" == down.notes[0].text
    broken = await measure(monkeypatch, FakeSource(ZeroDivisionError()))
    assert "source prom failed: internal error (ZeroDivisionError)" == broken.notes[0].text


async def test_history_is_on_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first value to the last, None where there is none; what no longer exists is counted."""
    past = [
        reading("cpu", {"a": 0.5, "gone": 0.5}, at=NOW - 900, unit=Unit.FRACTION),
        reading("cpu", {"a": 0.75}, at=NOW - 300, unit=Unit.FRACTION),
        reading("memory", {"default/web": 7.0, "default/old": 1.0}, at=NOW - 600, subject=Subject.PODS),
        reading("psi.cpu", {"a": 1.0}, at=NOW - 600),
    ]
    source = FakeSource(Scrape((reading("cpu", {"a": 1.0}),)), past)
    found = (await measure(monkeypatch, source, HistoryOptions(3600.0, 300.0))).history
    assert found is not None and (NOW - 900, 300.0, 3) == (found.start, found.step, found.steps)
    assert {"a": PastUsage((2000.0, None, 3000.0))} == found.nodes
    assert {"default/web": PastUsage((), (None, 7.0, None))} == found.pods


async def test_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source without a past, such as metrics-server, is noted."""
    source = FakeSource(Scrape((reading("cpu", {"a": 1.0}),)))
    found = await measure(monkeypatch, source, HistoryOptions(3600.0, 300.0))
    assert found.history is None
    assert ["no source returned any history of the last 1h"] == [each.text for each in found.notes]
