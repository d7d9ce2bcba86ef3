"""The planned queries: complete, in the right unit, and safe from injection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from trimtab.config.trimtab.promql import tokens
from trimtab.config.trimtab.settings import BuiltinMetric, PrometheusSettings, QuerySettings, QueryUnit
from trimtab.core.model.readings import Statistic, Subject, Unit
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.queries import CPU_RULE, DEFAULT_QUERIES, MEMORY_RULE, plan_queries, quote

ALL = PrometheusSettings("prom", "http://p:9090", metrics=tuple(BuiltinMetric))
HOSTILE = [
    '"} or vector(1) #',
    "\\",
    "a\nb",
    "$",
    "$window",
    "$only",
    "x" * 5000,
    "\0",
    "\u202e",
    "{,",
    "`",
    "'",
    '\\"',
    "a,b=~",
]


def matched(labels: dict[str, str]) -> PrometheusSettings:
    return replace(ALL, match_labels=tuple(labels.items()))


def test_every_metric_has_its_queries() -> None:
    """Each metric of the configuration is queried, under a name that starts with the source's."""
    parts = [question.name for question in plan_queries(ALL)]
    assert set(BuiltinMetric) == set(DEFAULT_QUERIES) and len(set(parts)) == len(parts)
    assert all(part.startswith("prom/") for part in parts)


def test_no_placeholder_remains() -> None:
    """In any alternative, with and without matchers."""
    for matching in ({}, {"cluster": "eu"}):
        ways = [way for question in plan_queries(matched(matching), 90.0) for way in question.alternatives]
        assert not [way.promql for way in ways if "$" in way.promql or "{," in way.promql or ",}" in way.promql]
        assert all(
            ('cluster="eu"' in way.value_expr and 'cluster="eu"' in way.time_expr) == bool(matching) for way in ways
        )


def test_readings_have_the_window_of_their_rate() -> None:
    """And 0 for instantaneous values."""
    windows = {question.name: question.alternatives[0].window for question in plan_queries(ALL, 90.0)}
    assert (90.0, 0.0, 90.0, 0.0) == tuple(
        windows[f"prom/{part}"] for part in ("nodeCPU", "nodeMemory", "podCPU", "podMemory")
    )
    assert (
        "[90s]" in plan_queries(ALL, 90.0)[0].alternatives[0].value_expr
        and "[1500ms]" in plan_queries(ALL, 1.5)[0].alternatives[0].value_expr
    )


@pytest.mark.parametrize("value", HOSTILE)
def test_s18_a_value_stays_inside_its_quotes(value: str) -> None:
    """A query has the same tokens whatever the value of a matcher, and PromQL reads the value back unchanged."""
    benign, bent = (
        [_shape(question.alternatives[0].promql) for question in plan_queries(matched({"cluster": each}), 90.0)]
        for each in ("eu", value)
    )
    assert benign == bent
    text = next(piece.text for piece in tokens(f"x{{a={quote(value)}}}") if piece.kind == "text")
    assert value == text[1:-1].replace("\\\\", "\0\0").replace('\\"', '"').replace("\\n", "\n").replace("\0\0", "\\")


def _shape(query: str) -> list[tuple[str, str]]:
    """Its tokens, with string literals blanked out."""
    return [(piece.kind, "" if piece.kind == "text" else piece.text) for piece in tokens(query)]


@pytest.mark.parametrize("label", ["", "a-b", "a b", 'a"', "1a", "a}", "ä", "a=1,b"])
def test_a_matcher_needs_a_label(label: str) -> None:
    """An invalid label name is rejected."""
    with pytest.raises(SourceError, match="not a valid label name"):
        plan_queries(matched({label: "x"}), 90.0)


@pytest.mark.parametrize(
    ("measure", "unit", "scale"),
    [
        (QueryUnit.NONE, Unit.RAW, 1.0),
        (QueryUnit.PERCENT, Unit.FRACTION, 0.01),
        (QueryUnit.RATIO, Unit.FRACTION, 1.0),
        (QueryUnit.CORES, Unit.ABSOLUTE, 1000.0),
        (QueryUnit.MILLICORES, Unit.ABSOLUTE, 1.0),
        (QueryUnit.BYTES, Unit.ABSOLUTE, 1.0),
    ],
)
def test_units_of_own_queries(measure: QueryUnit, unit: Unit, scale: float) -> None:
    """Values arrive in the unit of requests, as a fraction, or as they are."""
    own = QuerySettings("cpu", "x", unit=measure)
    way = plan_queries(PrometheusSettings("p", "http://p", metrics=(), queries=(own,)))[0].alternatives[0]
    assert (unit, scale) == (way.unit, way.scale)


def test_a_user_query_replaces_the_default_one() -> None:
    """A user query for the CPU of nodes replaces that default; pods keep theirs."""
    own = (QuerySettings("cpu", "my_cpu[$window]", unit=QueryUnit.PERCENT, window=60.0),)
    asked = plan_queries(PrometheusSettings("p", "http://p", queries=own))
    ways = [question.alternatives[0] for question in asked if question.alternatives[0].resource == "cpu"]
    assert [(Subject.PODS, 120.0), (Subject.NODES, 60.0)] == [(way.subject, way.window) for way in ways]
    assert "my_cpu[60s]" == ways[1].value_expr


def test_user_statistics_are_added_to_the_default() -> None:
    """A mean and a deviation of the same metric are separate queries."""
    own = tuple(
        QuerySettings("cpu", "x", statistic=each, window=900.0) for each in (Statistic.MEAN, Statistic.DEVIATION)
    )
    parts = [question.name for question in plan_queries(PrometheusSettings("p", "http://p", queries=own))]
    assert "p/nodeCPU" in parts and ["p/cpu.nodes.mean", "p/cpu.nodes.deviation"] == parts[-2:]


@pytest.mark.parametrize("query", ["", "up{", 'up{a="', "rate(x[$span])", 'x{node="{{ .Node }}"}', "up\0"])
def test_an_invalid_user_query_is_rejected(query: str) -> None:
    """Unknown placeholders, open quotes and brackets are found before any request."""
    with pytest.raises(SourceError, match="query 'cpu' of source 'p'"):
        plan_queries(PrometheusSettings("p", "http://p", queries=(QuerySettings("cpu", query),)))


def test_a_comment_at_the_end_of_a_user_query_ends_there() -> None:
    """What is put around a query starts on a new line."""
    own = (QuerySettings("x", "up # all of them"),)
    way = plan_queries(PrometheusSettings("p", "http://p", metrics=(), queries=own))[0].alternatives[0]
    assert all(line == "up # all of them" for line in way.promql.splitlines() if "#" in line)


def test_the_shipped_rules_have_the_expected_names() -> None:
    """deploy/prometheus-rules.yaml records what the default queries select, in percent of all labels."""
    rules = yaml.safe_load(Path("deploy/prometheus-rules.yaml").read_text())["groups"][0]["rules"]
    assert {CPU_RULE, MEMORY_RULE} == {rule["record"] for rule in rules}
    assert not [rule for rule in rules if " by " in rule["expr"] or "100 *" not in rule["expr"]]
