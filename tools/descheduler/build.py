"""Builds the SIG descheduler into the user's cache, as tools/controlplane/build.py builds the control plane.

    from tools.descheduler.build import build_descheduler

Its own Go module, because it needs other versions of Kubernetes' libraries than the control plane does.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.controlplane import build

HERE = Path(__file__).resolve().parent
PACKAGE = "sigs.k8s.io/descheduler"
CA_FILE = "ca.crt"
DESCHEDULER = build.Module("descheduler", HERE, (build.Program("descheduler", f"{PACKAGE}/cmd/descheduler"),))


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
    build.log_progress("building the descheduler, once: some minutes")
    go, program = build.go_command(), DESCHEDULER.programs[0]
    build.fetch_modules(go, DESCHEDULER)
    build.compile_program(go, DESCHEDULER.source, target / program.name, program, _linker_variables())


def _linker_variables() -> str:
    """Its version; and the file of the CA for Prometheus, in its working folder instead of in a pod's file system."""
    values = {"version.version": f"v{descheduler_version()}", "descheduler/client.K8sPodCAFilePath": CA_FILE}
    return " ".join(f"-X {PACKAGE}/pkg/{name}={value}" for name, value in values.items())
