"""The labeller's part of a process: its pages, and checks for /status, which fails if a rule has no recent sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from trimtab.apps.clock import Clock
from trimtab.config.configuration import Configuration
from trimtab.core.engine import Engine
from trimtab.core.model.events import SamplesRead
from trimtab.kube.informers import Informers
from trimtab.serve.health import Check, freshness_check
from trimtab.serve.labels import LabellerEndpoints, patches_check
from trimtab.sources.poller import SourceEvent

MISSED_CYCLES = 3
WATCH_SILENT_SECONDS = 120.0  # a watch that is idle for a good part of this is restarted
GRACE = 5.0  # seconds in which a sample that was just read is evaluated


class LabellerStatus:
    """The checks behind /status. `current` gives the configuration in force, `reload_error` why a newer one is not."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        informers: Informers,
        current: Callable[[], Configuration],
        reload_error: Callable[[], str],
    ) -> None:
        self.engine, self.clock, self.informers = engine, clock, informers
        self._current, self._reload_error = current, reload_error
        self.last_read: dict[str, float] = {}
        self.rules_since = clock()

    def on_samples(self, event: SourceEvent) -> None:
        """Note which metrics have a sample that is young enough for a rule."""
        if isinstance(event, SamplesRead):
            oldest = self.clock.wall() - self._current().settings.load.stale
            fresh = [each for each in event.readings if max(each.measured, default=-math.inf) >= oldest]
            self.last_read |= {reading.resource: event.at for reading in fresh}

    def on_reload(self) -> None:
        """Give a new rule time to be read."""
        self.rules_since = self.clock()

    def endpoints(self) -> LabellerEndpoints:
        return LabellerEndpoints(self.engine, self.clock.to_wall_time)

    def checks(self) -> Iterator[Check]:
        yield freshness_check("watch", lambda: self.clock() - self.informers.last_heard("nodes"), WATCH_SILENT_SECONDS)
        yield Check("rules", self._stale_rule)
        yield patches_check(self.engine)

    def _stale_rule(self) -> str | None:
        """The first rule without a sample for three cycles."""
        configuration, now = self._current(), self.clock()
        labels = configuration.settings.labels
        limit = MISSED_CYCLES * max((source.interval for source in configuration.trimtab.sources), default=0.0)
        for rule in labels.rules if labels is not None else ():
            last = max((self.last_read.get(name, self.rules_since) for name in rule.metrics), default=self.rules_since)
            if (age := now - last) > limit + GRACE:
                reason = self._reload_error() or "see the log of its source"
                return f"{rule.name} was last read {age:.0f} s ago, more than {limit:g} s: {reason}"
        return None if self.last_read else "no rule has been read yet"
