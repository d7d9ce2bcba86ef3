"""The load-aware policies of kubernetes-sigs/scheduler-plugins (Trimaran), and their argument `metricProvider`."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPES = ("KubernetesMetricsServer", "Prometheus", "SignalFx")


@dataclass(frozen=True, slots=True)
class MetricProvider:
    """Where metrics come from; `config` turns it into a source, and rejects a token.

    As in scheduler-plugins, except that certificates are verified unless the file says otherwise.
    """

    type: str = TYPES[0]
    address: str = ""
    token: str = field(default="", repr=False)
    insecure_skip_verify: bool = False

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"type: {self.type[:100]!r} is not one of {', '.join(TYPES)}")


METRICS_SERVER = MetricProvider()
