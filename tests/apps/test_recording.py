"""Recording files: rotation, damage, full disks, and what a reader makes of each."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.core.engine_harness import EngineHarness, node, pod
from trimtab.apps import recording
from trimtab.apps.recording import MAGIC, Recording, RecordingError, RecordingOptions, RecordingReader
from trimtab.core.driver import Driver
from trimtab.core.model.events import (
    ConfigText,
    Event,
    LeaseLost,
    NodeUpserted,
    PodUpserted,
    SamplesRead,
    SettingsRead,
    SourceFailed,
    Tick,
    Turn,
)
from trimtab.core.model.instructions import Bind
from trimtab.core.model.readings import Reading
from trimtab.core.recording import Record, RecordDecoder
from trimtab.core.settings import Settings

CONFIG = ConfigText("config.yaml", b"kind: KubeSchedulerConfiguration")


class RecordedEngine:
    """An engine whose driver records."""

    def __init__(self, path: Path, max_size: int = 1 << 30) -> None:
        self.scene = EngineHarness()
        self.recording = Recording(RecordingOptions(path, CONFIG, max_size), self.scene.engine)
        self.driver = Driver(self.scene.engine, lambda instruction: None, record=self.recording.record)

    def put(self, *events: Event) -> RecordedEngine:
        for event in events:
            self.driver.put(event)
        return self


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read(path: Path) -> tuple[RecordingReader, list[Record]]:
    decoder = RecordDecoder(lambda config: Settings(()))
    with RecordingReader(path) as reader:
        return reader, [decoder.decode(content) for _, content in reader.records()]


def header_end(path: Path) -> int:
    with RecordingReader(path) as reader:
        return reader.offset


def test_events_and_outputs_are_written_in_order(tmp_path: Path) -> None:
    """With a header that says who recorded."""
    path = tmp_path / "r"
    live = RecordedEngine(path).put(NodeUpserted(node("a"), 1.0), PodUpserted(pod("web"), 2.0), Turn(1, 3.0))
    live.recording.close()
    reader, records = read(path)
    assert (CONFIG, ("scheduler",), 0, 0) == (
        reader.header.config,
        reader.header.controllers,
        reader.header.snapshot_events,
        reader.truncated,
    )
    assert [NodeUpserted, PodUpserted, Turn] == [type(record.event) for record in records]
    assert ["a"] == [output.node for output in records[2].outputs if isinstance(output, Bind)]
    assert {"records": 3, "bytes": path.stat().st_size} == live.recording.counts()


def test_a_recording_is_readable_while_it_is_written(tmp_path: Path) -> None:
    """Each second what came is in the file: a crash loses no more."""
    live = RecordedEngine(tmp_path / "r").put(Tick(1.0))
    wait_until(lambda: len(read(tmp_path / "r")[1]) == 1)
    live.put(Tick(2.0))
    wait_until(lambda: len(read(tmp_path / "r")[1]) == 2)
    live.recording.close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """It names the pods of a cluster."""
    RecordedEngine(tmp_path / "r").recording.close()
    assert 0o600 == (tmp_path / "r").stat().st_mode & 0o777


def test_an_older_recording_is_kept(tmp_path: Path) -> None:
    """A process that crashed and was started again must not overwrite what it recorded."""
    path = tmp_path / "r"
    RecordedEngine(path).put(Tick(1.0)).recording.close()
    RecordedEngine(path).put(Tick(2.0)).recording.close()
    assert [Tick(1.0)] == [record.event for record in read(tmp_path / "r.1")[1]]
    assert [Tick(2.0)] == [record.event for record in read(path)[1]]


def test_a_restart_that_records_nothing_does_not_push_out_what_counts(tmp_path: Path) -> None:
    """A process that crashed may be started several times before it gets anywhere."""
    path = tmp_path / "r"
    RecordedEngine(path).put(Tick(1.0)).recording.close()
    for _ in range(3):
        RecordedEngine(path).recording.close()
    assert [Tick(1.0)] == [record.event for record in read(tmp_path / "r.1")[1]]


def test_a_file_that_is_no_recording_is_left_alone(tmp_path: Path) -> None:
    """Somebody gave the wrong path; an empty file may be replaced, and an unreadable recording is kept."""
    path = tmp_path / "r"
    path.write_text("kind: KubeSchedulerConfiguration")
    with pytest.raises(OSError, match="exists and is not a recording"):
        RecordedEngine(path)
    assert "kind: KubeSchedulerConfiguration" == path.read_text()
    path.write_text("")
    RecordedEngine(path).recording.close()
    path.write_bytes(b"trimtab recording 99\nwhatever")
    RecordedEngine(path).recording.close()
    assert b"trimtab recording 99\nwhatever" == (tmp_path / "r.1").read_bytes()


def test_a_path_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    """Before anything is scheduled; what is there stays."""
    with pytest.raises(FileNotFoundError):
        RecordedEngine(tmp_path / "missing" / "r")
    with pytest.raises(OSError, match="not a regular file"):
        RecordedEngine(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        RecordedEngine(tmp_path / "link")


def test_the_event_that_the_engine_raises_for_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that a bug report is about."""
    live = RecordedEngine(tmp_path / "r")

    def raises(event: Event) -> list[Any]:
        raise ValueError("broken")

    monkeypatch.setattr(live.scene.engine, "handle", raises)
    with pytest.raises(ValueError, match="broken"):
        live.put(Tick(1.0))
    live.recording.close()
    assert [Record(Tick(1.0), ())] == read(tmp_path / "r")[1]


