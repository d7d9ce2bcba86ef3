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

from trimtab.apps.reload import ConfigFile
from trimtab.apps.scheduler import Options, Scheduler
from trimtab.apps.trial import try_queries
from trimtab.config.configuration import Configuration
from trimtab.config.problem import ConfigError, Problem
from trimtab.core.model.event import Event, SamplesRead
from trimtab.kube.credentials import Credentials
from trimtab.serve.health import Check, recent
from trimtab.serve.labels import LabelPages
from trimtab.serve.metrics import PrometheusTally
from trimtab.sources.contract import Past
from trimtab.sources.polling import Measured

log = logging.getLogger(__name__)

CYCLES = 3
SILENT_SECONDS = 120.0  # a watch is begun anew when it was silent for a good part of this
TURN = 5.0  # within which a rule that was just read is looked at


class LoudTally(PrometheusTally):
    """Counts, and says what people should know at once."""

    def all_under_pressure(self, nodes: int) -> None:
        super().all_under_pressure(nodes)
        log.warning("every node is marked: nodes=%d problem=the marks tell them apart no more", nodes)

    def label_contested(self, node: str) -> None:
        super().label_contested(node)
        problem = "somebody else undoes it again and again, perhaps another labeller with rules and a lease of its own"
        log.warning("mark contested: node=%s problem=%s", node, problem)


class Labeller(Scheduler):
    """Nodes only: no pods are followed, none are placed."""

    role: ClassVar[str] = "labeller.yaml"
    spans: ClassVar[Sequence[Past]] = ()

    def __init__(
        self, configuration: Configuration, file: ConfigFile, credentials: Credentials, options: Options
    ) -> None:
        super().__init__(configuration, credentials, options, file, LoudTally())
        self.read_at: dict[str, float] = {}
        self._began, self._path = self.clock(), file.path

    def _pages(self) -> web.Application:
        app = super()._pages()
        LabelPages(self.engine, self._checks(), self.clock.on_the_wall).add_to(app)
        return app

    def _measured(self, event: Measured) -> None:
        if isinstance(event, SamplesRead):
            oldest = self.clock.wall() - self.current.own.load.stale  # what is older tells a rule nothing
            fresh = [each for each in event.readings if max(each.measured, default=-math.inf) >= oldest]
            self.read_at |= {reading.resource: event.at for reading in fresh}
        self.runtime.put(event)

    def _mine(self, configuration: Configuration) -> Configuration:
        """Whether marks are written is settled at the start: only then is it known who leads."""
        found, before = configuration, self.configuration
        if (found.settings.labels or before.settings.labels) and _applies(found) != _applies(before):
            message = "may not change while it runs, for the lease is taken at the start: restart to make it count"
            raise ConfigError([Problem(str(self._path), 0, 0, "labels.mode", message)])
        return found

    def _took(self, event: Event) -> None:
        self._began = self.clock()  # a rule that is new has its time to be read
        super()._took(event)

    # --- whether all is well

    def _checks(self) -> Iterator[Check]:
        yield recent("watch", lambda: self.clock() - self.watches.heard(), SILENT_SECONDS)
        yield Check("rules", self._unread)

    def _unread(self) -> str | None:
        """The first rule that was not read for three cycles."""
        labels, now = self.current.settings.labels, self.clock()
        limit = CYCLES * max((source.interval for source in self.looking.sources), default=0.0)
        for rule in labels.rules if labels is not None else ():
            age = now - max((self.read_at.get(name, self._began) for name in rule.measured_as), default=self._began)
            if age > limit + TURN:
                return f"{rule.name} was last read {age:.0f} s ago, more than {limit:g} s: {self._why()}"
        return None if self.read_at else "no rule was read yet"

    def _why(self) -> str:
        return (self.reload.problem if self.reload is not None else "") or "see the log of its source"


def _applies(configuration: Configuration) -> bool:
    labels = configuration.settings.labels
    return labels is not None and labels.apply


def run(configuration: Configuration, file: ConfigFile, credentials: Credentials, options: Options) -> int:
    """Run the labeller on an event loop of its own."""

    async def running() -> int:
        await try_queries(configuration, file.path)
        return await Labeller(configuration, file, credentials, options).run()

    return uvloop.run(running())
