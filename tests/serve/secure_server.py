"""A server with TLS for tests: certificates of an authority of its own, and pages that need no API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import trustme

from trimtab.serve.health import Health
from trimtab.serve.http import create_app
from trimtab.serve.listener import MAX_CONNECTIONS, listen, serve
from trimtab.serve.options import Address, CertificateOptions
from trimtab.serve.tls import ServerTls

ANY = Address("127.0.0.1", 0, "--secure-port")
NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Files:
    """A certificate and its key, as files."""

    cert: Path
    key: Path

    @classmethod
    def issue(cls, folder: Path, authority: trustme.CA, name: str = "server", **more: object) -> Files:
        """New ones, written over the old."""
        issued = authority.issue_cert("127.0.0.1", "localhost", common_name=name, **more)  # type: ignore[arg-type]
        made = cls(folder / "tls.crt", folder / "tls.key")
        issued.cert_chain_pems[0].write_to_path(made.cert)
        issued.private_key_pem.write_to_path(made.key)
        return made

    @property
    def options(self) -> CertificateOptions:
        return CertificateOptions(str(self.cert), str(self.key))


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client that trusts only this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def serving(tls: ServerTls | None, limit: int = MAX_CONNECTIONS) -> AsyncIterator[int]:
    """Health checks on a free port."""
    context = tls.context if tls is not None else None
    async with serve(create_app(Health()), listen(ANY), context, limit) as port:
        yield port


class Connected(NamedTuple):
    """What a client sees of the server's TLS; no name with an anonymous suite."""

    version: str
    common_name: str


async def connect(port: int, context: ssl.SSLContext, own: str = "127.0.0.1") -> Connected:
    """Read /livez on a new connection from our address; raises OSError if the server allows none."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost", local_addr=(own, 0)
    )
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    certificate, version = writer.get_extra_info("peercert"), writer.get_extra_info("ssl_object").version()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(answer)  # a refused client certificate shows after the handshake of TLS 1.3
    names = [value for part in (certificate or {}).get("subject", ()) for name, value in part if name == "commonName"]
    return Connected(version, names[0] if names else "")
