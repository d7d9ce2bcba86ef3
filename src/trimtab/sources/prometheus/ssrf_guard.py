"""Decides which addresses a name may lead to; leaves looking names up to the system, and the list to `config`.

Checked where the connection is about to be made and not before: whoever owns a name can change where it leads.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import ip_address

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from trimtab.config.trimtab.validation import blocked_reason


class AddressBlocked(OSError):
    """The name leads where nothing is asked."""


class GuardedResolver(AbstractResolver):
    """The system's answer, unless any address of it is one that we keep away from."""

    def __init__(self, allowed: Iterable[str], inner: AbstractResolver | None = None) -> None:
        self._allowed = tuple(allowed)
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Called by aiohttp for every name that is no address."""
        found = await self._inner.resolve(host, port, family)
        for each in found:
            if why := blocked_reason(ip_address(each["host"].partition("%")[0]), self._allowed):
                raise AddressBlocked(f"{host} {why}")
        return found

    async def close(self) -> None:
        """Called by aiohttp."""
        await self._inner.close()
