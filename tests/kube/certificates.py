"""Certificates for the tests, and an in-memory TLS handshake."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache

import trustme


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


@cache
def authority() -> trustme.CA:
    """The one authority that server and client trust."""
    return trustme.CA()


@cache
def other_authority() -> trustme.CA:
    """An untrusted CA."""
    return trustme.CA()


def authority_pem() -> bytes:
    """The authority's own certificate."""
    return authority().cert_pem.bytes()


@cache
def client(name: str = "someone") -> Pair:
    """A client certificate of our authority."""
    leaf = authority().issue_cert(f"{name}@example.com", common_name=name)
    return Pair(b"".join(blob.bytes() for blob in leaf.cert_chain_pems), leaf.private_key_pem.bytes())


def server_context(name: str = "localhost", issuer: trustme.CA | None = None) -> ssl.SSLContext:
    """A server of that name which asks for a client certificate but does not insist."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (issuer or authority()).issue_cert(name).configure_cert(context)
    authority().configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def shown(client_context: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost") -> bytes | None:
    """Shake hands in memory; the client certificate that the server saw, as DER."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return theirs.getpeercert(binary_form=True)


def der(pem: bytes) -> bytes:
    """The first certificate of a PEM file, as DER."""
    end = "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(pem.decode().split(end)[0] + end)
