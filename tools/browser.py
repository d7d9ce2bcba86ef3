"""Finds Chromium for the tests of the HTML report, and installs it in CI.

    python -m tools.browser     prints its path; in CI (CI is set) it is installed by apt-get if it is missing

Elsewhere nothing is installed, and a missing browser is no error: its tests are skipped.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"])


def find_browser() -> str | None:
    """The path of Chromium, or of what is built from it."""
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


def main() -> int:
    """Install it where that is expected, and print where it is."""
    if find_browser() is None and os.environ.get("CI") and shutil.which("apt-get") and os.geteuid() == 0:
        for command in INSTALL:
            surroundings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=surroundings)
    found = find_browser()
    print(found or "no Chromium: the tests of the HTML report are skipped")
    return 1 if found is None and os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())
