"""Reads the plan that waits for approval in the ledger's ConfigMap, and approves it."""

from __future__ import annotations

from trimtab.apps.apply.cluster_checks import TIMEOUT, ApiServer
from trimtab.apps.apply.plan_file import CannotApply
from trimtab.core.model.ledger import PublishedPlan
from trimtab.kube.transport import Unreachable
from trimtab.wire.decoding import read_status
from trimtab.wire.ledger import LEDGER_NAME, approve_request, decode_published, read_ledger_request

NO_PLAN = (
    "no plan waits for approval in ConfigMap {where}: a rescheduler with `mode: approve` publishes its newest plan there if "
    "it has moves; `trimtab plan` says what it would be"
)


async def waiting_plan(server: ApiServer, namespace: str) -> PublishedPlan:
    """Raises CannotApply if there is none."""
    where = f"{namespace}/{LEDGER_NAME}"
    response = await server.get(read_ledger_request(namespace))
    if response.status not in (200, 404):
        raise CannotApply(f"ConfigMap {where} cannot be read: {read_status(response.body).message}")
    plan, _ = decode_published(response.body) if response.status == 200 else (None, "")
    if plan is None:
        raise CannotApply(NO_PLAN.format(where=where))
    return plan


def check_id(plan: PublishedPlan, wanted: str) -> None:
    """Raises CannotApply if another plan is wanted than the one that waits."""
    if wanted and wanted != plan.id:
        raise CannotApply(f"plan {wanted} does not wait any more: plan {plan.id} has replaced it; look at it first")


async def approve(server: ApiServer, namespace: str, plan: PublishedPlan) -> None:
    """The process checks the ID again: a plan that has been replaced meanwhile is not carried out."""
    try:
        response = await server.transport.send(approve_request(namespace, plan.id), TIMEOUT)
    except Unreachable as error:
        raise CannotApply(f"the approval was not written: {error}") from None
    if response.status != 200:
        message = read_status(response.body).message
        raise CannotApply(f"the approval was not written: {message}: it needs patch of ConfigMap {LEDGER_NAME}")
