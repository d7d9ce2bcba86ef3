"""Decides what proves who we are to a Prometheus and whom we believe to be one; leaves sending it to `asking`.

Every file is read again before each look, because tokens and certificates are replaced under a running process. What
stands in them never enters a message: only the path does.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from pathlib import Path

from trimtab.config.trimtab.settings import PrometheusSettings, Tls
from trimtab.sources.interface import SourceError

CHECK_PATH = "check the path and the rights of the file"
MAX_FILE_BYTES = 1 << 20


class Auth:
    """Headers and TLS context as of now. A new context means new connections, so it is kept while its files are."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._tls_files: tuple[bytes, ...] | None = None
        self._context: ssl.SSLContext | None = None

    def headers(self) -> dict[str, str]:
        """What is sent along; SourceError where a file cannot be read."""
        settings = self._settings
        if settings.bearer_token_file:
            return {"Authorization": f"Bearer {_read_secret(settings.bearer_token_file, 'bearerTokenFile')}"}
        if settings.basic_auth is not None:
            password = _read_secret(settings.basic_auth.password_file, "passwordFile")
            pair = base64.b64encode(f"{settings.basic_auth.username}:{password}".encode())
            return {"Authorization": f"Basic {pair.decode()}"}
        return {}

    def tls_context(self) -> ssl.SSLContext | None:
        """None where the address is plain http."""
        if not self._settings.url.lower().startswith("https:"):
            return None
        tls = self._settings.tls
        paths = (tls.ca_file, tls.cert_file, tls.key_file)
        material = tuple(_read_file(path, "tls") if path else b"" for path in paths)
        if material != self._tls_files:
            self._context, self._tls_files = _tls_context(tls), material
        return self._context


def _read_secret(path: str, field: str) -> str:
    """One line of printable ASCII: a line break would begin another header."""
    text = _read_file(path, field).decode("ascii", "replace").strip()
    if not text:
        raise SourceError(f"{field} {path} is empty", "check what writes it")
    if not (text.isascii() and text.isprintable()):
        raise SourceError(f"{field} {path} holds more than one line of plain characters", "write it again")
    return text


def _read_file(path: str, field: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise SourceError(f"{field} cannot be read from {path}: {error.strerror}", CHECK_PATH) from None


def _tls_context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file:
        _load_pem(tls.ca_file, lambda: context.load_verify_locations(cafile=tls.ca_file))
    else:
        context.load_default_certs()
    if tls.cert_file:
        # An empty password, because OpenSSL would otherwise ask for one on the terminal.
        _load_pem(tls.cert_file, lambda: context.load_cert_chain(tls.cert_file, tls.key_file or None, password=""))
    return context


def _load_pem(path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (ssl.SSLError, ValueError, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise SourceError(f"tls: {path} cannot be used: {reason}", "give PEM files that belong together") from None
