"""The authorities of client certificates: those of --client-ca-file, and those that the cluster itself uses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from trimtab.kube.delegated_reviews import ReviewUnavailable, look_up_client_ca
from trimtab.kube.transport import Transport
from trimtab.serve.options import AuthenticationOptions
from trimtab.serve.tls import read_file

log = logging.getLogger(__name__)
LOOKUP_INTERVAL = 60.0


class LookupFailed(Exception):
    """The cluster's authorities could not be read, and --authentication-tolerate-lookup-failure=false forbids to go on."""


class ClientCa:
    """Authorities as PEM; those of the cluster are looked up in kube-system/extension-apiserver-authentication."""

    def __init__(self, options: AuthenticationOptions) -> None:
        self._options = options
        self._looked_up = b""
        self._failing = False

    def pem(self) -> bytes:
        """All of them; raises CertificateError if the file cannot be read."""
        file = self._options.client_ca_file
        given = read_file(Path(file), "client CA of --client-ca-file") if file else b""
        return b"\n".join(filter(None, (given, self._looked_up)))

    async def look_up(self, transport: Transport) -> None:
        """Read the cluster's, unless that is not wanted; if it fails, the last ones stay."""
        if self._options.skip_lookup:
            return
        try:
            self._looked_up = (await look_up_client_ca(transport)).encode()
            self._failing = False
        except ReviewUnavailable as error:
            self._on_failure(str(error))

    def _on_failure(self, reason: str) -> None:
        if not self._options.tolerate_lookup_failure and not self._looked_up:
            remedy = "grant that, or set --authentication-skip-lookup"
            raise LookupFailed(f"the cluster's client CA cannot be looked up ({reason}): {remedy}")
        if not self._failing:
            log.warning("client CA lookup failed, the cluster's client certificates may be rejected: reason=%s", reason)
        self._failing = True

    async def run(self, transport: Transport, changed: Callable[[], None]) -> None:
        """Look them up again every minute."""
        while not self._options.skip_lookup:
            await asyncio.sleep(LOOKUP_INTERVAL)
            before = self._looked_up
            await self.look_up(transport)
            if self._looked_up != before:
                changed()
