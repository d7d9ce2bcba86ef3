"""Records readings to a file and replays them as a source.

The file has one JSON-encoded SamplesRead per line. When replayed, all times are shifted by the same amount, so that every
sample has the age that it had when it was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

import msgspec

from trimtab.config.trimtab.validation import validate_path
from trimtab.core.model.duration import HOUR
from trimtab.core.model.events import SamplesRead
from trimtab.core.model.readings import Reading
from trimtab.core.model.setting import setting
from trimtab.sources.interface import HistoryRange, Scrape, SourceContext, SourceError, no_history
from trimtab.wire.decoding import UNREADABLE

MAX_LINE_BYTES = 64 << 20
DEFAULT_INTERVAL = 15.0


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """The file, and how often a line of it is replayed."""

    kind: ClassVar[str] = "replay"

    name: str
    path: str = setting(
        "",
        "a file of recorded readings, one JSON object per line",
        required="write the file of recorded readings",
        validate=validate_path,
    )
    interval: float = setting(
        DEFAULT_INTERVAL, "15s unless set: how often a recorded cycle is replayed", seconds=(1, HOUR)
    )


class ReplaySource:
    """Replays one line per poll; fails after the last one."""

    def __init__(self, settings: ReplaySettings, context: SourceContext) -> None:
        self.name, self.interval = settings.name, settings.interval
        self.query_names = (self.name,)
        self._path, self._now = settings.path, context.now
        self._decode = msgspec.json.Decoder(SamplesRead).decode
        self._line = self._offset = 0

    async def read(self) -> Scrape:
        recorded = await asyncio.to_thread(self._next)  # a line may be long, and the disk slow
        offset = self._now() - recorded.at
        return Scrape(tuple(self._shifted(reading, offset) for reading in recorded.readings))

    def read_history(self, ranges: Sequence[HistoryRange]) -> AsyncIterator[tuple[Reading, ...]]:
        """A recording has no history."""
        return no_history()

    async def close(self) -> None:
        """Nothing to release: the file is opened for each line."""

    def _next(self) -> SamplesRead:
        line = self._next_line()
        if not line:
            raise SourceError(
                f"the recording {self._path} ended after {self._line} lines", "restart to replay it again"
            )
        self._line += 1
        try:
            return _validate(self._decode(line))
        except UNREADABLE as error:
            problem = f"{self._path}:{self._line}: {str(error)[:200]}"
            remedy = "each line must be a SamplesRead as written by `record`"
            raise SourceError(problem, remedy, invalid=True) from None

    def _next_line(self) -> bytes:
        try:
            with Path(self._path).open("rb") as file:
                file.seek(self._offset)
                line = file.readline(MAX_LINE_BYTES)
                self._offset = file.tell()
        except OSError as error:
            problem = f"cannot read the recording {self._path}: {error.strerror}"
            raise SourceError(problem, "check the path and the file permissions") from None
        return line

    def _shifted(self, reading: Reading, offset: float) -> Reading:
        measured = tuple(at + offset for at in reading.measured)
        return msgspec.structs.replace(reading, source=self.name, measured=measured)


def record(file: BinaryIO, event: SamplesRead) -> None:
    """Append the event to a recording."""
    file.write(msgspec.json.encode(event) + b"\n")


def _validate(event: SamplesRead) -> SamplesRead:
    for reading in event.readings:
        if not len(reading.names) == len(reading.values) == len(reading.measured):
            raise ValueError(f"{reading.resource}: names, values and measured differ in length")
    return event
