"""Wires the labeller: the scheduler's parts without pods and profiles, and beside them sources, rules and its own pages.

start ─▶ greet ─▶ follow nodes, ask sources, read the rules again when they change ─▶ (apply) strive for the lease ─▶ lead
Prometheus gone: marks expire. API server gone: nothing is written, /status says so. Rules bad: the last good ones stay.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import uvloop
from aiohttp import web

from trimtab.apps.process import Options, Process
from trimtab.apps.query_validation import validate_queries
from trimtab.apps.reload import ConfigFile
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.core.model.events import Event, SamplesRead
from trimtab.kube.credentials import Credentials
from trimtab.serve.health import Check, freshness_check
from trimtab.serve.labels import LabellerEndpoints
from trimtab.serve.metrics import PrometheusRecorder
from trimtab.sources.interface import HistoryRange
from trimtab.sources.poller import SourceEvent

log = logging.getLogger(__name__)

MISSED_CYCLES = 3
WATCH_SILENT_SECONDS = 120.0  # a watch is begun anew when it was silent for a good part of this
GRACE = 5.0  # within which a rule that was just read is looked at


class LoggingRecorder(PrometheusRecorder):
    """Counts, and says what people should know at once."""

    def all_under_pressure(self, nodes: int) -> None:
        super().all_under_pressure(nodes)
        log.warning("every node is marked: nodes=%d problem=the marks tell them apart no more", nodes)

    def label_contested(self, node: str) -> None:
        super().label_contested(node)
        problem = "somebody else undoes it again and again, perhaps another labeller with rules and a lease of its own"
        log.warning("mark contested: node=%s problem=%s", node, problem)


class Labeller(Process):
    """Nodes only: no pods are followed, none are placed."""

    role_file: ClassVar[str] = "labeller.yaml"
    history_ranges: ClassVar[Sequence[HistoryRange]] = ()

    def __init__(
        self, configuration: Configuration, file: ConfigFile, credentials: Credentials, options: Options
    ) -> None:
        super().__init__(configuration, credentials, options, file, LoggingRecorder())
        self.last_read: dict[str, float] = {}
        self._rules_since, self._path = self.clock(), file.path

    def _web_app(self) -> web.Application:
        app = super()._web_app()
        LabellerEndpoints(self.engine, self._checks(), self.clock.to_wall_time).register(app)
        return app

    def _on_samples(self, event: SourceEvent) -> None:
        if isinstance(event, SamplesRead):
            oldest = self.clock.wall() - self.current.settings.load.stale  # what is older tells a rule nothing
            fresh = [each for each in event.readings if max(each.measured, default=-math.inf) >= oldest]
            self.last_read |= {reading.resource: event.at for reading in fresh}
        self.runtime.dispatch(event)

    def _adapt_config(self, configuration: Configuration) -> Configuration:
        """Whether marks are written is settled at the start: only then is it known who leads."""
        found, before = configuration, self.configuration
        if (found.settings.labels or before.settings.labels) and _applies(found) != _applies(before):
            message = "may not change while it runs, for the lease is taken at the start: restart to make it count"
            raise ConfigError([Problem(str(self._path), 0, 0, "labels.mode", message)])
        return found

    def _on_config(self, event: Event) -> None:
        self._rules_since = self.clock()  # a rule that is new has its time to be read
        super()._on_config(event)

    # --- whether all is well

    def _checks(self) -> Iterator[Check]:
        yield freshness_check("watch", lambda: self.clock() - self.informers.last_heard(), WATCH_SILENT_SECONDS)
        yield Check("rules", self._stale_rule)

    def _stale_rule(self) -> str | None:
        """The first rule that was not read for three cycles."""
        labels, now = self.current.settings.labels, self.clock()
        limit = MISSED_CYCLES * max((source.interval for source in self.pollers.sources), default=0.0)
        for rule in labels.rules if labels is not None else ():
            age = now - max(
                (self.last_read.get(name, self._rules_since) for name in rule.metrics), default=self._rules_since
            )
            if age > limit + GRACE:
                return f"{rule.name} was last read {age:.0f} s ago, more than {limit:g} s: {self._why()}"
        return None if self.last_read else "no rule was read yet"

    def _why(self) -> str:
        return (self.reload.error if self.reload is not None else "") or "see the log of its source"


def _applies(configuration: Configuration) -> bool:
    labels = configuration.settings.labels
    return labels is not None and labels.apply


def run(configuration: Configuration, file: ConfigFile, credentials: Credentials, options: Options) -> int:
    """Run the labeller on an event loop of its own."""

    async def running() -> int:
        await validate_queries(configuration, file.path)
        return await Labeller(configuration, file, credentials, options).run()

    return uvloop.run(running())
