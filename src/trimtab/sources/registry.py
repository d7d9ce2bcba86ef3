"""Decides which source stands behind which settings; leaves settings to `config` and looking to `polling`.

A new source is a file here, with its settings in it, and a line in FURTHER; `config` is handed KINDS, and reads the settings
of these kinds by the fields of their dataclasses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trimtab.config.trimtab.settings import (
    MetricsServerSettings,
    PrometheusSettings,
    RegisteredSourceSettings,
    SourceSettings,
)
from trimtab.core.model.node import Node
from trimtab.sources.interface import Get, Source, SourceContext
from trimtab.sources.metrics_server import MetricsServerSource
from trimtab.sources.prometheus.source import PrometheusSource
from trimtab.sources.replay import ReplaySettings, ReplaySource


class SourceKind(NamedTuple):
    """What the file may say of such a source, and who asks it: name, settings and surroundings to the source."""

    settings: type
    open: Callable[[str, Any, SourceContext], Source]


REGISTERED: Mapping[str, SourceKind] = {
    "replay": SourceKind(ReplaySettings, ReplaySource),
}
SOURCE_SETTINGS: Mapping[str, type] = {name: kind.settings for name, kind in REGISTERED.items()}


def open_source(
    settings: SourceSettings,
    nodes: Callable[[], Iterable[Node]],
    get: Get,
    now: Callable[[], float] = time.time,
) -> Source:
    """The source; SourceError where its settings cannot be used. Nothing is asked yet."""
    match settings:
        case PrometheusSettings():
            return PrometheusSource(settings, nodes, now)
        case MetricsServerSettings():
            return MetricsServerSource(settings, get)
        case RegisteredSourceSettings(name, kind, own):
            return REGISTERED[kind].open(name, own, SourceContext(nodes, get, now))
