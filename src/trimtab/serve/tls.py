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
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.kube.credentials.auth import load_key_pair
from trimtab.serve.options import CertificateOptions
from trimtab.serve.self_signed import expiry, self_signed

log = logging.getLogger(__name__)

REREAD_INTERVAL = 20.0
RENEW_BEFORE = 30 * 86400.0
PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
PAIR_NAME = "kube-scheduler"  # kube-scheduler's own file names in --cert-dir, so that a folder made for it is used


class CertificateError(Exception):
    """Says which file cannot be used, why, and what to do."""


class KeyPair(NamedTuple):
    """A certificate, with its intermediates, and its key, as PEM."""

    certificate: bytes
    key: bytes


class CertificateFiles:
    """A certificate and a key in two files."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._cert_file, self._key_file = cert_file, key_file

    def read(self, now: float) -> KeyPair:
        """The pair as it is now; raises CertificateError if the two do not fit."""
        pair = KeyPair(read_file(self._cert_file, "certificate"), read_file(self._key_file, "key"))
        where = f"the certificate {self._cert_file} and the key {self._key_file}"
        try:
            load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *pair)
            expires = expiry(pair.certificate)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            remedy = "give a PEM certificate and its own key, without a passphrase"
            raise CertificateError(f"{where} cannot be used together ({reason}): {remedy}") from None
        if expires < now:
            log.warning("the serving certificate has expired, clients will reject it: file=%s", self._cert_file)
        return pair


class SelfSignedCertificate:
    """A certificate of our own, in memory, made again a month before it expires."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._pair, self._renew_at = KeyPair(b"", b""), float("-inf")

    def read(self, now: float) -> KeyPair:
        """The pair, new if it is about to expire."""
        if now >= self._renew_at:
            self._pair = KeyPair(*self_signed(self._host, now))
            self._renew_at = expiry(self._pair.certificate) - RENEW_BEFORE
        return self._pair


def open_certificate(options: CertificateOptions, host: str, now: float) -> CertificateFiles | SelfSignedCertificate:
    """The files that are given, or those in the folder (made if missing), or a certificate in memory."""
    if bool(options.cert_file) != bool(options.key_file):
        given, missing = ("--tls-cert-file", "--tls-private-key-file")[:: 1 if options.cert_file else -1]
        raise CertificateError(f"{given} is given without {missing}: set both, or none for a self-signed certificate")
    if options.cert_file:
        return CertificateFiles(Path(options.cert_file), Path(options.key_file))
    if not options.cert_dir:
        return SelfSignedCertificate(host)
    paths = Path(options.cert_dir) / f"{PAIR_NAME}.crt", Path(options.cert_dir) / f"{PAIR_NAME}.key"
    if not any(path.exists() for path in paths):
        _write(paths, self_signed(host, now))
    return CertificateFiles(*paths)


def _write(paths: tuple[Path, Path], contents: tuple[bytes, bytes]) -> None:
    try:
        for path, content, mode in zip(paths, contents, (0o644, 0o600), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode)
            path.write_bytes(content)
    except OSError as error:
        remedy = "make the folder writable, or leave --cert-dir out"
        raise CertificateError(f"--cert-dir {paths[0].parent} cannot be written: {error.strerror}: {remedy}") from None


def read_file(path: Path, what: str) -> bytes:
    """The content; raises CertificateError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"the {what} {path} cannot be read: {error.strerror}: check path and rights") from None


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
        self._certificate = open_certificate(options, host, clock())
        if options.settings.weak:
            log.warning("weak TLS settings are not used: settings=%s", ", ".join(options.settings.weak))
        self._in_use: tuple[KeyPair, bytes] | None = None
        self._error = ""
        self.context = SwitchingContext(ssl.PROTOCOL_TLS_SERVER)
        self.update()

    def update(self) -> None:
        """Use what is on disk now; raises CertificateError if that cannot be used, and nothing changes."""
        wanted = self._certificate.read(self._clock()), self._client_ca()
        if wanted != self._in_use:
            self.context.current = server_context(self._options, *wanted)
            if self._in_use is not None:
                log.info("certificates reloaded: secure port")
            self._in_use = wanted

    async def run(self) -> None:
        """Read the files again every so often."""
        while True:
            await asyncio.sleep(REREAD_INTERVAL)
            self.reload()

    def reload(self) -> None:
        """Update; what cannot be used is logged once, and the old certificates stay."""
        try:
            self.update()
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
