"""The values of a `TrimtabConfiguration`: each field with its default, its range and its documentation.

Times are seconds. Secrets are never held here, only the paths of the files that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from trimtab.config.config_node import ConfigNode
from trimtab.config.schema import Parsed
from trimtab.config.trimtab.promql import placeholders, query_error
from trimtab.config.trimtab.validation import (
    redact_url,
    validate_label_name,
    validate_name,
    validate_network,
    validate_path,
    validate_url,
)
from trimtab.core.load.pressure_rules import LabellingSettings
from trimtab.core.model.duration import DAY, HOUR, format_duration
from trimtab.core.model.readings import Statistic, Subject
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import setting
from trimtab.core.rescheduling.settings import ReschedulingSettings

AUTO = "auto"
MIN_INTERVAL = 1.0
PROMETHEUS_INTERVAL, METRICS_SERVER_INTERVAL, TIMEOUT = 15.0, 30.0, 10.0


class BuiltinMetric(StrEnum):
    """The measurements for which a source has queries of its own."""

    NODE_CPU = "nodeCPU"
    NODE_MEMORY = "nodeMemory"
    POD_CPU = "podCPU"
    POD_MEMORY = "podMemory"
    PSI = "psi"
    MEMORY_AVAILABLE = "memoryAvailable"


DEFAULT_METRICS = (
    BuiltinMetric.NODE_CPU,
    BuiltinMetric.NODE_MEMORY,
    BuiltinMetric.POD_CPU,
    BuiltinMetric.POD_MEMORY,
)
_BUILTIN: Mapping[tuple[str, Subject], BuiltinMetric] = {
    (CPU, Subject.NODES): BuiltinMetric.NODE_CPU,
    (MEMORY, Subject.NODES): BuiltinMetric.NODE_MEMORY,
    (CPU, Subject.PODS): BuiltinMetric.POD_CPU,
    (MEMORY, Subject.PODS): BuiltinMetric.POD_MEMORY,
}


class QueryUnit(StrEnum):
    """The unit of a user's query."""

    NONE = "none"
    PERCENT = "percent"
    RATIO = "ratio"
    CORES = "cores"
    MILLICORES = "millicores"
    BYTES = "bytes"


