"""Decides which sources of measurements a file describes; asking them is left to `sources`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trimtab.config.arguments import read
from trimtab.config.own.address import as_told, network_fault, url_fault
from trimtab.config.own.fields import found
from trimtab.config.own.queries import check_asked, check_queries, read_queries
from trimtab.config.own.settings import (
    AUTO,
    BasicAuth,
    FurtherSettings,
    Metric,
    MetricsServerSettings,
    Paced,
    PrometheusSettings,
    SourceSettings,
    Tls,
)
from trimtab.config.own.values import HOUR, is_label, label, name, path, span, told, truth, words
from trimtab.config.spot import Spot
from trimtab.core.load.pressure_rules import Rule

SHORTEST = 1.0
_PROMETHEUS, _METRICS_SERVER = PrometheusSettings("", ""), MetricsServerSettings("")
Entries = Mapping[str, Spot]
Kinds = Mapping[str, type[Paced]]


def read_sources(spot: Spot, further: Kinds, rules: Iterable[Rule] | None) -> tuple[SourceSettings, ...]:
    """All sources of a file; what is wrong with one, or between two, is reported. rules: for labels, if they are known."""
    made: dict[str, SourceSettings] = {}
    for item in spot.items():
        entries = found(item, "sources[]", further)
        called = _name(item, entries, made)
        source = _read_source(item, entries, called, further)
        if rules is not None and "prometheus" in entries:
            check_asked(entries["prometheus"], called, rules)
        if source is not None and called is not None:
            made.setdefault(called, source)
    return tuple(made.values())


def _name(item: Spot, entries: Entries, made: Mapping[str, SourceSettings]) -> str | None:
    if "name" not in entries:
        item.refuse("the source's name is missing: write name, for logs and metrics")
        return None
    called = name(entries["name"], "source")
    if called in made:
        entries["name"].refuse(f"{called!r} is the name of an earlier source: each needs its own")
    return called


def _read_source(item: Spot, entries: Entries, called: str | None, further: Kinds) -> SourceSettings | None:
    kinds = (*_READERS, *further)
    given = [kind for kind in kinds if kind in entries]
    if len(given) > 1:
        entries[given[1]].refuse(f"a source is of one kind: make {' and '.join(given)} sources of their own")
    elif not given:
        item.refuse(f"a source is one of {', '.join(kinds)}: write one of them ({{}} where nothing is to be set)")
    sources = [
        _READERS[kind](called or "", entries[kind])
        if kind in _READERS
        else _read_further(called, kind, entries, further)
        for kind in given
    ]
    return sources[0] if sources else None


def _read_prometheus(called: str, spot: Spot) -> PrometheusSettings:
    entries = found(spot, "sources[].prometheus")
    allowed = _networks(entries.get("allowAddresses"))
    interval, timeout = _times(entries, _PROMETHEUS.interval, _PROMETHEUS.timeout)
    queries = read_queries(entries["queries"]) if "queries" in entries else ()
    metrics = words(entries["metrics"], Metric) if "metrics" in entries else None
    basic = _basic_auth(entries["basicAuth"]) if "basicAuth" in entries else None
    if basic is not None and "bearerTokenFile" in entries:
        entries["bearerTokenFile"].refuse("there is basicAuth already: a request can carry only one of them")
    return PrometheusSettings(
        called,
        _url(spot, entries.get("url"), allowed),
        interval,
        timeout,
        label(entries["nodeLabel"]) if "nodeLabel" in entries else AUTO,
        check_queries(metrics, queries, entries),
        queries,
        path(entries.get("bearerTokenFile")),
        basic,
        _tls(entries["tls"]) if "tls" in entries else Tls(),
        allowed,
        span(entries.get("rateWindow"), SHORTEST, HOUR, _PROMETHEUS.rate_window),
        _match_labels(entries["matchLabels"]) if "matchLabels" in entries else (),
    )


def _match_labels(spot: Spot) -> tuple[tuple[str, str], ...]:
    pairs = [(key, each, each.text()) for key, each in (spot.entries() or {}).items()]
    for key, each, _ in pairs:
        if not is_label(key):
            each.refuse(f"{key[:100]!r} is no name of a label: use letters, digits and '_'")
    return tuple((key, value) for key, _, value in pairs if value is not None)


def _url(spot: Spot, where: Spot | None, allowed: tuple[str, ...]) -> str:
    if where is None:
        spot.refuse("url is missing: write where the HTTP API is, such as http://prometheus.monitoring.svc:9090")
        return ""
    return checked_url(where, allowed) or ""


def checked_url(where: Spot, allowed: tuple[str, ...] = ()) -> str | None:
    """The address at a place, if a source may be there."""
    url = where.text()
    fault = url_fault(url, allowed) if url is not None else None
    if url is not None and fault is not None:
        where.refuse(f"{as_told(url)} {fault}")
    return None if fault is not None else url


def _networks(spot: Spot | None) -> tuple[str, ...]:
    good = []
    for item in spot.items() if spot is not None else ():
        text = item.text()
        fault = network_fault(text) if text is not None else None
        if fault is not None:
            item.refuse(fault)
        elif text is not None:
            good.append(text)
    return tuple(good)


def _times(entries: Entries, interval: float, timeout: float) -> tuple[float, float]:
    """How often, and how long at most; a question that outlasts the next one makes a queue."""
    often = span(entries.get("interval"), SHORTEST, HOUR, interval)
    patience = span(entries.get("timeout"), 0.1, HOUR, min(timeout, often))
    if patience > often:
        entries["timeout"].refuse(f"{told(patience)} is longer than the interval ({told(often)}): at most that")
    return often, patience


def _basic_auth(spot: Spot) -> BasicAuth:
    entries = found(spot, "sources[].prometheus.basicAuth")
    for needed in ("username", "passwordFile"):
        if needed not in entries:
            spot.refuse(f"{needed} is missing: basicAuth needs both a username and a passwordFile")
    username = entries["username"].text() if "username" in entries else ""
    if username and (":" in username or not username.isprintable()):
        entries["username"].refuse("a username may hold no ':' and no control character: write the name alone")
    return BasicAuth(username or "", path(entries.get("passwordFile")))


def _tls(spot: Spot) -> Tls:
    entries = found(spot, "sources[].prometheus.tls")
    for one, other in (("certFile", "keyFile"), ("keyFile", "certFile")):
        if one in entries and other not in entries:
            entries[one].refuse(f"{other} is missing: a certificate is shown together with its key")
    skip = truth(entries.get("insecureSkipVerify"), False)
    if skip and "caFile" in entries:
        entries["caFile"].refuse("nobody is verified while insecureSkipVerify is true: remove one of the two")
    elif skip:
        entries["insecureSkipVerify"].note("whoever answers is believed, and gets the token or password")
    server = entries["serverName"].text() if "serverName" in entries else ""
    ca, cert, key = (path(entries.get(each)) for each in ("caFile", "certFile", "keyFile"))
    return Tls(ca, cert, key, server or "", skip)


def _read_metrics_server(called: str, spot: Spot) -> MetricsServerSettings:
    entries = found(spot, "sources[].metricsServer")
    return MetricsServerSettings(called, *_times(entries, _METRICS_SERVER.interval, _METRICS_SERVER.timeout))


def _read_further(called: str | None, kind: str, entries: Entries, further: Kinds) -> FurtherSettings | None:
    """By the fields of its dataclass, which refuses what makes no sense."""
    settings = read(entries[kind], further[kind])
    if not isinstance(settings, further[kind]):
        return None
    source = FurtherSettings(called or "", kind, settings)
    if not SHORTEST <= source.interval <= HOUR:
        entries[kind].refuse(f"interval: {told(source.interval)} is not between {told(SHORTEST)} and {told(HOUR)}")
    return source


_READERS: Mapping[str, Callable[[str, Spot], SourceSettings]] = {
    "prometheus": _read_prometheus,
    "metricsServer": _read_metrics_server,
}
