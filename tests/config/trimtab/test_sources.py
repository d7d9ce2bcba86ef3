"""How sources are parsed, and what is rejected."""

import pytest

from tests.config.config_files import FILE, TRIMTAB_FULL, TRIMTAB_HEAD, problems_of
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.settings import (
    BasicAuth,
    BuiltinMetric,
    MetricsServerSettings,
    PrometheusSettings,
    QuerySettings,
    QueryUnit,
    SourceSettings,
    Tls,
)
from trimtab.core.model.readings import Statistic, Subject

URL = "http://p:9090"


def sources(body: str) -> tuple[SourceSettings, ...]:
    return parse(TRIMTAB_HEAD + body, FILE).trimtab.sources


def prometheus(fields: str) -> str:
    """A file with one Prometheus with these fields, in its third line."""
    return f"{TRIMTAB_HEAD}sources: [{{name: a, prometheus: {{url: '{URL}', {fields}}}}}]\n"


def problem_of(content: str) -> str:
    (found,) = problems_of(content)
    return found


def test_every_field() -> None:
    """Every field of sources is parsed."""
    idle = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[$window]))'
    queries = (
        QuerySettings("cpu", idle, unit=QueryUnit.RATIO, window=300.0),
        QuerySettings("queue", "sum by (pod) (queue_length)", Subject.PODS, statistic=Statistic.MEAN, window=90.0),
    )
    tls = Tls("/etc/trimtab/ca.pem", "/etc/trimtab/cert.pem", "/etc/trimtab/key.pem", "prom")
    main = PrometheusSettings(
        "main",
        "https://prometheus.monitoring.svc:9090/prom",
        20.0,
        5.0,
        "node",
        (BuiltinMetric.NODE_MEMORY, BuiltinMetric.POD_CPU, BuiltinMetric.PSI),
        queries,
        "/etc/trimtab/token",
        None,
        tls,
        ("169.254.10.0/24",),
        240.0,
        (("cluster", "eu-1"),),
    )
    second = PrometheusSettings("second", "http://10.96.0.102:9090", basic_auth=BasicAuth("me", "/etc/pw"))
    assert (main, second, MetricsServerSettings("server", 45.0)) == parse(TRIMTAB_FULL, FILE).trimtab.sources


def test_defaults() -> None:
    """Unset fields have their defaults; the timeout is at most the interval."""
    assert (PrometheusSettings("a", URL),) == sources(f"sources: [{{name: a, prometheus: {{url: '{URL}'}}}}]\n")
    assert (MetricsServerSettings("a", 30.0, 10.0),) == sources("sources: [{name: a, metricsServer: {}}]\n")
    assert (MetricsServerSettings("a", 4.0, 4.0),) == sources("sources: [{name: a, metricsServer: {interval: 4s}}]\n")


def test_own_queries_take_the_place_of_built_in_ones() -> None:
    """A query for cpu or memory replaces the built-in one; one for its mean is added."""
    (source,) = sources(
        f"sources: [{{name: a, prometheus: {{url: '{URL}', queries: [{{name: memory, query: m, unit: bytes}},"
        " {name: cpu, query: c, unit: percent, statistic: mean}]}}]\n"
    )
    assert isinstance(source, PrometheusSettings)
    assert (BuiltinMetric.NODE_CPU, BuiltinMetric.POD_CPU, BuiltinMetric.POD_MEMORY) == source.metrics


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("sources: {}", "3:10: sources: expected a list"),
        ("sources: [{metricsServer: {}}]", "3:11: sources[0]: name is missing"),
        ("sources: [{name: a}]", "3:11: sources[0]: the kind is missing: write one of prometheus, metricsServer ("),
        ("sources: [{name: a, metricsServer: }]", "3:11: sources[0]: the kind is missing: write one of"),
        ("sources: [{name: 'a b', metricsServer: {}}]", "3:18: sources[0].name: 'a b' is not a valid name"),
        (
            "sources: [{name: a, metricsServer: {}, prometheus: {url: http://x}}]",
            "sources[0].metricsServer: a source is of one kind",
        ),
        (
            "sources: [{name: a, prometheus: {url: http://x, bearerTokenFile: ../x}}]",
            "sources[0].prometheus.bearerTokenFile: '../x' contains '..'",
        ),
        (
            "sources: [{name: a, prometheus: {url: http://x, bearerTokenFile: ''}}]",
            "sources[0].prometheus.bearerTokenFile: is not the path of a file",
        ),
        ("sources: [{name: a, prometheus: {}}]", "sources[0].prometheus: url is missing"),
        (
            "sources: [{name: a, metricsServer: {}}, {name: a, metricsServer: {}}]",
            "3:48: sources[1].name: 'a' is the name of an earlier source",
        ),
        (
            "sources: [{name: a, metricsServer: {timeout: 1h}}]",
            "metricsServer.timeout: 1h is longer than the interval (30s)",
        ),
        (
            "sources: [{name: a, metricsServer: {interval: 10m}}]",
            "3:10: sources: a is polled every 10m, but a sample is stale",
        ),
    ],
)
def test_bad_sources(body: str, expected: str) -> None:
    """An invalid or duplicate source is rejected at its position."""
    assert expected in problem_of(f"{TRIMTAB_HEAD}{body}\n")


