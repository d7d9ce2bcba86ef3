"""Access reviews: asks the API server what an account may do, and who we are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.decoding import decode_part, read_status
from trimtab.wire.requests import json_request

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
SERVICE_ACCOUNT = "system:serviceaccount:"
TIMEOUT = 10.0


class ReviewResult(NamedTuple):
    """Whether it is allowed; None if the server does not say, and why."""

    allowed: bool | None
    reason: str = ""


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus | None = None


class _User(Struct, frozen=True):
    username: str = ""


class _SelfStatus(Struct, frozen=True, rename={"user": "userInfo"}):
    user: _User = _User()


class _SelfReview(Struct, frozen=True):
    status: _SelfStatus = _SelfStatus()


async def review(transport: Transport, attributes: Mapping[str, str], account: str = "") -> ReviewResult:
    """Whether the account, or we ourselves if it is empty, may do what the resource attributes describe."""
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    spec: dict[str, object] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if account:
        spec |= {"user": account, "groups": _groups(account)}
    body = {"apiVersion": AUTHORIZATION, "kind": kind, "spec": spec}
    try:
        response = await transport.send(json_request("POST", f"/apis/{AUTHORIZATION}/{kind.lower()}s", body), TIMEOUT)
    except Unreachable as error:
        return ReviewResult(None, str(error))
    found = decode_part(response.body, _AccessReview, "", [])
    if response.status != 201 or found is None or found.status is None:
        return ReviewResult(None, f"{response.status} {read_status(response.body).message}")
    return ReviewResult(found.status.allowed)


def _groups(account: str) -> list[str]:
    """The groups that the server gives a service account; a person's groups are not known."""
    if not account.startswith(SERVICE_ACCOUNT):
        return ["system:authenticated"]
    namespace = account.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]


async def whoami(transport: Transport) -> str:
    """Our user name, as the server sees it."""
    body = {"apiVersion": AUTHENTICATION, "kind": "SelfSubjectReview"}
    try:
        request = json_request("POST", f"/apis/{AUTHENTICATION}/selfsubjectreviews", body)
        response = await transport.send(request, TIMEOUT)
    except Unreachable:
        return "this account"
    found = decode_part(response.body, _SelfReview, "", [])
    return (found.status.user.username if found is not None else "") or "this account"
