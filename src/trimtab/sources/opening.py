"""Decides which source stands behind which settings; leaves settings to `config` and looking to `polling`.

A new source is a file here, its settings in `config/own`, and a line in this table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from trimtab.config.own.settings import MetricsServerSettings, PrometheusSettings, ReplaySettings, SourceSettings
from trimtab.core.model.node import Node
from trimtab.sources.contract import Source
from trimtab.sources.metrics_server import Get, MetricsServer
from trimtab.sources.prometheus.source import Prometheus
from trimtab.sources.replay import Replay


def opened(
    settings: SourceSettings,
    nodes: Callable[[], Iterable[Node]],
    get: Get,
    now: Callable[[], float] = time.time,
) -> Source:
    """The source; SourceError where its settings cannot be used. Nothing is asked yet.

    nodes: those that are known, asked at every look. get: a path on the API server to status and body.
    """
    match settings:
        case PrometheusSettings():
            return Prometheus(settings, nodes, now)
        case MetricsServerSettings():
            return MetricsServer(settings, get)
        case ReplaySettings():
            return Replay(settings, now)
