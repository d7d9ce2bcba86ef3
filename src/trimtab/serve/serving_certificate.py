"""The certificate that the secure port presents: from files, from the folder of --cert-dir, or made in memory.

    folder: empty ──(key written, then the certificate)──▶ pair ──(ours, and about to expire)──▶ new certificate, same key

Each file is replaced as a whole, and the key never changes, so that a process that is killed in between leaves a folder that
the next one can use.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography.exceptions import UnsupportedAlgorithm

from trimtab.kube.credentials.auth import load_key_pair
from trimtab.serve.options import CertificateOptions
from trimtab.serve.self_signed import expiry, is_own, new_key, self_signed

log = logging.getLogger(__name__)

RENEW_BEFORE = 30 * 86400.0
PAIR_NAME = "kube-scheduler"  # kube-scheduler's own file names in --cert-dir, so that a folder made for it is used


class CertificateError(Exception):
    """Says which file cannot be used, why, and what to do."""


class KeyPair(NamedTuple):
    """A certificate, with its intermediates, and its key, as PEM."""

    certificate: bytes
    key: bytes


class CertificateSource(Protocol):
    """Where the pair comes from."""

    def read(self, now: float) -> KeyPair:
        """The pair to present from now on; raises CertificateError if there is none."""


class CertificateFiles:
    """A certificate and a key in two files."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._cert_file, self._key_file = cert_file, key_file
        self._expired = b""  # the last certificate that was warned of

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
        if expires < now and pair.certificate != self._expired:
            log.warning("the serving certificate has expired, clients will reject it: file=%s", self._cert_file)
            self._expired = pair.certificate
        return pair


class SelfSignedCertificate:
    """A certificate of our own, in memory, made again a month before it expires."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._pair, self._renew_at = KeyPair(b"", b""), float("-inf")

    def read(self, now: float) -> KeyPair:
        """The pair, new if it is about to expire."""
        if now >= self._renew_at:
            key = new_key()
            self._pair = KeyPair(self_signed(self._host, now, key), key)
            self._renew_at = expiry(self._pair.certificate) - RENEW_BEFORE
        return self._pair


class CertificateFolder:
    """The pair in the folder of --cert-dir, made if missing; one of our own is renewed, another one is only read."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder, self._host = folder, host
        self._cert_file, self._key_file = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
        self._files = CertificateFiles(self._cert_file, self._key_file)
        self._error = ""

    def read(self, now: float) -> KeyPair:
        """The pair as it is now; raises CertificateError if there is none and none can be made."""
        certificate, key = _content(self._cert_file), _content(self._key_file)
        own = is_own(certificate)
        if not certificate or (own and not key):
            self._make(now, key)
        elif own and expiry(certificate) - RENEW_BEFORE <= now:
            self._renew(now, key)
        return self._files.read(now)

    def _renew(self, now: float, key: bytes) -> None:
        """The old certificate serves until it expires, so a failure is only logged, once."""
        try:
            self._make(now, key)
            self._error = ""
        except CertificateError as error:
            if self._error != str(error):
                log.warning("failed to renew the self-signed certificate: error=%s", error)
            self._error = str(error)

    def _make(self, now: float, key: bytes) -> None:
        kept = bool(key)
        key = key or new_key()
        try:
            certificate = self_signed(self._host, now, key)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            remedy = "delete it, and a new one is made"
            raise CertificateError(f"the key {self._key_file} cannot be used ({error}): {remedy}") from None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not kept:
                _replace(self._key_file, key, 0o600)
            _replace(self._cert_file, certificate, 0o644)
        except OSError as error:
            remedy = "make the folder writable, or leave --cert-dir out"
            raise CertificateError(f"--cert-dir {self._folder} cannot be written: {error.strerror}: {remedy}") from None


def _content(path: Path) -> bytes:
    """Empty if there is no such file."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise CertificateError(f"{path} of --cert-dir cannot be read: {error.strerror}: check its rights") from None


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Write a file as a whole, or not at all."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def open_certificate(options: CertificateOptions, host: str) -> CertificateSource:
    """The files that are given, or those in the folder (made if missing), or a certificate in memory."""
    if bool(options.cert_file) != bool(options.key_file):
        given, missing = ("--tls-cert-file", "--tls-private-key-file")[:: 1 if options.cert_file else -1]
        raise CertificateError(f"{given} is given without {missing}: set both, or none for a self-signed certificate")
    if options.cert_file:
        return CertificateFiles(Path(options.cert_file), Path(options.key_file))
    return CertificateFolder(Path(options.cert_dir), host) if options.cert_dir else SelfSignedCertificate(host)


def read_file(path: Path, what: str) -> bytes:
    """The content; raises CertificateError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"the {what} {path} cannot be read: {error.strerror}: check path and rights") from None
