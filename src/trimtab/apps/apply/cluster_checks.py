"""What the cluster must be before a plan is carried out: the one of the plan, with room for the ledger, and not paused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trimtab.apps.apply.plan_file import CannotApply
from trimtab.kube.credentials import Credentials
from trimtab.kube.lease import OUR_LEASE, RESCHEDULER_LEASE
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.lease import get_lease_request, read_lease
from trimtab.wire.objects import namespaces
from trimtab.wire.requests import Request, quote

TIMEOUT = 10.0
SYSTEM = "kube-system"
LEASES = (RESCHEDULER_LEASE, OUR_LEASE.partition("/")[2])


class ApiServer(NamedTuple):
    """Where requests go, and who answers them, for messages."""

    transport: Transport
    credentials: Credentials

    async def get(self, request: Request) -> Response:
        try:
            return await self.transport.send(request, TIMEOUT)
        except Unreachable as error:
            who = f"the API server {self.credentials.server} ({self.credentials.origin})"
            raise CannotApply(f"{who} cannot be reached: {error}") from None


async def check_cluster(server: ApiServer, cluster: str, namespace: str, leases: Iterable[str] = LEASES) -> None:
    """cluster: the UID that the plan names. namespace: of the ledger. Raises CannotApply."""
    found = await _cluster_uid(server)
    if found != cluster:
        raise CannotApply(
            f"the plan is of another cluster (its metadata.cluster is {cluster}, and this one is {found}): choose the "
            "right kubeconfig, or plan again"
        )
    response = await server.get(_namespace(namespace))
    if _is_absent(response):
        raise CannotApply(
            f"namespace {namespace} does not exist, where the ledger of moves is kept: create it with `kubectl create "
            f"namespace {namespace}`, or name another with --namespace"
        )
    if reason := await pause_reason(server, namespace, leases):
        raise CannotApply(reason)


async def _cluster_uid(server: ApiServer) -> str:
    response = await server.get(_namespace(SYSTEM))
    if response.status != 200:
        message = read_status(response.body).message
        raise CannotApply(f"namespace {SYSTEM} cannot be read, so nobody knows which cluster this is: {message}")
    read = namespaces().read(response.body)
    if isinstance(read, Malformed) or not read.uid:
        raise CannotApply(f"namespace {SYSTEM} has no UID, so nobody knows which cluster this is")
    return read.uid


async def pause_reason(server: ApiServer, namespace: str, leases: Iterable[str] = LEASES) -> str:
    """By the kill switch on the leases of reschedulers; a lease that cannot be read might have it."""
    for name in dict.fromkeys(leases):
        try:
            response = await server.get(get_lease_request(namespace, name))
        except CannotApply as error:
            return f"the kill switch on lease {namespace}/{name} cannot be read: {error}"
        if _is_absent(response):
            continue
        lease = read_lease(response.body) if response.status == 200 else None
        if lease is None or isinstance(lease, Malformed):
            message = read_status(response.body).message
            return f"the kill switch on lease {namespace}/{name} cannot be read: {message}: grant get of leases"
        if lease.paused:
            return f"moves are paused by lease {namespace}/{name}: {lease.paused}"
    return ""


def _is_absent(response: Response) -> bool:
    return response.status == 404 and read_status(response.body).reason == "NotFound"


def _namespace(name: str) -> Request:
    return Request("GET", f"/api/v1/namespaces/{quote(name)}")
