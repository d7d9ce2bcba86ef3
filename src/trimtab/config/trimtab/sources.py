"""Decides which sources of measurements a file describes; asking them is left to `sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trimtab.config.config_node import ConfigNode
from trimtab.config.plugin_args import parse_value
from trimtab.config.trimtab.fields import known_fields
from trimtab.config.trimtab.queries import check_not_empty, parse_queries, select_metrics
from trimtab.config.trimtab.settings import (
    AUTO,
    BasicAuth,
    BuiltinMetric,
    MetricsServerSettings,
    PrometheusSettings,
    RegisteredSourceSettings,
    SourceOptions,
    SourceSettings,
    Tls,
)
from trimtab.config.trimtab.url import redact_url, validate_network, validate_url
from trimtab.config.trimtab.values import (
    HOUR,
    format_duration,
    is_label_name,
    parse_boolean,
    parse_duration,
    parse_enums,
    parse_label_name,
    parse_name,
    parse_path,
)
from trimtab.core.load.pressure_rules import Rule

MIN_INTERVAL = 1.0
_PROMETHEUS, _METRICS_SERVER = PrometheusSettings("", ""), MetricsServerSettings("")
Entries = Mapping[str, ConfigNode]
Kinds = Mapping[str, type[SourceOptions]]


def parse_sources(node: ConfigNode, further: Kinds, rules: Iterable[Rule] | None) -> tuple[SourceSettings, ...]:
    """All sources of a file; what is wrong with one, or between two, is reported. rules: for labels, if they are known."""
    made: dict[str, SourceSettings] = {}
    for item in node.items():
        entries = known_fields(item, "sources[]", further)
        called = _name(item, entries, made)
        source = _parse_source(item, entries, called, further)
        if rules is not None and "prometheus" in entries:
            check_not_empty(entries["prometheus"], called, rules)
        if source is not None and called is not None:
            made.setdefault(called, source)
    return tuple(made.values())


def _name(item: ConfigNode, entries: Entries, made: Mapping[str, SourceSettings]) -> str | None:
    if "name" not in entries:
        item.error("the source's name is missing: write name, for logs and metrics")
        return None
    called = parse_name(entries["name"], "source")
    if called in made:
        entries["name"].error(f"{called!r} is the name of an earlier source: each needs its own")
    return called


def _parse_source(item: ConfigNode, entries: Entries, called: str | None, further: Kinds) -> SourceSettings | None:
    kinds = (*_READERS, *further)
    given = [kind for kind in kinds if kind in entries]
    if len(given) > 1:
        entries[given[1]].error(f"a source is of one kind: make {' and '.join(given)} sources of their own")
    elif not given:
        item.error(f"a source is one of {', '.join(kinds)}: write one of them ({{}} where nothing is to be set)")
    sources = [
        _READERS[kind](called or "", entries[kind])
        if kind in _READERS
        else _parse_registered(called, kind, entries, further)
        for kind in given
    ]
    return sources[0] if sources else None


def _parse_prometheus(called: str, node: ConfigNode) -> PrometheusSettings:
    entries = known_fields(node, "sources[].prometheus")
    allowed = _networks(entries.get("allowAddresses"))
    interval, timeout = _parse_times(entries, _PROMETHEUS.interval, _PROMETHEUS.timeout)
    queries = parse_queries(entries["queries"]) if "queries" in entries else ()
    metrics = parse_enums(entries["metrics"], BuiltinMetric) if "metrics" in entries else None
    basic = _basic_auth(entries["basicAuth"]) if "basicAuth" in entries else None
    if basic is not None and "bearerTokenFile" in entries:
        entries["bearerTokenFile"].error("there is basicAuth already: a request can carry only one of them")
    return PrometheusSettings(
        called,
        _url(node, entries.get("url"), allowed),
        interval,
        timeout,
        parse_label_name(entries["nodeLabel"]) if "nodeLabel" in entries else AUTO,
        select_metrics(metrics, queries, entries),
        queries,
        parse_path(entries.get("bearerTokenFile")),
        basic,
        _tls(entries["tls"]) if "tls" in entries else Tls(),
        allowed,
        parse_duration(entries.get("rateWindow"), MIN_INTERVAL, HOUR, _PROMETHEUS.rate_window),
        _match_labels(entries["matchLabels"]) if "matchLabels" in entries else (),
    )


def _match_labels(node: ConfigNode) -> tuple[tuple[str, str], ...]:
    pairs = [(key, each, each.string()) for key, each in (node.entries() or {}).items()]
    for key, each, _ in pairs:
        if not is_label_name(key):
            each.error(f"{key[:100]!r} is no name of a label: use letters, digits and '_'")
    return tuple((key, value) for key, _, value in pairs if value is not None)


def _url(node: ConfigNode, where: ConfigNode | None, allowed: tuple[str, ...]) -> str:
    if where is None:
        node.error("url is missing: write where the HTTP API is, such as http://prometheus.monitoring.svc:9090")
        return ""
    return parse_url(where, allowed) or ""


def parse_url(where: ConfigNode, allowed: tuple[str, ...] = ()) -> str | None:
    """The address at a place, if a source may be there."""
    url = where.string()
    fault = validate_url(url, allowed) if url is not None else None
    if url is not None and fault is not None:
        where.error(f"{redact_url(url)} {fault}")
    return None if fault is not None else url


def _networks(node: ConfigNode | None) -> tuple[str, ...]:
    good = []
    for item in node.items() if node is not None else ():
        text = item.string()
        fault = validate_network(text) if text is not None else None
        if fault is not None:
            item.error(fault)
        elif text is not None:
            good.append(text)
    return tuple(good)


def _parse_times(entries: Entries, interval: float, timeout: float) -> tuple[float, float]:
    """How often, and how long at most; a question that outlasts the next one makes a queue."""
    often = parse_duration(entries.get("interval"), MIN_INTERVAL, HOUR, interval)
    patience = parse_duration(entries.get("timeout"), 0.1, HOUR, min(timeout, often))
    if patience > often:
        entries["timeout"].error(
            f"{format_duration(patience)} is longer than the interval ({format_duration(often)}): at most that"
        )
    return often, patience


def _basic_auth(node: ConfigNode) -> BasicAuth:
    entries = known_fields(node, "sources[].prometheus.basicAuth")
    for needed in ("username", "passwordFile"):
        if needed not in entries:
            node.error(f"{needed} is missing: basicAuth needs both a username and a passwordFile")
    username = entries["username"].string() if "username" in entries else ""
    if username and (":" in username or not username.isprintable()):
        entries["username"].error("a username may hold no ':' and no control character: write the name alone")
    return BasicAuth(username or "", parse_path(entries.get("passwordFile")))


def _tls(node: ConfigNode) -> Tls:
    entries = known_fields(node, "sources[].prometheus.tls")
    for one, other in (("certFile", "keyFile"), ("keyFile", "certFile")):
        if one in entries and other not in entries:
            entries[one].error(f"{other} is missing: a certificate is shown together with its key")
    skip = parse_boolean(entries.get("insecureSkipVerify"), False)
    if skip and "caFile" in entries:
        entries["caFile"].error("nobody is verified while insecureSkipVerify is true: remove one of the two")
    elif skip:
        entries["insecureSkipVerify"].note("whoever answers is believed, and gets the token or password")
    server = entries["serverName"].string() if "serverName" in entries else ""
    ca, cert, key = (parse_path(entries.get(each)) for each in ("caFile", "certFile", "keyFile"))
    return Tls(ca, cert, key, server or "", skip)


def _parse_metrics_server(called: str, node: ConfigNode) -> MetricsServerSettings:
    entries = known_fields(node, "sources[].metricsServer")
    return MetricsServerSettings(called, *_parse_times(entries, _METRICS_SERVER.interval, _METRICS_SERVER.timeout))


def _parse_registered(
    called: str | None, kind: str, entries: Entries, further: Kinds
) -> RegisteredSourceSettings | None:
    """By the fields of its dataclass, which refuses what makes no sense."""
    settings = parse_value(entries[kind], further[kind])
    if not isinstance(settings, further[kind]):
        return None
    source = RegisteredSourceSettings(called or "", kind, settings)
    if not MIN_INTERVAL <= source.interval <= HOUR:
        entries[kind].error(
            f"interval: {format_duration(source.interval)} is not between "
            f"{format_duration(MIN_INTERVAL)} and {format_duration(HOUR)}"
        )
    return source


_READERS: Mapping[str, Callable[[str, ConfigNode], SourceSettings]] = {
    "prometheus": _parse_prometheus,
    "metricsServer": _parse_metrics_server,
}
