"""Checks at start-up that the API server can be reached and that what is needed first is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.kube.access_review import review, whoami
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.forbidden import grant_remedy
from trimtab.wire.node import NodeReader
from trimtab.wire.requests import NODES, PODS, list_request
from trimtab.wire.watch import decode_list

TIMEOUT = 10.0


class PreflightError(Exception):
    """Says what failed and what to do."""


async def check_access(
    transport: Transport, credentials: Credentials, paths: Iterable[str] = (PODS, NODES), role: str = "rbac.yaml"
) -> None:
    """List one object of each path, or raise PreflightError."""
    for path in paths:
        await _list_one(transport, credentials, path, role)


async def _list_one(transport: Transport, credentials: Credentials, path: str, role: str) -> None:
    who = f"the API server {credentials.server} ({credentials.origin})"
    try:
        response = await transport.send(list_request(path, limit=1), TIMEOUT)
    except Unreachable as error:
        raise PreflightError(f"{who} cannot be reached: {error}. Check its address, and whether it runs") from None
    message = read_status(response.body).message
    if response.status == 401:
        raise PreflightError(
            f"{who} rejects our credentials: {message}. Renew the token or certificate of the kubeconfig"
        )
    if response.status == 403:
        raise PreflightError(f"{who} forbids listing {path}: {message}. {_grant(message, role)}")
    if response.status != 200 or isinstance(decode_list(response.body, NodeReader()), Malformed):
        raise PreflightError(
            f"{who} does not answer like an API server: status {response.status}, {message!r}. Check its address"
        )


def _grant(message: str, role: str) -> str:
    remedy = grant_remedy(message, role)
    rest = " and use its service account" if remedy.startswith("apply") else ", or use that one"
    return f"{remedy[0].upper()}{remedy[1:]}{rest}"


async def check_permission(
    transport: Transport, credentials: Credentials, verb: str, resource: str, remedy: str
) -> None:
    """Raise PreflightError if an access review says that this is not allowed; one that is not answered passes."""
    result = await review(transport, {"verb": verb, "resource": resource})
    if result.allowed is False:
        who, account = f"the API server {credentials.server} ({credentials.origin})", await whoami(transport)
        raise PreflightError(
            f"{who} forbids {account} to {verb} {resource}. Apply {remedy} and use its service account"
        )
