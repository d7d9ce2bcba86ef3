"""Decides when a changed configuration file is taken; leaves reading it to `config` and obeying it to the engine.

    in force ─▶ the content differs ─▶ it stands like that for a second look ─▶ read ─▶ good: in force
                      ▲                                                          │
                      └──── the last good one stays in force, and why is told ◀──┘ bad, or not without a restart

The content itself is compared: a ConfigMap swaps links, some editors move a new file over the old one, and others write in
place, which is why what may be half written is not taken at first sight. Files that it names are compared with it. Only a
change is told, not every look at it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.apps.included_files import IncludedFiles, os_error_text, read_bounded
from trimtab.apps.query_validation import validate_queries
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.model.events import Event, SettingsRead
from trimtab.sources.interface import SourceError

log = logging.getLogger(__name__)

INTERVAL = 3.0
APPLIED, REJECTED = "taken", "refused"


FileState = bytes | str  # what a file holds, or in words why nobody knows


@dataclass(frozen=True)
class ConfigFile:
    """Where the settings stand, how their content is read, and who reads the files that are named in them."""

    path: Path
    read: Callable[[bytes], Configuration]
    included: IncludedFiles | None = None

    @property
    def included_states(self) -> dict[Path, FileState]:
        """What each file named in it held when it was last read."""
        return {} if self.included is None else dict(self.included.states)

    def forget_included(self) -> None:
        """Before it is read anew: what it does not name any more is no business of ours."""
        if self.included is not None:
            self.included.states.clear()

    def state(self) -> tuple[FileState, dict[Path, FileState]]:
        """What it holds now, and what those named in it hold."""
        return _file_state(self.path), {path: _file_state(path) for path in self.included_states}


class Reload:
    """Watches one file and those that it names; `current` is in force, `problem` is what keeps the file itself from that.

    examine: raises ConfigError for what is wrong with sources that differ and the file does not show.
    on_sources: told of those; SourceError where one of them cannot be opened, and all stays as it is.
    """

    def __init__(
        self,
        file: ConfigFile,
        current: Configuration,
        dispatch: Callable[[Event], None],
        clock: Callable[[], float],
        on_sources: Callable[[tuple[SourceSettings, ...]], None] = lambda sources: None,
        validate: Callable[[Configuration, Path], Awaitable[None]] = validate_queries,
    ) -> None:
        self.current = current
        self.error = ""
        self.counts = Counter({APPLIED: 0, REJECTED: 0})
        self._file, self._dispatch, self._clock, self._on_sources = file, dispatch, clock, on_sources
        self._validate = validate
        self._watched_kinds = frozenset(current.settings.kinds)
        self._last_evaluated: tuple[FileState, dict[Path, FileState]] | None = None
        self._last_seen: tuple[FileState, dict[Path, FileState]] | None = None

    @property
    def in_force(self) -> bool:
        """Whether the file is in force as it stands."""
        return not self.error

    async def run(self) -> None:
        """Look for ever; what the file holds at first is judged too, for it may have changed since it was read."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.check()

    async def check(self) -> None:
        """Compare once, and take what has stood for two looks."""
        content = await asyncio.to_thread(self._file.state)
        steady, self._last_seen = content == self._last_seen, content
        if not steady or content == self._last_evaluated:
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
        except Exception as error:  # a reader that fails must not end the scheduling it was to change
            self._reject(f"{type(error).__name__}: {error}")
        else:
            self._apply(configuration)

    def _apply(self, new: Configuration) -> None:
        if strange := [kind for kind in new.settings.kinds if kind not in self._watched_kinds]:
            self._reject(f"its plugins look at {', '.join(strange)}, which are not followed yet: restart to do so")
            return
        before = self.current
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
        log.info("configuration taken: file=%s", self._file.path)
        for note in new.notes:
            log.info("configuration: note=%s", note)
        for part in _restart_required(before, new):
            problem = f"{part} changed: restart to make it count"
            log.warning("configuration: file=%s problem=%s", self._file.path, problem)
        self._dispatch(SettingsRead(new.settings, self._clock()))

    def _reject(self, *problems: str) -> None:
        self.error = problems[0]
        self.counts[REJECTED] += 1
        for problem in problems:
            log.error(
                "configuration refused, the last good one stays in force: file=%s problem=%s", self._file.path, problem
            )


def _canonical(configuration: Configuration) -> str:
    """A configuration in words that compare, for profiles do not; places in the file mean nothing."""
    return dump(replace(configuration, notes=()))


def _file_state(file: Path) -> FileState:
    try:
        return read_bounded(file)
    except OSError as error:
        return os_error_text(error)


def _restart_required(before: Configuration, new: Configuration) -> list[str]:
    """What differs and is looked at only at the start."""
    pairs = {
        "leaderElection": (before.leader_election, new.leader_election),
        "clientConnection": (before.client_connection, new.client_connection),
        "logging": (before.trimtab.logging, new.trimtab.logging),
        "metrics": (before.trimtab.metrics, new.trimtab.metrics),
    }
    return [name for name, (one, other) in pairs.items() if one != other]
