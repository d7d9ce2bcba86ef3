"""The TLS side of the secure port: certificates that are read again when they change, versions and cipher suites.

started ──(certificate and key fit)──▶ serving ──(files changed and fit)──▶ serving the new pair, for new connections
   └─(do not)──▶ CertificateError         └─(changed and do not fit)──▶ serving the old pair, logged once
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable
from typing import Any

from trimtab.kube.credentials.auth import load_key_pair
from trimtab.serve.options import CertificateOptions
from trimtab.serve.serving_certificate import CertificateError, KeyPair, open_certificate

log = logging.getLogger(__name__)

REREAD_INTERVAL = 20.0
PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


class ServerContext(ssl.SSLContext):
    """A context for new connections, with the authorities that it verifies client certificates by."""

    authorities: frozenset[bytes] = frozenset()


class SwitchingContext(ssl.SSLContext):
    """Hands each new connection to `current`, which is replaced as a whole: a context cannot unload a CA or a key."""

    current: ServerContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Called by the event loop for every connection."""
        return self.current.wrap_bio(*args, **kwargs)

    def still_trusts(self, connection: ssl.SSLObject) -> bool:
        """Whether every authority that the client certificate may have been verified by is still one."""
        verified_by = connection.context
        return isinstance(verified_by, ServerContext) and verified_by.authorities <= self.current.authorities


class ServerTls:
    """The context of the secure port, kept up to date by `run`. `client_ca` gives the authorities of client certificates."""

    def __init__(
        self, options: CertificateOptions, host: str, client_ca: Callable[[], bytes], clock: Callable[[], float]
    ) -> None:
        self._options, self._client_ca, self._clock = options, client_ca, clock
        self._certificate = open_certificate(options, host)
        if options.settings.weak:
            log.warning("weak TLS settings are not used: settings=%s", ", ".join(options.settings.weak))
        self._in_use: tuple[KeyPair, bytes] | None = None
        self._error = ""
        self.context = SwitchingContext(ssl.PROTOCOL_TLS_SERVER)
        self.update()

    def update(self) -> bool:
        """Use what is there now, and say whether it is new; raises CertificateError, and nothing changes."""
        wanted = self._certificate.read(self._clock()), self._client_ca()
        if wanted == self._in_use:
            return False
        self.context.current = server_context(self._options, *wanted)
        self._in_use = wanted
        return True

    async def run(self) -> None:
        """Read the files again every so often."""
        while True:
            await asyncio.sleep(REREAD_INTERVAL)
            self.reload()

    def reload(self) -> None:
        """Update; what cannot be used is logged once, and the old certificates stay."""
        try:
            if self.update():
                log.info("certificates reloaded: secure port")
            self._error = ""
        except Exception as error:  # such as no file descriptor left: later files must be read all the same
            if self._error != str(error):
                log.error("failed to reload certificates, keeping the old ones: error=%s", error)
            self._error = str(error)


def server_context(options: CertificateOptions, pair: KeyPair, client_ca: bytes) -> ServerContext:
    """A context for new connections; a client certificate is asked for if there are authorities to check it by."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    options.settings.apply(context)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    load_key_pair(context, *pair)
    if client_ca:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate alone is an authority, as in Go
        load_authorities(context, client_ca)
        context.authorities = frozenset(b"".join(each.split()) for each in PEM_CERTIFICATE.findall(client_ca))
    return context


def load_authorities(context: ssl.SSLContext, pem: bytes) -> None:
    """Verify by these; raises CertificateError with the reason alone if they are no certificates."""
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise CertificateError(f"not a PEM certificate ({reason})") from None
