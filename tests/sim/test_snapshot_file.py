"""Reading snapshot files: the values of the model, and an error with file and field for everything else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.snapshot_files import HEAD, ROOM, TAKEN, document, write
from tests.wire.json_objects import node_json, pod_json, read_node, read_pod
from trimtab.config.kube_scheduler import default_configuration
from trimtab.core.engine import Engine
from trimtab.core.model.events import HistoryRead, LeaseAcquired, SamplesRead, Turn
from trimtab.core.model.readings import Subject, Unit
from trimtab.core.model.schedule_result import Decision, Placement
from trimtab.sim import snapshot_file
from trimtab.sim.snapshot_document import History, PastUsage, Sample, Usage
from trimtab.sim.snapshot_file import SnapshotError, read_snapshot

SAMPLE = {"cpu": 250.5, "memory": 1048576, "measured": 1769846395.5}


def error_of(folder: Path, content: Any, name: str = "cluster.json") -> str:
    """The message for such a file, without its path."""
    file = write(folder, content, name)
    with pytest.raises(SnapshotError) as raised:
        read_snapshot(file)
    message = str(raised.value)
    assert message.startswith(f"{file}: "), message
    return message.removeprefix(f"{file}: ")


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_objects_are_those_of_the_readers(tmp_path: Path, name: str) -> None:
    """Compressed or not, nodes, pods and other objects are the values that the API server's JSON has."""
    whole = document()
    found = read_snapshot(write(tmp_path, whole, name))
    assert (read_node(whole["objects"]["nodes"][0]),) == found.nodes
    assert (read_pod(whole["objects"]["pods"][0]),) == found.pods
    assert ["shop"] == [each.name for each in found.objects]
    assert (None, None, 1769846400.0) == (found.usage, found.history, found.taken)
    assert ("v1.35.0", False) == (found.metadata.kubernetes, found.metadata.hashed)


def test_usage_and_history(tmp_path: Path) -> None:
    """What was not measured is None."""
    series = {"cpu": [1, None, 2.5]}
    whole = document(
        usage={
            "nodes": {"n-1": {**SAMPLE, "custom": {"psi.cpu": 0.5}}},
            "pods": {"shop/web-1": {"measured": 5, "cpu": 7}},
        },
        history={"start": 600, "step": 300, "nodes": {}, "pods": {"shop/web-1": series}},
    )
    found = read_snapshot(write(tmp_path, whole))
    node, pod = Sample(1769846395.5, 250.5, 1048576, {"psi.cpu": 0.5}), Sample(5, 7)
    assert Usage({"n-1": node}, {"shop/web-1": pod}) == found.usage
    assert History(600, 300, {}, {"shop/web-1": PastUsage((1, None, 2.5))}) == found.history
    assert found.history is not None and 3 == found.history.steps
    assert found.usage is not None
    assert [
        (Subject.NODES, "cpu", Unit.ABSOLUTE, ("n-1",), (250.5,), (1769846395.5,)),
        (Subject.NODES, "memory", Unit.ABSOLUTE, ("n-1",), (1048576,), (1769846395.5,)),
        (Subject.PODS, "cpu", Unit.ABSOLUTE, ("shop/web-1",), (7,), (5,)),
        (Subject.NODES, "psi.cpu", Unit.RAW, ("n-1",), (0.5,), (1769846395.5,)),
    ] == [
        (each.subject, each.resource, each.unit, each.names, each.values, each.measured)
        for each in found.usage.readings()
    ]


def test_the_history_becomes_readings(tmp_path: Path) -> None:
    """One per step and metric, oldest first; what was not measured is left out. An engine is told after the samples."""
    series = {"cpu": [1, None, 2.5], "memory": [None, None, 7]}
    whole = document(history={"start": 600, "step": 300, "nodes": {"n-1": {"cpu": [3, 3, None]}}})
    whole["history"]["pods"] = {"shop/web-1": series}
    found = read_snapshot(write(tmp_path, whole))
    (event,) = (each for each in found.events() if isinstance(each, HistoryRead))
    assert [
        (Subject.NODES, "cpu", ("n-1",), (3,), (600.0,)),
        (Subject.PODS, "cpu", ("shop/web-1",), (1,), (600.0,)),
        (Subject.NODES, "cpu", ("n-1",), (3,), (900.0,)),
        (Subject.PODS, "cpu", ("shop/web-1",), (2.5,), (1200.0,)),
        (Subject.PODS, "memory", ("shop/web-1",), (7,), (1200.0,)),
    ] == [(each.subject, each.resource, each.names, each.values, each.measured) for each in event.readings]


