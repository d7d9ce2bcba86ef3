"""TLS of the secure port: which certificates are used and when they change, and which clients get no connection."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import trustme

from tests.serve.secure_server import ANY, NOW, Files, connect, serving, trusting
from trimtab.serve.health import Health
from trimtab.serve.http import create_app
from trimtab.serve.listener import listen, serve
from trimtab.serve.options import CertificateOptions
from trimtab.serve.serving_certificate import CertificateError
from trimtab.serve.tls import REREAD_INTERVAL, ServerTls
from trimtab.serve.tls_settings import tls_settings

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(options: CertificateOptions, client_ca: bytes = b"") -> ServerTls:
    return ServerTls(options, "127.0.0.1", lambda: client_ca, lambda: NOW)


async def test_a_given_certificate(tmp_path: Path, authority: trustme.CA) -> None:
    """A client that trusts its authority gets it."""
    async with serving(server_tls(Files.issue(tmp_path, authority).options)) as port:
        assert "server" == (await connect(port, trusting(authority))).common_name


async def test_new_files_are_served_to_new_connections(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    """A pair that does not fit is logged once, and the old one stays until it does."""
    tls = server_tls(Files.issue(tmp_path, authority, "old").options)
    async with serving(tls) as port:
        files = Files.issue(tmp_path, authority, "new")
        good = files.key.read_bytes()
        files.key.write_bytes(authority.issue_cert("other").private_key_pem.bytes())
        for _ in range(3):
            tls.reload()
        assert "old" == (await connect(port, trusting(authority))).common_name
        assert 1 == sum("failed to reload certificates" in each.getMessage() for each in caplog.records)
        files.key.write_bytes(good)
        tls.reload()
        assert "new" == (await connect(port, trusting(authority))).common_name


@pytest.mark.looptime
def test_the_client_ca_of_the_start_is_no_reload(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    """It is looked up after the port is open; only what changes afterwards is logged."""
    caplog.set_level(logging.INFO)
    first, second = authority.cert_pem.bytes(), trustme.CA().cert_pem.bytes()
    authorities = [b"", first, second, second]
    tls = ServerTls(Files.issue(tmp_path, authority).options, "127.0.0.1", lambda: authorities.pop(0), lambda: NOW)
    assert tls.update()
    assert [] == caplog.messages
    tls.reload()
    tls.reload()
    assert ["certificates reloaded: secure port"] == caplog.messages


async def test_files_are_read_again_within_a_minute(tmp_path: Path, authority: trustme.CA) -> None:
    """Without a signal or a restart."""
    tls = server_tls(Files.issue(tmp_path, authority, "old").options)
    before = tls.context.current
    task = asyncio.create_task(tls.run())
    Files.issue(tmp_path, authority, "new")
    await asyncio.sleep(REREAD_INTERVAL + 1)
    task.cancel()
    assert REREAD_INTERVAL < 60 and before is not tls.context.current


@pytest.mark.looptime
async def test_files_are_read_again_after_any_failure(
    tmp_path: Path, authority: trustme.CA, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without a file descriptor; it is logged once."""
    tls = server_tls(Files.issue(tmp_path, authority, "old").options)
    before, task = tls.context.current, asyncio.create_task(tls.run())
    Files.issue(tmp_path, authority, "new")
    with monkeypatch.context() as failing:
        failing.setattr(os, "memfd_create", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        await asyncio.sleep(2.5 * REREAD_INTERVAL)
    assert before is tls.context.current and 1 == caplog.text.count("Too many open files")
    await asyncio.sleep(REREAD_INTERVAL)
    task.cancel()
    assert before is not tls.context.current


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files: files.key.unlink(), "the key {key} cannot be read: No such file or directory"),
        (lambda files: files.cert.unlink(), "the certificate {cert} cannot be read: No such file or directory"),
        (lambda files: files.key.write_text("-----BEGIN"), "the certificate {cert} and the key {key} cannot be used"),
        (lambda files: files.cert.write_text(""), "the certificate {cert} and the key {key} cannot be used"),
        (
            lambda files: files.key.write_bytes(trustme.CA().issue_cert("x").private_key_pem.bytes()),
            "cannot be used together (KEY_VALUES_MISMATCH): give a PEM certificate and its own key",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, authority: trustme.CA, spoil: object, words: str) -> None:
    """One sentence with both files, the reason and the remedy."""
    files = Files.issue(tmp_path, authority)
    spoil(files)  # type: ignore[operator]
    with pytest.raises(CertificateError) as error:
        server_tls(files.options)
    assert words.format(cert=files.cert, key=files.key) in str(error.value)


