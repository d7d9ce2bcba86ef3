"""Takes a snapshot of a cluster and writes it to a file: only GET requests, and no watch.

list every kind ─▶ ask the sources about its nodes and pods ─▶ (--hash-names) pseudonyms ─▶ FILE, as a whole
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from trimtab.apps.atomic_file import write_atomically
from trimtab.apps.process import MAX_LIST_BYTES, READ_TIMEOUT
from trimtab.apps.snapshot.measurements import HistoryOptions, Measured, Meter
from trimtab.apps.snapshot.objects import Listed, SnapshotFailed, list_objects
from trimtab.config.configuration import Configuration
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import AiohttpTransport, ReadOnlyTransport, Transport, Unreachable
from trimtab.sim.snapshot_document import History, Metadata, Usage, encode_document
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot
from trimtab.wire.decoding import decode_part
from trimtab.wire.pseudonyms import Pseudonyms
from trimtab.wire.reduction import Reduced
from trimtab.wire.requests import Request

KEY_BYTES = 32
V = TypeVar("V")


@dataclass(frozen=True)
class SnapshotOptions:
    """What to take, and of whom to ask what it uses."""

    configuration: Configuration
    history: HistoryOptions | None = None
    hash_names: bool = False
    skip_forbidden: bool = False
    on_progress: Callable[[str], None] = lambda message: None
    now: Callable[[], float] = time.time


class Snapshot(NamedTuple):
    """What will be written, and the notes for whoever takes it: names are not hashed in these."""

    metadata: Metadata
    objects: Mapping[str, list[Reduced]]
    usage: Usage | None
    history: History | None
    notes: tuple[str, ...]

    def encode(self) -> Iterator[bytes]:
        objects = {kind: (each.content for each in items) for kind, items in self.objects.items()}
        return encode_document(self.metadata, objects, self.usage, self.history)


class _Version(Struct, frozen=True, rename={"git": "gitVersion"}):
    git: str = ""


def run(options: SnapshotOptions, credentials: Credentials, path: Path) -> tuple[Snapshot, int]:
    """Take a snapshot and write it: what is in the file, and its size. Raises SnapshotFailed and OSError."""

    async def start() -> Snapshot:
        transport = ReadOnlyTransport(AiohttpTransport(credentials, rate_limiter=None))
        try:
            return await take_snapshot(options, transport)
        finally:
            await transport.close()

    snapshot = asyncio.run(start())
    options.on_progress(f"writing {path}")
    return snapshot, write_atomically(path, snapshot.encode())


def read_cluster(options: SnapshotOptions, credentials: Credentials) -> ClusterSnapshot:
    """Take a snapshot and read it back, without leaving a file. Raises SnapshotFailed and OSError."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.json"
        run(options, credentials, file)
        return read_snapshot(file)


async def take_snapshot(options: SnapshotOptions, transport: Transport) -> Snapshot:
    """Read everything; raises SnapshotFailed."""
    taken = datetime.fromtimestamp(round(options.now(), 3), UTC)
    kubernetes = await _kubernetes_version(transport)
    listed = await list_objects(transport, options.skip_forbidden, options.on_progress)
    measured = await _measure(options, transport, listed)
    notes = (*listed.notes, *measured.notes)
    metadata = Metadata(
        taken,
        version("trimtab"),
        kubernetes,
        options.hash_names,
        measured.interval,
        tuple(listed.missing),
        tuple(each.nameless if options.hash_names else each.text for each in notes),
    )
    found = Snapshot(metadata, listed.objects, measured.usage, measured.history, tuple(each.text for each in notes))
    return hash_names(found, secrets.token_bytes(KEY_BYTES)) if options.hash_names else found


async def _kubernetes_version(transport: Transport) -> str:
    """Also the check that there is an API server which accepts our credentials."""
    try:
        answer = await transport.send(Request("GET", "/version"), READ_TIMEOUT)
    except Unreachable as error:
        raise SnapshotFailed(
            f"the API server cannot be reached: {error}. Check its address, and whether it runs"
        ) from None
    if answer.status == 401:
        raise SnapshotFailed("the API server rejects our credentials: renew the token or certificate of the kubeconfig")
    found = decode_part(answer.body, _Version, "", [])
    return found.git if found is not None else ""


async def _measure(options: SnapshotOptions, transport: Transport, listed: Listed) -> Measured:
    async def get(path: str) -> tuple[int, bytes]:
        response = await transport.send(Request("GET", path), READ_TIMEOUT, MAX_LIST_BYTES)
        return response.status, response.body

    sources = len(options.configuration.trimtab.sources)
    options.on_progress(f"asking {sources} metric source{'' if sources == 1 else 's'}")
    meter = Meter(options.configuration, listed.nodes(), listed.pods(), get, options.now, options.history)
    return await meter.measure()


def hash_names(snapshot: Snapshot, key: bytes) -> Snapshot:
    """The same with pseudonyms, in an order that says nothing of the names."""
    pseudonyms = Pseudonyms(key)
    for items in snapshot.objects.values():
        for each in items:
            pseudonyms.learn(each)
    objects = {kind: _by_identity(map(pseudonyms.rename, items)) for kind, items in snapshot.objects.items()}
    usage, history = snapshot.usage, snapshot.history
    if usage is not None:
        usage = replace(
            usage, nodes=_renamed(usage.nodes, pseudonyms.name), pods=_renamed(usage.pods, pseudonyms.pod_key)
        )
    if history is not None:
        nodes, pods = _renamed(history.nodes, pseudonyms.name), _renamed(history.pods, pseudonyms.pod_key)
        history = replace(history, nodes=nodes, pods=pods)
    return snapshot._replace(objects=objects, usage=usage, history=history)


def _by_identity(objects: Iterable[Reduced]) -> list[Reduced]:
    def identity(reduced: Reduced) -> tuple[str, str]:
        metadata = reduced.decode().metadata
        return getattr(metadata, "namespace", None) or "", metadata.name

    return sorted(objects, key=identity)


def _renamed(entries: Mapping[str, V], rename: Callable[[str], str]) -> dict[str, V]:
    return dict(sorted((rename(name), entry) for name, entry in entries.items()))
