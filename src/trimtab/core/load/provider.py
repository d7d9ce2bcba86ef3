"""Where Trimaran's arguments say that metrics come from: accepted as they stand, made into sources by `config`.

Nothing in the core uses an address, and a token is not accepted at all: `config` says where it belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TYPES = ("KubernetesMetricsServer", "Prometheus", "SignalFx")


@dataclass(frozen=True, slots=True)
class MetricProvider:
    """As in scheduler-plugins, except that certificates are verified unless the file says otherwise."""

    type: str = TYPES[0]
    address: str = ""
    token: str = field(default="", repr=False)
    insecure_skip_verify: bool = False

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ValueError(f"type: {self.type[:100]!r} is not one of {', '.join(TYPES)}")


METRICS_SERVER = MetricProvider()