# --- rotation


def fill(live: RecordedEngine) -> None:
    """Let the writer know that the file is full."""
    live.recording._file.size = live.recording._options.max_size


def rotated(live: RecordedEngine, path: Path) -> bool:
    return path.with_name("r.1").exists() and not live.recording._rotating


def test_a_full_file_is_followed_by_one_that_starts_from_a_snapshot(tmp_path: Path) -> None:
    """Its header has the configuration that is in force by then."""
    path, newer = tmp_path / "r", ConfigText("config.yaml", b"newer")
    live = RecordedEngine(path).put(NodeUpserted(node("a"), 1.0), PodUpserted(pod("web", node="a"), 2.0))
    live.put(SettingsRead(live.scene.engine.state.settings, 3.0, newer))
    fill(live)
    live.put(Tick(4.0))
    wait_until(lambda: rotated(live, path))
    live.put(Tick(5.0)).recording.close()
    reader, records = read(path)
    count = reader.header.snapshot_events
    assert (newer, Tick(5.0), count + 1) == (reader.header.config, records[-1].event, len(records))
    assert {NodeUpserted, PodUpserted} <= {type(record.event) for record in records[:count]}
    assert Tick(4.0) == read(tmp_path / "r.1")[1][-1].event


def test_rotation_waits_for_an_idle_moment(tmp_path: Path) -> None:
    """A snapshot has no binding cycles, so none should be under way; a file far too large is not waited for."""
    path = tmp_path / "r"
    live = RecordedEngine(path).put(NodeUpserted(node("a"), 1.0), PodUpserted(pod("web"), 2.0), Turn(1, 3.0))
    fill(live)
    live.put(Tick(4.0))
    assert not live.recording._rotating
    live.recording._file.size = int(live.recording._options.max_size * 1.25)
    live.put(Tick(5.0))
    wait_until(lambda: rotated(live, path))
    live.recording.close()


def test_only_one_older_file_is_kept(tmp_path: Path) -> None:
    """The disk holds two files at most."""
    path = tmp_path / "r"
    live = RecordedEngine(path, max_size=1).put(LeaseLost(0.0))
    for at in range(5):
        live.put(Tick(float(at)))
        wait_until(lambda: not live.recording._rotating)
    live.recording.close()
    assert {"r", "r.1"} == {each.name for each in tmp_path.iterdir()}


