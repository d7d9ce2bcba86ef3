"""The Prometheus source: readings, failures per query, the alternative that works, and checking user queries."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from tests.kube.fault_server import ReceivedRequest, serving
from tests.sources.fake_prometheus import (
    NODES,
    NOW,
    fake_prometheus,
    promql_of,
    read_once,
    respond_with,
    series,
    values_by_name,
    vector,
)
from trimtab.config.trimtab.settings import BuiltinMetric, PrometheusSettings, QuerySettings
from trimtab.core.model.node import Node
from trimtab.core.model.readings import Unit
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus import source as source_module
from trimtab.sources.prometheus.source import PrometheusSource, invalid_queries

EMPTY = vector()
EXPORTER, KUBELET, CADVISOR, RULE = (
    "node_memory_MemAvailable_bytes",
    "node_memory_working_set_bytes",
    'container_memory_working_set_bytes{id="/"}',
    "node_mem_usage_avg_5m",
)


def having(*metrics: str, value: str = "50") -> Callable[[str], bytes]:
    """A Prometheus that has these metrics, of node a only."""
    found = vector(series({"instance": "10.0.0.1:9100"}, value))
    return lambda query: found if any(metric in query for metric in metrics) else EMPTY


async def test_the_timeout_is_sent_to_prometheus() -> None:
    """As a plain number of seconds: with a unit, Prometheus accepts integers only."""
    async with fake_prometheus(respond_with(vector(series({"node": "a"}, "1"))), timeout=2.5) as (source, server):
        await source.read()
    assert ["2.5"] == parse_qs(server.received[0].body.decode())["timeout"]


async def test_each_sample_has_its_own_age() -> None:
    """The time of the sample counts, not that of the query."""
    ages = (series({"node": "a"}, "1", NOW - 3), series({"node": "b"}, "2", NOW - 299))
    reading = (await read_once(vector(*ages))).readings[0]
    assert (("a", "b"), (NOW - 3, NOW - 299)) == (reading.names, reading.measured)


async def test_the_number_of_queries_does_not_depend_on_nodes() -> None:
    """Three nodes or three thousand: one request per query."""
    found = vector(series({"instance": "10.0.0.1:9100", "namespace": "x", "pod": "y"}, "1"))
    async with fake_prometheus(respond_with(found), metrics=tuple(BuiltinMetric)) as (source, server):
        await source.read()
        few = len(server.received)
        source._nodes = lambda: [*NODES, *(Node(name=f"n-{number}") for number in range(3000))]
        await source.read()
    assert (len(source.query_names), len(source.query_names)) == (few, len(server.received) - few)


@pytest.mark.parametrize(
    ("metric", "unit", "value"),
    [
        (EXPORTER, Unit.ABSOLUTE, 50.0),
        (KUBELET, Unit.ABSOLUTE, 50.0),
        (CADVISOR, Unit.ABSOLUTE, 50.0),
        (RULE, Unit.FRACTION, 0.5),
    ],
)
async def test_any_of_the_exporters_is_found(metric: str, unit: Unit, value: float) -> None:
    """node-exporter, the kubelet's two kinds of metrics, or just the recording rules."""
    scrape = await read_once(having(metric), metrics=(BuiltinMetric.NODE_MEMORY,))
    reading = next(each for each in scrape.readings if each.resource == "memory")
    assert ({"a": value}, unit, ()) == (values_by_name(reading), reading.unit, scrape.failures)


async def test_recording_rules_are_also_read_under_their_own_name() -> None:
    """In percent, for plugins that expect them."""
    scrape = await read_once(having(EXPORTER, RULE), metrics=(BuiltinMetric.NODE_MEMORY,))
    assert {"memory": {"a": 50.0}, RULE: {"a": 50.0}} == {
        each.resource: values_by_name(each) for each in scrape.readings
    }


async def test_the_alternative_that_works_is_kept() -> None:
    """Once found, only it is queried; an absent recording rule is not tried again at once."""
    async with fake_prometheus(respond_with(having(CADVISOR)), metrics=(BuiltinMetric.NODE_MEMORY,)) as (
        source,
        server,
    ):
        await source.read()
        server.received.clear()
        await source.read()
        assert [True] == [CADVISOR in promql_of(asked) for asked in server.received]


