"""Decides how readings are kept in a file and read again; leaves what they mean to the core.

A file is lines of JSON, each a SamplesRead as it was handed to the core. Read again, every sample is as old as it was then:
all times are shifted by as much as the moment of reading has moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from trimtab.config.own.values import path_fault
from trimtab.core.model.event import SamplesRead
from trimtab.core.model.sample import Reading
from trimtab.core.model.span import Span
from trimtab.sources.contract import Around, Past, Scrape, SourceError, nothing
from trimtab.wire.fault import UNREADABLE

LONGEST_LINE = 64 << 20
OFTEN = Span(15)


@dataclass(frozen=True, slots=True)
class Recording:
    """The file, and how often a line of it is played."""

    path: str = ""
    interval: Span = OFTEN

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("path is missing: write the file of recorded readings")
        if (fault := path_fault(self.path)) is not None:
            raise ValueError(f"path: {fault}")


class Replay:
    """One line a look; after the last one the source has failed."""

    def __init__(self, name: str, recording: Recording, around: Around) -> None:
        self.name, self.interval = name, recording.interval
        self.parts = (name,)
        self._path, self._now = recording.path, around.now
        self._decode = msgspec.json.Decoder(SamplesRead).decode
        self._line = self._offset = 0

    async def read(self) -> Scrape:
        recorded = await asyncio.to_thread(self._next)  # a line may be long, and the disk slow
        later = self._now() - recorded.at
        return Scrape(tuple(self._shifted(reading, later) for reading in recorded.readings))

    def recall(self, spans: Sequence[Past]) -> AsyncIterator[tuple[Reading, ...]]:
        """What lies before the recording nobody knows."""
        return nothing()

    async def close(self) -> None:
        """Nothing is held."""

    def _next(self) -> SamplesRead:
        line = self._next_line()
        if not line:
            raise SourceError(
                f"the recording {self._path} has ended after {self._line} lines", "start again to repeat it"
            )
        self._line += 1
        try:
            return _sound(self._decode(line))
        except UNREADABLE as error:
            problem = f"{self._path}:{self._line}: {str(error)[:200]}"
            raise SourceError(problem, "each line must be a SamplesRead as `record` writes it") from None

    def _next_line(self) -> bytes:
        try:
            with Path(self._path).open("rb") as file:
                file.seek(self._offset)
                line = file.readline(LONGEST_LINE)
                self._offset = file.tell()
        except OSError as error:
            problem = f"the recording {self._path} cannot be read: {error.strerror}"
            raise SourceError(problem, "check the path and the rights of the file") from None
        return line

    def _shifted(self, reading: Reading, later: float) -> Reading:
        measured = tuple(at + later for at in reading.measured)
        return msgspec.structs.replace(reading, source=self.name, measured=measured)


def record(file: BinaryIO, event: SamplesRead) -> None:
    """Add what was read to a recording."""
    file.write(msgspec.json.encode(event) + b"\n")


def _sound(event: SamplesRead) -> SamplesRead:
    for reading in event.readings:
        if not len(reading.names) == len(reading.values) == len(reading.measured):
            raise ValueError(f"{reading.resource}: names, values and measured are not equally many")
    return event
