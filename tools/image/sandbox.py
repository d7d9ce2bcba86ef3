"""Runs a program in an unpacked image, restricted as by a container runtime.

    python -m tools.image.sandbox [options] ROOT PROGRAM [ARGUMENT...]
    --bind SOURCE:TARGET    mounts a file or folder of this machine, read-only; may be repeated
    --env NAME=VALUE        sets a variable; may be repeated

The root is read-only, /tmp is an empty tmpfs, the user and group are 65532 without capabilities or a way to gain any, and the
network is the machine's. The process replaces this one, so signals and the exit code are its own. Needs root, but neither a
container runtime nor a shell in the image.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.image.oci import ENVIRONMENT
from tools.image.root_filesystem import USER

NEW_MOUNTS = 0x00020000
READ_ONLY, NO_SUID, NO_DEV, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
NO_NEW_PRIVILEGES, DROP_BOUNDING = 38, 24
DEVICES = ("null", "zero", "random", "urandom")

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise what the C library says, if it says so."""
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    arguments = (source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode())
    check(libc.mount(*arguments), f"mount {target}")


def bind(source: Path, target: Path, flags: int = READ_ONLY | NO_SUID | NO_DEV) -> None:
    """Show a file or folder at a second place; the mount point is made, as container runtimes do."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(str(source), target, flags=BIND | RECURSIVE)
    if flags:
        mount("none", target, flags=REMOUNT | BIND | flags)


def enter(root: Path, binds: Iterable[tuple[Path, str]]) -> None:
    """Mount everything in a namespace of this process alone, and make the image its root."""
    check(libc.unshare(NEW_MOUNTS), "unshare")
    mount("none", Path("/"), flags=RECURSIVE | PRIVATE)
    shown = [(source, root / target.lstrip("/")) for source, target in binds]
    for source, target in shown:
        bind(source, target)
    mount(str(root), root, flags=BIND | RECURSIVE)
    mount("none", root, flags=REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEV)
    mount("tmpfs", root / "tmp", "tmpfs", NO_SUID | NO_DEV, "size=64m,mode=1777")
    mount("/proc", root / "proc", flags=BIND | RECURSIVE)
    mount("tmpfs", root / "dev", "tmpfs", NO_SUID, "size=64k,mode=755")
    for device in DEVICES:
        bind(Path("/dev", device), root / "dev" / device, flags=0)
    os.chroot(root)
    os.chdir("/")


def drop_privileges() -> None:
    """Become the image's user, for good."""
    for capability in range(64):
        libc.prctl(DROP_BOUNDING, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    check(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no new privileges")


def command(
    root: Path,
    program: Sequence[str],
    binds: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The command that runs a program in the sandbox, for subprocess."""
    options = [part for source, target in (binds or {}).items() for part in ("--bind", f"{source}:{target}")]
    options += [part for name, value in (environment or {}).items() for part in ("--env", f"{name}={value}")]
    return [sys.executable, "-m", "tools.image.sandbox", *options, str(root), *program]


def main(arguments: Sequence[str]) -> None:
    """Replace this process by the program."""
    parser = argparse.ArgumentParser(prog="python -m tools.image.sandbox")
    parser.add_argument("--bind", action="append", default=[], metavar="SOURCE:TARGET")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("root", type=Path)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    binds = [(Path(source).resolve(), target) for source, _, target in (each.partition(":") for each in given.bind)]
    environment = dict(each.split("=", 1) for each in (*ENVIRONMENT, *given.env))
    try:
        enter(given.root.resolve(), binds)
        drop_privileges()
        os.execve(given.program, [given.program, *given.arguments], environment)  # noqa: S606 (the caller's)
    except OSError as error:
        sys.exit(f"sandbox: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
