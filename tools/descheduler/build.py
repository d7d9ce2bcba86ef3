"""Builds the SIG descheduler into the user's cache, as tools/controlplane/build.py builds the control plane.

It is a Go module of its own, because it needs other versions of Kubernetes' libraries than the control plane does.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.controlplane import build

HERE = Path(__file__).resolve().parent
PACKAGE = "sigs.k8s.io/descheduler"
DESCHEDULER = build.Module("descheduler", HERE, (build.Program("descheduler", "."),))
CA_FILE_VARIABLE = "DESCHEDULER_CA_FILE"


def descheduler_version() -> str:
    """The version that go.mod requires."""
    match = re.search(rf"{PACKAGE} v(\S+)", (HERE / "go.mod").read_text())
    assert match
    return match[1]


def build_descheduler() -> Path:
    """The program, built if necessary; raises `build.Unavailable` without Go or its modules."""
    wanted = build.module_folder(DESCHEDULER)
    if not wanted.is_dir():
        with build.build_lock():
            build.create_atomically(wanted, _compile)
    return wanted / DESCHEDULER.programs[0].name


def _compile(target: Path) -> None:
    build.log_progress("building the descheduler, once: three minutes on two idle cores")
    go, program = build.go_command(), DESCHEDULER.programs[0]
    build.fetch_modules(go, DESCHEDULER)
    version = f"-X {PACKAGE}/pkg/version.version=v{descheduler_version()}"
    build.compile_program(go, DESCHEDULER.source, target / program.name, program, version)
