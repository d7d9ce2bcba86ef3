"""What a caller may read: what the API server says."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.kube.delegated_reviews import UserInfo, review_path
from trimtab.kube.transport import Transport
from trimtab.serve.expiring_cache import ExpiringCache
from trimtab.serve.options import AuthorizationOptions
from trimtab.serve.review_log import ReviewLog


class Authorizer:
    """Answers of SubjectAccessReview are cached by user, verb and path."""

    def __init__(self, transport: Transport, options: AuthorizationOptions, clock: Callable[[], float]) -> None:
        self._transport, self._log = transport, ReviewLog("SubjectAccessReview")
        ttl = {True: options.authorized_ttl, False: options.unauthorized_ttl}
        self._verdicts: ExpiringCache[tuple[object, ...], bool] = ExpiringCache(ttl.__getitem__, clock)

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether the user may; raises ReviewUnavailable if the API server gives no answer."""
        key = (*user.key, verb, path)
        return await self._verdicts.get(key, lambda: self._log.observe(review_path(self._transport, user, verb, path)))