def test_unknown_kind_of_source() -> None:
    """An unknown kind of source is rejected, with the nearest valid name."""
    first, second = problems_of(f"{TRIMTAB_HEAD}sources: [{{name: a, promtheus: {{}}}}]\n")
    assert "sources[0]: the kind is missing: write one of" in first
    assert "3:21: sources[0].promtheus: unknown field (did you mean prometheus?)" in second


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("interval: 0", "interval: expected a duration such as"),
        ("interval: 0s", "interval: 0s is not between 1s and 1h"),
        ("interval: -1s", "interval: -1s is not between 1s and 1h"),
        ("interval: 1e9h", "interval: '1e9h' is not a duration: write a number and a unit"),
        ("interval: 5 min", "interval: '5 min' is not a duration"),
        ("interval: 2h", "interval: 2h is not between 1s and 1h"),
        ("interval: .nan", "interval: .nan is not a plain decimal number"),
        ("timeout: 20s", "timeout: 20s is longer than the interval (15s)"),
        ("nodeLabel: a-b", "nodeLabel: 'a-b' is not a valid label name"),
        ("metrics: [nodeCpu]", "metrics[0]: 'nodeCpu' is not one of memoryAvailable, nodeCPU"),
        ("metrics: [psi, psi]", "metrics[1]: psi is listed twice"),
        ("metrics: []", "metrics: [] leaves nothing to measure: list some of memoryAvailable, nodeCPU, "),
        ("metrics: [], queries: []", "metrics: [] leaves nothing to measure"),
        ("metrics: [], queries: 5", "queries: expected a list, got the number 5"),
        ("metrics: 5", "metrics: expected a list, got the number 5"),
        ("rateWindow: 0s", "rateWindow: 0s is not between 1s and 1h"),
        ("matchLabels: {a-b: x}", "matchLabels.a-b: 'a-b' is not a valid label name"),
        ("matchLabels: {cluster: 7}", "matchLabels.cluster: expected a string, got the number 7"),
        ("allowAddresses: [everywhere]", "allowAddresses[0]: 'everywhere' is neither an IP address nor a network"),
        ("bearerToken: abc", "bearerToken: unknown field (did you mean bearerTokenFile?)"),
        ("bearerTokenFile: /a/../b", "bearerTokenFile: '/a/../b' contains '..'"),
        (
            "bearerTokenFile: /a, basicAuth: {username: u, passwordFile: /p}",
            "bearerTokenFile: basicAuth is set, too",
        ),
        ("basicAuth: {username: u}", "basicAuth: passwordFile is missing"),
        ("basicAuth: {passwordFile: /p}", "basicAuth: username is missing"),
        ("basicAuth: {username: 'u:p', passwordFile: /p}", "basicAuth.username: a username cannot contain ':'"),
        ("tls: {certFile: /c}", "tls.certFile: keyFile is missing"),
        ("tls: {keyFile: /k}", "tls.keyFile: certFile is missing"),
        (
            "tls: {caFile: /c, insecureSkipVerify: true}",
            "tls.caFile: nothing is verified while insecureSkipVerify is true",
        ),
        ("tls: {insecureSkipVerify: 1}", "tls.insecureSkipVerify: expected true or false, got the number 1"),
        ("tls: {minVersion: '1.0'}", "tls.minVersion: unknown field"),
        ("queries: [{name: a}]", "queries[0]: query is missing"),
        ("queries: [{query: a}]", "queries[0]: name is missing"),
        ("queries: [{name: 5, query: a}]", "queries[0].name: expected a string, got the number 5"),
        ("queries: [{name: a, query: ''}]", "queries[0].query: '' is empty"),
        ("queries: [{name: a, query: 'x{'}]", "queries[0].query: 'x{' lacks a }"),
        ("queries: [{name: a, query: '$node'}]", "queries[0].query: '$node' has the unknown placeholder '$node'"),
        (
            "queries: [{name: a, query: 'x{node=\"%s\"}'}]",
            "queries[0].query: 'x{node=\"%s\"}' has the unknown placeholder '%s': only $window and $interval",
        ),
        (
            "queries: [{name: a, query: 'x[$window]'}]",
            "queries[0].query: uses $window: set the field window next to it",
        ),
        (
            "queries: [{name: a, query: b, of: node}]",
            "queries[0].of: 'node' is not one of nodes, pods (did you mean nodes?)",
        ),
        ("queries: [{name: a, query: b, window: 0s}]", "queries[0].window: 0s is not between 1s and 24h"),
        ("queries: [{name: a, query: b, unit: bytes}]", "queries[0].unit: the unit of a is bytes: write none"),
        ("queries: [{name: cpu, query: b}]", "queries[0]: the unit of cpu is none: write percent or ratio or cores"),
        ("queries: [{name: memory, query: b, unit: cores}]", "queries[0].unit: the unit of memory is cores"),
        ("queries: [{name: a, query: b}, {name: a, query: c}]", "queries[1]: a second query for the latest a of nodes"),
        (
            "metrics: [nodeCPU], queries: [{name: cpu, query: b, unit: cores}]",
            "metrics: nodeCPU is listed and has a query of your own",
        ),
    ],
)
def test_bad_fields_of_a_prometheus(fields: str, expected: str) -> None:
    """Each invalid field is rejected with its position, its value and the remedy."""
    found = problem_of(prometheus(fields))
    assert found.startswith("f.yaml:3:")
    assert f"sources[0].prometheus.{expected}" in found


