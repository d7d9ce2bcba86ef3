"""Decides which files belong to the project; leaves what must hold for them to the checks."""

import subprocess
from pathlib import Path


def files(root: Path) -> list[Path]:
    """Every file that git tracks or would track, relative to the root, in a fixed order."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (root / (path := Path(name))).is_file())
