"""The Dockerfile makes the same image as `make image`: its last stage says the same, and copies the same files."""

import re

from tests.image.built_image import ROOT
from tools.image import oci

DOCKERFILE = (ROOT / "Dockerfile").read_text()
STAGES = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def instruction(name: str) -> str:
    """The only instruction of this name in the last stage."""
    (found,) = re.findall(rf"^{name} ((?:.*\\\n)*.*)$", STAGES[-1], re.MULTILINE)
    return str(found)


def test_builder_is_pinned_by_digest() -> None:
    """The only foreign image is named by tag and digest, and is not part of the result."""
    assert re.search(r"^ARG BUILDER=python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert ["--platform=${BUILDPLATFORM} ${BUILDER} AS build", "scratch"] == [stage.splitlines()[0] for stage in STAGES]


def test_last_stage_agrees_with_the_configuration() -> None:
    """User, environment, entry point, port and labels."""
    config = oci.configuration("amd64", [])["config"]
    assert config["User"] == instruction("USER")
    assert config["Env"] == instruction("ENV").split()
    assert config["Entrypoint"] == re.findall(r'"(.*?)"', instruction("ENTRYPOINT"))
    assert config["Cmd"] == re.findall(r'"(.*?)"', instruction("CMD"))
    assert list(config["ExposedPorts"]) == [f"{instruction('EXPOSE')}/tcp"]
    labels = dict(re.findall(r'(\S+)="(.*?)"', instruction("LABEL")))
    assert labels == {name: config["Labels"][name] for name in labels}


def test_context_has_every_input() -> None:
    """.dockerignore lets through all files that the build reads; each exists."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    wanted = {"LICENSE", "README.md", "deploy", "pyproject.toml", "requirements-build.lock", "requirements.lock", "src"}
    assert set() == wanted - set(allowed)
    assert [] == [name for name in allowed if not (ROOT / name).exists()]
