"""Lists and watch events are decoded, and a body that is not a list is never taken for an empty one."""

from __future__ import annotations

import pytest

from tests.wire.json_objects import Json, encoded, node_json, pod_json
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.wire.decoding import Malformed
from trimtab.wire.node import NodeReader
from trimtab.wire.objects import services
from trimtab.wire.pod import PodReader
from trimtab.wire.watch import ListPage, WatchEvent, decode_list, decode_watch_event

EXPIRED = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}


def _page(*items: object, **metadata: str) -> bytes:
    return encoded({"kind": "PodList", "metadata": {"resourceVersion": "50", **metadata}, "items": items})


def _listed(data: bytes) -> ListPage[Pod]:
    found = decode_list(data, PodReader())
    assert not isinstance(found, Malformed)
    return found


def test_an_object_beyond_the_limits_is_malformed_with_its_version() -> None:
    """Whether it is watched or listed among others: it is named, the watch goes on from it, and the others are read."""
    reader, metadata = services(), {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    large = {"metadata": metadata, "spec": {"selector": {f"k{number}": "v" for number in range(501)}}}
    small = {"metadata": {**metadata, "name": "small"}, "spec": {"selector": {"app": "web"}}}
    event = decode_watch_event(encoded({"type": "ADDED", "object": large}), reader)
    assert isinstance(event.object, Malformed)
    assert ("ADDED", 7, "default/web", "u") == (event.type, event.version, event.object.key, event.object.uid)
    assert event.object.error.startswith("spec.selector: 501 requirements of selectors")
    page = decode_list(
        encoded({"kind": "ServiceList", "metadata": {"resourceVersion": "9"}, "items": [large, small]}), reader
    )
    assert not isinstance(page, Malformed)
    assert [True, False] == [isinstance(each, Malformed) for each in page.items]


def test_a_page_has_version_token_and_items() -> None:
    """A page of a list gives its version, the token for the next page, and every item in order."""
    page = _listed(_page(pod_json(uid="a"), pod_json(uid="b"), **{"continue": "next"}))
    assert (50, "next") == (page.version, page.continue_token)
    assert ["a", "b"] == [item.uid for item in page.items]


@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list_is_empty(items: list[object] | None) -> None:
    """No items, written either way, are no items."""
    data = encoded({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": items})
    assert ListPage(5, "", ()) == _listed(data)


def test_one_bad_item_does_not_spoil_the_list() -> None:
    """Items that cannot be read stand as Malformed, or with a error, among the good ones."""
    good, faulty, lost = pod_json(uid="a"), pod_json({"priority": "x"}, uid="b"), {"metadata": {"uid": "c"}}
    first, second, third = _listed(_page(good, faulty, lost)).items
    assert isinstance(first, Pod)
    assert "" == first.spec_error
    assert isinstance(second, Pod)
    assert second.spec_error.startswith("spec.priority")
    assert isinstance(third, Malformed)
    assert "c" == third.uid


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "truncated"),
        (b"<html>please log in</html>", "please log in"),
        (encoded(EXPIRED), "too old"),
        (encoded({}), "missing required field"),
        (encoded({"kind": "PodList", "metadata": {"resourceVersion": "5"}}), "missing required field"),
        (encoded({"kind": "PodList", "metadata": {}, "items": []}), "missing required field"),
        (encoded({"kind": "PodList", "metadata": {"resourceVersion": "x"}, "items": []}), "not a number"),
        (encoded({"kind": "Pod", "metadata": {"resourceVersion": "5"}, "items": []}), "is not a list"),
        (_page(pod_json())[:-3], "truncated"),
    ],
)
def test_what_is_no_list_is_malformed(data: bytes, problem: str) -> None:
    """Garbage, a failure with status 200 and half a body are never a list, least of all an empty one."""
    found = decode_list(data, PodReader())
    assert isinstance(found, Malformed)
    assert problem in found.error


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_its_object(kind: str) -> None:
    """A change gives its kind, the object, and the version from which the watch goes on."""
    line = decode_watch_event(encoded({"type": kind, "object": pod_json()}), PodReader())
    assert isinstance(line.object, Pod)
    assert (kind, 41, "u-1") == (line.type, line.version, line.object.uid)


def test_nodes_are_watched_likewise() -> None:
    """The same function reads the lines of any kind of object for which there is a reader."""
    line = decode_watch_event(encoded({"type": "ADDED", "object": node_json()}), NodeReader())
    assert isinstance(line.object, Node)
    assert 7 == line.version


def test_a_malformed_object_still_moves_the_watch_on() -> None:
    """A change whose object cannot be read is Malformed, with its version if that can be decoded."""
    line = decode_watch_event(
        encoded({"type": "ADDED", "object": {"metadata": {"uid": "u", "resourceVersion": "9"}}}), PodReader()
    )
    assert isinstance(line.object, Malformed)
    assert ("ADDED", 9, "u") == (line.type, line.version, line.object.uid)


def test_a_faulty_object_is_still_a_change() -> None:
    """A pod with an unreadable field comes through with its error."""
    line = decode_watch_event(encoded({"type": "MODIFIED", "object": pod_json({"priority": "x"})}), PodReader())
    assert isinstance(line.object, Pod)
    assert ("MODIFIED", 41) == (line.type, line.version)
    assert line.object.spec_error.startswith("spec.priority")


@pytest.mark.parametrize("body", [{"containers": None}, {}])
def test_a_bookmark_is_only_a_version(body: Json) -> None:
    """A bookmark has a version and no object."""
    marker = {"kind": "Pod", "metadata": {"resourceVersion": "77", "creationTimestamp": None}, "spec": body}
    assert WatchEvent("BOOKMARK", version=77) == decode_watch_event(
        encoded({"type": "BOOKMARK", "object": marker}), PodReader()
    )


def test_an_error_carries_its_code() -> None:
    """An error inside the stream gives the code and the message of its Status."""
    line = decode_watch_event(encoded({"type": "ERROR", "object": EXPIRED}), PodReader())
    assert WatchEvent("ERROR", code=410, message="too old") == line


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{",
        b"[]",
        b'{"type":"ADDED"}',
        encoded({"type": 5, "object": {}}),
        encoded({"type": "BOOKMARK", "object": {}}),
        encoded({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "x"}}}),
        encoded({"type": "INVENTED", "object": pod_json()}),
    ],
)
def test_an_undecodable_line_is_an_error(data: bytes) -> None:
    """Half a line, a line of an unknown type and a bookmark without version are errors with a message, and no change."""
    line = decode_watch_event(data, PodReader())
    assert ("ERROR", None, 0) == (line.type, line.object, line.code)
    assert line.message
