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

from trimtab.apps.beside import Beside, in_words, start_of
from trimtab.apps.trial import try_queries
from trimtab.config.configuration import Configuration
from trimtab.config.own.settings import SourceSettings
from trimtab.config.problem import ConfigError
from trimtab.config.show import shown
from trimtab.core.model.event import Event, SettingsRead
from trimtab.sources.contract import SourceError

log = logging.getLogger(__name__)

SECONDS = 3.0
TAKEN, REFUSED = "taken", "refused"


Held = bytes | str  # what a file holds, or in words why nobody knows


@dataclass(frozen=True)
class ConfigFile:
    """Where the settings stand, how their content is read, and who reads the files that are named in them."""

    path: Path
    read: Callable[[bytes], Configuration]
    beside: Beside | None = None

    @property
    def named(self) -> dict[Path, Held]:
        """What each file named in it held when it was last read."""
        return {} if self.beside is None else dict(self.beside.found)

    def forget(self) -> None:
        """Before it is read anew: what it does not name any more is no business of ours."""
        if self.beside is not None:
            self.beside.found.clear()

    def content(self) -> tuple[Held, dict[Path, Held]]:
        """What it holds now, and what those named in it hold."""
        return _held(self.path), {path: _held(path) for path in self.named}


class Reload:
    """Watches one file and those that it names; `current` is in force, `problem` is what keeps the file itself from that.

    examine: raises ConfigError for what is wrong with sources that differ and the file does not show.
    on_sources: told of those; SourceError where one of them cannot be opened, and all stays as it is.
    """

    def __init__(
        self,
        file: ConfigFile,
        current: Configuration,
        put: Callable[[Event], None],
        clock: Callable[[], float],
        on_sources: Callable[[tuple[SourceSettings, ...]], None] = lambda sources: None,
        examine: Callable[[Configuration, Path], Awaitable[None]] = try_queries,
    ) -> None:
        self.current = current
        self.problem = ""
        self.counts = Counter({TAKEN: 0, REFUSED: 0})
        self._file, self._put, self._clock, self._on_sources = file, put, clock, on_sources
        self._examine = examine
        self._followed = frozenset(current.settings.kinds)
        self._judged: tuple[Held, dict[Path, Held]] | None = None
        self._seen: tuple[Held, dict[Path, Held]] | None = None

    @property
    def holds(self) -> bool:
        """Whether the file is in force as it stands."""
        return not self.problem

    async def run(self) -> None:
        """Look for ever; what the file holds at first is judged too, for it may have changed since it was read."""
        while True:
            await asyncio.sleep(SECONDS)
            await self.look()

    async def look(self) -> None:
        """Compare once, and take what has stood for two looks."""
        content = await asyncio.to_thread(self._file.content)
        steady, self._seen = content == self._seen, content
        if not steady or content == self._judged:
            return
        self._file.forget()
        if isinstance(content[0], str):
            self._refuse(content[0])
        else:
            await self._judge(content[0])
        self._judged = content[0], self._file.named

    async def _judge(self, content: bytes) -> None:
        try:
            configuration = await asyncio.to_thread(self._file.read, content)
            if configuration.own.sources != self.current.own.sources:
                await self._examine(configuration, self._file.path)
        except ConfigError as error:
            self._refuse(*map(str, error.problems))
        except Exception as error:  # a reader that fails must not end the scheduling it was to change
            self._refuse(f"{type(error).__name__}: {error}")
        else:
            self._take(configuration)

    def _take(self, new: Configuration) -> None:
        if strange := [kind for kind in new.settings.kinds if kind not in self._followed]:
            self._refuse(f"its plugins look at {', '.join(strange)}, which are not followed yet: restart to do so")
            return
        before = self.current
        try:
            if before.own.sources != new.own.sources:
                self._on_sources(new.own.sources)
        except SourceError as error:
            self._refuse(str(error))
            return
        self.current, self.problem = new, ""
        if _meaning(before) == _meaning(new):
            return
        self.counts[TAKEN] += 1
        log.info("configuration taken: file=%s", self._file.path)
        for note in new.notes:
            log.info("configuration: note=%s", note)
        for part in _fixed(before, new):
            problem = f"{part} changed: restart to make it count"
            log.warning("configuration: file=%s problem=%s", self._file.path, problem)
        self._put(SettingsRead(new.settings, self._clock()))

    def _refuse(self, *problems: str) -> None:
        self.problem = problems[0]
        self.counts[REFUSED] += 1
        for problem in problems:
            log.error(
                "configuration refused, the last good one stays in force: file=%s problem=%s", self._file.path, problem
            )


def _meaning(configuration: Configuration) -> str:
    """A configuration in words that compare, for profiles do not; places in the file mean nothing."""
    return shown(replace(configuration, notes=()))


def _held(file: Path) -> Held:
    try:
        return start_of(file)
    except OSError as error:
        return in_words(error)


def _fixed(before: Configuration, new: Configuration) -> list[str]:
    """What differs and is looked at only at the start."""
    pairs = {
        "leaderElection": (before.leader, new.leader),
        "clientConnection": (before.connection, new.connection),
        "logging": (before.own.logging, new.own.logging),
        "metrics": (before.own.metrics, new.own.metrics),
    }
    return [name for name, (one, other) in pairs.items() if one != other]
