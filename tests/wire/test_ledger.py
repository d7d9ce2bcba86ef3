"""The ledger as a ConfigMap: what is written can be read, and what cannot be read is never taken for an empty ledger."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.core.rescheduling.move_stage import charged_record
from trimtab.core.model.events import LedgerFailed, LedgerRead, LedgerWritten
from trimtab.core.model.instructions import ReadLedger, WriteLedger
from trimtab.core.model.ledger import Grade, Ledger, MoveState
from trimtab.wire.ledger import (
    LEDGER_KEY,
    read_ledger_outcome,
    read_ledger_request,
    write_ledger_outcome,
    write_ledger_request,
)
from trimtab.wire.outcomes import Reply

RECORD = charged_record(
    "web-x", 5.0, MoveState.PLACED, surge=True, promised=(0.5, 0.6), grades=(Grade(600.0, 1.0, 0.5),)
)
LEDGER = Ledger(term=3, records=(RECORD,))
NOT_FOUND = b'{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}'


def config_map(text: str) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "7"}, "data": {LEDGER_KEY: text}}).encode()


def read(body: bytes, status: int = 200) -> LedgerRead:
    return read_ledger_outcome(ReadLedger(), Reply(status, body), 9.0, "trimtab")


def test_what_is_written_can_be_read() -> None:
    """With the version that was read; the first time it is created."""
    create = write_ledger_request(WriteLedger(LEDGER, ""), "trimtab")
    update = write_ledger_request(WriteLedger(LEDGER, "7"), "trimtab")
    assert ("POST", "/api/v1/namespaces/trimtab/configmaps") == (create.method, create.path)
    assert ("PUT", "/api/v1/namespaces/trimtab/configmaps/trimtab-moves") == (update.method, update.path)
    assert update.path == read_ledger_request("trimtab").path
    written: dict[str, Any] = json.loads(update.body or b"")
    assert (
        "7" == written["metadata"]["resourceVersion"]
        and "resourceVersion" not in json.loads(create.body or b"")["metadata"]
    )
    assert LedgerRead(LEDGER, 9.0, "7") == read(config_map(written["data"][LEDGER_KEY]))


def test_a_missing_ledger_is_empty() -> None:
    """Only the API server's own word counts, not any 404."""
    assert LedgerRead(Ledger(), 9.0) == read(NOT_FOUND, 404)
    assert "cannot be read" in read(b"no such page", 404).problem


TEXT = msgspec.json.encode(LEDGER).decode()
NEWER = '{"version": 2, "records": {"other": "shape"}}'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (config_map(TEXT[:-20]), "truncated"),
        (config_map(NEWER), "its version is 2, and this version of trimtab knows 1"),
        (config_map('{"term": 1, "records": []}'), "`version`"),
        (config_map(TEXT.replace("placed", "teleported")), "teleported"),
        (config_map(TEXT.replace('"at":5.0', '"at":"noon"')), "$.records[0].at"),
        (config_map(TEXT.replace("ReplicaSet web", "web")), "no Deployment or ReplicaSet: web"),
        (config_map(TEXT.replace('"uid":"uid-web-x"', '"uid":""')), "no uid, namespace or pod"),
        (config_map("[" * 100_000), "Expected `object`"),
        (b'{"metadata": {}, "data": {}}', "its data has no ledger.json"),
        (b"<html>login</html>", "malformed"),
    ],
)
def test_a_ledger_that_cannot_be_read(body: bytes, problem: str) -> None:
    """Edited by hand, truncated or of another version: it says what is wrong and what to do."""
    found = read(body)
    assert found.ledger is None and problem in found.problem
    assert "repair it, or delete it" in found.problem


def test_only_a_version_confirms_a_write() -> None:
    """A conflict, no answer, or a page that some proxy answered with 200 do not."""
    write = WriteLedger(LEDGER, "7")
    good = b'{"metadata": {"resourceVersion": "8"}}'
    assert LedgerWritten("8", 9.0) == write_ledger_outcome(write, Reply(200, good), 9.0)
    for reply in (Reply(409, good), Reply(0, error="cut"), Reply(200, b"<html>"), Reply(200, b"{}"), Reply(500, good)):
        assert isinstance(write_ledger_outcome(write, reply, 9.0), LedgerFailed)
