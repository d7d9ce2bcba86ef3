"""The load-aware policies of kubernetes-sigs/scheduler-plugins (Trimaran), and their argument `metricProvider`."""

from __future__ import annotations

from dataclasses import dataclass, field

from trimtab.core.framework.interface import NamedSource
from trimtab.core.model.setting import ParsedFields

PROMETHEUS = "Prometheus"
TYPES = ("KubernetesMetricsServer", PROMETHEUS, "SignalFx")


@dataclass(frozen=True, slots=True)
class MetricProvider:
    """Where metrics come from: metrics-server, or a Prometheus; a token is rejected.

    As in scheduler-plugins, except that certificates are verified unless the file says otherwise.
    """

    type: str = TYPES[0]
    address: str = ""
    token: str = field(default="", repr=False)
    insecure_skip_verify: bool = False

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"type: {self.type[:100]!r} is not one of {', '.join(TYPES)}")

    @staticmethod
    def check_fields(parsed: ParsedFields) -> None:
        kind = parsed.values.get("type", TYPES[0])
        if parsed.values.get("token"):
            parsed.entries["token"].error(
                "a token may not be written here, where everybody can read it: put it in a file, and name that in a "
                "TrimtabConfiguration as bearerTokenFile of a source with this URL"
            )
        if kind == PROMETHEUS and not parsed.values.get("address"):
            parsed.node.error("address is missing: write the URL of that Prometheus")
        if kind in TYPES and kind not in (PROMETHEUS, TYPES[0]):
            parsed.entries["type"].note(f"ignored: only {PROMETHEUS} and {TYPES[0]} are supported")

    def named_source(self) -> NamedSource:
        argument = ("metricProvider", "address")
        if self.type == PROMETHEUS:
            return NamedSource(argument, "prometheus", self.address, insecure_skip_verify=self.insecure_skip_verify)
        return NamedSource(argument, "metrics-server" if self.type == TYPES[0] else "", self.address)


METRICS_SERVER = MetricProvider()