def test_custom_metrics_of_pods(tmp_path: Path) -> None:
    """They are read with their past, as the source reported them; a name that cpu or memory do not have may have gaps."""
    series = {"custom": {"network": [None, 4, 5.5]}}
    whole = document(
        usage={"pods": {"shop/web-1": {"measured": 5, "custom": {"network": 7.5}}}},
        history={"start": 600, "step": 300, "pods": {"shop/web-1": series}},
    )
    found = read_snapshot(write(tmp_path, whole))
    assert found.usage is not None and found.history is not None
    assert [
        (Subject.PODS, "network", Unit.RAW, ("shop/web-1",), (7.5,), (5,)),
        (Subject.PODS, "network", Unit.RAW, ("shop/web-1",), (4,), (900.0,)),
        (Subject.PODS, "network", Unit.RAW, ("shop/web-1",), (5.5,), (1200.0,)),
    ] == [
        (each.subject, each.resource, each.unit, each.names, each.values, each.measured)
        for each in (*found.usage.readings(), *found.history.readings())
    ]
    whole["history"]["pods"]["shop/web-1"]["cpu"] = [1, 2]
    assert "history.pods['shop/web-1'].cpu: 2 values, where other series have 3" == error_of(tmp_path, whole)


def test_an_engine_schedules_from_its_events(tmp_path: Path) -> None:
    """A pending pod of the file gets a node, and the samples are known."""
    whole = document(usage={"nodes": {"n-1": {**SAMPLE, "measured": 1769846390}}})
    whole["objects"]["pods"].append(pod_json({"schedulerName": "trimtab", "containers": []}, uid="new", name="new"))
    found = read_snapshot(write(tmp_path, whole))
    engine = Engine(default_configuration().settings)
    for event in found.events():
        engine.handle(event)
    engine.handle(LeaseAcquired(1, found.taken))
    decided = [each for each in engine.handle(Turn(5, found.taken)) if isinstance(each, Decision)]
    assert ["n-1"] == [each.verdict.node for each in decided if isinstance(each.verdict, Placement)]
    assert 250.5 == engine.cluster.view.load.latest("cpu")[0]


def test_missing_kinds_are_forbidden(tmp_path: Path) -> None:
    """Pods that need them wait, because nothing is known of those kinds; and the time may be another one."""
    found = read_snapshot(write(tmp_path, document(metadata={**TAKEN, "missing": ["persistentvolumes"]})))
    events = [*found.events(at=7.0)]
    assert ["persistentvolumes"] == [each.kind for each in events if type(each).__name__ == "KindForbidden"]
    assert {7.0} == {each.at for each in events}
    assert not [each for each in events if isinstance(each, SamplesRead)]


