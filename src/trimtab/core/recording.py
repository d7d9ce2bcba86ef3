"""The records of a recording: every event that an engine handled with the outputs it gave, as MessagePack.

Times and amounts survive exactly, NaN included. `SettingsRead` names plugin objects, so its record holds the configuration's
text instead, which replay reads again. A recording that does not start with the process starts with a snapshot: the
cluster at that moment as ordinary events. Back-off and binding cycles are not part of a snapshot, nor are older samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.controllers import Output
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    ConfigText,
    Event,
    GetPodDone,
    KindForbidden,
    LeaseAcquired,
    NodeUpserted,
    ObjectUpserted,
    PodUpserted,
    SettingsRead,
    Synced,
)
from trimtab.core.model.objects import (
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings

FORMAT_VERSION = 1
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)  # what decoding raises
MIN_INTEGER, MAX_INTEGER = -(1 << 63), (1 << 64) - 1

AnyObject = (
    Namespace
    | Service
    | ReplicaSet
    | ReplicationController
    | StatefulSet
    | PodDisruptionBudget
    | PodGroup
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
)
T = TypeVar("T")


class Header(Struct, frozen=True, kw_only=True):
    """The first record of a file: which program recorded, when, and with which configuration."""

    trimtab: str  # the version that recorded
    started: float  # seconds since 1970
    controllers: tuple[str, ...]
    config: ConfigText
    platform: str = ""
    snapshot_events: int = 0  # records at the start that are a snapshot; 0: the file starts with the process


class Record(Struct, frozen=True, array_like=True):
    """One event with the outputs that the engine gave for it."""

    event: Event
    outputs: Sequence[Output]


class _StoredObject(Struct, frozen=True, tag=ObjectUpserted.__name__):
    """`ObjectUpserted` as it is decoded: the concrete kinds are named, so that each is found by its tag."""

    object: AnyObject
    at: float


class _StoredSettings(Struct, frozen=True, tag=SettingsRead.__name__):
    """`SettingsRead` as it is stored."""

    config: ConfigText
    at: float


_PLAIN_EVENTS = tuple(kind for kind in get_args(Event) if kind not in (ObjectUpserted, SettingsRead))
_StoredEvent: Any = _StoredObject | _StoredSettings
for _kind in _PLAIN_EVENTS:
    _StoredEvent |= _kind


def _encode_scalar(value: Any) -> Any:
    """numpy's numbers, in scores."""
    return value.item()


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_scalar)
_RecordType: Any = tuple[_StoredEvent, tuple[Output, ...]]
_decoder = msgspec.msgpack.Decoder(_RecordType)
_lax_decoder = msgspec.msgpack.Decoder(_RecordType, strict=False)  # takes integers that are text
_header_decoder = msgspec.msgpack.Decoder(Header)


def encode_header(header: Header) -> bytes:
    return _encoder.encode(header)


def decode_header(content: bytes) -> Header:
    return _header_decoder.decode(content)


def encode_record(event: Event, outputs: Sequence[Output]) -> bytes:
    stored = _StoredSettings(event.config, event.at) if isinstance(event, SettingsRead) else event
    try:
        return _encoder.encode((stored, outputs))
    except OverflowError:  # MessagePack ends at 64 bits, and a claim may ask for 1e100 bytes
        plain = msgspec.to_builtins((stored, outputs), builtin_types=(bytes,), enc_hook=_encode_scalar)
        return _encoder.encode(_large_integers_as_text(plain))


def _large_integers_as_text(value: Any) -> Any:
    match value:
        case dict():
            return {key: _large_integers_as_text(each) for key, each in value.items()}
        case list() | tuple():
            return [_large_integers_as_text(each) for each in value]
        case int() if not MIN_INTEGER <= value <= MAX_INTEGER:
            return str(value)
    return value


class RecordDecoder:
    """Decodes records; equal parts of pods become one object again, as `wire` makes them.

    read_settings: the settings that a configuration's text comes to.
    """

    def __init__(self, read_settings: Callable[[ConfigText], Settings]) -> None:
        self._read_settings = read_settings
        self._interned: dict[Any, Any] = {}

    def decode(self, content: bytes | memoryview) -> Record:
        """Raises one of UNREADABLE where it is not a record."""
        try:
            stored, outputs = _decoder.decode(content)
        except msgspec.ValidationError:
            stored, outputs = _lax_decoder.decode(content)
        return Record(self._event(stored), outputs)

    def _event(self, stored: Any) -> Event:
        match stored:
            case _StoredSettings():
                return SettingsRead(self._read_settings(stored.config), stored.at, stored.config)
            case _StoredObject():
                return ObjectUpserted(stored.object, stored.at)
            case PodUpserted(pod=pod) | GetPodDone(pod=Pod() as pod):
                return replace(stored, pod=self._interned_pod(pod))
        event: Event = stored
        return event

    def _interned_pod(self, pod: Pod) -> Pod:
        labels = self._interned.setdefault(tuple(pod.labels.items()), pod.labels)
        annotations = self._interned.setdefault(tuple(pod.annotations.items()), pod.annotations)
        return replace(
            pod,
            labels=labels,
            annotations=annotations,
            spec=self._intern(pod.spec),
            requests=self._intern(pod.requests),
            owner=self._intern(pod.owner),
        )

    def _intern(self, part: T) -> T:
        interned: T = self._interned.setdefault(part, part)
        return interned


def snapshot(engine: Engine, now: float) -> Iterator[Event]:
    """The cluster as events: nodes in the order of their rows, pending pods at the time they were queued."""
    state = engine.state
    for each in state.cluster.objects:
        yield ObjectUpserted(each, now)
    for node in state.cluster.node_table.nodes:
        yield NodeUpserted(node, now)
    queued = next((each.queue.pods for each in engine.controllers if isinstance(each, Scheduling)), {})
    for uid, pod in state.cluster.pods.items():
        yield PodUpserted(pod, queued[uid].since if uid in queued else now)
    for kind in state.settings.kinds:
        if kind in state.forbidden:
            yield KindForbidden(kind, state.forbidden[kind], now)
        elif kind not in state.unsynced:
            yield Synced(kind, now)
    if state.term is not None:
        yield LeaseAcquired(state.term, now)
