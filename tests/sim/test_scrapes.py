"""The metrics pipeline: what is sampled and when, and how it fails."""

from typing import Any

import pytest

from tests.sim.small_world import GIB, MIB, RecordedWorld, node, nodes, template
from trimtab.core.model.events import Event, SamplesRead, SourceFailed
from trimtab.core.model.readings import Reading, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.scenario import MetricsPipeline, Outage, OutageKind, SimulatedNode
from trimtab.sim.scrapes import Scrapes
from trimtab.sim.usage_patterns import Ramp, Steady


class Scraped(RecordedWorld):
    """Two nodes, one with a pod that uses a core, and a scrape every 10 s."""

    def __init__(self, *simulated: SimulatedNode, step: float = 1.0, **pipeline: Any) -> None:
        super().__init__(*(simulated or nodes(2)), step=step)
        pipeline.setdefault("interval", 10.0)
        self.scrapes = Scrapes(self.world, MetricsPipeline(**pipeline), self.events.append)
        self.running("web", template(uses=1000, uses_mib=512), "n1")

    def samples(self, seconds: float) -> list[SamplesRead]:
        return [event for event in self.run(seconds) if isinstance(event, SamplesRead)]


def reading(event: Event, resource: str = CPU, subject: Subject = Subject.NODES) -> Reading:
    assert isinstance(event, SamplesRead)
    return next(each for each in event.readings if (each.resource, each.subject) == (resource, subject))


def values(event: Event, resource: str = CPU, subject: Subject = Subject.NODES) -> dict[str, float]:
    found = reading(event, resource, subject)
    return dict(zip(found.names, found.values, strict=True))


def test_both_resources_of_nodes_and_pods_are_sampled() -> None:
    """Nodes by name, pods by namespace and name, at the interval, as of the end of the last step."""
    first, second = Scraped().samples(25.0)
    assert {"n1": 1000.0, "n2": 0.0} == values(first)
    assert {"default/web": 1000.0} == values(first, CPU, Subject.PODS)
    assert ({"n1": 512.0 * MIB, "n2": 0.0}, {"default/web": 512.0 * MIB}) == (
        values(first, MEMORY),
        values(first, MEMORY, Subject.PODS),
    )
    assert [{10.0}, {20.0}] == [set(reading(each).measured) for each in (first, second)]


def test_usage_that_changes_more_slowly_than_it_is_scraped_has_its_own_timestamps() -> None:
    """With steps of 30 s there is nothing before 30 s, and at 40 and 50 s the same sample again."""
    found = Scraped(step=30.0).samples(65.0)
    assert [30.0, 30.0, 30.0, 60.0] == [reading(each).measured[0] for each in found]


def test_an_overloaded_node_shows_its_capacity_and_pods_what_they_got() -> None:
    """Never more than the node has."""
    scraped = Scraped(*nodes(1, cores=2))
    scraped.running("hog", template(cpu=100, uses=5000), "n1")
    (event,) = scraped.samples(15.0)
    assert {"n1": 2000.0} == values(event)
    assert 2000.0 == pytest.approx(sum(values(event, CPU, Subject.PODS).values()))


def test_what_is_used_outside_of_pods_shows_on_the_node_only() -> None:
    """System processes are in the node's sample."""
    scraped = Scraped(SimulatedNode(node("n1"), system_cpu=Steady(250.0), system_memory=Steady(1.0 * GIB)))
    (event,) = scraped.samples(15.0)
    assert (1250.0, 1.0 * GIB + 512 * MIB) == (values(event)["n1"], values(event, MEMORY)["n1"])
    assert {"default/web": 1000.0} == values(event, CPU, Subject.PODS)


def test_with_a_delay_samples_arrive_late_with_their_own_timestamps() -> None:
    """A sample taken at 10 s and delivered at 40 s has the values and the timestamp of 10 s."""
    scraped = Scraped(SimulatedNode(node("n1"), system_cpu=Ramp(0.0, 1000.0, seconds=1000.0)), delay=30.0)
    assert [] == scraped.samples(40.0)
    assert {} == scraped.scrapes.last_samples
    (event,) = scraped.samples(1.0)
    assert (40.1, {10.0}) == (pytest.approx(event.at), set(reading(event).measured))
    assert 1009.5 == pytest.approx(values(event)["n1"])
    assert {
        ("n1", CPU): values(event)["n1"],
        ("n1", MEMORY): values(event, MEMORY)["n1"],
    } == scraped.scrapes.last_samples


