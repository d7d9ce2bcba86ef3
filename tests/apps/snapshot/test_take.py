"""Taking a snapshot of a fake cluster: no secret in the file, the same model when it is read, and what may be missing."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.apps.snapshot.listing_server import listing_server
from tests.wire.json_objects import encoded, pod_json
from tests.wire.planted_secrets import LABEL_SECRET, NAMESPACE, SECRET, cluster
from tests.wire.test_reduction import essence, reader_of
from trimtab.apps.atomic_file import write_atomically
from trimtab.apps.snapshot.objects import SnapshotFailed
from trimtab.apps.snapshot.take import Snapshot, SnapshotOptions, take_snapshot
from trimtab.config.kube_scheduler import default_configuration
from trimtab.kube.transport import Unreachable
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot

NOW = 1769846400.0


async def take(transport: Any = None, **options: Any) -> Snapshot:
    wanted = SnapshotOptions(default_configuration(), now=lambda: NOW, **options)
    return await take_snapshot(wanted, transport or listing_server())


def written(snapshot: Snapshot, folder: Path) -> tuple[bytes, ClusterSnapshot]:
    """The uncompressed file, and what is read from it."""
    file = folder / "cluster.json.gz"
    write_atomically(file, snapshot.encode())
    return gzip.decompress(file.read_bytes()), read_snapshot(file)


async def test_no_planted_secret_is_in_the_file(tmp_path: Path) -> None:
    """From environment, arguments, annotations, managed fields, volumes, messages: not a byte of it."""
    raw, found = written(await take(), tmp_path)
    assert SECRET.encode() not in raw
    assert (4, 16) == (len(found.nodes), len(found.pods))


async def test_the_same_model_is_read_back(tmp_path: Path) -> None:
    """Nodes, pods and other objects, as the readers of the live scheduler decode them."""
    _, found = written(await take(), tmp_path)
    listed = {
        kind: [reader_of(kind).read(encoded(each)) for each in documents] for kind, documents in cluster().items()
    }
    assert listed.pop("nodes") == [*found.nodes]
    assert [*map(essence, listed.pop("pods"))] == [*map(essence, found.pods)]
    assert {each.key: each for items in listed.values() for each in items} == {each.key: each for each in found.objects}
    assert (NOW, "v1.35.0", (), False) == (
        found.taken,
        found.metadata.kubernetes,
        found.metadata.missing,
        found.metadata.hashed,
    )


async def test_hashed_names(tmp_path: Path) -> None:
    """Labels' values, too; the key is another one each time, so two files have no name in common."""
    raw, found = written(await take(hash_names=True), tmp_path)
    for name in (LABEL_SECRET, NAMESPACE, "worker-", "new-plain"):
        assert name.encode() not in raw
    assert found.metadata.hashed and (4, 16) == (len(found.nodes), len(found.pods))
    _, other = written(await take(hash_names=True), tmp_path)
    assert not {node.name for node in found.nodes} & {node.name for node in other.nodes}
    assert sorted(node.name for node in found.nodes) == [node.name for node in found.nodes]


async def test_without_a_source_usage_is_absent(tmp_path: Path) -> None:
    """Never zero; the note says how to have it."""
    snapshot = await take()
    assert ("no metric source is configured, so usage is unknown: name one with --config FILE",) == snapshot.notes
    raw, found = written(snapshot, tmp_path)
    assert b'"usage"' not in raw and found.usage is None and snapshot.notes == found.metadata.notes


async def test_only_get_requests_are_sent() -> None:
    """One list per kind, and never a watch."""
    transport = listing_server()
    await take(transport)
    assert {"GET"} == {request.method for _, request in transport.sent}
    assert not transport.watched and not [each for _, each in transport.sent if "watch" in each.path]


async def test_forbidden_kinds_are_named_together() -> None:
    """With the verb, and as kubectl names them; unless they are left out, and then the file says so."""
    transport = listing_server(forbidden=("persistentvolumes", "storageclasses"))
    with pytest.raises(SnapshotFailed) as raised:
        await take(transport)
    assert (
        "ann may not list persistentvolumes, storageclasses.storage.k8s.io: grant it the verb list on these resources, "
        "or leave them out with --skip-forbidden" == str(raised.value)
    )
    assert ("persistentvolumes", "storageclasses") == (await take(transport, skip_forbidden=True)).metadata.missing


@pytest.mark.parametrize("kind", ["nodes", "pods"])
async def test_nodes_and_pods_cannot_be_left_out(kind: str) -> None:
    """Without them there is no cluster."""
    with pytest.raises(SnapshotFailed, match=f"ann may not list {kind}: grant it the verb list on these resources$"):
        await take(listing_server(forbidden=(kind,)), skip_forbidden=True)


async def test_a_server_that_does_not_answer() -> None:
    """Said at once, not after retries of every kind."""
    transport = listing_server()
    transport.answer = lambda request: Unreachable("connection refused", sent=False)
    with pytest.raises(SnapshotFailed, match="the API server cannot be reached: connection refused"):
        await take(transport)


async def test_objects_that_cannot_be_decoded_are_noted(tmp_path: Path) -> None:
    """By name, unless names are hashed: then they are only counted."""
    broken = {"pods": [pod_json({"affinity": 7})], "nodes": cluster()["nodes"]}
    notes = (await take(listing_server(broken))).metadata.notes
    assert "1 pods cannot be decoded and are left out: shop/web-1: spec.affinity: Expected" in notes[0]
    hashed = (await take(listing_server(broken), hash_names=True)).metadata.notes
    assert "1 pods cannot be decoded and are left out" == hashed[0]