_UNITS: Mapping[str, tuple[QueryUnit, ...]] = {
    CPU: (QueryUnit.PERCENT, QueryUnit.RATIO, QueryUnit.CORES, QueryUnit.MILLICORES),
    MEMORY: (QueryUnit.PERCENT, QueryUnit.RATIO, QueryUnit.BYTES),
}


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """A query in the user's own PromQL; `name` is cpu, memory, or any other name for its result."""

    name: str = setting(
        "",
        "`cpu` or `memory`, in place of the built-in query; any other name is a metric of your own, of pods for a limit of "
        "the rescheduler",
        required="a query has a name and its PromQL",
        validate=validate_name,
    )
    query: str = setting(
        "",
        "PromQL, run once for all nodes or pods; `$window` and `$interval` are substituted",
        required="a query has a name and its PromQL",
        validate=query_error,
    )
    of: Subject = setting(Subject.NODES, "`nodes` unless set, or `pods`")
    unit: QueryUnit = setting(
        QueryUnit.NONE,
        "for cpu: percent, ratio, cores or millicores; for memory: percent, ratio or bytes; for others none",
    )
    statistic: Statistic = setting(
        Statistic.LATEST, "`latest` unless set; mean or deviation if the query itself computes them"
    )
    window: float = setting(
        0.0, "the time range that a value covers; an instant unless set", seconds=(1, DAY), omit_default=True
    )

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        values = parsed.values
        name, unit = values.get("name", ""), values.get("unit", QueryUnit.NONE)
        units = _UNITS.get(name, (QueryUnit.NONE,))
        if name and unit not in units:
            parsed.at("unit").error(f"the unit of {name} is {unit}: write {' or '.join(units)}")
        if "window" in placeholders(values.get("query", "")) and "window" not in values:
            parsed.at("query").error("uses $window: set the field window next to it")


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A username, and the file with the password."""

    username: str = setting(
        "", "the name to log in with", required="basicAuth needs both a username and a passwordFile"
    )
    password_file: str = setting(
        "",
        "a file with its password",
        required="basicAuth needs both a username and a passwordFile",
        validate=validate_path,
    )

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        username = parsed.values.get("username", "")
        if ":" in username or not username.isprintable():
            parsed.at("username").error("a username cannot contain ':' or control characters")


@dataclass(frozen=True, slots=True)
class Tls:
    """Which servers to trust, and the client certificate; empty paths mean the system's CAs and no certificate."""

    ca_file: str = setting("", "the CA certificates to trust, in PEM; the system's unless set", validate=validate_path)
    cert_file: str = setting("", "the client certificate, in PEM; needs keyFile", validate=validate_path)
    key_file: str = setting("", "its key; needs certFile", validate=validate_path)
    server_name: str = setting("", "the name to expect in the certificate, if not the one in the url")
    insecure_skip_verify: bool = setting(False, "false unless set; true trusts any certificate", omit_default=True)

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        entries = parsed.entries
        for one, other in (("certFile", "keyFile"), ("keyFile", "certFile")):
            if one in entries and other not in entries:
                entries[one].error(f"{other} is missing: a client certificate needs both files")
        if not parsed.values.get("insecure_skip_verify"):
            return
        if "caFile" in entries:
            entries["caFile"].error("nothing is verified while insecureSkipVerify is true: remove one of the two")
        else:
            entries["insecureSkipVerify"].note(
                "any certificate is trusted, so anyone may receive the token or password"
            )


