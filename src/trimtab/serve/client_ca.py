"""The authorities of client certificates: those of --client-ca-file, and those that the cluster itself uses."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from trimtab.kube.delegated_reviews import ReviewUnavailable, look_up_client_ca
from trimtab.kube.transport import Transport
from trimtab.serve.options import AuthenticationOptions
from trimtab.serve.serving_certificate import CertificateError, read_file
from trimtab.serve.tls import load_authorities

log = logging.getLogger(__name__)
LOOKUP_INTERVAL = 60.0
CONFIGMAP = "kube-system/extension-apiserver-authentication"


class LookupFailed(Exception):
    """The cluster's authorities could not be read, and --authentication-tolerate-lookup-failure=false forbids to go on."""


class ClientCa:
    """Authorities as PEM; those of the cluster are looked up in kube-system/extension-apiserver-authentication."""

    def __init__(self, options: AuthenticationOptions) -> None:
        self._options = options
        self._looked_up = b""
        self._failing = False

    def pem(self) -> bytes:
        """All of them; raises CertificateError if the file cannot be used."""
        file = self._options.client_ca_file
        return b"\n".join(filter(None, (_read(Path(file)) if file else b"", self._looked_up)))

    async def look_up(self, transport: Transport) -> None:
        """Read the cluster's, unless that is not wanted; if it fails, the last ones stay."""
        if self._options.skip_lookup:
            return
        try:
            found = (await look_up_client_ca(transport)).strip().encode()
            if found:
                _check(found, f"client-ca-file of the ConfigMap {CONFIGMAP}")
        except (ReviewUnavailable, CertificateError) as error:
            self._on_failure(str(error))
        else:
            self._looked_up, self._failing = found, False

    def _on_failure(self, reason: str) -> None:
        if not self._options.tolerate_lookup_failure and not self._looked_up:
            remedy = "mend that, or set --authentication-skip-lookup"
            raise LookupFailed(f"the cluster's client CA cannot be looked up ({reason}): {remedy}")
        if not self._failing:
            log.warning("client CA lookup failed, the cluster's client certificates may be rejected: reason=%s", reason)
        self._failing = True

    async def run(self, transport: Transport, changed: Callable[[], None]) -> None:
        """Look them up again every minute; a failure is logged, and the next minute brings another try."""
        while not self._options.skip_lookup:
            await asyncio.sleep(LOOKUP_INTERVAL)
            before = self._looked_up
            try:
                await self.look_up(transport)
                if self._looked_up != before:
                    changed()
            except Exception as error:
                log.error("client CA lookup failed, keeping the old authorities: error=%s", error)


def _read(file: Path) -> bytes:
    content = read_file(file, "client CA of --client-ca-file")
    try:
        _check(content, f"the client CA of --client-ca-file {file}")
    except CertificateError as error:
        raise CertificateError(f"{error}: give a file with PEM certificates") from None
    return content


def _check(pem: bytes, what: str) -> None:
    try:
        load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pem)
    except CertificateError as error:
        raise CertificateError(f"{what} is {error}") from None
