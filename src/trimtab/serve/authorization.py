"""What a caller may read: paths that are always allowed, and for all others what the API server says."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.kube.delegated_reviews import UserInfo, review_path
from trimtab.kube.transport import Transport
from trimtab.serve.expiring_cache import ExpiringCache
from trimtab.serve.options import AuthorizationOptions


class InvalidPath(ValueError):
    """Not a path that can be always allowed."""


class AlwaysAllowedPaths:
    """Paths as kube-scheduler takes them: whole ones, or with a `*` at the end that stands for any rest."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        if wrong := [path for path in paths if "*" in path[:-1]]:
            raise InvalidPath(f"{wrong[0]!r} has a * that is not at its end, for example /healthz/*")
        bare = [path.removeprefix("/") for path in paths]
        self._exact = frozenset(path for path in bare if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class Authorizer:
    """Answers of SubjectAccessReview are cached by user, verb and path."""

    def __init__(self, transport: Transport, options: AuthorizationOptions, clock: Callable[[], float]) -> None:
        self._transport = transport
        ttl = {True: options.authorized_ttl, False: options.unauthorized_ttl}
        self._verdicts: ExpiringCache[tuple[object, ...], bool] = ExpiringCache(ttl.__getitem__, clock)

    async def authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether the user may; raises ReviewUnavailable if nobody can tell."""
        key = (*user.key, verb, path)
        return await self._verdicts.get(key, lambda: review_path(self._transport, user, verb, path))
