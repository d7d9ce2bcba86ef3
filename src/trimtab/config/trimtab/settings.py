"""What a `TrimtabConfiguration` comes to, as plain values; how it is read is left to `document`.

Times are seconds. No secret stands here, only the paths of the files that hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from trimtab.core.load.pressure_rules import Labelling
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Statistic, Subject
from trimtab.core.settings import DEFAULT_LOAD

AUTO = "auto"


class BuiltinMetric(StrEnum):
    """The measurements that a source knows how to ask for by itself."""

    NODE_CPU = "nodeCPU"
    NODE_MEMORY = "nodeMemory"
    POD_CPU = "podCPU"
    POD_MEMORY = "podMemory"
    PSI = "psi"
    MEMORY_AVAILABLE = "memoryAvailable"


DEFAULT_METRICS = (BuiltinMetric.NODE_CPU, BuiltinMetric.NODE_MEMORY, BuiltinMetric.POD_CPU, BuiltinMetric.POD_MEMORY)


class QueryUnit(StrEnum):
    """What the numbers of a query of the user's own count."""

    NONE = "none"
    PERCENT = "percent"
    RATIO = "ratio"
    CORES = "cores"
    MILLICORES = "millicores"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """A question in the user's own PromQL; `name` is cpu, memory, or whatever its answer shall be called."""

    name: str
    query: str
    of: Subject = Subject.NODES
    unit: QueryUnit = QueryUnit.NONE
    statistic: Statistic = Statistic.LATEST
    window: float = 0.0


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """A name, and the file with the password."""

    username: str
    password_file: str


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to believe and how to show oneself; empty paths mean the system's authorities and no certificate."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """A Prometheus (or what speaks its HTTP API) at an address without secrets.

    node_label: which label of a series names its node, or `auto`. allow_addresses: networks that would be refused else.
    rate_window: the span that rates of built-in queries cover. match_labels: what their series must have, name and value.
    """

    name: str
    url: str
    interval: float = 15.0
    timeout: float = 10.0
    node_label: str = AUTO
    metrics: tuple[BuiltinMetric, ...] = DEFAULT_METRICS
    queries: tuple[QuerySettings, ...] = ()
    bearer_token_file: str = ""
    basic_auth: BasicAuth | None = None
    tls: Tls = Tls()
    allow_addresses: tuple[str, ...] = ()
    rate_window: float = 120.0
    match_labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MetricsServerSettings:
    """The `metrics.k8s.io` of the cluster that is scheduled."""

    name: str
    interval: float = 30.0
    timeout: float = 10.0


class SourceOptions(Protocol):
    """Settings that only their source understands: a dataclass, read field by field as a plugin's arguments are."""

    @property
    def interval(self) -> float:
        """Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class RegisteredSourceSettings:
    """A source of a kind that `sources` alone knows; to `config` its settings are a mere type."""

    name: str
    kind: str
    settings: SourceOptions

    @property
    def interval(self) -> float:
        return self.settings.interval


SourceSettings = PrometheusSettings | MetricsServerSettings | RegisteredSourceSettings


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """How the log is written, from which level on, and whether each decision is a line of it."""

    format: str = "text"
    level: str = "info"
    decisions: bool = True


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Which metrics are served beyond the usual ones: `node_usage` is two series a node."""

    node_usage: bool = False


@dataclass(frozen=True, slots=True)
class TrimtabConfiguration:
    """All of it; without sources pods are placed by their requests alone."""

    sources: tuple[SourceSettings, ...] = ()
    load: LoadSettings = DEFAULT_LOAD
    labels: Labelling | None = None
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()


DEFAULT = TrimtabConfiguration()
