"""Locked Debian packages: what a mirror may answer, and what becomes of it."""

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tools.image import build, deb_archive, debian
from tools.image.__main__ import main
from tools.image.debian import ARCHITECTURES, NAMES, Gone, Package, fetch_all, parse_index, read_lock
from tools.image.folders import ImageError, Unavailable
from tools.image.root_filesystem import debian_wanted, wheel_wanted

INDEX = """Package: libffi8
Architecture: amd64
Version: 3.4.4-1
Description: a library
 continued: not a field
Filename: pool/main/libf/libffi/libffi8_3.4.4-1_amd64.deb
SHA256: 66
"""


def archive(files: Mapping[str, str]) -> bytes:
    """A tar archive of these files."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:xz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(text), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
    return written.getvalue()


def deb(control: bytes, data: bytes) -> bytes:
    """A Debian package: an ar archive, whose members begin at even places."""
    parts = {"debian-binary": b"2.0\n", "control.tar.xz": control, "data.tar.xz": data}
    written = b"!<arch>\n"
    for name, content in parts.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        written += header + content + b"\n" * (len(content) % 2)
    return written


FILES = {"lib/odd": "x", "usr/lib/m": "y", "etc/profile.d/z.sh": "z"}
CONTENT = deb(archive({"control": "Package: odd\nVersion: 1\n"}), archive(FILES))
ODD = Package("odd", "1:2+3", "all", "pool/o/odd_1%3a2+3_all.deb", hashlib.sha256(CONTENT).hexdigest())


class Mirror(BaseHTTPRequestHandler):
    """Serves one package, at its escaped path."""

    files = {"/debian/pool/o/odd_1%253a2%2B3_all.deb": CONTENT}  # noqa: RUF012 - read only

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A mirror, and an empty cache."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/debian"
    monkeypatch.setenv("DEBIAN_MIRRORS", address)
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    yield address
    server.shutdown()
    server.server_close()


def test_lock_has_every_package_for_every_architecture() -> None:
    """A name that was added needs `make image-lock`."""
    for architecture in ARCHITECTURES:
        locked = read_lock(architecture)
        assert sorted(NAMES) == [package.name for package in locked]
        assert {"all", architecture} == {package.architecture for package in locked}


def test_package_is_downloaded_once(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second build needs no mirror."""
    (file,) = fetch_all([ODD])
    monkeypatch.setenv("DEBIAN_MIRRORS", "http://127.0.0.1:1/debian")
    assert ([file], CONTENT) == (fetch_all([ODD]), file.read_bytes())


def test_package_with_another_hash_is_refused(mirror: str) -> None:
    """A mirror is not trusted: nothing is kept of a changed package."""
    changed = Package("odd", "1:2+3", "all", ODD.filename, "0" * 64)
    with pytest.raises(ImageError, match=f"has the SHA-256 {ODD.sha256}, the lock file says 0000"):
        fetch_all([changed])
    with pytest.raises(ImageError, match="has the SHA-256"):
        fetch_all([changed])


def test_package_that_was_replaced(mirror: str) -> None:
    """The remedy is named, and it is told apart from a network that fails."""
    with pytest.raises(Gone, match=r"odd 0 is not on http://127.*make image-lock.*DEBIAN_MIRRORS"):
        fetch_all([Package("odd", "0", "all", "pool/o/odd_0_all.deb", "1" * 64)])


def test_newer_packages_only_if_allowed(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for release fails if a locked version is gone; tests go on with today's versions."""
    gone = Package("odd", "0", "all", "pool/o/odd_0_all.deb", "1" * 64)
    monkeypatch.setattr(build, "read_lock", lambda architecture: [gone])
    monkeypatch.setattr(build, "newest", lambda architecture: [ODD])
    with pytest.raises(Gone):
        build.available_packages("amd64", allow_newer=False)
    assert [ODD] == build.available_packages("amd64", allow_newer=True)


def test_mirror_that_does_not_answer(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the address, and what to check."""
    monkeypatch.setenv("DEBIAN_MIRRORS", "http://127.0.0.1:1/debian")
    with pytest.raises(
        Unavailable, match=r"odd cannot be downloaded \(http://127\.0\.0\.1:1/debian.*check the network"
    ):
        fetch_all([ODD])


def test_machine_without_apt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, and another way to build."""
    monkeypatch.delenv("DEBIAN_MIRRORS", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert 3 == main(["lock"])
    assert "image: apt-get is not installed: set DEBIAN_MIRRORS" in capsys.readouterr().err


def test_another_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytecode of another version would not be loaded."""
    monkeypatch.setattr("tools.image.wheels.PYTHON", (3, 9))
    assert 3 == main(["build"])
    assert "building the image needs Python 3.9" in capsys.readouterr().err


def test_index_is_parsed() -> None:
    """Continuation lines are not fields."""
    wanted = Package("libffi8", "3.4.4-1", "amd64", "pool/main/libf/libffi/libffi8_3.4.4-1_amd64.deb", "66")
    assert [wanted] == list(parse_index(f"{INDEX}\n{''}"))


def test_repositories_are_those_of_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only mirrors of this release count, each once."""
    said = (
        "'http://mirror/debian/dists/bookworm/InRelease' mirror_InRelease 0 \n"
        "'http://mirror/security/dists/bookworm-security/InRelease' mirror_InRelease 0 \n"
        "'https://other/apt/dists/nodistro/InRelease' other_InRelease 0 \n"
        "'http://mirror/debian/dists/bookworm/InRelease' mirror_InRelease 0 \n"
    )
    assert [("http://mirror/debian", "bookworm"), ("http://mirror/security", "bookworm-security")] == (
        debian.parse_repositories(said)
    )


def test_unpacking_merges_usr_and_leaves_out_the_rest(tmp_path: Path) -> None:
    """/lib is a link into /usr; unwanted files and empty folders do not appear."""
    file = tmp_path / "odd.deb"
    file.write_bytes(CONTENT)
    deb_archive.unpack(file, tmp_path / "root", debian_wanted)
    found = [
        path.relative_to(tmp_path / "root").as_posix() for path in (tmp_path / "root").rglob("*") if path.is_file()
    ]
    assert ["usr/lib/m", "usr/lib/odd"] == sorted(found)
    assert {"Package": "odd", "Version": "1"} == deb_archive.fields(deb_archive.control(file))


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("usr/lib/python3.11/json/__init__.py", True),
        ("usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True),
        ("usr/lib/python3.11/lib-dynload/_sqlite3.cpython-311-x86_64-linux-gnu.so", False),
        ("usr/lib/python3.11/test/support.py", False),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libstdc++6", True),
        ("usr/share/doc/libc6/changelog.gz", False),
        ("usr/share/man/man1/python3.11.1.gz", False),
        ("usr/sbin/update-ca-certificates", False),
    ],
)
def test_what_is_taken_from_debian(path: str, wanted: bool) -> None:
    """Licences stay; manuals, tests and programs do not."""
    assert wanted == debian_wanted(path)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("numpy/_core/tests/test_x.py", False),
        ("numpy/__init__.pyi", False),
        ("numpy/testing/__init__.py", True),
        ("numpy-2.4.6.dist-info/METADATA", True),
    ],
)
def test_what_is_taken_from_wheels(path: str, wanted: bool) -> None:
    """Tests, headers and stubs are not needed at run time."""
    assert wanted == wheel_wanted(path)
