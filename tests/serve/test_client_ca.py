"""Client certificates on the secure port: whose are accepted, and what follows when an authority comes or goes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from tests.serve.secure_server import ANY, NOW, Files, connect, serving, trusting
from trimtab.serve.access_filter import AccessFilter, Authorizer
from trimtab.serve.authentication import Authenticator
from trimtab.serve.client_ca import LOOKUP_INTERVAL, ClientCa, LookupFailed
from trimtab.serve.health import Health
from trimtab.serve.http import create_app
from trimtab.serve.listener import listen, serve
from trimtab.serve.options import AlwaysAllowedPaths, AuthenticationOptions, AuthorizationOptions
from trimtab.serve.serving_certificate import CertificateError
from trimtab.serve.tls import ServerTls

DAY = timedelta(days=1)
FORBIDDEN = json_response({"kind": "Status", "message": "no", "reason": "Forbidden"}, 403)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def clients() -> trustme.CA:
    return trustme.CA()


def config_map(pem: str) -> FakeResponse:
    return json_response({"data": {"client-ca-file": pem}})


def client_of(authority: trustme.CA, issuer: trustme.CA, **more: object) -> ssl.SSLContext:
    """A client with a certificate of this issuer, that trusts the server's authority."""
    context = trusting(authority)
    issuer.issue_cert("x", common_name="eve", **more).configure_cert(context)  # type: ignore[arg-type]
    return context


class Server:
    """A server whose client CA the test can change."""

    def __init__(self, folder: Path, authority: trustme.CA, *trusted: trustme.CA) -> None:
        self.trust(*trusted)
        files = Files.issue(folder, authority)
        self.tls = ServerTls(files.options, "127.0.0.1", lambda: self.client_ca, lambda: NOW)

    def trust(self, *trusted: trustme.CA) -> None:
        self.client_ca = b"".join(each.cert_pem.bytes() for each in trusted)

    def reload(self, *trusted: trustme.CA) -> None:
        self.trust(*trusted)
        self.tls.reload()


async def test_client_certificates(tmp_path: Path, authority: trustme.CA, clients: trustme.CA) -> None:
    """None is fine, as there are tokens; a wrong one gets no connection: another CA's or an expired one."""
    yesterday = datetime.now(UTC) - DAY
    async with serving(Server(tmp_path, authority, clients).tls) as port:
        assert "TLSv1.3" == (await connect(port, trusting(authority))).version
        assert "TLSv1.3" == (await connect(port, client_of(authority, clients))).version
        for bad in (client_of(authority, trustme.CA()), client_of(authority, clients, not_after=yesterday)):
            with pytest.raises(OSError):
                await connect(port, bad)


async def test_an_intermediate_alone_is_an_authority(tmp_path: Path, authority: trustme.CA) -> None:
    """As in Go, without the root; certificates of the root itself are refused then."""
    root = trustme.CA()
    intermediate = root.create_child_ca()
    async with serving(Server(tmp_path, authority, intermediate).tls) as port:
        assert "TLSv1.3" == (await connect(port, client_of(authority, intermediate))).version
        with pytest.raises(OSError):
            await connect(port, client_of(authority, root))


async def test_a_removed_authority_is_no_longer_trusted(
    tmp_path: Path, authority: trustme.CA, clients: trustme.CA
) -> None:
    """New connections see only the current ones."""
    server, client = Server(tmp_path, authority, clients), client_of(authority, clients)
    async with serving(server.tls) as port:
        assert "TLSv1.3" == (await connect(port, client)).version
        server.reload(trustme.CA())
        with pytest.raises(OSError):
            await connect(port, client)