def test_one_file_without_the_other(tmp_path: Path) -> None:
    """Both flags are named."""
    expected = "--tls-private-key-file is given without --tls-cert-file: set both, or none"
    with pytest.raises(CertificateError, match=expected):
        server_tls(CertificateOptions(key_file="x"))


def limited(authority: trustme.CA, version: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> ssl.SSLContext:
    context = trusting(authority)
    context.set_ciphers(ciphers)
    with pytest.warns(DeprecationWarning) if version < ssl.TLSVersion.TLSv1_2 else nullcontext():
        context.minimum_version = context.maximum_version = version
    return context


@pytest.fixture
async def port(tmp_path: Path, authority: trustme.CA) -> AsyncIterator[int]:
    async with serving(server_tls(Files.issue(tmp_path, authority).options)) as port:
        yield port


async def test_versions(port: int, authority: trustme.CA) -> None:
    """1.2 and 1.3, and nothing older."""
    assert "TLSv1.3" == (await connect(port, limited(authority, ssl.TLSVersion.TLSv1_3))).version
    assert "TLSv1.2" == (await connect(port, limited(authority, ssl.TLSVersion.TLSv1_2))).version
    for old in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1):
        client = limited(authority, old)
        with pytest.raises(OSError):
            await connect(port, client)


@asynccontextmanager
async def permissive(files: Files) -> AsyncIterator[int]:
    """A server with the same certificate that allows every suite."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    context.load_cert_chain(files.cert, files.key)
    async with serve(create_app(Health()), listen(ANY), context) as port:
        yield port


def weak_suites(authentication: str) -> list[str]:
    """Of TLS 1.2, with certificates of this kind: those without forward secrecy, and those with SHA-1."""
    scan = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    scan.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    names = [each["name"] for each in scan.get_ciphers() if each["auth"] in (authentication, "auth-null")]
    return [name for name in names if not name.startswith(("ECDHE-", "DHE-")) or name.endswith("-SHA")]


@pytest.mark.parametrize(("key", "at_least"), [(trustme.KeyType.ECDSA, 2), (trustme.KeyType.RSA, 10)])
async def test_every_weak_suite_is_refused(
    tmp_path: Path, authority: trustme.CA, key: trustme.KeyType, at_least: int
) -> None:
    """Each of them connects to a server that allows all, and not to ours, which has the same certificate."""
    files = Files.issue(tmp_path, authority, key_type=key)
    possible = 0
    async with permissive(files) as any_suite, serving(server_tls(files.options)) as port:
        for name in weak_suites(f"auth-{key.name.lower()}"):
            client = limited(authority, ssl.TLSVersion.TLSv1_2, f"{name}:@SECLEVEL=0")
            with suppress(OSError):
                possible += "TLSv1.2" == (await connect(any_suite, client)).version
            with pytest.raises(OSError):
                await connect(port, client)
        assert "TLSv1.2" == (await connect(port, limited(authority, ssl.TLSVersion.TLSv1_2))).version  # not the rate
    assert possible >= at_least


async def test_settings_of_the_flags(tmp_path: Path, authority: trustme.CA) -> None:
    """One suite of TLS 1.2 only; or TLS 1.3 alone."""
    files = Files.issue(tmp_path, authority)
    wanted = tls_settings("VersionTLS11", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA"])
    assert ("VersionTLS11", "TLS_RSA_WITH_AES_128_CBC_SHA") == wanted.weak
    one = CertificateOptions(str(files.cert), str(files.key), settings=wanted)
    async with serving(server_tls(one)) as port:
        allowed, other = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"
        assert "TLSv1.2" == (await connect(port, limited(authority, ssl.TLSVersion.TLSv1_2, allowed))).version
        refused = limited(authority, ssl.TLSVersion.TLSv1_2, other)
        with pytest.raises(OSError):
            await connect(port, refused)
    for settings in (tls_settings("VersionTLS13", ()), tls_settings("VersionTLS12", ["TLS_AES_128_GCM_SHA256"])):
        new = CertificateOptions(str(files.cert), str(files.key), settings=settings)
        async with serving(server_tls(new)) as port:
            assert "TLSv1.3" == (await connect(port, limited(authority, ssl.TLSVersion.TLSv1_3))).version
            older = limited(authority, ssl.TLSVersion.TLSv1_2)
            with pytest.raises(OSError):
                await connect(port, older)
