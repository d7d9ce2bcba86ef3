"""Decides which source stands behind which settings; leaves settings to `config` and looking to `polling`.

A new source is a file here, with its settings in it, and a line in FURTHER; `config` is handed KINDS, and reads the settings
of these kinds by the fields of their dataclasses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trimtab.config.own.settings import FurtherSettings, MetricsServerSettings, PrometheusSettings, SourceSettings
from trimtab.core.model.node import Node
from trimtab.sources.contract import Around, Get, Source
from trimtab.sources.metrics_server import MetricsServer
from trimtab.sources.prometheus.source import Prometheus
from trimtab.sources.replay import Recording, Replay


class Kind(NamedTuple):
    """What the file may say of such a source, and who asks it: name, settings and surroundings to the source."""

    settings: type
    source: Callable[[str, Any, Around], Source]


FURTHER: Mapping[str, Kind] = {
    "replay": Kind(Recording, Replay),
}
KINDS: Mapping[str, type] = {name: kind.settings for name, kind in FURTHER.items()}


def opened(
    settings: SourceSettings,
    nodes: Callable[[], Iterable[Node]],
    get: Get,
    now: Callable[[], float] = time.time,
) -> Source:
    """The source; SourceError where its settings cannot be used. Nothing is asked yet."""
    match settings:
        case PrometheusSettings():
            return Prometheus(settings, nodes, now)
        case MetricsServerSettings():
            return MetricsServer(settings, get)
        case FurtherSettings(name, kind, own):
            return FURTHER[kind].source(name, own, Around(nodes, get, now))
