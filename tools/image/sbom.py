"""The bill of materials, as CycloneDX 1.6: of the lock file, or of everything in the image.

It has no date and no random number: the same inputs give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from email.message import Message
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from tools.image import deb_archive, wheels
from tools.image.debian import Package, fetch_all
from tools.image.folders import RUNTIME_LOCK, version

Component = dict[str, Any]
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\]+?))? \\$", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
MAX_LICENCE_NAME = 60  # longer ones are whole licence texts


def from_lock() -> str:
    """What requirements.lock may install, on any platform, with every hash that it accepts."""
    entries = re.split(r"\n(?=\S)", RUNTIME_LOCK.read_text().strip())
    return document(sorted((lock_component(entry) for entry in entries), key=reference), {})


def lock_component(entry: str) -> Component:
    """One entry of the lock file; its licence is known if this version is installed here."""
    pin = PIN.match(entry)
    assert pin is not None, f"not a locked requirement: {entry[:80]}"
    try:
        found = distribution(pin["name"])
        metadata = Parser().parsestr(found.read_text("METADATA") or "")
        licence = licences_of(metadata) if found.version == pin["version"] else []
    except PackageNotFoundError:
        licence = []
    component = python_component(pin["name"], pin["version"], HASH.findall(entry), licence)
    if pin["marker"]:
        component["properties"] = [{"name": "python:marker", "value": pin["marker"]}]
    return component


def of_image(packages: Sequence[Package], locked: Iterable[Path], own: Path) -> str:
    """What is in the image: Debian packages, wheels, and how they depend on each other."""
    needs: dict[str, set[str]] = {}
    components = []
    for package, deb in zip(packages, fetch_all(packages), strict=True):
        components.append(debian_component(package, deb))
        needs[reference(components[-1])] = debian_needs(deb)
    for wheel in locked:
        components.append(wheel_component(wheel))
        needs[reference(components[-1])] = wheel_needs(wheels.metadata(wheel))
    own_needs = wheel_needs(wheels.metadata(own)) | {"python3.11-minimal", "libpython3.11-stdlib"}
    needs[reference(trimtab_component())] = own_needs
    return document(components, needs)


def python_component(name: str, at: str, hashes: Iterable[str], licence: list[Component]) -> Component:
    """A package of PyPI's name space."""
    return component(canonical(name), at, f"pkg:pypi/{canonical(name)}@{quote(at, safe='')}", hashes, licence)


def wheel_component(wheel: Path) -> Component:
    """A wheel with its own hash."""
    found = wheels.metadata(wheel)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return python_component(str(found["Name"]), str(found["Version"]), [sha256], licences_of(found))


def debian_component(package: Package, deb: Path) -> Component:
    """A Debian package with the hash of its file."""
    place = f"pkg:deb/debian/{quote(package.name, safe='')}@{quote(package.version, safe='')}"
    qualifiers = f"?arch={package.architecture}&distro=debian-12"
    return component(package.name, package.version, place + qualifiers, [package.sha256], debian_licences(package, deb))


def component(name: str, at: str, purl: str, hashes: Iterable[str], licence: list[Component]) -> Component:
    """A component as CycloneDX writes it; without licences if none are known."""
    known = {"licenses": licence} if licence else {}
    listed = [{"alg": "SHA-256", "content": each} for each in sorted(hashes)]
    return {"type": "library", "bom-ref": purl, "name": name, "version": at, "purl": purl, "hashes": listed, **known}


def trimtab_component() -> Component:
    """What the document is about."""
    purl = f"pkg:pypi/trimtab@{version()}"
    licence = [{"license": {"id": "Apache-2.0"}}]
    return {
        "type": "application", "bom-ref": purl, "name": "trimtab", "version": version(), "purl": purl, "licenses": licence
    }  # fmt: skip


def reference(component: Component) -> str:
    """The name by which a component is referred to."""
    name: str = component["bom-ref"]
    return name


def canonical(name: str) -> str:
    """A Python package's name as PyPI normalises it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licences_of(fields: Message) -> list[Component]:
    """A Python package's licences: the SPDX expression, the old field if it is a name, or the classifiers."""
    if expression := fields.get("License-Expression"):
        return [{"expression": str(expression)}]
    name = str(fields.get("License") or "").strip()
    if name and "\n" not in name and len(name) <= MAX_LICENCE_NAME:
        return [{"license": {"name": name}}]
    classifiers = [str(each) for each in fields.get_all("Classifier") or [] if str(each).startswith("License ::")]
    return [{"license": {"name": each.rpartition(" :: ")[2]}} for each in sorted(classifiers)]


def debian_licences(package: Package, deb: Path) -> list[Component]:
    """The names of licences in a machine-readable copyright file; other files have only prose."""
    with deb_archive.open_part(deb, "data") as archive:
        path = f"./usr/share/doc/{package.name}/copyright"
        file = archive.extractfile(path) if path in archive.getnames() else None
        text = file.read().decode(errors="replace") if file else ""
    if not text.startswith("Format:"):
        return []
    return [
        {"license": {"name": name}} for name in sorted(set(re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE)))
    ]


def wheel_needs(fields: Message) -> set[str]:
    """The names that a wheel requires without extras."""
    lines = [str(line) for line in fields.get_all("Requires-Dist") or [] if "extra ==" not in str(line)]
    return {canonical(found[0]) for line in lines if (found := re.match(r"[\w.-]+", line))}


def debian_needs(deb: Path) -> set[str]:
    """The names that a Debian package depends on."""
    fields = deb_archive.fields(deb_archive.control(deb))
    lines = f"{fields.get('Depends', '')}, {fields.get('Pre-Depends', '')}"
    return set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]+)", lines))


def document(components: list[Component], needs: dict[str, set[str]]) -> str:
    """The whole document; what a component needs and is not in it is left out."""
    names = {component["name"]: reference(component) for component in components}
    graph = [
        {"ref": ref, "dependsOn": sorted(names[name] for name in wanted if name in names)}
        for ref, wanted in sorted(needs.items())
    ]
    content = {
        "metadata": {"lifecycles": [{"phase": "build"}], "component": trimtab_component()},
        "components": components,
        **({"dependencies": graph} if graph else {}),
    }
    serial = uuid5(NAMESPACE_URL, json.dumps(content, sort_keys=True))
    heading = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return json.dumps({**heading, **content}, indent=1) + "\n"
