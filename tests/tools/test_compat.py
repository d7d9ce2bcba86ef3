"""Control planes of other Kubernetes releases: their Go module, their folder, and the report of the tests."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tools.compat import __main__ as compat
from tools.compat import release
from tools.compat.__main__ import Run, parse_version, read_report
from tools.controlplane import build
from tools.controlplane.rig import FOLDER_VARIABLE, NotBuilt, controlplane_folder

OWN = """module k8s.io/kubernetes

go 1.22.0

require (
	k8s.io/api v0.0.0
	sigs.k8s.io/yaml v1.4.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
)
"""
OURS = """module trimtab.invalid/controlplane

go 1.22.0

require (
	k8s.io/api v0.0.0
	sigs.k8s.io/yaml v1.4.0
)

replace (
	k8s.io/api => k8s.io/api v0.31.12
)

require k8s.io/kubernetes v1.31.12
"""
REPORT = """<testsuites><testsuite>
<testcase classname="tests.live.test_a" name="test_one" time="1"/>
<testcase classname="tests.live.test_a" name="test_two" time="1">
  <failure message="assert 1 == 2&#10;more">…</failure></testcase>
<testcase classname="tests.live.test_b" name="test_three" time="1"><error message="no rig">…</error></testcase>
<testcase classname="tests.live.test_b" name="test_four" time="0"><skipped message="needs 1.33"/></testcase>
</testsuite></testsuites>"""


def test_staging_folders_become_published_modules() -> None:
    """The rest of the release's go.mod, its Go version above all, stays as it is."""
    assert OURS == release.module_file(OWN, "1.31.12")


def test_a_release_has_its_own_programs_and_the_pinned_companions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only Kubernetes differs from the pinned control plane."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    for folder in (build.folder(), release.release_folder("1.31.12")):
        folder.mkdir()
        for name in ("kube-apiserver", "kwok", "etcd"):
            (folder / name).write_text(folder.name)
    built = release.build_release("1.31.12")
    owners = {name: (built / name).read_text() for name in ("kube-apiserver", "kwok", "etcd")}
    pinned = build.folder().name
    assert {"kube-apiserver": release.release_folder("1.31.12").name, "kwok": pinned, "etcd": pinned} == owners


def test_the_pinned_release_is_not_built_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is the usual one."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    build.folder().mkdir()
    assert build.folder() == release.build_release(build.pinned_version())


def test_the_rig_uses_the_named_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without an API server is refused, so that no run passes on the wrong release."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NotBuilt, match="has no kube-apiserver"):
        controlplane_folder()
    (tmp_path / "kube-apiserver").touch()
    assert tmp_path == controlplane_folder()


def test_a_report_is_counted_by_outcome() -> None:
    """Errors of fixtures are failures."""
    failed = {"test_a::test_two": "assert 1 == 2", "test_b::test_three": "no rig"}
    assert Run("1.31.12", 1, failed, {"test_b::test_four": "needs 1.33"}, 60.0) == read_report("1.31.12", REPORT, 60.0)


def test_a_release_that_cannot_be_built_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with the reason, the others are tested, and the exit code says that one is missing."""

    def build_one(version: str) -> Path:
        if version == "1.31.14":
            raise build.Unavailable("the Go module proxy does not have it")
        return Path(version)

    monkeypatch.setattr(compat, "build_release", build_one)
    monkeypatch.setattr(compat, "run_tests", lambda version, folder, selection: Run(version, 7, {}, {}, 60.0))
    assert build.EXIT_UNAVAILABLE == compat.main(["1.31.14", "1.33.13"])
    said = capsys.readouterr()
    assert "Kubernetes 1.31.14 cannot be built here: the Go module proxy does not have it\n" == said.err
    assert "1.33.13" in said.out


def test_without_a_release_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the variable of make."""
    with pytest.raises(SystemExit, match="2"):
        compat.main([])
    assert "VERSIONS='1.33.13 1.37.1'" in capsys.readouterr().err


def test_what_is_left_out_exists_and_runs_on_the_pinned_release() -> None:
    """A test that was renamed would run on every release, and fail there."""
    assert [] == compat.left_out(build.pinned_version())
    for name in (argument.removeprefix("--deselect=") for argument in compat.left_out("1.31.4")):
        file, _, function = name.partition("::")
        assert f"def {function}(" in (compat.ROOT / file).read_text()


@pytest.mark.parametrize("text", ["1.33", "v1.33.13", "latest", "1.33.13-rc.0"])
def test_what_is_no_release(text: str) -> None:
    """The message has an example."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"as in 1\.33\.13"):
        parse_version(text)
