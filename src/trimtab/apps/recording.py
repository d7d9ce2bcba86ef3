"""Recording files: `Recording` writes what the engine handles (`trimtab run --record`), `RecordingReader` reads it back.

    "trimtab recording 1\\n"  block  block  block …        a block: its length, its CRC-32, and then zlib
    the first block holds the header, every other one records, each behind its length

Events and outputs are immutable, so a thread of its own encodes, compresses and writes them: a slow disk never delays a
decision. A block is written each second, so a crash loses at most the last one.

    recording ──the file is full──▶ full ──idle, or 1.25 times the size──▶ FILE becomes FILE.1, a snapshot starts FILE
        └──write error, or the disk does not keep up──▶ stopped: logged once, and scheduling goes on
"""

from __future__ import annotations

import logging
import os
import platform
import queue
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace

from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import ConfigText, Event, SamplesRead, SettingsRead, SourceFailed
from trimtab.core.model.readings import Reading
from trimtab.core.recording import (
    FORMAT_VERSION,
    UNREADABLE,
    Header,
    decode_header,
    encode_header,
    encode_record,
    snapshot,
)
from trimtab.core.scheduling.controller import Scheduling

log = logging.getLogger(__name__)

PREFIX = b"trimtab recording "
MAGIC = PREFIX + b"%d\n" % FORMAT_VERSION
BLOCK, LENGTH = struct.Struct("<II"), struct.Struct("<I")
BLOCK_BYTES = 1 << 20  # of records, before compression
MAX_BLOCK_BYTES = 1 << 30  # whatever claims to be longer is damaged
COMPRESSION_LEVEL = 1
FLUSH_INTERVAL = 1.0
MAX_QUEUED = 200_000  # records that wait for the disk
MAX_OVERRUN = 1.25  # how far a full file may grow while no idle moment comes
DEFAULT_MAX_SIZE = 256 << 20
CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True)
class RecordingOptions:
    """Where to record, up to which size of the file, and the configuration that the process starts with."""

    path: Path
    config: ConfigText
    max_size: int = DEFAULT_MAX_SIZE
    controllers: tuple[str, ...] = ("scheduler",)


class _Item(NamedTuple):
    event: Event
    outputs: Sequence[Output]


class _NewFile(NamedTuple):
    header: Header
    snapshot: list[Event]