@pytest.mark.parametrize("url", ["http://me:s3cret@p:9090", "file:///s3cret@x"])
def test_no_secret_is_told(url: str) -> None:
    """A URL with a password is rejected without being repeated."""
    found = problem_of(f"{TRIMTAB_HEAD}sources: [{{name: a, prometheus: {{url: '{url}'}}}}]\n")
    assert "f.yaml:3:39: sources[0].prometheus.url: the URL " in found
    assert "s3cret" not in found


def test_belief_in_anybody_is_noted() -> None:
    """Skipping verification is noted."""
    (note,) = parse(prometheus("tls: {insecureSkipVerify: true}"), FILE).notes
    assert "any certificate is trusted" in note.message


@pytest.mark.parametrize(
    "rule", ["{name: r, query: up, above: 1}", "{name: r, query: up, above: 1, source: a}", "{name: r, METRIC}"]
)
def test_a_source_for_rules_alone(rule: str) -> None:
    """A Prometheus without metrics is valid if a label rule uses it."""
    rule = rule.replace("METRIC", "metric: memory.available, below: 10%")
    (source,) = parse(f"{prometheus('metrics: []')}labels: {{rules: [{rule}]}}\n", FILE).trimtab.sources
    assert isinstance(source, PrometheusSettings)
    assert () == source.metrics


def test_a_source_that_no_rule_asks() -> None:
    """A rule for another source, or with a metric that must be listed, is not enough."""
    other = "{name: b, prometheus: {url: 'http://b'}}"
    content = prometheus("metrics: []").replace("]\n", f", {other}]\n")
    for rule in ("{name: r, query: up, above: 1, source: b}", "{name: r, metric: cpu, above: 80%}"):
        assert "sources[0].prometheus.metrics: [] leaves" in problem_of(f"{content}labels: {{rules: [{rule}]}}\n")


def test_a_bad_rule_is_all_that_is_told() -> None:
    """While the rules are invalid, their sources are not checked."""
    found = problems_of(f"{prometheus('metrics: []')}labels: {{rules: [{{query: up}}]}}\n")
    assert found
    assert all("labels.rules[0]" in each for each in found)