async def test_a_counter_that_is_too_new_is_skipped_for_one_poll_only() -> None:
    """A rate needs two samples: the exporter with only one is tried again at the next poll, not in ten minutes."""
    (_, time) = series({"node": "a"}, "1")
    young = [True]

    def behave(query: str) -> bytes:
        if "node_cpu_seconds" in query and young[0]:
            return vector([time])
        return having("node_cpu_seconds", "container_cpu_usage")(query)

    async with fake_prometheus(respond_with(behave), metrics=(BuiltinMetric.NODE_CPU,)) as (source, _):
        assert [Unit.ABSOLUTE] == [reading.unit for reading in (await source.read()).readings]
        young[0] = False
        assert [Unit.FRACTION] == [reading.unit for reading in (await source.read()).readings]


async def test_an_outage_does_not_make_a_recording_rule_absent() -> None:
    """The first poll after an outage finds the recording rule, too."""
    there = [False]

    def behave(asked: ReceivedRequest) -> None:
        if there[0]:
            respond_with(having(EXPORTER, RULE))(asked)
        else:
            asked.respond(503, b"down")

    async with fake_prometheus(behave, metrics=(BuiltinMetric.NODE_MEMORY,)) as (source, _):
        with pytest.raises(SourceError, match="503"):
            await source.read()
        there[0] = True
        assert {"memory", RULE} == {reading.resource for reading in (await source.read()).readings}


async def test_d2_an_exporter_that_stops_fails_only_its_query_and_recovers_at_once() -> None:
    """An empty vector is a failure of that query at the next poll, and the poll after its return recovers it."""
    there = {"cpu": True}

    def behave(query: str) -> bytes:
        return EMPTY if "cpu" in query and not there["cpu"] else having("node_cpu_seconds", EXPORTER)(query)

    async with fake_prometheus(respond_with(behave), metrics=(BuiltinMetric.NODE_CPU, BuiltinMetric.NODE_MEMORY)) as (
        source,
        _,
    ):
        assert () == (await source.read()).failures
        there["cpu"] = False
        stopped = await source.read()
        assert ["prom/nodeCPU"] == [failure.query for failure in stopped.failures]
        assert ["memory"] == [reading.resource for reading in stopped.readings]
        assert "node-exporter" in str(stopped.failures[0].error)
        there["cpu"] = True
        assert () == (await source.read()).failures


async def test_the_error_for_timestamps_without_values() -> None:
    """A rate of a series with one sample has no value, though the sample has its time."""
    (_, time) = series({"namespace": "x", "pod": "y"}, "1")
    with pytest.raises(SourceError, match=r"cpu series have no current value, .* rateWindow"):
        await read_once(vector([time]), metrics=(BuiltinMetric.POD_CPU,))


async def test_warnings_fail_only_their_query() -> None:
    """A response with warnings is rejected; the others are used."""

    def behave(query: str) -> bytes:
        warned = {"warnings": ["partial"]} if "cpu" in query else {}
        return vector(series({"node": "a"}, "1"), **warned)

    scrape = await read_once(behave, metrics=(BuiltinMetric.NODE_CPU, BuiltinMetric.NODE_MEMORY))
    assert ["prom/nodeCPU"] == [failure.query for failure in scrape.failures]
    assert {"memory", RULE} == {reading.resource for reading in scrape.readings}


async def test_d1_the_source_fails_if_every_query_fails() -> None:
    """Then the error is raised."""
    async with fake_prometheus(respond_with(b"down", 503), metrics=tuple(BuiltinMetric)) as (source, _):
        with pytest.raises(SourceError, match="503") as caught:
            await source.read()
    assert caught.value.transient


async def test_d3_missing_nodes_are_missing() -> None:
    """A node without a series is not in the reading, and never becomes zero."""
    reading = (await read_once(vector(series({"node": "b"}, "5")))).readings[0]
    assert ("b",) == reading.names


