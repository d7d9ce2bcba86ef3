"""Creates .venv and installs the locked dependencies.

    python tools/bootstrap.py runtime|dev

Standard library only, because it runs before anything is installed. A file lock allows two makes at once: the second one
waits and finds the work done. The stamp is written last, so an interrupted run starts over.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BUILD_TOOLS = VENV / "build-tools"
LOCKS = {"runtime": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
BUILD_LOCK = ROOT / "requirements-build.lock"
INCLUDED = {"runtime": ("runtime",), "dev": ("runtime", "dev")}


def stamp(kind: str) -> Path:
    """The file with the fingerprint of what was installed for this kind."""
    return VENV / f"{kind}.stamp"


def fingerprint(kind: str) -> str:
    """A hash over everything that determines what is installed."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (LOCKS[kind], BUILD_LOCK, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_done(kind: str) -> bool:
    """Whether an earlier run, or the make that held the lock, has installed this."""
    return PYTHON.exists() and stamp(kind).exists() and stamp(kind).read_text() == fingerprint(kind)


def pip(*arguments: str, **environment: str) -> None:
    """Install into .venv; if it fails, pip's own message is printed."""
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    if code := subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode:
        sys.exit(f"bootstrap: pip failed with exit code {code}; run `make clean` and try again")


def create() -> None:
    """Create .venv unless there is a working one of this Python version."""
    version = f"import sys; sys.exit(sys.version != {sys.version!r})"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", version], check=False).returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    venv.create(VENV, with_pip=True, symlinks=True)


def install_project() -> None:
    """Install Trimtab itself, editable.

    The build tools go into a separate folder: locked by hash like the rest, but not part of the runtime set.
    """
    shutil.rmtree(BUILD_TOOLS, ignore_errors=True)
    pip("--require-hashes", "--target", str(BUILD_TOOLS), "--requirement", str(BUILD_LOCK))
    pip("--no-deps", "--no-build-isolation", "--editable", str(ROOT), PYTHONPATH=str(BUILD_TOOLS))


def bootstrap(kind: str) -> None:
    """Install the locked set of this kind into .venv, once."""
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_done(kind):
            print(f"bootstrap: installing the {kind} set into .venv", file=sys.stderr)
            create()
            pip("--require-hashes", "--requirement", str(LOCKS[kind]))
            install_project()
        for included in INCLUDED[kind]:
            stamp(included).write_text(fingerprint(included))


if __name__ == "__main__":
    bootstrap(sys.argv[1])
