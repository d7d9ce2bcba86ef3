"""Writes what a `TrimtabConfiguration` comes to, as plain data that reads back as the same; secrets stand there as paths."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.plugin_args import dump_fields
from trimtab.config.trimtab.fields import KIND, VERSION
from trimtab.config.trimtab.labels import dump_labels
from trimtab.config.trimtab.settings import (
    MetricsServerSettings,
    PrometheusSettings,
    QuerySettings,
    RegisteredSourceSettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.trimtab.values import format_duration
from trimtab.core.load.settings import LoadSettings


def dump_document(own: TrimtabConfiguration) -> dict[str, object]:
    """The document with every default filled in."""
    plain: dict[str, object] = {
        "apiVersion": VERSION,
        "kind": KIND,
        "sources": [_source(each) for each in own.sources],
        "load": _load(own.load),
        "logging": {"format": own.logging.format, "level": own.logging.level, "decisions": own.logging.decisions},
        "metrics": {"nodeUsage": own.metrics.node_usage},
    }
    return plain if own.labels is None else {**plain, "labels": dump_labels(own.labels)}


def _load(load: LoadSettings) -> dict[str, object]:
    return {
        "freshFor": format_duration(load.fresh),
        "staleAfter": format_duration(load.stale),
        "window": format_duration(load.window),
        "mostMissing": load.most_missing,
        "estimates": list(load.estimates),
    }


def _source(source: SourceSettings) -> dict[str, object]:
    match source:
        case PrometheusSettings():
            return {"name": source.name, "prometheus": _prometheus(source)}
        case MetricsServerSettings():
            times = {"interval": format_duration(source.interval), "timeout": format_duration(source.timeout)}
            return {"name": source.name, "metricsServer": times}
        case RegisteredSourceSettings():
            return {"name": source.name, source.kind: dump_fields(source.settings)}


def _prometheus(source: PrometheusSettings) -> dict[str, object]:
    basic = source.basic_auth
    tls = source.tls
    return {
        "url": source.url,
        "interval": format_duration(source.interval),
        "timeout": format_duration(source.timeout),
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
        "rateWindow": format_duration(source.rate_window),
        **_set("matchLabels", dict(source.match_labels)),
    }


def _query(query: QuerySettings) -> dict[str, object]:
    return {
        "name": query.name,
        "query": query.query,
        "of": query.of.value,
        "unit": query.unit.value,
        "statistic": query.statistic.value,
        **_set("window", format_duration(query.window) if query.window else None),
    }


def _set(name: str, value: object) -> Mapping[str, object]:
    """A field that is left out where it would say nothing."""
    return {name: value} if value else {}
