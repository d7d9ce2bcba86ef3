"""What panels and alerts ask of Prometheus: their expressions with Grafana's variables filled in, and the metrics in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.monitoring.alerts import ALERTS
from tools.monitoring.dashboards import DASHBOARDS

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
METRIC = re.compile(
    r"\b(?:up|ALERTS|(?:trimtab|scheduler|node|rest_client|leader_election|process|kube)_[a-z_]+)\b(?![=(])"
)
LABELS_BY = re.compile(r"\b(?:by|on|without) \([^)]*\)")
SUFFIX = re.compile(r"_(bucket|sum|count)$")
# Of Prometheus itself, of the process, and of kube-state-metrics.
FOREIGN = re.compile(r"up|ALERTS|process_.+|kube_pod_status_ready")
# Those that a rescheduler alone has, most of them once it has moved a pod.
OF_MOVES = re.compile(
    r"trimtab_(moves?_.+|strategy_.+|rescheduling_mode|oldest_move_age_seconds|evictions_total|ledger_unreadable"
    r"|nodes_without_relief)"
)


def filled(expr: str, window: str = "5m") -> str:
    """The expression as Grafana would send it with `All` selected."""
    for variable in ("$job", "$instance", "$node"):
        expr = expr.replace(variable, ".+")
    return expr.replace("$__rate_interval", window)


def panel_expressions() -> Iterator[tuple[str, str]]:
    """Every expression of every panel, with where it is."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                yield f"{dashboard.name}: {panel.title}", query.expr


def metrics_of(expr: str) -> set[str]:
    """The metrics that an expression names, without the suffixes of histograms."""
    plain = re.sub(r'"[^"]*"', '""', LABELS_BY.sub("", expr))
    return {SUFFIX.sub("", name) for name in METRIC.findall(plain)}


def all_expressions() -> Iterator[tuple[str, str]]:
    """Of panels and alerts."""
    yield from panel_expressions()
    yield from ((alert.name, alert.expr) for alert in ALERTS)


def documented() -> set[str]:
    """The metrics in docs/metrics.md."""
    return set(re.findall(r"`([a-z_]+)`", DOCUMENT.read_text()))
