"""The image's file system in three layers: Debian's packages with the interpreter, the locked wheels, and Trimtab.

No shell, package manager, compiler, header, test or manual is in it. What changes more often is in a later layer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.image import deb_archive, wheels
from tools.image.bytecode import Interpreter, add_bytecode
from tools.image.debian import Package, fetch_all
from tools.image.folders import HERE, RUNTIME_LOCK, cached, hash_of
from tools.image.layers import Layer, pack

USER = 65532
SITE = "usr/local/lib/python3.11/dist-packages"
PROGRAM = "usr/bin/trimtab"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
SBOM = "usr/share/sbom/trimtab.cdx.json"
LAYER_TOOLS = ("bytecode.py", "deb_archive.py", "layers.py", "root_filesystem.py", "wheels.py")

# The script names the interpreter; -s ignores a user's site-packages, -P keeps /usr/bin out of sys.path.
SCRIPT = """#!/usr/bin/python3.11 -sP
import sys

from trimtab.cli import main

sys.exit(main())
"""
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
FOLDERS = ("dev", "etc/trimtab", "proc", "run", "sys", "tmp", "var")
LINKS = {
    "usr/lib/ssl/cert.pem": f"/{CERTIFICATES}",  # where OpenSSL looks unless told otherwise
    "var/run": "../run",
}
# Extension modules of libraries that are not in the image (databases, terminals, NIS), and those of Python's own tests.
EXTENSIONS = "_crypt _ctypes_test _curses* _dbm _sqlite3 _test* _uuid _xxtestfuzz nis ossaudiodev readline xxlimited*"
DEBIAN_UNWANTED = (
    *(f"usr/lib/python3.11/lib-dynload/{name}.cpython-*" for name in EXTENSIONS.split()),
    *(
        f"usr/lib/python3.11/{name}/*"
        for name in ("curses", "dbm", "distutils", "pydoc_data", "sqlite3", "test", "venv")
    ),
    "usr/lib/python3.11/turtle*",
    "usr/lib/python3.11/_sysconfigdata__*-gnu.py.orig",
    "usr/lib/*/gconv/*",  # iconv's tables: Python has codecs of its own
    "usr/lib/*/libmemusage.so",
    "usr/lib/*/libpcprofile.so",
    "usr/lib/binfmt.d/*",
    "usr/sbin/*",
    "etc/update-motd.d/*",
    "etc/profile.d/*",
    "etc/issue*",
)
DEBIAN_SHARE = (
    "usr/share/ca-certificates/*",
    "usr/share/common-licenses/*",
    "usr/share/doc/*/copyright",
    "usr/share/zoneinfo/*",
)
WHEEL_UNWANTED = (
    "numpy/distutils/*",
    "numpy/f2py/*",
    "*/tests/*",
    "*/include/*",
    "*.pyi",
    "*.pyx",
    "*.pxd",
    "*.c",
    "*.h",
    "*.hpp",
    "*/pkgconfig/*",
    "*.a",
)


def debian_wanted(path: str) -> bool:
    """Whether a file of a Debian package belongs in the image."""
    if path.startswith("usr/share/"):
        is_link = path.startswith("usr/share/doc/") and path.count("/") == 3  # to a package with the same copyright
        return is_link or any(fnmatchcase(path, pattern) for pattern in DEBIAN_SHARE)
    return not any(fnmatchcase(path, pattern) for pattern in DEBIAN_UNWANTED)


def wheel_wanted(path: str) -> bool:
    """Whether a file of a wheel belongs in the image."""
    return not any(fnmatchcase(path, pattern) for pattern in WHEEL_UNWANTED)


def build_layers(
    packages: Sequence[Package], locked: Sequence[Path], own: Path, sbom: str, interpreter: Interpreter
) -> list[Layer]:
    """The three layers, each taken from the cache if none of its inputs has changed."""
    described = json.dumps([asdict(package) for package in packages])
    return [
        layer("debian", [described], lambda folder: add_debian(packages, folder), interpreter),
        layer(
            "wheels",
            [RUNTIME_LOCK.read_bytes(), *(file.name for file in locked)],
            lambda folder: add_wheels(locked, folder),
            interpreter,
        ),
        layer("trimtab", [own.read_bytes(), sbom], lambda folder: add_trimtab(own, sbom, folder), interpreter),
    ]


def layer(name: str, inputs: Sequence[bytes | str], fill: Callable[[Path], None], interpreter: Interpreter) -> Layer:
    """A layer by its inputs and the code that makes it."""
    code = [(HERE / tool).read_bytes() for tool in LAYER_TOOLS]

    def make(target: Path) -> None:
        with TemporaryDirectory() as folder:
            fill(Path(folder))
            add_bytecode(Path(folder), interpreter)
            packed = pack(Path(folder), target / "layer.tar.gz")
        described = {"digest": packed.digest, "diff_id": packed.diff_id, "uncompressed": packed.uncompressed}
        (target / "layer.json").write_text(json.dumps(described))

    made = cached(f"layer-{name}-{hash_of([interpreter.version, *inputs, *code])[:16]}", make)
    return Layer(file=made / "layer.tar.gz", **json.loads((made / "layer.json").read_text()))


def add_debian(packages: Sequence[Package], folder: Path) -> None:
    """Debian's files, what its scripts would have made of them, and the package list that scanners read."""
    for package, deb in zip(packages, fetch_all(packages), strict=True):
        deb_archive.unpack(deb, folder, debian_wanted)
        write(folder / f"var/lib/dpkg/status.d/{package.name}", installed(deb_archive.control(deb)))
    for path, text in FILES.items():
        write(folder / path, text)
    for path in FOLDERS:
        (folder / path).mkdir(parents=True, exist_ok=True)
    merged = {name: f"usr/{name}" for name in deb_archive.MERGED if (folder / "usr" / name).exists()}
    for path, aim in {**LINKS, **merged}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(aim)
    trusted = sorted((folder / "usr/share/ca-certificates").rglob("*.crt"))
    write(folder / CERTIFICATES, "".join(f"{file.read_text().rstrip()}\n" for file in trusted))


def installed(control: str) -> str:
    """A control file as an entry of dpkg's list of installed packages."""
    return re.sub(r"^(Package: .*)$", r"\1\nStatus: install ok installed", control, count=1, flags=re.MULTILINE)


def add_wheels(files: Sequence[Path], folder: Path) -> None:
    """The locked wheels."""
    for file in files:
        wheels.unpack(file, folder / SITE, wheel_wanted)


def add_trimtab(own: Path, sbom: str, folder: Path) -> None:
    """Trimtab's wheel, its program and the bill of materials."""
    wheels.unpack(own, folder / SITE, lambda path: True)
    write(folder / SBOM, sbom)
    write(folder / PROGRAM, SCRIPT)
    (folder / PROGRAM).chmod(0o755)


def write(place: Path, text: str) -> None:
    """Write a text file, with the folders above it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
