"""The image, started: what is in it, what is not, and what a program in it may do."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tests.image.built_image import PYTHON, contents_or_skip, output, run, unpacked_or_skip
from tools.image.build import write_image
from tools.image.folders import version
from tools.image.oci import ENVIRONMENT
from tools.image.sbom import canonical
from trimtab.cli.demo_screen import ASCII

pytestmark = pytest.mark.timeout(300)  # the first build downloads and compiles everything

# Run in the image: what its dynamic loader cannot load, of all its libraries and extension modules; and how many there are.
UNRESOLVED = """
import subprocess
from pathlib import Path
loader = next(Path("/usr/lib").glob("*-linux-gnu/ld-linux-*.so.*"))
libraries = [file for folder in ("/usr/lib", "/usr/local/lib") for file in Path(folder).rglob("*.so*") if file != loader]
failures = []
for file in ["/usr/bin/python3.11", *libraries]:
    ended = subprocess.run([loader, "--list", file], capture_output=True, text=True)
    failures += [ended.stderr] if ended.returncode else []
print(len(libraries), failures)
"""
IMPORTS = """
import pkgutil, importlib, trimtab
found = [module.name for module in pkgutil.walk_packages(trimtab.__path__, "trimtab.")]
for name in found:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(found))
"""
PROCESS = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getuid(), os.getgid(), os.getgroups(), *(status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")))
"""
WRITABLE = """
import os
skipped = ("/proc", "/dev")
print([top for top, _, _ in os.walk("/") if not top.startswith(skipped) and os.access(top, os.W_OK)])
"""
UNCOMPILED = """
import importlib.util, sys
from pathlib import Path
for folder in ("/usr/lib/python3.11", "/usr/local/lib/python3.11"):
    for file in Path(folder).rglob("*.py"):
        compiled = Path(importlib.util.cache_from_source(str(file)))
        if not compiled.exists() or compiled.read_bytes()[:8] != importlib.util.MAGIC_NUMBER + b"\\1\\0\\0\\0":
            print(file)
"""
INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps([[found.metadata["Name"], found.version] for found in distributions()]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's file system."""
    return unpacked_or_skip(tmp_path_factory.mktemp("image") / "root")


def test_version(root: Path) -> None:
    """The program starts, with Debian's interpreter and uvloop."""
    lines = dict(line.split(":", 1) for line in output(root, "/usr/bin/trimtab", "version").splitlines())
    assert (version(), True, True) == (
        lines["trimtab"].strip(), lines["python"].strip().startswith("3.11."), lines["uvloop"].strip() != "no"
    )  # fmt: skip


def test_demo(root: Path) -> None:
    """The demo runs to its end, in UTF-8: it needs templates, numpy and the simulator."""
    shown = output(root, "/usr/bin/trimtab", "demo", "--plain")
    assert "pods bound; on the tainted node: none" in shown
    assert any(chr(character) in shown for character in ASCII)  # what other encodings would have replaced


def test_every_module_imports(root: Path) -> None:
    """No module needs a part of Python or a library that was left out."""
    assert 100 < int(output(root, *PYTHON, IMPORTS))


def test_every_library_is_found(root: Path) -> None:
    """All shared libraries that anything in the image links to are in it."""
    count, _, failures = output(root, *PYTHON, UNRESOLVED).partition(" ")
    assert (True, "[]\n") == (int(count) > 80, failures)


def test_bytecode_is_complete(root: Path) -> None:
    """Every module has bytecode that this interpreter loads without looking at the source: /usr cannot be written."""
    assert "" == output(root, *PYTHON, UNCOMPILED)


def test_process_has_no_privileges(root: Path) -> None:
    """User and group 65532, no other group, no capability and none to gain."""
    none = "0000000000000000"
    assert f"65532 65532 [] {none} {none} 1\n" == output(root, *PYTHON, PROCESS)


def test_only_tmp_is_writable(root: Path) -> None:
    """A program finds no other folder that it may write to."""
    assert "['/tmp']\n" == output(root, *PYTHON, WRITABLE)


def test_there_is_no_shell(root: Path) -> None:
    """No shell, package manager or compiler: the interpreter and Trimtab are the only programs."""
    programs = {path.name for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o111}
    assert {"python3.11", "trimtab"} == {name for name in programs if ".so" not in name}
    assert "No such file" in run(root, "/bin/sh", "-c", "true").stderr
    modules = (
        "import importlib.util as u; print([n for n in ('pip', 'ensurepip', 'venv', 'setuptools') if u.find_spec(n)])"
    )
    assert "[]\n" == output(root, *PYTHON, modules)


def test_certificates_are_trusted(root: Path) -> None:
    """OpenSSL finds the certificate authorities of ca-certificates without a setting."""
    count = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert 100 < int(output(root, *PYTHON, count))


def test_sbom_lists_exactly_what_is_installed(root: Path) -> None:
    """The interpreter's own list and dpkg's list together are the bill of materials, in the image and beside it."""
    listed = json.loads((root / "usr/share/sbom/trimtab.cdx.json").read_text())
    python = {(canonical(name), at) for name, at in json.loads(output(root, *PYTHON, INSTALLED))}
    status = [file.read_text().splitlines() for file in (root / "var/lib/dpkg/status.d").iterdir()]
    fields = [dict(line.split(": ", 1) for line in lines if ": " in line) for lines in status]
    debian = {(each["Package"], each["Version"]) for each in fields}
    components = [*listed["components"], listed["metadata"]["component"]]
    assert python | debian == {(component["name"], component["version"]) for component in components}
    assert json.loads(contents_or_skip().sbom) == listed


def test_archive_names_image_and_user(tmp_path: Path) -> None:
    """What container tools read: name, user, entry point, and every blob under its own digest."""
    archive, digest = write_image(contents_or_skip(), tmp_path)
    with tarfile.open(archive) as files:
        read = {member.name: files.extractfile(member).read() for member in files}  # type: ignore[union-attr]
    (older,) = json.loads(read["manifest.json"])
    (entry,) = json.loads(read["index.json"])["manifests"]
    started = json.loads(read[older["Config"]])["config"]
    assert ([f"trimtab:{version()}"], digest) == (older["RepoTags"], entry["digest"])
    assert ("65532:65532", ["/usr/bin/trimtab"], list(ENVIRONMENT)) == (
        started["User"], started["Entrypoint"], started["Env"]
    )  # fmt: skip
    blobs = {name: content for name, content in read.items() if name.startswith("blobs/")}
    assert set(blobs) == {f"blobs/sha256/{hashlib.sha256(content).hexdigest()}" for content in blobs.values()}


def test_files_belong_to_root(root: Path) -> None:
    """Nobody but root could change a file, even if the root were writable."""
    found = [(path, path.lstat()) for path in root.rglob("*") if not path.is_symlink()]
    assert {(0, 0)} == {(status.st_uid, status.st_gid) for _, status in found}
    assert [root / "tmp"] == [path for path, status in found if status.st_mode & 0o022]
