"""Who calls: by a client certificate of the connection, or by a bearer token that the API server reviews.

Headers such as X-Remote-User or Impersonate-User are never read.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
from collections.abc import Callable
from typing import Any

from aiohttp import web

from trimtab.kube.delegated_reviews import UserInfo, review_token
from trimtab.kube.transport import Transport
from trimtab.serve.review_cache import ReviewCache

AUTHENTICATED = "system:authenticated"
MAX_TOKEN_BYTES = 8 << 10
BEARER = "bearer"


class Authenticator:
    """Answers of TokenReview are cached, under a keyed hash of the token: the token itself is not kept."""

    def __init__(
        self,
        transport: Transport,
        cache_ttl: float,
        clock: Callable[[], float],
        wall: Callable[[], float],
        still_trusts: Callable[[ssl.SSLObject], bool],
    ) -> None:
        self._transport, self._wall, self._still_trusts = transport, wall, still_trusts
        self._hash_key = secrets.token_bytes(32)
        self._users: ReviewCache[bytes, UserInfo | None] = ReviewCache("TokenReview", lambda user: cache_ttl, clock)

    async def authenticate(self, request: web.Request) -> UserInfo | None:
        """The caller; None without valid credentials. Raises ReviewUnavailable if the API server gives no answer."""
        certificate = peer_certificate(request)
        if certificate and self._still_trusts(request.get_extra_info("ssl_object")):
            user = certificate_user(certificate, self._wall())
            if user is not None:
                return user
        token = bearer_token(request)
        if not token:
            return None
        key = hashlib.blake2b(token.encode(), key=self._hash_key, digest_size=32).digest()
        return await self._users.get(key, lambda: review_token(self._transport, token))


def peer_certificate(request: web.Request) -> dict[str, Any] | None:
    """The client certificate that was verified when the connection was opened; None without one."""
    found: dict[str, Any] | None = request.get_extra_info("peercert")
    return found


def bearer_token(request: web.Request) -> str:
    """The token of the Authorization header; empty if there is none, or one that cannot be a token."""
    scheme, _, token = request.headers.get("Authorization", "").strip().partition(" ")
    token = token.strip()
    well_formed = token.isascii() and token.isprintable() and " " not in token and len(token) <= MAX_TOKEN_BYTES
    return token if scheme.lower() == BEARER and well_formed else ""


def certificate_user(certificate: dict[str, Any], now: float) -> UserInfo | None:
    """The common name is the user, the organizations are the groups; None if it has no name, or has expired meanwhile."""
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for name, value in pairs if name == "commonName"]
    groups = [value for name, value in pairs if name == "organizationName"]
    if not names or not names[-1] or ssl.cert_time_to_seconds(certificate["notAfter"]) < now:
        return None
    return UserInfo(names[-1], groups=(*groups, AUTHENTICATED))
