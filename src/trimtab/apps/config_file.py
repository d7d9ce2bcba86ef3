"""The configuration file on disk: reads it and the files it includes, and validates its queries with Prometheus."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.config.yaml import MAX_BYTES
from trimtab.core.load.pressure_rules import RULE_QUERY_PREFIX
from trimtab.core.model.events import ConfigText
from trimtab.sources.prometheus.source import invalid_queries

MAX_QUERY_CHARS = 200

FileState = bytes | str  # a file's content, or the reason why it cannot be read


class IncludedFiles:
    """Reads files named in a configuration file, relative to it; `states` is what each of them held when last read."""

    def __init__(self, file: Path) -> None:
        self.states: dict[Path, FileState] = {}
        self._folder = file.parent

    def __call__(self, path: str) -> tuple[str, bytes]:
        """The file's full path and its content; raises OSError."""
        full = self._folder / path
        try:
            content = read_bounded(full)
        except OSError as error:
            self.states[full] = os_error_text(error)
            raise
        self.states[full] = content
        return str(full), content

    def contents(self) -> tuple[tuple[str, bytes], ...]:
        """The files that could be read, by their full paths."""
        return tuple((str(path), state) for path, state in self.states.items() if isinstance(state, bytes))


@dataclass(frozen=True)
class ConfigFile:
    """Where the configuration is, how its content is parsed, and the reader of the files it includes."""

    path: Path
    read: Callable[[bytes], Configuration]
    included: IncludedFiles | None = None

    @property
    def included_states(self) -> dict[Path, FileState]:
        """What each included file held when it was last read."""
        return {} if self.included is None else dict(self.included.states)

    def text(self, content: bytes) -> ConfigText:
        """What a recording keeps of it: the content that was parsed last, and the files that it includes."""
        return ConfigText(str(self.path), content, self.included.contents() if self.included is not None else ())

    def forget_included(self) -> None:
        """Call before parsing anew, which reads the files that are still included."""
        if self.included is not None:
            self.included.states.clear()

    def state(self) -> tuple[FileState, dict[Path, FileState]]:
        """The content on disk now, of the file and of those it includes."""
        return _file_state(self.path), {path: _file_state(path) for path in self.included_states}


def _file_state(file: Path) -> FileState:
    try:
        return read_bounded(file)
    except OSError as error:
        return os_error_text(error)


def read_bounded(file: Path) -> bytes:
    """The content, cut one byte above the maximum that is parsed. Raises OSError."""
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except ValueError as error:  # an impossible file name
        raise OSError(str(error)) from None


def os_error_text(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def config_digest(config: ConfigText) -> str:
    """Tells whether a configuration is still the same, with all files that it includes."""
    included = (part for path, content in config.included for part in (path.encode(), content))
    return hashlib.sha256(b"\0".join((config.content, *included))).hexdigest()


def recorded_files(config: ConfigText) -> Callable[[str], tuple[str, bytes]]:
    """Reads the files that a configuration includes from its text, as `IncludedFiles` reads them from disk."""
    files, folder = dict(config.included), Path(config.file).parent

    def read_file(path: str) -> tuple[str, bytes]:
        place = str(folder / path)
        if place not in files:
            raise OSError(0, "it is not in the recording")
        return place, files[place]

    return read_file


# --- queries


async def validate_queries(configuration: Configuration, file: Path) -> None:
    """Raises ConfigError with each query that its Prometheus cannot parse; one that does not answer is skipped."""
    sources = [each for each in configuration.trimtab.sources if isinstance(each, PrometheusSettings) and each.queries]
    found = await asyncio.gather(*map(invalid_queries, sources))
    problems = [
        _diagnostic(file, source, query, error.problem)
        for source, invalid in zip(sources, found, strict=True)
        for query, error in invalid
    ]
    if problems:
        raise ConfigError(problems)


def _diagnostic(file: Path, source: PrometheusSettings, query: QuerySettings, error: str) -> Problem:
    name = query.name.removeprefix(RULE_QUERY_PREFIX)
    field = f"query {name!r} of source {source.name!r}" if name == query.name else f"query of rule {name!r}"
    message = f"{query.query[:MAX_QUERY_CHARS]!r}: {error}: correct the query"
    return Problem(str(file), *_position(file, query.query), field, message)


def _position(file: Path, query: str) -> tuple[int, int]:
    """Line and column of the query in the file; 0 if it cannot be found, because YAML may fold and escape it."""
    try:
        before, found, after = read_bounded(file).decode(errors="replace").partition(query.splitlines()[0])
    except OSError:
        return 0, 0
    if not found or found in after:
        return 0, 0
    return before.count("\n") + 1, len(before) - before.rfind("\n")
