"""The certificate of the secure port when it is self-signed, in memory or in --cert-dir, and when it expires."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from tests.serve.secure_server import NOW, Files, connect, serving, trusting
from trimtab.serve import serving_certificate
from trimtab.serve.options import CertificateOptions
from trimtab.serve.self_signed import expiry, new_key, self_signed
from trimtab.serve.serving_certificate import (
    CertificateError,
    CertificateFiles,
    CertificateFolder,
    SelfSignedCertificate,
)
from trimtab.serve.tls import ServerTls

DAY = 86400.0
YEAR = 365 * DAY


async def test_without_files_it_is_self_signed() -> None:
    """For localhost and the address; valid for a year; a client that does not trust it gets no connection."""
    async with serving(ServerTls(CertificateOptions(), "127.0.0.1", bytes, lambda: NOW)) as port:
        client = trusting(trustme.CA())
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await connect(port, client)
    certificate = self_signed("10.0.0.7", NOW, new_key())
    names = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert {"127.0.0.1", "::1", "10.0.0.7"} == {*map(str, names.value.get_values_for_type(x509.IPAddress))}
    assert "localhost" in names.value.get_values_for_type(x509.DNSName)
    assert NOW + YEAR == expiry(certificate)


def test_in_memory_it_is_renewed() -> None:
    """A month before it expires, and not before that."""
    source = SelfSignedCertificate("0.0.0.0")
    first = source.read(NOW)
    assert first == source.read(NOW + 330 * DAY)
    assert first != source.read(NOW + 336 * DAY)


class Folder:
    """A --cert-dir, opened by a new process each time."""

    def __init__(self, path: Path) -> None:
        self.path, self.cert, self.key = path, path / "kube-scheduler.crt", path / "kube-scheduler.key"

    def start(self, now: float = NOW) -> CertificateFolder:
        source = CertificateFolder(self.path, "127.0.0.1")
        source.read(now)
        return source


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "made")


def test_the_folder_keeps_a_self_signed_certificate(folder: Folder) -> None:
    """Made once, by kube-scheduler's names, with a key that only its owner can read; what is there is used."""
    folder.start()
    written = folder.cert.read_bytes(), folder.key.read_bytes()
    assert (0o600, 0o644) == tuple(stat.S_IMODE(each.stat().st_mode) for each in (folder.key, folder.cert))
    assert {folder.cert, folder.key} == {*folder.path.iterdir()}
    folder.start(NOW + 330 * DAY)
    assert written == (folder.cert.read_bytes(), folder.key.read_bytes())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Said with the flag."""
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match=r"--cert-dir .* cannot be written: .*: make the folder writable"):
        Folder(tmp_path / "file" / "x").start()


def test_our_own_certificate_is_renewed_in_the_folder(folder: Folder) -> None:
    """By a running process, and by one that finds it expired; the key stays, so one file is replaced and the pair fits."""
    source = folder.start()
    first, key = folder.cert.read_bytes(), folder.key.read_bytes()
    source.read(NOW + 336 * DAY)
    second = folder.cert.read_bytes()
    assert (first != second, NOW + 336 * DAY + YEAR) == (True, expiry(second))
    folder.start(NOW + 3 * YEAR)
    assert (NOW + 4 * YEAR, key) == (expiry(folder.cert.read_bytes()), folder.key.read_bytes())


@pytest.mark.parametrize("name", ["kube-scheduler.crt", "kube-scheduler.key"])
def test_a_crash_while_writing(folder: Folder, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file was not written, the next start makes the pair complete, and nothing else is left behind."""
    replace = serving_certificate._replace

    def crash(path: Path, content: bytes, mode: int) -> None:
        if path.name == name:
            raise KeyboardInterrupt
        replace(path, content, mode)

    with monkeypatch.context() as crashing, pytest.raises(KeyboardInterrupt):
        crashing.setattr(serving_certificate, "_replace", crash)
        folder.start()
    folder.start()
    assert {folder.cert, folder.key} == {*folder.path.iterdir()}


@pytest.mark.parametrize("empty", [False, True])
def test_our_certificate_without_its_key(folder: Folder, empty: bool) -> None:
    """Is made again, with a new key."""
    folder.start()
    first = folder.cert.read_bytes()
    folder.key.unlink()
    if empty:
        folder.key.touch()
    folder.start()
    assert first != folder.cert.read_bytes()


def test_a_renewal_that_cannot_be_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Is logged once; the certificate serves until it expires."""

    def read_only(path: Path, content: bytes, mode: int) -> None:
        raise OSError(30, "Read-only file system")

    source = folder.start()
    monkeypatch.setattr(serving_certificate, "_replace", read_only)
    for _ in range(3):
        assert folder.cert.read_bytes() == source.read(NOW + 336 * DAY).certificate
    logged = [each.getMessage() for each in caplog.records]
    assert 1 == len(logged) and "failed to renew the self-signed certificate: error=--cert-dir" in logged[0]


def test_what_others_put_into_the_folder_is_only_read(folder: Folder) -> None:
    """A certificate of an authority stays although it expires, one without its key is refused, and a bad key is named."""
    folder.path.mkdir()
    issued = Files.issue(folder.path, trustme.CA(), not_after=datetime.fromtimestamp(NOW, UTC) + timedelta(days=1))
    issued.cert.rename(folder.cert)
    issued.key.rename(folder.key)
    before = folder.cert.read_bytes(), folder.key.read_bytes()
    folder.start()
    assert before == (folder.cert.read_bytes(), folder.key.read_bytes())
    folder.key.unlink()
    with pytest.raises(CertificateError, match=f"the key {folder.key} cannot be read"):
        folder.start()
    folder.cert.unlink()
    folder.key.write_text("nonsense")
    with pytest.raises(CertificateError, match=rf"the key {folder.key} cannot be used \(.*\): delete it"):
        folder.start()
    assert "nonsense" == folder.key.read_text()


def test_an_expired_certificate_is_served_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be renewed in place any moment; each certificate is warned of once, however often it is read."""
    yesterday = datetime.fromtimestamp(NOW - DAY, UTC)
    files = Files.issue(tmp_path, trustme.CA(), not_after=yesterday)
    source = CertificateFiles(files.cert, files.key)
    for expected in (1, 2):
        for _ in range(3):
            source.read(NOW)
        assert expected == caplog.text.count("the serving certificate has expired")
        Files.issue(tmp_path, trustme.CA(), not_after=yesterday)