NO_TIME = "expected a time with a time zone, such as 2026-01-31T08:00:00Z"
NO_STEP = "is not a number of seconds from 1 to 86400, a day"
POD, BROKEN = pod_json(), node_json(status={"allocatable": {"cpu": "x"}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty: copy it again, or take another snapshot"),
        (b"{", "the file is cut short: copy the file again, or take another snapshot"),
        (b"\xff\xfe", "is not JSON: invalid character (byte 0)"),
        (b"[]", "expected a mapping, got a list"),
        (b"{}", "is not a snapshot: it has no kind, not 'ClusterSnapshot'; take one with `trimtab snapshot`"),
        ({"kind": "PodList", "apiVersion": "v1"}, "is not a snapshot: it has kind 'PodList' of 'v1', not 'ClusterSnapshot'"),
        (
            {**document(), "apiVersion": "trimtab.dev/v1beta1"},
            "apiVersion: 'trimtab.dev/v1beta1' is not supported: this trimtab reads trimtab.dev/v1alpha1; if the snapshot is "
            "of a newer one, upgrade",
        ),
        (HEAD, "metadata is missing"),
        (document(metadata={}), "metadata: taken is missing"),
        (document(metadata={"taken": "yesterday"}), f"metadata.taken: {NO_TIME}"),
        (document(metadata={"taken": "2026-01-31T08:00:00"}), f"metadata.taken: {NO_TIME}"),
        (document(objects={"nodes": 1}), "objects.nodes: expected a list, got an integer"),
        (document(objects={"widgets": []}), "objects.widgets: unknown kind, perhaps of a newer version: upgrade trimtab"),
        (document(objects={"nodes": [{}]}), "objects.nodes[0].metadata: missing"),
        (document(objects={"pods": [POD, 7]}), "objects.pods[1].object: expected a mapping or null, got an integer"),
        (document(objects={"pods": [pod_json({"affinity": 7})]}), "objects.pods[0].spec.affinity: expected a mapping"),
        (document(objects={"nodes": [BROKEN]}), "objects.nodes[0].status.allocatable.cpu: 'x'"),
        (document(objects={"pods": [POD, POD]}), "objects.pods[1].metadata.uid: 'u-1' is that of an earlier object, too"),
        *(
            (document(objects={kind: [first, {**first, "metadata": {**first["metadata"], "uid": "other"}}]}), message)
            for kind, first, message in (
                ("pods", POD, "objects.pods[1].metadata.name: 'shop/web-1' is that of an earlier object, too"),
                ("nodes", node_json(status=ROOM), "objects.nodes[1].metadata.name: 'n-1' is that of an earlier object, too"),
            )
        ),
        (document(objects={"services": [{"metadata": {"name": "a"}}]}), "objects.services[0].metadata: uid is missing"),
        (document(usage={"nodes": {"n-2": SAMPLE}}), "usage.nodes['n-2']: there is no such object in objects.nodes"),
        (document(usage={"pods": {"shop/x": SAMPLE}}), "usage.pods['shop/x']: there is no such object in objects.pods"),
        (document(usage={"nodes": {"n-1": {"cpu": "1"}}}), "usage.nodes['n-1'].cpu: expected a number or null, got a string"),
        (document(usage={"nodes": {"n-1": {"measured": 1, "cpu": -1}}}), "usage.nodes['n-1']: -1 is not an amount"),
        (document(usage={"nodes": {"n-1": {"cpu": 1}}}), "usage.nodes['n-1']: measured is missing"),
        (document(usage=[]), "usage: expected a mapping or null, got a list"),
        *((document(history={"start": 0, "step": step}), f"history.step: {step:g} {NO_STEP}") for step in (0, 1e-9, 1e300)),
        *(
            (document(metadata={**TAKEN, "interval": interval}), f"metadata.interval: {interval:g} {NO_STEP}")
            for interval in (-30, 0, 1e-9, 1e300)
        ),
        (document(history={"start": 0}), "history: step is missing"),
        (
            document(history={"start": 0, "step": 1, "nodes": {"n-1": {"cpu": [1, 2], "memory": [1]}}}),
            "history.nodes['n-1'].memory: 1 values, where other series have 2",
        ),
        (
            document(history={"start": 0, "step": 1, "pods": {"shop/web-1": {"cpu": [-5]}}}),
            "history.pods['shop/web-1'].cpu: -5 is not an amount",
        ),
        (b'{"a":' * 100_000, "maximum recursion depth exceeded"),
    ],
)  # fmt: skip
def test_errors_name_the_field(tmp_path: Path, content: Any, message: str) -> None:
    """Each with the file before it."""
    assert message in error_of(tmp_path, content)


@pytest.mark.parametrize("length", [11, 40, -5])
def test_a_file_that_is_cut_short(tmp_path: Path, length: int) -> None:
    """Wherever it was cut: it must never be taken for a smaller cluster."""
    whole = gzip.compress(json.dumps(document()).encode())
    file = write(tmp_path, whole[:length], "cut.json")
    with pytest.raises(SnapshotError, match="the file is cut short: copy it again, or take another snapshot"):
        read_snapshot(file)


def test_a_damaged_file(tmp_path: Path) -> None:
    """A byte that differs is found by the checksum."""
    whole = bytearray(gzip.compress(json.dumps(document()).encode()))
    whole[-6] ^= 1
    assert "the file is damaged (CRC check failed" in error_of(tmp_path, bytes(whole), "damaged.json")


@pytest.mark.parametrize(
    ("path", "reason"), [("none.json", "No such file or directory"), (".", "Is a directory"), ("\0", "null byte")]
)
def test_no_file(tmp_path: Path, path: str, reason: str) -> None:
    """A path where there is no file to read."""
    with pytest.raises(SnapshotError, match=f"cannot be read: .*{reason}"):
        read_snapshot(tmp_path / path)


def test_a_file_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes may unpack to any size."""
    monkeypatch.setattr(snapshot_file, "MAX_BYTES", 1 << 16)
    assert "it is not read" in error_of(tmp_path, b" " * (1 << 20), "bomb.json.gz")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_content_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever stands in whichever place: a snapshot or a SnapshotError, never another exception."""
    whole = document(
        usage={"nodes": {"n-1": SAMPLE}, "pods": {"shop/web-1": SAMPLE}},
        history={"start": 0, "step": 60, "nodes": {"n-1": {"cpu": [1, 2]}}, "pods": {}},
    )
    place: Any = whole
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(JSON)
    file = write(tmp_path_factory.mktemp("any"), whole)
    try:
        read_snapshot(file)
    except SnapshotError as error:
        assert str(error).startswith(str(file))
