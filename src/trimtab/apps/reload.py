"""Applies a changed configuration file while the process runs.

    in force ─▶ the content differs ─▶ unchanged at the next check ─▶ parse ─▶ valid: in force
                      ▲                                                 │
                      └────── the last valid one stays, log why ◀───────┘ invalid, or needs a restart

The content is compared, not its time: a ConfigMap swaps links, some editors move a new file over the old one, and others
write in place, so content that may be half written is not parsed at first sight. Included files are compared, too. Each
change is logged once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from trimtab.apps.config_file import ConfigFile, FileState, validate_queries
from trimtab.apps.logs import apply_levels
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.trimtab.settings import LoggingSettings, SourceSettings
from trimtab.core.model.events import Event, SettingsRead
from trimtab.sources.interface import SourceError

log = logging.getLogger(__name__)

INTERVAL = 3.0
APPLIED, REJECTED = "taken", "refused"  # label values of trimtab_config_reloads_total


class Reload:
    """Checks one file and those it includes; `current` is in force, `error` is why the file on disk is not.

    on_sources: called with changed sources; raises SourceError if one cannot be opened, and then nothing changes.
    on_logging: called with changed levels.
    validate: raises ConfigError for errors in changed sources that only the source can find.
    """

    def __init__(
        self,
        file: ConfigFile,
        current: Configuration,
        dispatch: Callable[[Event], None],
        clock: Callable[[], float],
        on_sources: Callable[[tuple[SourceSettings, ...]], None] = lambda sources: None,
        on_logging: Callable[[LoggingSettings], None] = apply_levels,
        validate: Callable[[Configuration, Path], Awaitable[None]] = validate_queries,
    ) -> None:
        self.current = current
        self.error = ""
        self.counts = Counter({APPLIED: 0, REJECTED: 0})
        self._file, self._dispatch, self._clock, self._on_sources = file, dispatch, clock, on_sources
        self._on_logging = on_logging
        self._validate = validate
        self._watched_kinds = frozenset(current.settings.kinds)
        self._last_evaluated: tuple[FileState, dict[Path, FileState]] | None = None
        self._last_seen: tuple[FileState, dict[Path, FileState]] | None = None

    @property
    def in_force(self) -> bool:
        """Whether the file on disk is in force."""
        return not self.error

    async def run(self) -> None:
        """Check for ever. The first content is evaluated, too: it may have changed since the start."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.check()

    async def check(self) -> None:
        """Compare once, and evaluate content that was the same at two checks."""
        content = await asyncio.to_thread(self._file.state)
        stable, self._last_seen = content == self._last_seen, content
        if not stable or content == self._last_evaluated:
            return
        self._file.forget_included()
        if isinstance(content[0], str):
            self._reject(content[0])
        else:
            await self._evaluate(content[0])
        self._last_evaluated = content[0], self._file.included_states

    async def _evaluate(self, content: bytes) -> None:
        try:
            configuration = await asyncio.to_thread(self._file.read, content)
            if configuration.trimtab.sources != self.current.trimtab.sources:
                await self._validate(configuration, self._file.path)
        except ConfigError as error:
            self._reject(*map(str, error.problems))
        except Exception as error:  # a parser that fails must not end the process
            self._reject(f"{type(error).__name__}: {error}")
        else:
            self._apply(configuration, content)

    def _apply(self, new: Configuration, content: bytes) -> None:
        before = self.current
        if reason := self._needs_restart(new):
            self._reject(reason)
            return
        try:
            if before.trimtab.sources != new.trimtab.sources:
                self._on_sources(new.trimtab.sources)
        except SourceError as error:
            self._reject(str(error))
            return
        self.current, self.error = new, ""
        if _canonical(before) == _canonical(new):
            return
        self.counts[APPLIED] += 1
        if before.trimtab.logging != new.trimtab.logging:
            self._on_logging(new.trimtab.logging)
        log.info("configuration reloaded: file=%s", self._file.path)
        for note in new.notes:
            log.info("configuration: note=%s", note)
        for field in _ignored_changes(before, new):
            log.warning("configuration change ignored until restart: file=%s field=%s", self._file.path, field)
        self._dispatch(SettingsRead(new.settings, self._clock(), self._file.text(content)))

    def _needs_restart(self, new: Configuration) -> str:
        """Why this configuration cannot be applied without a restart; empty if it can."""
        if missing := [kind for kind in new.settings.kinds if kind not in self._watched_kinds]:
            return f"its plugins need {', '.join(missing)}, which are not watched yet: restart to apply it"
        if _writes_labels(new) != _writes_labels(self.current):
            return f"{self._file.path}: labels.mode: cannot change while running: restart to apply it"
        return ""

    def _reject(self, *errors: str) -> None:
        self.error = errors[0]
        self.counts[REJECTED] += 1
        for error in errors:
            log.error(
                "configuration rejected, the last valid one stays in force: file=%s error=%s", self._file.path, error
            )


def _canonical(configuration: Configuration) -> str:
    """A form that can be compared, as profiles cannot; notes are left out."""
    return dump(replace(configuration, notes=()))


def _writes_labels(configuration: Configuration) -> bool:
    labels = configuration.settings.labels
    return labels is not None and labels.apply


def _ignored_changes(before: Configuration, new: Configuration) -> list[str]:
    """Changed fields that are read only at the start."""
    pairs = {
        "leaderElection": (before.leader_election, new.leader_election),
        "clientConnection": (before.client_connection, new.client_connection),
        "logging.format": (before.trimtab.logging.format, new.trimtab.logging.format),
        "metrics": (before.trimtab.metrics, new.trimtab.metrics),
    }
    return [name for name, (one, other) in pairs.items() if one != other]