@asynccontextmanager
async def kept_alive(
    server: Server, client: ssl.SSLContext
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """One connection to a server that lets everybody read whom it can authenticate."""
    transport = FakeTransport(lambda request: json_response({"status": {"allowed": True}}, 201))
    clock = lambda: 0.0  # noqa: E731
    authenticator = Authenticator(transport, 10.0, clock, clock, server.tls.context.still_trusts)
    authorizer = Authorizer(transport, AuthorizationOptions(), clock)
    access = AccessFilter(authenticator, authorizer, AlwaysAllowedPaths(()))
    app = create_app(Health(), middlewares=[access.middleware])
    async with serve(app, listen(ANY), server.tls.context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        yield reader, writer
        writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """The status of /livez, and whether the server says that it closes the connection."""
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
    await reader.readexactly(int(length.split()[1]))
    return int(head.split()[1]), b"connection: close" in head


async def test_an_open_connection_is_not_trusted_longer_than_its_authority(
    tmp_path: Path, authority: trustme.CA, clients: trustme.CA
) -> None:
    """An added authority or a renewed server certificate changes nothing; a removed one is 401, and the connection ends."""
    server = Server(tmp_path, authority, clients)
    async with kept_alive(server, client_of(authority, clients)) as (reader, writer):
        assert (200, False) == await ask(reader, writer)
        Files.issue(tmp_path, authority, "renewed")
        server.reload(trustme.CA(), clients)
        assert (200, False) == await ask(reader, writer)
        server.reload(trustme.CA())
        assert (401, True) == await ask(reader, writer)
        assert b"" == await reader.read()


async def test_the_clusters_client_ca(caplog: pytest.LogCaptureFixture, clients: trustme.CA) -> None:
    """Looked up; one that cannot be read keeps the last, or ends the process if the flag says so."""
    pem = clients.cert_pem.bytes().strip()
    answers: list[FakeResponse] = [FORBIDDEN, config_map(pem.decode()), FORBIDDEN]
    transport = FakeTransport(lambda request: answers.pop(0))
    client_ca = ClientCa(AuthenticationOptions())
    found = []
    for _ in range(3):
        await client_ca.look_up(transport)
        found.append(client_ca.pem())
    assert ([b"", pem, pem], 2) == (found, len(caplog.records))
    assert "bind the Role extension-apiserver-authentication-reader of kube-system" in caplog.records[0].getMessage()
    strict = ClientCa(AuthenticationOptions(tolerate_lookup_failure=False))
    with pytest.raises(LookupFailed, match="set --authentication-skip-lookup"):
        await strict.look_up(FakeTransport(lambda request: FORBIDDEN))
    await ClientCa(AuthenticationOptions(skip_lookup=True)).look_up(FakeTransport(lambda request: FORBIDDEN))


@pytest.mark.parametrize("junk", ["junk", "-----BEGIN CERTIFICATE-----\njunk\n-----END CERTIFICATE-----\n"])
async def test_junk_in_the_cluster_is_a_failed_lookup(
    junk: str, caplog: pytest.LogCaptureFixture, clients: trustme.CA
) -> None:
    """Tolerated or not by the same flag; the last authorities stay, and the ConfigMap is named."""
    answers = [config_map(junk), config_map(clients.cert_pem.bytes().decode()), config_map(junk)]
    transport = FakeTransport(lambda request: answers.pop(0))
    client_ca = ClientCa(AuthenticationOptions())
    await client_ca.look_up(transport)
    assert b"" == client_ca.pem()
    named = "client-ca-file of the ConfigMap kube-system/extension-apiserver-authentication is not a PEM certificate"
    assert named in caplog.text
    for _ in range(2):
        await client_ca.look_up(transport)
    assert clients.cert_pem.bytes().strip() == client_ca.pem()
    strict = ClientCa(AuthenticationOptions(tolerate_lookup_failure=False))
    with pytest.raises(LookupFailed, match=named):
        await strict.look_up(FakeTransport(lambda request: config_map(junk)))


@pytest.mark.looptime
async def test_lookups_go_on_after_failures(caplog: pytest.LogCaptureFixture, clients: trustme.CA) -> None:
    """Whatever fails: the lookup itself, or what is done with the result."""
    answers = [config_map(""), FORBIDDEN, config_map(clients.cert_pem.bytes().decode())]
    transport = FakeTransport(lambda request: answers.pop(0) if answers else FORBIDDEN)
    client_ca = ClientCa(AuthenticationOptions(tolerate_lookup_failure=False))
    await client_ca.look_up(transport)
    changes = []

    def changed() -> None:
        changes.append(client_ca.pem())
        raise OSError("no file descriptor left")

    task = asyncio.create_task(client_ca.run(transport, changed))
    await asyncio.sleep(3.5 * LOOKUP_INTERVAL)
    assert not task.done() and 1 == len(changes)
    task.cancel()
    logged = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "cannot be looked up (403 no" in logged[0] and "no file descriptor left" in logged[1]


@pytest.mark.parametrize("content", [b"nonsense", b""])
def test_a_client_ca_file_without_certificates(tmp_path: Path, content: bytes) -> None:
    """Refused with the flag and the file."""
    file = tmp_path / "ca.crt"
    file.write_bytes(content)
    expected = rf"the client CA of --client-ca-file {file} is not a PEM certificate \(.*\): give a file with PEM"
    with pytest.raises(CertificateError, match=expected):
        ClientCa(AuthenticationOptions(client_ca_file=str(file))).pem()
