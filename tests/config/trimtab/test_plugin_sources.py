"""How URLs in the arguments of plugins become sources, and the note if there is none."""

import pytest

from tests.config.config_files import FILE, HEAD, TRIMTAB_HEAD, comparable, problems_of
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings, SourceSettings, Tls

# The file of real-usage-scheduler's README, as it stands.
S2 = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "/etc/kubernetes/scheduler.conf"
profiles:
- schedulerName: mem-real-usage-scheduler
  plugins:
    score:
      enabled:
      - name: MemRealUsage
      disabled:
      - name: "*"
  pluginConfig:
  - name: MemRealUsage
    args:
      prometheusApiAddr: http://10.96.0.102:9090
      queryMetricTimeSeconds: 10
      queryMetricIntervalSeconds: 10
"""
URL = "http://10.96.0.102:9090"


def profile(plugin: str, args: str, name: str = "a") -> str:
    """A profile with one score plugin."""
    return (
        f"- schedulerName: {name}\n  plugins: {{score: {{enabled: [{{name: {plugin}}}]}}}}\n"
        f"  pluginConfig: [{{name: {plugin}, args: {args}}}]\n"
    )


def body(*profiles: str) -> str:
    return f"{HEAD}profiles:\n{''.join(profiles)}"


def sources(content: str) -> tuple[SourceSettings, ...]:
    """The sources of a file, which are the same for its dump."""
    configuration = parse(content, FILE)
    assert comparable(configuration) == comparable(parse(dump(configuration), FILE))
    return configuration.trimtab.sources


def notes(content: str) -> list[str]:
    return [str(note) for note in parse(content, FILE).notes if "not supported yet" not in note.message]


def test_the_file_of_real_usage_scheduler() -> None:
    """It is valid unchanged: one score plugin, and its Prometheus is queried every ten seconds."""
    configuration = parse(S2, FILE)
    (only,) = configuration.settings.profiles
    assert (PrometheusSettings("prometheus", URL, 10.0, 10.0),) == sources(S2)
    assert ("mem-real-usage-scheduler", ["MemRealUsage"]) == (only.name, [each.name for each in only.scores])
    assert (False, "/etc/kubernetes/scheduler.conf") == (
        configuration.leader_election.enabled,
        configuration.client_connection.kubeconfig,
    )


def test_a_timeout_that_is_cut() -> None:
    """A timeout above the interval counts as the interval, and a note at its place says so; within it there is none."""
    cut = S2.replace("queryMetricTimeSeconds: 10", "queryMetricTimeSeconds: 60")
    (source,) = sources(cut)
    assert PrometheusSettings("prometheus", URL, 10.0, 10.0) == source
    (note,) = notes(cut)
    assert note.startswith("f.yaml:19:31: profiles[0].pluginConfig[0].args.queryMetricTimeSeconds: counts as 10")
    assert [] == notes(S2)


def test_one_address_is_one_source() -> None:
    """A URL is one source, however it is spelt and however often it is named; the shortest interval counts."""
    one = profile("MemRealUsage", f"{{prometheusApiAddr: '{URL}', queryMetricIntervalSeconds: 30}}")
    other = profile("CpuRealUsage", f"{{prometheusApiAddr: '{URL}/', queryMetricIntervalSeconds: 5}}", "b")
    assert (PrometheusSettings("prometheus", URL, 5.0, 5.0),) == sources(body(one, other))


def test_two_addresses_are_two_sources() -> None:
    """Each gets a unique name, also among those of the second document."""
    one = profile("MemRealUsage", "{prometheusApiAddr: 'http://one:9090'}")
    other = profile("CpuRealUsage", "{prometheusApiAddr: 'http://two:9090'}", "b")
    own = f"---\n{TRIMTAB_HEAD}sources: [{{name: prometheus, metricsServer: {{}}}}]\n"
    found = sources(body(one, other) + own)
    assert ["prometheus", "prometheus-2", "prometheus-3"] == [each.name for each in found]


def test_the_second_document_counts_first() -> None:
    """A source of the second document with the same URL takes precedence."""
    own = (
        f"---\n{TRIMTAB_HEAD}sources: [{{name: own, prometheus: {{url: '%s', interval: 45s, allowAddresses: [%s]}}}}]\n"
    )
    args = "{prometheusApiAddr: '%s', queryMetricIntervalSeconds: 5}"
    for url in (URL, "http://169.254.10.1:9090"):
        (source,) = sources(body(profile("MemRealUsage", args % url)) + own % (url, "169.254.10.0/24"))
        assert ("own", 45.0) == (source.name, source.interval)


def test_trimaran_prometheus() -> None:
    """The metricProvider of a Trimaran plugin becomes a source, with insecureSkipVerify."""
    args = f"{{metricProvider: {{type: Prometheus, address: '{URL}', insecureSkipVerify: true}}}}"
    expected = PrometheusSettings("prometheus", URL, tls=Tls(insecure_skip_verify=True))
    assert (expected,) == sources(body(profile("TargetLoadPacking", args)))


@pytest.mark.parametrize(
    "args",
    [
        "{}",
        "{metricProvider: {type: KubernetesMetricsServer}}",
        "{metricProvider: {type: KubernetesMetricsServer, insecureSkipVerify: true}}",
    ],
)
def test_trimaran_metrics_server(args: str) -> None:
    """metrics-server is the default of these plugins, and is used only if there is no other source."""
    stock = body(profile("LoadVariationRiskBalancing", args))
    assert (MetricsServerSettings("metrics-server"),) == sources(stock)
    own = f"---\n{TRIMTAB_HEAD}sources: [{{name: own, prometheus: {{url: '{URL}'}}}}]\n"
    assert (PrometheusSettings("own", URL),) == sources(stock + own)


def test_unused_arguments() -> None:
    """Arguments of a plugin that is not enabled become no source."""
    stock = f"{HEAD}profiles: [{{pluginConfig: [{{name: MemRealUsage, args: {{prometheusApiAddr: '{URL}'}}}}]}}]\n"
    assert () == sources(stock)


def test_blind_plugins_are_noted() -> None:
    """A plugin that needs measurements is noted if there is no source; the default profile is not."""
    (note,) = notes(body(profile("PeakRisk", "{}")))
    assert "f.yaml:4:18: profiles[0].schedulerName: PeakRisk would use measured load" in note
    assert [] == notes(HEAD)


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "MemRealUsage",
            "{prometheusApiAddr: 'http://me:s3cret@p'}",
            "prometheusApiAddr: the URL contains a username or",
        ),
        (
            "MemRealUsage",
            "{prometheusApiAddr: 'file:///etc'}",
            "prometheusApiAddr: 'file:///etc' has an unsupported scheme",
        ),
        (
            "MemRealUsage",
            "{prometheusApiAddr: 'http://p', queryMetricIntervalSeconds: 900}",
            "prometheusApiAddr: prometheus is polled every 15m, but a sample is stale after 5m",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: Prometheus, address: 'http://p', token: s3cret}}",
            "metricProvider.token: a token may not be written here",
        ),
        ("TargetLoadPacking", "{metricProvider: {type: Prometheus}}", "metricProvider: address is missing"),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: SignalFx, address: 'https://me:s3cret@p'}}",
            "metricProvider.address: the URL contains a username or password",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {address: 'https://me:s3cret@p'}}",
            "metricProvider.address: the URL contains a username or password",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: Prometheus, address: 'http://p', token: 53123}}",
            "metricProvider.token: must be a string, and a secret may not be written here",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: Prometheus, address: 'http://p', token: 053123}}",
            "metricProvider.token: must be a string, and a secret may not be written here",
        ),
        (
            "TargetLoadPacking",
            "{metricProvider: {type: Prometheus, address: ''}}",
            "metricProvider: address is missing",
        ),
    ],
)
def test_bad_addresses(plugin: str, args: str, expected: str) -> None:
    """What is rejected in the second document is rejected here, too, and no secret is repeated."""
    (found,) = problems_of(body(profile(plugin, args)))
    assert f"profiles[0].pluginConfig[0].args.{expected}" in found
    assert "s3cret" not in found
    assert "53123" not in found


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("MemRealUsage", "{prometheusApiAddr: 'http://me:s3cret@p'}"),
        ("CpuRealUsage", "{prometheusApiAddr: 'file:///s3cret?x'}"),
        ("CpuRealUsage", "{prometheusApiAddr: 'http://169.254.169.254'}"),
        ("TargetLoadPacking", "{metricProvider: {type: Prometheus, address: 'http://p', token: s3cret}}"),
        ("TargetLoadPacking", "{metricProvider: {type: KubernetesMetricsServer, token: s3cret}}"),
        ("LowRiskOverCommitment", "{metricProvider: {type: Prometheus, address: 'http://me:s3cret@p'}}"),
        ("LoadVariationRiskBalancing", "{metricProvider: {type: Prometheus}}"),
    ],
)
def test_bad_addresses_of_plugins_that_are_not_enabled(plugin: str, args: str) -> None:
    """The same is rejected in the arguments of plugins that are not enabled, with the same message."""
    used = profile(plugin, args)
    disabled = f"multiPoint: {{enabled: [{{name: {plugin}}}]}}, score: {{disabled: [{{name: '*'}}]}}"
    enabled = f"score: {{enabled: [{{name: {plugin}}}]}}"
    expected = problems_of(body(used))
    assert 1 == len(expected)
    assert "s3cret" not in expected[0]
    assert enabled in used
    for plugins in ("score: {enabled: [{name: PeakRisk}]}", "score: {}", disabled):
        assert expected == problems_of(body(used.replace(enabled, plugins)))


def test_unused_arguments_of_a_known_place() -> None:
    """A URL of the second document is valid there, too, and the interval is not checked."""
    url = "http://169.254.10.1:9090"
    allowed = f"{{name: own, prometheus: {{url: '{url}', allowAddresses: [169.254.10.0/24]}}}}"
    own = f"---\n{TRIMTAB_HEAD}sources: [{allowed}]\n"
    args = f"{{prometheusApiAddr: '{url}', queryMetricIntervalSeconds: 900}}"
    stock = f"{HEAD}profiles: [{{pluginConfig: [{{name: MemRealUsage, args: {args}}}]}}]\n"
    assert ["own"] == [each.name for each in sources(stock + own)]
    assert () == sources(stock.replace(url, URL))


def test_other_providers() -> None:
    """An unsupported provider is noted."""
    told = notes(body(profile("TargetLoadPacking", "{metricProvider: {type: SignalFx}}")))
    assert any(
        "metricProvider.type: ignored: only Prometheus and KubernetesMetricsServer are supported" in each
        for each in told
    )
