"""Writes what a `TrimtabConfiguration` comes to, as plain data that reads back as the same; secrets stand there as paths."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.arguments import written_arguments
from trimtab.config.own.fields import KIND, VERSION
from trimtab.config.own.labelling.labels import written_labels
from trimtab.config.own.settings import (
    FurtherSettings,
    MetricsServerSettings,
    PrometheusSettings,
    QuerySettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.own.values import told
from trimtab.core.load.settings import LoadSettings


def written_own(own: TrimtabConfiguration) -> dict[str, object]:
    """The document with every default filled in."""
    plain: dict[str, object] = {
        "apiVersion": VERSION,
        "kind": KIND,
        "sources": [_source(each) for each in own.sources],
        "load": _load(own.load),
        "logging": {"format": own.logging.format, "level": own.logging.level, "decisions": own.logging.decisions},
        "metrics": {"nodeUsage": own.metrics.node_usage},
    }
    return plain if own.labels is None else {**plain, "labels": written_labels(own.labels)}


def _load(load: LoadSettings) -> dict[str, object]:
    return {
        "freshFor": told(load.fresh),
        "staleAfter": told(load.stale),
        "window": told(load.window),
        "mostMissing": load.most_missing,
        "estimates": list(load.estimates),
    }


def _source(source: SourceSettings) -> dict[str, object]:
    match source:
        case PrometheusSettings():
            return {"name": source.name, "prometheus": _prometheus(source)}
        case MetricsServerSettings():
            times = {"interval": told(source.interval), "timeout": told(source.timeout)}
            return {"name": source.name, "metricsServer": times}
        case FurtherSettings():
            return {"name": source.name, source.kind: written_arguments(source.settings)}


def _prometheus(source: PrometheusSettings) -> dict[str, object]:
    basic = source.basic_auth
    tls = source.tls
    return {
        "url": source.url,
        "interval": told(source.interval),
        "timeout": told(source.timeout),
        "nodeLabel": source.node_label,
        "metrics": [each.value for each in source.metrics],
        **_set("queries", [_query(each) for each in source.queries]),
        **_set("bearerTokenFile", source.bearer_token_file),
        **_set("basicAuth", {"username": basic.username, "passwordFile": basic.password_file} if basic else None),
        **_set(
            "tls",
            {
                **_set("caFile", tls.ca_file),
                **_set("certFile", tls.cert_file),
                **_set("keyFile", tls.key_file),
                **_set("serverName", tls.server_name),
                **_set("insecureSkipVerify", tls.insecure_skip_verify),
            },
        ),
        **_set("allowAddresses", list(source.allow_addresses)),
        "rateWindow": told(source.rate_window),
        **_set("matchLabels", dict(source.match_labels)),
    }


def _query(query: QuerySettings) -> dict[str, object]:
    return {
        "name": query.name,
        "query": query.query,
        "of": query.of.value,
        "unit": query.unit.value,
        "statistic": query.statistic.value,
        **_set("window", told(query.window) if query.window else None),
    }


def _set(name: str, value: object) -> Mapping[str, object]:
    """A field that is left out where it would say nothing."""
    return {name: value} if value else {}
