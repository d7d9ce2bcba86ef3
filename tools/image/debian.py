"""The Debian packages of the image: their lock file, where they are downloaded, and how the lock file is refreshed.

The lock file has the version and SHA-256 of each package for each architecture. A mirror needs no trust for a build, because
every package is compared with its hash; a refresh takes the hashes from apt, which verifies Debian's signatures.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

from tools.controlplane.build import cache
from tools.image.folders import HERE, ImageError, Unavailable

LOCK = HERE / "debian.lock"
RELEASE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHITECTURES = ("amd64", "arm64")
# What the interpreter and the wheels link to; root_filesystem.py leaves out extension modules that need more.
NAMES = (
    "base-files",
    "ca-certificates",
    "gcc-12-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libstdc++6",
    "netbase",
    "python3.11-minimal",
    "tzdata",
    "zlib1g",
)
INDEX = re.compile(rf"'(?P<mirror>\S+)/dists/(?P<suite>{RELEASE}[^/']*)/InRelease'")


class Gone(ImageError):
    """A locked version has left the mirrors."""


@dataclass(frozen=True, order=True)
class Package:
    """A package as it is locked; `filename` is its path on every mirror."""

    name: str
    version: str
    architecture: str
    filename: str
    sha256: str


def read_lock(architecture: str) -> list[Package]:
    """The locked packages for an architecture."""
    return [Package(**entry) for entry in json.loads(LOCK.read_text())[architecture]]


def write_lock(packages: dict[str, list[Package]]) -> None:
    """Write the lock file."""
    entries = {name: [asdict(package) for package in sorted(listed)] for name, listed in packages.items()}
    LOCK.write_text(json.dumps(entries, indent=1) + "\n")


def repositories() -> list[tuple[str, str]]:
    """Mirrors and suites of this release, from the machine's own settings of apt."""
    if shutil.which("apt-get") is None:
        raise Unavailable(
            "apt-get is not installed: set DEBIAN_MIRRORS to Debian's mirrors, or build with the Dockerfile"
        )
    command = ["apt-get", "update", "--print-uris"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if not (found := parse_repositories(said)):
        raise Unavailable(f"apt has no mirror of Debian {RELEASE}: set DEBIAN_MIRRORS, or build with the Dockerfile")
    return found


def parse_repositories(said: str) -> list[tuple[str, str]]:
    """Mirrors and suites of this release in what apt would download, each once."""
    return list(dict.fromkeys((each["mirror"], each["suite"]) for each in INDEX.finditer(said)))


def mirrors() -> list[str]:
    """Where packages are downloaded: DEBIAN_MIRRORS, or the mirrors that apt uses."""
    own = os.environ.get("DEBIAN_MIRRORS", "").split()
    return [mirror.rstrip("/") for mirror in own] or list(dict.fromkeys(mirror for mirror, _ in repositories()))


def fetch_all(packages: Iterable[Package]) -> list[Path]:
    """The files of these packages, from the cache or from a mirror."""
    folder = cache() / "image" / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    files = [(package, folder / f"{package.sha256}.deb") for package in packages]
    missing = [(package, file) for package, file in files if not is_intact(package, file)]
    places = mirrors() if missing else []
    for package, file in missing:
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(download(package, places))
        unfinished.rename(file)
    return [file for _, file in files]


def is_intact(package: Package, file: Path) -> bool:
    """Whether the cache has the package as it was locked."""
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == package.sha256


def download(package: Package, places: Sequence[str]) -> bytes:
    """A package's content from the first mirror that has it, with the locked hash."""
    unreachable = ""
    for place in places:
        address = f"{place}/{quote(package.filename)}"
        try:
            with urlopen(address, timeout=60) as answer:  # noqa: S310 (apt's own mirrors; the hash is compared)
                content: bytes = answer.read()
        except HTTPError as error:
            unreachable = unreachable if error.code == 404 else f"{address}: {error}"
        except (URLError, OSError) as error:
            unreachable = f"{address}: {error}"
        else:
            return checked(package, content, address)
    if unreachable:
        raise Unavailable(
            f"{package.name} cannot be downloaded ({unreachable}): check the network, or set DEBIAN_MIRRORS"
        )
    raise Gone(
        f"{package.name} {package.version} is not on {' or '.join(places)}: if a newer version has replaced it, "
        "run `make image-lock`, or set DEBIAN_MIRRORS to a snapshot of Debian that still has it"
    )


def checked(package: Package, content: bytes, address: str) -> bytes:
    """The content, if it is what the lock file says."""
    if (found := hashlib.sha256(content).hexdigest()) != package.sha256:
        raise ImageError(f"{address} has the SHA-256 {found}, the lock file says {package.sha256}: use another mirror")
    return content


def newest(architecture: str) -> list[Package]:
    """The newest version of every package, from indexes whose signatures apt has verified."""
    with TemporaryDirectory() as folder:
        sources = Path(folder, "sources.list")
        lines = [f"deb [signed-by={KEYRING}] {mirror} {suite} main\n" for mirror, suite in repositories()]
        sources.write_text("".join(lines))
        for name in ("state/lists/partial", "cache/archives/partial"):
            Path(folder, name).mkdir(parents=True)
        apt(folder, architecture, "apt-get", "update", "--error-on=any")
        shown = apt(folder, architecture, "apt-cache", "show", "--no-all-versions", *NAMES)
    return sorted(parse_index(shown))


def apt(folder: str, architecture: str, program: str, *arguments: str) -> str:
    """Run apt on a state of its own, so that neither root nor the machine's architecture matters."""
    settings = {
        "Dir::Etc::SourceList": f"{folder}/sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": f"{folder}/state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": f"{folder}/cache",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    ended = subprocess.run([program, *options, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Unavailable(f"{program} failed: {ended.stderr.strip()[-500:]}")
    return ended.stdout


def parse_index(text: str) -> Iterator[Package]:
    """The packages of an index, which has one paragraph for each."""
    for paragraph in filter(None, map(str.strip, text.split("\n\n"))):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        yield Package(
            fields["Package"], fields["Version"], fields["Architecture"], fields["Filename"], fields["SHA256"]
        )
