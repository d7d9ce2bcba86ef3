"""The filter before every page of the secure port: 401 without valid credentials, 403 without the right, and
503 while the API server does not answer reviews.

The texts are the API server's own. Paths that are always allowed pass without a question, so probes work while the API server
is down.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from trimtab.kube.delegated_reviews import ReviewUnavailable, UserInfo, review_path
from trimtab.kube.transport import Transport
from trimtab.serve.authentication import Authenticator, peer_certificate
from trimtab.serve.options import AlwaysAllowedPaths, AuthorizationOptions
from trimtab.serve.review_cache import ReviewCache

UNAUTHORIZED, FORBIDDEN, UNAVAILABLE = 401, 403, 503


class Authorizer:
    """What a caller may read. Answers of SubjectAccessReview are cached by user, verb and path."""

    def __init__(self, transport: Transport, options: AuthorizationOptions, clock: Callable[[], float]) -> None:
        self._transport = transport
        ttl = {True: options.authorized_ttl, False: options.unauthorized_ttl}
        self._verdicts: ReviewCache[tuple[object, ...], bool] = ReviewCache(
            "SubjectAccessReview", ttl.__getitem__, clock
        )

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether the user may; raises ReviewUnavailable if the API server gives no answer."""
        key = (*user.key, verb, path)
        return await self._verdicts.get(key, lambda: review_path(self._transport, user, verb, path))


class AccessFilter:
    """Asks who the caller is and what it may read."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, allowed: AlwaysAllowedPaths) -> None:
        self._authenticator, self._authorizer, self._allowed = authenticator, authorizer, allowed

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer the refusal, or hand the request on."""
        if request.path not in self._allowed:
            try:
                refusal = await self._refusal(request)
            except ReviewUnavailable:
                refusal = status_response(UNAVAILABLE, "ServiceUnavailable", "the API server could not be asked")
            if refusal is not None:
                return refusal
        return await handler(request)

    async def _refusal(self, request: web.Request) -> web.Response | None:
        user = await self._authenticator.authenticate(request)
        if user is None:
            refusal = status_response(UNAUTHORIZED, "Unauthorized", "Unauthorized")
            if peer_certificate(request):  # it has expired, or its CA was removed: only a new handshake can help
                refusal.force_close()
            return refusal
        verb = request.method.lower()
        if not await self._authorizer.authorize(user, verb, request.path):
            return status_response(FORBIDDEN, "Forbidden", _forbidden(user, verb, request.path))
        return None


def _forbidden(user: UserInfo, verb: str, path: str) -> str:
    return f'forbidden: User "{user.username}" cannot {verb} path "{path}"'


def status_response(code: int, reason: str, message: str) -> web.Response:
    """A Status object, as the API server answers."""
    status: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    status |= {"message": message, "reason": reason, **({"details": {}} if code == FORBIDDEN else {}), "code": code}
    return web.Response(status=code, body=msgspec.json.encode(status), content_type="application/json")
