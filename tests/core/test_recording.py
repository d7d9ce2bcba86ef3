"""Records keep every value exactly, and a recording replayed on a new engine gives the same outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.engine_harness import EngineHarness, instructions, node, pod
from tests.laws.histories import Step, histories
from tests.laws.run_history import HistoryRunner, engine, fingerprint
from trimtab.core.controllers import Output
from trimtab.core.model.events import (
    ConfigText,
    Event,
    LeaseAcquired,
    NodeUpserted,
    ObjectUpserted,
    PodDeleted,
    PodUpserted,
    SamplesRead,
    SettingsRead,
    Synced,
    Tick,
)
from trimtab.core.model.objects import Namespace, Object
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.readings import Reading
from trimtab.core.recording import (
    UNREADABLE,
    AnyObject,
    Header,
    RecordDecoder,
    decode_header,
    encode_header,
    encode_record,
    snapshot,
)
from trimtab.core.settings import Settings

SETTINGS = Settings(())
INTEGERS = st.integers(-(1 << 70), 10**100)  # a claim may ask for any number of bytes
TEXT = st.text(max_size=5)


def strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type that appears in an event or an output."""
    plain = {
        str: TEXT,
        int: INTEGERS,
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=5),
    }
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in plain:
        return plain[kind]
    if kind in (NoneType, None):
        return st.none()
    if kind is Object:
        return strategy(AnyObject)
    if origin in (UnionType, Union):
        return st.one_of(*map(strategy, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(strategy(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, arguments))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(TEXT, TEXT, max_size=2)
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return struct(kind)


def struct(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field: strategy(hints[field]) for field in kind.__struct_fields__})  # type: ignore[attr-defined]


def decoded(event: Event, *outputs: Output) -> tuple[Event, tuple[Output, ...]]:
    record = RecordDecoder(lambda config: SETTINGS).decode(encode_record(event, outputs))
    return record.event, tuple(record.outputs)


@pytest.mark.parametrize("kind", [each for each in get_args(Event) if each is not SettingsRead])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_every_event_comes_back_equal(kind: type, data: st.DataObject) -> None:
    """Whatever its fields hold."""
    event = data.draw(struct(kind))
    assert (event, ()) == decoded(event)
    assert type(event) is type(decoded(event)[0])


@pytest.mark.parametrize("kind", get_args(AnyObject))
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_every_kind_of_object_comes_back_as_its_own_kind(kind: type[Object], data: st.DataObject) -> None:
    """Events name the parent class of them all."""
    found = data.draw(struct(kind))
    back, _ = decoded(ObjectUpserted(found, 1.0))
    assert isinstance(back, ObjectUpserted)
    assert (kind, found) == (type(back.object), back.object)


def test_no_kind_of_object_is_missing_from_the_records() -> None:
    """A kind that nobody added to the union could be recorded and not be read back."""

    def leaves(kind: type) -> set[type]:
        return {leaf for child in kind.__subclasses__() for leaf in leaves(child)} or {kind}

    ours = {kind for kind in leaves(Object) if kind.__module__.startswith("trimtab.")}
    assert set(get_args(AnyObject)) == ours


@pytest.mark.parametrize("kind", get_args(Output))
@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_every_output_comes_back_equal(kind: type, data: st.DataObject) -> None:
    """Instructions and decisions."""
    output = data.draw(struct(kind))
    assert (Tick(1.0), (output,)) == decoded(Tick(1.0), output)


def test_numbers_that_json_does_not_know_come_back() -> None:
    """NaN and infinity are measurements, too."""
    values = (math.nan, math.inf, -math.inf, 0.1)
    event = SamplesRead((Reading("s", "cpu", ("a", "b", "c", "d"), values, (1.0,) * 4),), 1.0)
    back, _ = decoded(event)
    assert isinstance(back, SamplesRead)
    assert list(map(repr, values)) == list(map(repr, back.readings[0].values))


def test_settings_are_read_again_from_the_text() -> None:
    """Plugins are objects that no file holds."""
    config, asked = ConfigText("a.yaml", b"content", (("b.yaml", b"included"),)), list[ConfigText]()

    def read(text: ConfigText) -> Settings:
        asked.append(text)
        return SETTINGS

    record = RecordDecoder(read).decode(encode_record(SettingsRead(object(), 2.0, config), ()))
    assert (SettingsRead(SETTINGS, 2.0, config), [config]) == (record.event, asked)


def test_a_header_comes_back_equal() -> None:
    """With the files that the configuration includes."""
    header = Header(
        trimtab="1", started=1.5, controllers=("scheduler",), config=ConfigText("f", b"\xff"), snapshot_events=3
    )
    assert header == decode_header(encode_header(header))


def test_what_is_not_a_record_is_an_error() -> None:
    """Whatever the bytes are."""
    text = encode_record(PodDeleted("uid", 1.0), ()).replace(b"uid", b"\xff\xff\xff")
    for content in (b"", b"\xc1", b"\x93\x01\x02\x03", encode_record(Tick(1.0), ())[:-1], text):
        with pytest.raises(UNREADABLE):
            RecordDecoder(lambda config: SETTINGS).decode(content)


def test_equal_parts_of_pods_become_one_object() -> None:
    """The core compares specs and labels by identity first."""
    decoder = RecordDecoder(lambda config: SETTINGS)
    found = []
    for name in ("a", "b"):
        event = decoder.decode(
            encode_record(PodUpserted(pod(name, labels={"app": "web"}, spec=PodSpec()), 1.0), ())
        ).event
        assert isinstance(event, PodUpserted)
        found.append(event.pod)
    one, other = found
    assert one.spec is other.spec
    assert one.labels is other.labels
    assert one.requests is other.requests


@settings(max_examples=60, deadline=None, derandomize=True)
@given(histories())
def test_a_recorded_history_gives_the_same_instructions_and_state(steps: list[Step]) -> None:
    """Nothing but the events decides, and the records hold all of them."""
    live = HistoryRunner().play(steps)
    copy, decoder = engine(), RecordDecoder(lambda config: SETTINGS)
    for event, wishes in live.journal:
        record = decoder.decode(encode_record(event, wishes))
        assert (event, wishes) == (record.event, list(record.outputs))
        assert wishes == instructions(copy.handle(record.event))
    assert fingerprint(live.engine) == fingerprint(copy)


def test_a_snapshot_gives_the_cluster_again() -> None:
    """Nodes in their rows, pods where they are, pending ones with their place in the queue, and leadership."""
    scene = EngineHarness()
    scene.upsert(node("a"), node("b"), pod("runs", cpu=100, node="b"), pod("first", cpu=10_000))
    scene.handle(ObjectUpserted(Namespace(name="default", uid="n", version=1), 1.0))
    scene.advance(5.0)
    scene.upsert(pod("second", cpu=20_000))
    scene.turn()
    events = list(snapshot(scene.engine, scene.at))
    copy = EngineHarness(ready=False)
    copy.handle(*events)
    assert [NodeUpserted, NodeUpserted] == [type(event) for event in events if isinstance(event, NodeUpserted)]
    assert isinstance(events[-1], LeaseAcquired)
    assert not copy.engine.state.unsynced
    assert scene.engine.cluster.pods == copy.engine.cluster.pods
    assert list(scene.engine.cluster.objects) == list(copy.engine.cluster.objects)
    assert scene.requested("b") == copy.requested("b")
    assert {"uid-first": 0.0, "uid-second": 5.0} == {
        event.pod.uid: event.at for event in events if isinstance(event, PodUpserted) and not event.pod.node
    }


def test_a_snapshot_of_a_standby_does_not_lead() -> None:
    """Nor does it claim lists that are not complete."""
    scene = EngineHarness(ready=False)
    events = list(snapshot(scene.engine, 1.0))
    assert {"pods", "nodes"} & {event.kind for event in events if isinstance(event, Synced)} == set()
    assert not any(isinstance(event, LeaseAcquired) for event in events)