def test_lost_samples_are_missing_and_never_zero() -> None:
    """About a quarter of 40 nodes in each scrape, and not always the same ones."""
    found = Scraped(*nodes(40), loss=0.25).samples(205.0)
    present = [set(values(each)) for each in found]
    assert 0.65 < sum(map(len, present)) / (40 * len(found)) < 0.85
    assert 10 < len(set(map(frozenset, present)))
    assert all(set(values(each)) == set(values(each, MEMORY)) for each in found), "a lost node has no sample at all"


def test_gaps_concern_pods_only() -> None:
    """About half of them are missing; nodes are complete."""
    scraped = Scraped(gaps=0.5)
    for number in range(19):
        scraped.running(f"p{number}", template(uses=100), "n2")
    found = scraped.samples(205.0)
    assert 0.4 < sum(len(values(each, CPU, Subject.PODS)) for each in found) / (20 * len(found)) < 0.6
    assert {2} == {len(values(each)) for each in found}


def test_noise_is_bounded_and_drawn_for_each_sample() -> None:
    """Within 10 %, on both sides."""
    found = [values(each)["n1"] for each in Scraped(noise=0.1).samples(505.0)]
    assert 900.0 <= min(found) < 950.0 < 1050.0 < max(found) <= 1100.0
    assert 40 < len(set(found))


@pytest.mark.parametrize("kind", [OutageKind.SILENT, OutageKind.ZEROS, OutageKind.STALE])
def test_outages(kind: OutageKind) -> None:
    """From 25 to 55 s: no answer and one failure; zeros with new timestamps; or the last samples as they were."""
    scraped = Scraped(outages=(Outage(25.0, 55.0, kind),))
    events = [event for event in scraped.run(75.0) if isinstance(event, SamplesRead | SourceFailed)]
    failures = [event.at for event in events if isinstance(event, SourceFailed)]
    found = [(reading(e).measured[0], values(e)["n1"]) for e in events if isinstance(e, SamplesRead)]
    before, after = [(10.0, 1000.0), (20.0, 1000.0)], [(60.0, 1000.0), (70.0, 1000.0)]
    during = {
        OutageKind.SILENT: [],
        OutageKind.ZEROS: [(30.0, 0.0), (40.0, 0.0), (50.0, 0.0)],
        OutageKind.STALE: [(20.0, 1000.0)] * 3,
    }[kind]
    assert [*before, *during, *after] == found
    assert ([30.1] if kind is OutageKind.SILENT else []) == pytest.approx(failures)


@pytest.mark.parametrize(
    ("kind", "during"), [(OutageKind.SILENT, None), (OutageKind.STALE, None), (OutageKind.ZEROS, 0.0)]
)
def test_an_outage_of_one_node_concerns_it_and_its_pods_only(kind: OutageKind, during: float | None) -> None:
    """Others are sampled as usual; the source does not fail."""
    scraped = Scraped(outages=(Outage(15.0, 25.0, kind, ("n1",)),))
    scraped.running("other", template(uses=300), "n2")
    events = [event for event in scraped.run(35.0) if isinstance(event, SamplesRead | SourceFailed)]
    assert [(1000.0, 300.0), (during, 300.0), (1000.0, 300.0)] == [
        (values(event).get("n1"), values(event)["n2"]) for event in events
    ]
    assert [1000.0, during, 1000.0] == [values(event, CPU, Subject.PODS).get("default/web") for event in events]


def test_a_second_outage_is_reported_again() -> None:
    """One failure for each, at its first scrape."""
    outages = (Outage(15.0, 35.0), Outage(45.0, 65.0))
    events = Scraped(outages=outages).run(75.0)
    assert [20.1, 50.1] == pytest.approx([event.at for event in events if isinstance(event, SourceFailed)])


def test_a_node_that_failed_or_left_is_not_sampled() -> None:
    """A failed node's kubelet is silent."""
    scraped = Scraped()
    scraped.run(15.0)
    scraped.lifecycle.fail("n1")
    (event,) = scraped.samples(10.0)
    assert ({"n2": 0.0}, {}) == (values(event), values(event, CPU, Subject.PODS))


def test_errors_belong_to_the_pod_whoever_else_is_scraped() -> None:
    """With other pods before it, its samples are missing at the same times, and wrong by the same factors."""
    series = []
    for others in (0, 3):
        scraped = Scraped(gaps=0.3, noise=0.2)
        for number in range(others):
            scraped.world.delete_pod(scraped.running(f"gone{number}", template(), "n1"))
            scraped.running(f"other{number}", template(uses=10), "n1")
        scraped.running("subject", template(uses=500), "n2")
        series.append([values(each, CPU, Subject.PODS).get("default/subject") for each in scraped.samples(205.0)])
    assert series[0] == series[1]
    assert 1 < series[0].count(None) < 15
