"""The bill of materials of the lock file: every pin with its hashes, the same bytes each time."""

import json
import re
from email.message import Message
from pathlib import Path

import pytest

from tests.image.built_image import ROOT
from tools.image import sbom
from tools.image.__main__ import main
from tools.image.folders import version

LOCK = (ROOT / "requirements.lock").read_text()


def metadata(**fields: str) -> Message:
    """A package's metadata."""
    message = Message()
    for name, value in fields.items():
        message[name.replace("_", "-")] = value
    return message


def test_every_pin_and_hash_of_the_lock_is_listed() -> None:
    """Nothing is missing, nothing added; both versions of a package with markers."""
    document = json.loads(sbom.from_lock())
    listed = [(component["name"], component["version"]) for component in document["components"]]
    hashes = [each["content"] for component in document["components"] for each in component["hashes"]]
    assert sorted(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE)) == sorted(listed)
    assert sorted(re.findall(r"sha256:([0-9a-f]{64})", LOCK)) == sorted(hashes)
    assert ("CycloneDX", "1.6", version()) == (
        document["bomFormat"], document["specVersion"], document["metadata"]["component"]["version"]
    )  # fmt: skip


def test_markers_are_kept() -> None:
    """A reader sees for which interpreter a version is meant."""
    components = json.loads(sbom.from_lock())["components"]
    markers = {each["version"]: each["properties"][0]["value"] for each in components if each["name"] == "numpy"}
    assert {"python_full_version < '3.12'", "python_full_version >= '3.12'"} == set(markers.values())


def test_purl_identifies_every_component() -> None:
    """Scanners look packages up by it, and references are unique."""
    components = json.loads(sbom.from_lock())["components"]
    assert [f"pkg:pypi/{each['name']}@{each['version']}" for each in components] == [
        each["purl"] for each in components
    ]
    assert len(components) == len({each["bom-ref"] for each in components})


def test_same_lock_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make sbom` twice: no date, no random number."""
    for name in ("one", "two"):
        assert 0 == main(["sbom", "--output", str(tmp_path / name)])
    one, two = (Path(line) for line in capsys.readouterr().out.splitlines())
    assert one.read_bytes() == two.read_bytes()


def test_licences() -> None:
    """The SPDX expression is preferred; a whole licence text in the old field is not a name."""
    assert [{"expression": "MIT"}] == sbom.licences_of(metadata(License_Expression="MIT", License="other"))
    assert [{"license": {"name": "Apache 2.0"}}] == sbom.licences_of(metadata(License="Apache 2.0"))
    classifier = metadata(License="x" * 400, Classifier="License :: OSI Approved :: MIT License")
    assert [{"license": {"name": "MIT License"}}] == sbom.licences_of(classifier)
    assert [] == sbom.licences_of(metadata(Name="unknown"))


def test_dependencies_name_components_only() -> None:
    """Extras and packages that are not in the document are left out."""
    needs = metadata(Requires_Dist='Typing_Extensions>=4; python_version < "3.13"')
    needs["Requires-Dist"] = 'brotli; extra == "speedups"'
    assert {"typing-extensions"} == sbom.wheel_needs(needs)
    component = sbom.python_component("typing_extensions", "4", [], [])
    graph = json.loads(sbom.document([component], {"root": {"typing-extensions", "absent"}}))["dependencies"]
    assert [{"ref": "root", "dependsOn": ["pkg:pypi/typing-extensions@4"]}] == graph
