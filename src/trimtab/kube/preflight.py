"""Checks at start-up that the API server can be reached and that what is needed first is allowed.

check ──(passes)──▶ start
  ├──(no connection, no credentials, 429, 5xx)──▶ each error logged once, back off 0.8→5 s ─▶ check
  └──(refused, not trusted, no API server, no exec plugin)──▶ PreflightError; but back off, too, for 30 s after an outage: an
                       API server that has just started refuses everybody until it has read its roles
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from trimtab.kube.access_review import review, whoami
from trimtab.kube.credentials import Credentials
from trimtab.kube.transport import NoCredentials, Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.forbidden import grant_remedy
from trimtab.wire.node import NodeReader
from trimtab.wire.requests import NODES, PODS, list_request
from trimtab.wire.watch import decode_list

log = logging.getLogger(__name__)
TIMEOUT = 10.0
SETTLE_SECONDS = 30.0
BUSY = 429
SERVER_ERRORS = range(500, 600)


class PreflightError(Exception):
    """Says what failed and what to do."""


class ApiServerUnavailable(PreflightError):
    """It may pass by itself: nobody answers, or the answer is that the server cannot answer now."""


async def wait_for_api_server(check: Callable[[], Awaitable[None]], delay: Callable[[float], float]) -> None:
    """Return when `check` passes, and wait as long as the API server is unavailable; raises PreflightError.

    delay: given the time of the event loop, how long to wait after a failure.
    """
    now = asyncio.get_running_loop().time
    unavailable_at: float | None = None
    logged = ""
    while True:
        try:
            await check()
            break
        except PreflightError as error:
            settling = unavailable_at is not None and now() < unavailable_at + SETTLE_SECONDS
            if not isinstance(error, ApiServerUnavailable) and not settling:
                raise
            if str(error) != logged:
                logged = str(error)
                log.warning("waiting for the API server: error=%s", logged)
            if isinstance(error, ApiServerUnavailable):
                unavailable_at = now()
        await asyncio.sleep(delay(now()))
    if unavailable_at is not None:
        log.info("the API server answers")


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
        failure = PreflightError if error.permanent else ApiServerUnavailable
        if isinstance(error, NoCredentials):
            raise failure(f"no credentials for {who}: {error}. Check the user of the kubeconfig") from None
        raise failure(f"{who} cannot be reached: {error}. Check its address, and whether it runs") from None
    message = read_status(response.body).message
    if response.status == BUSY or response.status in SERVER_ERRORS:
        raise ApiServerUnavailable(f"{who} cannot answer now: status {response.status}, {message!r}")
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
