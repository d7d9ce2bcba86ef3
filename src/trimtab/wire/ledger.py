"""The ledger of moves as a ConfigMap: the requests that read and write it, and what their answers mean.

An update carries the resourceVersion that was read, so the API server refuses it if another process wrote the ledger since.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trimtab.core.model.events import LedgerFailed, LedgerRead, LedgerWritten
from trimtab.core.model.instructions import ReadLedger, WriteLedger
from trimtab.core.model.ledger import LEDGER_VERSION, Ledger, MoveRecord, PublishedPlan
from trimtab.wire.decoding import UNREADABLE, read_status
from trimtab.wire.outcomes import NOT_FOUND, Reply
from trimtab.wire.requests import MERGE_PATCH, Request, json_request, quote
from trimtab.wire.surge import RESOURCES

LEDGER_NAME = "trimtab-moves"
LEDGER_KEY, PLAN_KEY = "ledger.json", "plan.json"
APPROVED = "trimtab.dev/approved-plan"  # an annotation: the ID of the plan that waits


class _Meta(Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ConfigMap(Struct, frozen=True):
    metadata: _Meta = _Meta()
    data: dict[str, str] | None = None


class _Version(Struct, frozen=True):
    version: int


def read_ledger_request(namespace: str) -> Request:
    return Request("GET", f"{_config_maps(namespace)}/{LEDGER_NAME}")


def write_ledger_request(write: WriteLedger, namespace: str) -> Request:
    """Fails with a conflict if it exists already, or was written since it was read."""
    metadata = {"namespace": namespace, "name": LEDGER_NAME, "labels": {"app.kubernetes.io/name": "trimtab"}}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata | ({"resourceVersion": write.version} if write.version else {}),
        "data": {LEDGER_KEY: msgspec.json.encode(write.ledger).decode(), **_published(write.plan)},
    }
    if not write.version:
        return json_request("POST", _config_maps(namespace), body)
    return json_request("PUT", f"{_config_maps(namespace)}/{LEDGER_NAME}", body)


def _published(plan: PublishedPlan | None) -> dict[str, str]:
    return {PLAN_KEY: msgspec.json.encode(plan).decode()} if plan is not None else {}


def approve_request(namespace: str, plan: str) -> Request:
    """Annotate the ConfigMap with the ID of the plan; the process that published it removes both."""
    body = {"metadata": {"annotations": {APPROVED: plan}}}
    return json_request("PATCH", f"{_config_maps(namespace)}/{LEDGER_NAME}", body, MERGE_PATCH)


def decode_published(body: bytes) -> tuple[PublishedPlan | None, str]:
    """The plan that waits in a ConfigMap, and the ID that is approved; none where either cannot be read."""
    try:
        found = msgspec.json.decode(body, type=_ConfigMap)
        text = (found.data or {}).get(PLAN_KEY)
        plan = msgspec.json.decode(text, type=PublishedPlan) if text is not None else None
    except UNREADABLE:
        return None, ""
    return plan, (found.metadata.annotations or {}).get(APPROVED, "")


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/configmaps"


def read_ledger_outcome(read: ReadLedger, reply: Reply, now: float, namespace: str) -> LedgerRead:
    if reply.status == NOT_FOUND and read_status(reply.body).reason == "NotFound":
        return LedgerRead(Ledger(), now)
    where = f"ConfigMap {namespace}/{LEDGER_NAME}"
    if not reply.succeeded:
        return LedgerRead(None, now, problem=f"the ledger of moves, {where}, cannot be read: {reply.message}")
    found, problem = decode_ledger(reply.body)
    if found is None:
        remedy = "repair it, or delete it if no move of the last hour matters: nothing is moved until then"
        return LedgerRead(None, now, problem=f"{where} holds no ledger of moves that can be read ({problem}): {remedy}")
    ledger, version = found
    plan, approved = decode_published(reply.body)
    return LedgerRead(ledger, now, version, plan=plan, approved=approved)


def decode_ledger(body: bytes) -> tuple[tuple[Ledger, str] | None, str]:
    """The ledger and its resourceVersion in a ConfigMap; otherwise what is wrong with it."""
    try:
        found = msgspec.json.decode(body, type=_ConfigMap)
        text = (found.data or {}).get(LEDGER_KEY)
        if text is None:
            return None, f"its data has no {LEDGER_KEY}"
        version = msgspec.json.decode(text, type=_Version).version
        if version != LEDGER_VERSION:
            return None, f"its version is {version}, and this version of trimtab knows {LEDGER_VERSION}"
        ledger = msgspec.json.decode(text, type=Ledger)
    except UNREADABLE as error:
        return None, str(error)
    problem = next(filter(None, map(_mistake, ledger.records)), "")
    return (None, problem) if problem else ((ledger, found.metadata.resource_version), "")


def _mistake(record: MoveRecord) -> str:
    """What this program never writes, in words."""
    kind, _, name = record.workload.partition(" ")
    if not record.uid or not record.namespace or not record.pod:
        return "a record has no uid, namespace or pod"
    if record.surge and (kind not in RESOURCES or not name):
        return (
            f"the record of {record.key} has surge, but its workload is no Deployment or ReplicaSet: {record.workload}"
        )
    return ""


def write_ledger_outcome(write: WriteLedger, reply: Reply, now: float) -> LedgerWritten | LedgerFailed:
    try:
        version = msgspec.json.decode(reply.body, type=_ConfigMap).metadata.resource_version
    except UNREADABLE:
        version = ""
    if not reply.succeeded or not version:
        return LedgerFailed(reply.message, now)
    return LedgerWritten(version, now)
