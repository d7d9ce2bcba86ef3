"""Builds the control plane of another Kubernetes release into the cache.

Only Kubernetes itself is built: etcd, kwok, Prometheus and the other programs are those of the pinned control plane, so that
a difference between two runs is a difference between two Kubernetes releases.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from tools.controlplane import build

SOURCE = Path(__file__).with_name("main.go")
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
STAGING = re.compile(r"=> \./staging/src/(\S+)")


def release_folder(version: str) -> Path:
    """The folder of this release's binaries, built or not."""
    settings = (version, PARTS, build.FLAGS, build.linker_variables(version))
    digest = hashlib.sha256(repr(settings).encode() + SOURCE.read_bytes()).hexdigest()[:16]
    return build.cache() / f"kubernetes-{version}-{digest}"


def controlplane_folder(version: str) -> Path:
    """The folder of the whole control plane of this release, built or not."""
    digest = hashlib.sha256(f"{release_folder(version).name} {build.folder().name}".encode()).hexdigest()[:16]
    return build.cache() / f"controlplane-{version}-{digest}"


def build_release(version: str) -> Path:
    """The control plane of this release, built if necessary."""
    pinned, wanted = build.build(), controlplane_folder(version)
    if version == build.pinned_version():
        return pinned
    if not wanted.is_dir():
        with build.build_lock():
            build.create_atomically(release_folder(version), partial(_compile, version))
            build.create_atomically(wanted, partial(_link, pinned, release_folder(version)))
    return wanted


def _link(pinned: Path, release: Path, target: Path) -> None:
    """Link this release's programs, and every other program of the pinned control plane."""
    for path in pinned.iterdir():
        source = release if path.name in PARTS else pinned
        (target / path.name).symlink_to(Path("..", source.name, path.name))


def _compile(version: str, target: Path) -> None:
    build.log_progress(f"building Kubernetes {version}, once: some minutes")
    go = build.go_command()
    _write_module(go, version, target)
    program = build.Program("controlplane", ".")
    build.compile_program(go, target, target / "controlplane", program, build.linker_variables(version))
    for part in PARTS:
        (target / part).symlink_to("controlplane")


def _write_module(go: str, version: str, target: Path) -> None:
    """Write main.go and go.mod, and resolve the modules; both files stay with the binaries as the record of what they are."""
    own = _source_of(go, version)
    (target / "go.mod").write_text(module_file((own / "go.mod").read_text(), version))
    shutil.copyfile(own / "go.sum", target / "go.sum")
    (target / "go.sum").chmod(0o644)  # Go's module cache is read-only
    shutil.copyfile(SOURCE, target / "main.go")
    command = [go, "list", "-mod=mod", "-deps", "."]
    done = subprocess.run(
        command, cwd=target, env=build.go_environment(), stdout=subprocess.DEVNULL, stderr=sys.stderr, check=False
    )
    if done.returncode:
        minor = version.rpartition(".")[0]
        raise build.Unavailable(f"some of its Go modules could not be fetched; try another patch release of {minor}")


def _source_of(go: str, version: str) -> Path:
    """The folder of the release's source in Go's module cache."""
    command = [go, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"]
    answer = subprocess.run(
        command, cwd=build.cache(), env=build.go_environment(), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise build.Unavailable("the Go module proxy does not have it")
    return Path(json.loads(answer.stdout)["Dir"])


def module_file(own: str, version: str) -> str:
    """The go.mod for our main, from the release's own: its staging folders become the modules published from them."""
    published = f"v0.{version.partition('.')[2]}"
    replaced = STAGING.sub(rf"=> \1 {published}", own)
    named = replaced.replace("module k8s.io/kubernetes\n", "module trimtab.invalid/controlplane\n")
    return f"{named}\nrequire k8s.io/kubernetes v{version}\n"
