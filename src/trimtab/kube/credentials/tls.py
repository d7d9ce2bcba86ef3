"""Decides whom we trust and which certificate we show on a TLS connection; leaves finding the bytes to others."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trimtab.kube.credentials.kubeconfig import CredentialsError


class TlsMaterial(NamedTuple):
    """What a TLS connection is made with, as PEM; an empty authority stands for those that the system trusts."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    verify: bool = True


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """A context that trusts this authority only and shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not material.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif material.ca:
        _trust(context, material.ca)
    else:
        context.load_default_certs()
    if material.certificate:
        _present(context, material.certificate, material.key)
    return context


def _trust(context: ssl.SSLContext, authority: bytes) -> None:
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"the certificate authority is no PEM certificate: {_reason(error)}") from None


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _file(certificate.rstrip(b"\n") + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            reason = _reason(error)
            raise CredentialsError(f"the client certificate and its key cannot be used together: {reason}") from None


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path to bytes that never touch a disk where the system allows it: ssl reads keys from paths only."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
