"""Delegated authentication and authorization: asks the API server whose a token is, and what that user may read.

The rights are those of the ClusterRole `system:auth-delegator` and of the Role `extension-apiserver-authentication-reader` in
kube-system, which every cluster has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from trimtab.kube.access_review import AUTHENTICATION, AUTHORIZATION, review
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decoding import decode_part, read_status
from trimtab.wire.requests import Request, json_request

TIMEOUT = 10.0
TOKEN_REVIEWS = ("tokenreviews", "authentication.k8s.io")
ACCESS_REVIEWS = ("subjectaccessreviews", "authorization.k8s.io")
AUTHENTICATION_CONFIGMAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
DELEGATOR_REMEDY = "bind the ClusterRole system:auth-delegator to this account"
READER_REMEDY = "bind the Role extension-apiserver-authentication-reader of kube-system to this account"
FORBIDDEN = 403

S = TypeVar("S", bound=Struct)


class ReviewUnavailable(Exception):
    """The API server gave no verdict; says why, and what to do if a right is missing."""


class UserInfo(Struct, frozen=True):
    """A user, as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def key(self) -> tuple[object, ...]:
        """The same for two users with the same rights."""
        return self.username, self.uid, self.groups, tuple(sorted(self.extra.items()))


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: UserInfo | None = None


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _SubjectAccessReview(Struct, frozen=True):
    status: _AccessStatus


class _ConfigMap(Struct, frozen=True):
    data: Mapping[str, str] = {}


async def review_token(transport: Transport, token: str) -> UserInfo | None:
    """The user whose token it is; None if the API server rejects it. The token must be for the API server's audience."""
    body = {"apiVersion": AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token}}
    request = json_request("POST", f"/apis/{AUTHENTICATION}/tokenreviews", body)
    status = (await _ask(transport, request, _TokenReview, DELEGATOR_REMEDY)).status
    return status.user if status.authenticated and status.user is not None and status.user.username else None


async def review_path(transport: Transport, user: UserInfo, verb: str, path: str) -> bool:
    """Whether the user may do this with a path that is no resource, such as /metrics."""
    spec: dict[str, Any] = {"user": user.username, "nonResourceAttributes": {"path": path, "verb": verb}}
    spec |= {name: value for name in ("uid", "groups", "extra") if (value := getattr(user, name))}
    body = {"apiVersion": AUTHORIZATION, "kind": "SubjectAccessReview", "spec": spec}
    request = json_request("POST", f"/apis/{AUTHORIZATION}/subjectaccessreviews", body)
    return (await _ask(transport, request, _SubjectAccessReview, DELEGATOR_REMEDY)).status.allowed


async def may_create(transport: Transport, resource: str, group: str) -> bool:
    """Whether our own account may create such reviews; true if that cannot be asked."""
    return (await review(transport, {"verb": "create", "group": group, "resource": resource})).allowed is not False


async def look_up_client_ca(transport: Transport) -> str:
    """The authorities that sign the cluster's client certificates, as PEM; empty if the cluster has none."""
    found = await _ask(transport, Request("GET", AUTHENTICATION_CONFIGMAP), _ConfigMap, READER_REMEDY)
    return found.data.get("client-ca-file", "")


async def _ask(transport: Transport, request: Request, shape: type[S], remedy: str) -> S:
    try:
        response = await transport.send(request, TIMEOUT)
    except Unreachable as error:
        raise ReviewUnavailable(str(error)) from None
    errors: list[str] = []
    found = decode_part(response.body, shape, "", errors) if response.status in (200, 201) else None
    if found is None:
        raise ReviewUnavailable(_reason(response, remedy, errors))
    return found


def _reason(response: Response, remedy: str, errors: list[str]) -> str:
    message = errors[0] if errors else read_status(response.body).message
    return f"{response.status} {message}" + (f"; {remedy}" if response.status == FORBIDDEN else "")