class Recording:
    """Give `record` every event with its outputs, and call `close` at the end.

    The constructor opens the file and raises OSError where it cannot; an older file of that name becomes FILE.1.
    """

    def __init__(self, options: RecordingOptions, engine: Engine) -> None:
        self.error = ""
        self._options, self._engine = options, engine
        self._header = Header(
            trimtab=version("trimtab"),
            started=time.time(),
            controllers=options.controllers,
            config=options.config,
            platform=f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        )
        self._file = _FileWriter(options.path, self._header)
        self._rotating = False
        self._samples: dict[tuple[str, ...], Reading] = {}
        self._queue: queue.SimpleQueue[_Item | _NewFile | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def record(self, event: Event, outputs: Sequence[Output]) -> None:
        """Called after the engine handled the event."""
        if self.error:
            return
        self._keep_for_snapshot(event)
        self._queue.put(_Item(event, outputs))
        if self._queue.qsize() > MAX_QUEUED:
            self._fail("the disk does not keep up")
        elif self._file.size >= self._options.max_size and not self._rotating and self._may_rotate():
            self._rotate(event.at)

    def close(self) -> None:
        """Write what is left."""
        self._queue.put(None)
        self._thread.join(CLOSE_TIMEOUT)

    def counts(self) -> dict[str, int]:
        return {"records": self._file.records, "bytes": self._file.bytes}

    def _keep_for_snapshot(self, event: Event) -> None:
        """The configuration in force, and the newest samples of each metric."""
        match event:
            case SettingsRead():
                self._header = replace(self._header, config=event.config)
            case SamplesRead():
                for each in event.readings:
                    self._samples[each.source, each.resource, each.subject, each.statistic] = each
            case SourceFailed(discard_samples=True):
                self._samples = {key: each for key, each in self._samples.items() if each.source != event.source}

    def _may_rotate(self) -> bool:
        """A snapshot holds no binding cycle and no back-off: wait for a moment without, but not forever."""
        idle = all(
            not each.bindings.by_uid and not each.queue.has_ready()
            for each in self._engine.controllers
            if isinstance(each, Scheduling)
        )
        return idle or self._file.size >= self._options.max_size * MAX_OVERRUN

    def _rotate(self, now: float) -> None:
        self._rotating = True
        events = [*snapshot(self._engine, now), SamplesRead(tuple(self._samples.values()), now)]
        header = replace(self._header, started=time.time(), snapshot_events=len(events))
        self._queue.put(_NewFile(header, events))

    # --- in the thread

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # scheduling goes on, whatever is wrong with the recording
            self._fail(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        finally:
            self._file.close()

    def _write_all(self) -> None:
        flush_at = time.monotonic() + FLUSH_INTERVAL
        while not self.error:
            try:
                item = self._queue.get(timeout=max(flush_at - time.monotonic(), 0.0))
            except queue.Empty:
                self._file.flush()
                flush_at = time.monotonic() + FLUSH_INTERVAL
                continue
            if item is None:
                break
            self._write(item)
        self._file.flush()

    def _write(self, item: _Item | _NewFile) -> None:
        if isinstance(item, _Item):
            self._file.add(encode_record(item.event, item.outputs))
            return
        self._file.flush()
        self._file.start(item.header)
        for event in item.snapshot:
            self._file.add(encode_record(event, ()))
        self._rotating = False
        log.info("recording continues in a new file: file=%s", self._options.path)

    def _fail(self, error: str) -> None:
        self.error = error
        log.error("recording stopped: file=%s error=%s", self._options.path, error)


def open_recording(options: RecordingOptions, engine: Engine) -> Recording:
    """Raises RecordingError if the file cannot be written."""
    try:
        return Recording(options, engine)
    except OSError as error:
        raise RecordingError(f"cannot record to {options.path}: {error.strerror or error}") from None


class _FileWriter:
    """One recording file after the other, block by block; `size` is the present one's, `bytes` and `records` are all."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._block = bytearray()
        self.size = self.bytes = self.records = 0
        self.start(header)

    def start(self, header: Header) -> None:
        """Keep the present file as FILE.1, and start another."""
        self.close()
        if self._path.exists():
            _keep_older(self._path)
        # Names and labels of pods are nobody else's business; a link is not followed.
        self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self.size = 0
        self._write(MAGIC)
        self._write_block(encode_header(header))

    def add(self, record: bytes) -> None:
        self._block += LENGTH.pack(len(record)) + record
        self.records += 1
        if len(self._block) >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._block:
            self._write_block(bytes(self._block))
            self._block.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_block(self, content: bytes) -> None:
        packed = zlib.compress(content, COMPRESSION_LEVEL)
        self._write(BLOCK.pack(len(packed), zlib.crc32(packed)) + packed)

    def _write(self, content: bytes) -> None:
        assert self._file is not None
        left = memoryview(content)
        while left:
            left = left[self._file.write(left) :]
        self.size += len(content)
        self.bytes += len(content)


def _keep_older(path: Path) -> None:
    """Rename a recording to FILE.1, unless it has no records: restarts that fail early must not push out what counts."""
    if not path.is_file():
        raise OSError(0, "not a regular file")
    with path.open("rb") as file:
        start = file.read(len(PREFIX))
    if start and start != PREFIX:
        raise OSError(0, "the file exists and is not a recording")
    if _has_records(path):
        path.replace(path.with_name(f"{path.name}.1"))
    else:
        path.unlink()


def _has_records(path: Path) -> bool:
    try:
        with RecordingReader(path) as reader:
            return reader.offset < reader.size
    except RecordingError:  # damaged, or of another version
        return path.stat().st_size > 0


class RecordingError(Exception):
    """The file cannot be written; or it is not a recording, is of another format version, or is damaged."""


class RecordingReader:
    """Reads a file from its start; raises RecordingError, or OSError.

    `offset` is how far it was read, `truncated` how many bytes at its end are a block that was not written whole.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self.size, self.offset, self.truncated = path.stat().st_size, 0, 0
        try:
            self.header = self._read_header()
        except Exception:
            self.close()
            raise

    def __enter__(self) -> RecordingReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Each record with the offset of its block."""
        while True:
            offset = self.offset
            content = self._block()
            if content is None:
                return
            for record in self._split(content, offset):
                yield offset, record

    def damaged(self, offset: int, message: str) -> RecordingError:
        return RecordingError(f"{self._path} is damaged at byte {offset}: {message}")

    def _read_header(self) -> Header:
        self._check_magic()
        content = self._block()
        if content is None:
            raise RecordingError(f"{self._path} ends before its header is complete")
        try:
            return decode_header(content)
        except UNREADABLE as error:
            raise self.damaged(len(MAGIC), f"its header cannot be read: {error}") from None

    def _check_magic(self) -> None:
        first = self._file.readline(len(PREFIX) + 12)
        self.offset = len(first)
        if not first.startswith(PREFIX):
            raise RecordingError(f"{self._path} is not a recording of trimtab")
        if first != MAGIC:
            found = first.removeprefix(PREFIX).decode(errors="replace").strip()
            raise RecordingError(
                f"{self._path} has format version {found!a}, and this trimtab reads version {FORMAT_VERSION}: "
                "replay it with the trimtab that recorded it"
            )

    def _block(self) -> bytes | None:
        """The next block's content; None at the end, also of a block that was not written whole."""
        offset, frame = self.offset, self._file.read(BLOCK.size)
        if len(frame) < BLOCK.size:
            self.truncated = len(frame)
            return None
        length, checksum = BLOCK.unpack(frame)
        packed = self._file.read(min(length, MAX_BLOCK_BYTES))
        if len(packed) < length:
            if length > MAX_BLOCK_BYTES:
                raise self.damaged(offset, f"a block of {length} bytes is announced")
            self.truncated = len(frame) + len(packed)
            return None
        self.offset += len(frame) + length
        if zlib.crc32(packed) != checksum:
            raise self.damaged(offset, "the checksum does not match")
        return self._decompress(packed, offset)

    def _decompress(self, packed: bytes, offset: int) -> bytes:
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(packed, MAX_BLOCK_BYTES)
        except zlib.error as error:
            raise self.damaged(offset, str(error)) from None
        if not unpacker.eof:
            raise self.damaged(offset, "a block does not end where it should")
        return content

    def _split(self, content: bytes, offset: int) -> Iterator[bytes]:
        start = 0
        while start < len(content):
            end = start + LENGTH.size
            length = LENGTH.unpack_from(content, start)[0] if end <= len(content) else 0
            if end + length > len(content):
                raise self.damaged(offset, "a record does not end where it should")
            yield content[end : end + length]
            start = end + length
