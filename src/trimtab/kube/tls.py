"""Decides whom we trust and which certificate we show on a TLS connection; leaves finding the bytes to others."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.kube.kubeconfig import CredentialsError


def client_context(authority: bytes, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts this authority only, or the system's where none is given."""
    context = ssl.create_default_context()
    # Python 3.13 refuses authorities without a key identifier; many clusters were founded with one.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if authority or not verify:
        context = _bare(context.verify_flags)
    if authority:
        trust(context, authority)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _bare(flags: ssl.VerifyFlags) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags = flags
    return context


def trust(context: ssl.SSLContext, authority: bytes) -> None:
    """Trust this authority as well: a rotated one joins the old, for new connections."""
    try:
        context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"the certificate authority is no PEM certificate: {_reason(error)}") from None


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show this certificate on new connections; a pair that does not match leaves the old one in place."""
    with _file(certificate.rstrip(b"\n") + b"\n" + key) as path:
        for target in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):
            try:
                target.load_cert_chain(path, password="")
            except (ssl.SSLError, ValueError) as error:
                reason = _reason(error)
                raise CredentialsError(
                    f"the client certificate and its key cannot be used together: {reason}"
                ) from None


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