async def test_d15_an_implausible_pod_is_passed_on_unchanged() -> None:
    """A pod that claims a million cores does not affect the others; the core validates values."""
    pods = [series({"namespace": "x", "pod": each}, value) for each, value in (("evil", "1e6"), ("good", "0.2"))]
    reading = (await read_once(vector(*pods), metrics=(BuiltinMetric.POD_CPU,))).readings[0]
    assert {"x/evil": 1e9, "x/good": 200.0} == values_by_name(reading)


async def test_equal_names_are_the_same_tuple() -> None:
    """So that a receiver can tell by identity that nothing has changed."""
    async with fake_prometheus(respond_with(vector(series({"node": "a"}, "1"), series({"node": "b"}, "2")))) as (
        source,
        _,
    ):
        first, second = (await source.read()).readings[0], (await source.read()).readings[0]
    assert first.names is second.names


async def test_a_large_response_is_decoded_like_a_small_one() -> None:
    """In a thread or on the event loop, the reading is the same."""
    many = [series({"namespace": "x", "pod": f"p-{number}"}, str(number)) for number in range(3000)]
    body = vector(*many)
    assert len(body) > 1 << 18
    reading = (await read_once(body, metrics=(BuiltinMetric.POD_MEMORY,))).readings[0]
    assert {f"x/p-{number}": float(number) for number in range(3000)} == values_by_name(reading)


async def test_a_new_node_is_matched_at_the_next_poll() -> None:
    """Nodes are listed at every poll."""
    nodes = NODES[:1]
    found = vector(series({"node": "a"}, "1"), series({"node": "b"}, "2"))
    async with fake_prometheus(respond_with(found)) as (source, _):
        source._nodes = lambda: nodes
        before = (await source.read()).readings[0].names
        nodes = NODES
        assert (("a",), ("a", "b")) == (before, (await source.read()).readings[0].names)


def test_no_name_of_a_node_enters_a_query() -> None:
    """Queries are the same whatever the nodes are called."""
    hostile = PrometheusSettings("prom", "http://p:9090", metrics=tuple(BuiltinMetric))
    source = PrometheusSource(hostile, lambda: NODES)
    texts = [way.promql for question in source._queries for way in question.alternatives]
    assert not [text for text in texts if re.search(r'"(a|b|c)"|10\.0\.0', text)]


# --- checking user queries at start-up: only one that Prometheus cannot parse counts as invalid

PARSE_ERROR = 'invalid parameter "query": 1:6: parse error: unexpected end of input'
USER_QUERIES = (QuerySettings("good", "up"), QuerySettings("bad", "rate(up)"))


def error_body(error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()


def with_user_queries(port: int) -> PrometheusSettings:
    return PrometheusSettings("prom", f"http://127.0.0.1:{port}", timeout=2.0, queries=USER_QUERIES)


async def test_a_query_that_cannot_be_parsed() -> None:
    """It alone is reported, with the error of Prometheus; default queries are not run."""

    def behave(asked: ReceivedRequest) -> None:
        found = respond_with(error_body(PARSE_ERROR), 400) if "rate(up)" in promql_of(asked) else respond_with(vector())
        found(asked)

    async with serving(behave) as server:
        ((query, error),) = await invalid_queries(with_user_queries(server.port))
    assert ("bad", 2) == (query.name, len(server.received))
    assert "parse error: unexpected end of input" in error.problem


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, vector(series({"node": "a"}, "1"))),
        (400, error_body('invalid parameter "timeout": cannot parse it')),
        (400, b"no JSON"),
        (401, b"who are you"),
        (422, error_body("many-to-many matching not allowed")),
        (503, b"not ready"),
    ],
)
async def test_other_errors_prove_nothing(status: int, body: bytes) -> None:
    """A broken Prometheus, or data that do not match today, must not prevent a start."""
    async with serving(respond_with(body, status)) as server:
        assert [] == await invalid_queries(with_user_queries(server.port))


async def test_the_check_has_a_short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging or absent Prometheus delays the start only briefly, whatever the timeout of the source."""
    monkeypatch.setattr(source_module, "CHECK_TIMEOUT", 0.05)
    async with serving(lambda asked: None) as server, asyncio.timeout(60):
        assert [] == await invalid_queries(replace(with_user_queries(server.port), timeout=3600.0))
    assert [] == await invalid_queries(with_user_queries(server.port))