class SourceSettings(Protocol):
    """Settings of one source: a dataclass that is parsed from the mapping under the name of its kind."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """What logs and metrics call the source: `sources[].name`."""

    @property
    def interval(self) -> float:
        """Seconds between two polls."""


def check_timeout(parsed: Parsed, default_interval: float) -> None:
    """Limits the timeout to the interval: a query that outlasts it would overlap with the next one."""
    interval = parsed.values.get("interval", default_interval)
    timeout = parsed.values.setdefault("timeout", min(TIMEOUT, interval))
    if timeout > interval:
        parsed.at("timeout").error(
            f"{format_duration(timeout)} is longer than the interval ({format_duration(interval)})"
        )


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """A Prometheus, or another server with its HTTP API."""

    kind: ClassVar[str] = "prometheus"

    name: str
    url: str = setting(
        "",
        "where its HTTP API is; without username or password, and no link-local or metadata address",
        required="write where the HTTP API is, such as http://prometheus.monitoring.svc:9090",
    )
    interval: float = setting(
        PROMETHEUS_INTERVAL, "15s unless set: how often it is queried; 1s to 1h", seconds=(MIN_INTERVAL, HOUR)
    )
    timeout: float = setting(
        TIMEOUT, "10s unless set: how long a query may take; at most the interval", seconds=(0.1, HOUR)
    )
    node_label: str = setting(
        AUTO, "`auto` unless set: the label whose value is the node's name or address", validate=validate_label_name
    )
    metrics: tuple[BuiltinMetric, ...] = setting(
        DEFAULT_METRICS,
        "which built-in queries are run: nodeCPU, nodeMemory, podCPU and podMemory unless set; "
        "also psi and memoryAvailable",
        unique=True,
    )
    queries: tuple[QuerySettings, ...] = ()
    bearer_token_file: str = setting("", "a file with a token, read again when it changes", validate=validate_path)
    basic_auth: BasicAuth | None = None
    tls: Tls = setting(Tls(), omit_default=True)
    allow_addresses: tuple[str, ...] = setting(
        (),
        "IP addresses and networks that are allowed although they are link-local or similar",
        validate_item=validate_network,
    )
    rate_window: float = setting(
        120.0,
        "2m unless set: the range of rates in built-in queries; at least four scrape intervals",
        seconds=(1, HOUR),
    )
    match_labels: tuple[tuple[str, str], ...] = setting(
        (),
        "labels that all series of built-in queries must have, such as `cluster: eu-1` where "
        "several clusters share a Prometheus",
    )

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        values, entries = parsed.values, parsed.entries
        check_timeout(parsed, PROMETHEUS_INTERVAL)
        if "url" in values and parse_url(entries["url"], values.get("allow_addresses", ())) is None:
            del values["url"]
        if "basicAuth" in entries and "bearerTokenFile" in entries:
            entries["bearerTokenFile"].error("basicAuth is set, too: a request can carry only one of them")
        for key, _ in values.get("match_labels", ()):
            if (error := validate_label_name(key)) is not None:
                entries["matchLabels"].child(key).error(error)
        _check_queries(parsed)


def parse_url(node: ConfigNode, allowed: tuple[str, ...] = ()) -> str | None:
    """The URL of a source, if it may be queried."""
    url = node.string()
    error = validate_url(url, allowed) if url is not None else None
    if url is not None and error is not None:
        node.error(f"{redact_url(url)} {error}")
    return None if error is not None else url


def _check_queries(parsed: Parsed) -> None:
    """Two queries for one result are an error, and a user's query replaces the built-in one."""
    queries: tuple[QuerySettings, ...] = parsed.values.get("queries", ())
    keys = [(each.name, each.of, each.statistic) for each in queries]
    for number, (name, of, statistic) in enumerate(keys):
        if name and keys.index((name, of, statistic)) < number:
            parsed.entries["queries"].items()[number].error(f"a second query for the {statistic} {name} of {of}")
    replaced = {_BUILTIN.get((name, of)) for name, of, statistic in keys if statistic is Statistic.LATEST}
    if "metrics" not in parsed.entries:
        parsed.values["metrics"] = tuple(each for each in DEFAULT_METRICS if each not in replaced)
    for metric in parsed.values["metrics"]:
        if metric in replaced:
            parsed.at("metrics").error(f"{metric} is listed and has a query of your own: remove one of the two")


@dataclass(frozen=True, slots=True)
class MetricsServerSettings:
    """The `metrics.k8s.io` API of the scheduled cluster."""

    kind: ClassVar[str] = "metricsServer"

    name: str
    interval: float = setting(
        METRICS_SERVER_INTERVAL,
        "30s unless set: how often metrics.k8s.io is queried; 1s to 1h",
        seconds=(MIN_INTERVAL, HOUR),
    )
    timeout: float = setting(TIMEOUT, "10s unless set; at most the interval", seconds=(0.1, HOUR))

    @staticmethod
    def check_fields(parsed: Parsed) -> None:
        check_timeout(parsed, METRICS_SERVER_INTERVAL)


BUILTIN_SOURCES: Mapping[str, type[SourceSettings]] = {
    each.kind: each for each in (PrometheusSettings, MetricsServerSettings)
}


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """How the log is written, from which level on, and whether it has a line for each decision."""

    format: str = setting("text", "`text` unless set, or `json`", choices=("text", "json"))
    level: str = setting(
        "info", "`info` unless set; debug, warning or error", choices=("debug", "info", "warning", "error")
    )
    decisions: bool = setting(True, "true unless set: one line for every decision")


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Which optional metrics are served; `node_usage` is seven series per node."""

    node_usage: bool = setting(False, "false unless set: also serve each node's usage, seven series per node")


@dataclass(frozen=True, slots=True)
class TrimtabConfiguration:
    """The document without `load`, which is part of the engine's settings; without sources pods are scheduled by requests."""

    sources: tuple[SourceSettings, ...] = ()
    labels: LabellingSettings | None = None
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    rescheduling: ReschedulingSettings | None = None


DEFAULT = TrimtabConfiguration()