def test_a_snapshot_has_the_newest_samples(tmp_path: Path) -> None:
    """Not those of a source that answers with nonsense; older ones are not in it."""
    path = tmp_path / "r"
    live = RecordedEngine(path).put(NodeUpserted(node("a"), 1.0))
    older, newer = Reading("s", "cpu", ("a",), (100.0,), (1.0,)), Reading("s", "cpu", ("a",), (200.0,), (2.0,))
    failing = Reading("t", "memory", ("a",), (1.0,), (1.0,))
    live.put(SamplesRead((older, failing), 2.0), SamplesRead((newer,), 3.0), SourceFailed("t", "x", 3.0, True))
    fill(live)
    live.put(Tick(4.0))
    wait_until(lambda: rotated(live, path))
    live.recording.close()
    assert [SamplesRead((newer,), 4.0)] == [each.event for each in read(path)[1] if isinstance(each.event, SamplesRead)]


# --- a disk that fails


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_write_error_stops_the_recording_alone(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One error is logged, and the engine goes on."""
    live = RecordedEngine(tmp_path / "r")

    def fails(content: bytes) -> None:
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(live.recording._file, "_write", fails)
    with caplog.at_level(logging.ERROR):
        live.put(Tick(1.0))
        wait_until(lambda: bool(live.recording.error))
        live.put(Tick(2.0), NodeUpserted(node("a"), 3.0))
        live.recording.close()
    assert 1 == len(caplog.records)
    assert f"recording stopped: file={tmp_path / 'r'} error=No space left on device" in caplog.text
    assert 1 == len(live.scene.engine.cluster.node_table)


def test_a_disk_that_does_not_keep_up_stops_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Memory is bounded."""
    monkeypatch.setattr(recording, "MAX_QUEUED", -1)
    live = RecordedEngine(tmp_path / "r").put(Tick(1.0), Tick(2.0))
    live.recording.close()
    assert "error=the disk does not keep up" in caplog.text


# --- damage


def blocks_of(path: Path, events: Sequence[Event]) -> bytes:
    """A file with each event in a block of its own."""
    live = RecordedEngine(path)
    for event in events:
        live.put(event)
        wait_until(live.recording._queue.empty)
        live.recording._file.flush()
    live.recording.close()
    return path.read_bytes()


def test_a_file_cut_at_any_byte_is_read_up_to_there(tmp_path: Path) -> None:
    """As a crash leaves it."""
    path = tmp_path / "r"
    content = blocks_of(path, [Tick(1.0), Tick(2.0)])
    start = header_end(path)
    for end in range(start, len(content)):
        path.write_bytes(content[:end])
        reader, records = read(path)
        assert end == reader.offset + reader.truncated
        assert [Tick(1.0)][: len(records)] == [record.event for record in records]
    for end in range(start):
        path.write_bytes(content[:end])
        with pytest.raises(RecordingError):
            RecordingReader(path)


def test_a_changed_byte_is_noticed_and_its_place_named(tmp_path: Path) -> None:
    """Whichever it is; a length that says too much looks like a file that was cut."""
    path = tmp_path / "r"
    content = blocks_of(path, [Tick(1.0), Tick(2.0)])
    start = header_end(path)
    for place in range(start, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            reader, _ = read(path)
            assert reader.truncated
        except RecordingError as error:
            assert "is damaged at byte " in str(error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a recording"),
        (b"kind: Config", "is not a recording"),
        (b"\x00" * 100, "is not a recording"),
        (b"trimtab recording 99\n", "format version '99', and this trimtab reads version 1"),
        (MAGIC, "ends before its header"),
        (MAGIC + b"\xff" * 100, "damaged at byte 20: a block of 4294967295 bytes"),
    ],
)
def test_what_is_no_recording_is_said_in_a_sentence(tmp_path: Path, content: bytes, message: str) -> None:
    """Nothing but RecordingError."""
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        RecordingReader(tmp_path / "r")
