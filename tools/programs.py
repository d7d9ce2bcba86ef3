"""Finds the programs of Debian that some tests need, and installs them in CI.

    python -m tools.programs     prints their paths; in CI (CI is set) those that are missing are installed by apt-get

Elsewhere nothing is installed, and a missing program is no error: its tests are skipped.
"""

import os
import shutil
import subprocess
import sys

# By package. Chromium renders the HTML report; the others make network namespaces and their rules.
NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "iproute2": ("ip",),
    "nftables": ("nft",),
}
INSTALL = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends"])


def find_program(package: str) -> str | None:
    """The path of the package's program, by the first of its names that is there."""
    return next((found for name in NAMES[package] if (found := shutil.which(name)) is not None), None)


def missing() -> list[str]:
    """The packages whose program is not there."""
    return [package for package in NAMES if find_program(package) is None]


def install(packages: list[str]) -> None:
    """Install the packages by apt-get, which asks nothing."""
    update, add = INSTALL
    for command in (update, [*add, *packages]):
        surroundings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=surroundings)


def main() -> int:
    """Install what is missing where that is expected, and print where everything is."""
    if missing() and os.environ.get("CI") and shutil.which("apt-get") and os.geteuid() == 0:
        install(missing())
    for package in NAMES:
        print(find_program(package) or f"no {package}: the tests that need it are skipped")
    return 1 if missing() and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
