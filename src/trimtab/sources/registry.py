"""The kinds of sources: the settings of each, and how it is opened.

A new kind is a file in this package, with its settings in it, and a row here. `config` is handed SOURCE_SETTINGS and parses
the settings of each kind by the fields of its dataclass, under the name of the kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trimtab.config.trimtab.settings import MetricsServerSettings, PrometheusSettings, SourceSettings
from trimtab.core.model.node import Node
from trimtab.sources.interface import Get, Source, SourceContext
from trimtab.sources.metrics_server import MetricsServerSource
from trimtab.sources.prometheus.source import PrometheusSource
from trimtab.sources.replay import ReplaySettings, ReplaySource


class SourceKind(NamedTuple):
    """A settings class, whose `kind` is its name in a file, and the source that such settings and a context make."""

    settings: type[SourceSettings]
    open: Callable[[Any, SourceContext], Source]


_KINDS = (
    SourceKind(PrometheusSettings, lambda settings, context: PrometheusSource(settings, context.nodes, context.now)),
    SourceKind(MetricsServerSettings, lambda settings, context: MetricsServerSource(settings, context.get)),
    SourceKind(ReplaySettings, ReplaySource),
)
SOURCE_KINDS: Mapping[str, SourceKind] = {each.settings.kind: each for each in _KINDS}
SOURCE_SETTINGS: Mapping[str, type[SourceSettings]] = {name: each.settings for name, each in SOURCE_KINDS.items()}


def open_source(
    settings: SourceSettings,
    nodes: Callable[[], Iterable[Node]],
    get: Get,
    now: Callable[[], float] = time.time,
) -> Source:
    """The source for these settings; raises SourceError if they cannot be used. It is not queried yet."""
    return SOURCE_KINDS[settings.kind].open(settings, SourceContext(nodes, get, now))
