"""Node patches can touch only our own keys, and answers become the right events."""

from __future__ import annotations

import json

import pytest

from trimtab.core.model.events import LabelDone, LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.taints import Taint
from trimtab.wire.outcomes import Reply, label_outcome
from trimtab.wire.requests import JSON_PATCH, MERGE_PATCH, dry_run_label_request, format_label_change, label_request

KEY = "pressure.trimtab.dev/cpu"
SOFT = Taint(KEY, "", "PreferNoSchedule")
LABELS = LabelNode("node/1", "u", 7, ((KEY, "high"), ("status", None)))
BOTH = LabelNode("n", "u", 7, ((KEY, "high"), ("status", None)), (SOFT,))
UID = {"op": "replace", "path": "/metadata/uid", "value": "u"}
VERSION = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}


def test_labels_alone_name_only_our_keys() -> None:
    """A merge patch, good for this UID whatever else of the node has changed; null takes a label away."""
    request = label_request(LABELS)
    assert ("PATCH", "/api/v1/nodes/node%2F1", MERGE_PATCH) == (request.method, request.path, request.content_type)
    assert {"metadata": {"uid": "u", "labels": {KEY: "high", "status": None}}} == json.loads(request.body)


@pytest.mark.parametrize("instruction", [LABELS, BOTH])
def test_a_dry_run_is_the_same_patch_written_nowhere(instruction: LabelNode) -> None:
    """The server reads that from the query; all else is what would be sent."""
    real, dry = label_request(instruction), dry_run_label_request(instruction)
    assert f"{real.path}?dryRun=All" == dry.path
    assert (real.method, real.body, real.content_type) == (dry.method, dry.body, dry.content_type)


def test_a_taint_is_put_behind_those_that_are_there() -> None:
    """With labels in the same patch, which holds for the version that was seen and no other."""
    request = label_request(BOTH)
    assert JSON_PATCH == request.content_type
    assert [
        UID,
        VERSION,
        {"op": "add", "path": "/metadata/labels/pressure.trimtab.dev~1cpu", "value": "high"},
        {"op": "remove", "path": "/metadata/labels/status"},
        {"op": "add", "path": "/spec/taints/-", "value": {"key": KEY, "effect": "PreferNoSchedule"}},
    ] == json.loads(request.body)


def test_the_first_taint_makes_the_list() -> None:
    """There is no end of a list that is not there."""
    steps = json.loads(label_request(LabelNode("n", "u", 7, add_taints=(SOFT,), has_no_taints=True)).body)
    assert {"op": "add", "path": "/spec/taints", "value": [{"key": KEY, "effect": "PreferNoSchedule"}]} == steps[-1]


def test_taints_are_taken_from_their_places() -> None:
    """The last place first, each only if it is still ours."""
    steps = json.loads(label_request(LabelNode("n", "u", 7, remove_taints=((0, "a"), (2, "b")))).body)
    assert [
        UID,
        VERSION,
        {"op": "test", "path": "/spec/taints/2/key", "value": "b"},
        {"op": "remove", "path": "/spec/taints/2"},
        {"op": "test", "path": "/spec/taints/0/key", "value": "a"},
        {"op": "remove", "path": "/spec/taints/0"},
    ] == steps


def test_a_change_is_formatted_in_one_line() -> None:
    """What comes has a plus, what goes a minus."""
    assert f"+{KEY}=high, -status, +taint {KEY}:PreferNoSchedule" == format_label_change(BOTH)
    assert f"-taint {KEY}" == format_label_change(LabelNode("n", "u", 7, remove_taints=((0, KEY),)))


REFUSED = b'{"kind":"Status","status":"Failure","message":"only our own keys","code":403}'


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"{}", LabelDone("n", 9.0)),
        (200, b'{"kind":"Node","metadata":{"name":"n","resourceVersion":"812"}}', LabelDone("n", 9.0, 812)),
        (200, b'{"metadata":{"resourceVersion":"x"}}', LabelDone("n", 9.0)),
        (200, b"<html>", LabelDone("n", 9.0)),
        (403, REFUSED, LabelFailed("n", "only our own keys", 9.0, forbidden=True)),
        (409, b"", LabelFailed("n", "HTTP status 409", 9.0)),
        (0, b"", LabelFailed("n", "no answer", 9.0)),
    ],
)
def test_outcomes(status: int, body: bytes, outcome: LabelDone | LabelFailed) -> None:
    """Only a 200 is a success, with the new version if the body has it; a missing permission is told apart."""
    assert outcome == label_outcome(BOTH, Reply(status, body), 9.0)
