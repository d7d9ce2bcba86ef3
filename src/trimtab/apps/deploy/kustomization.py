"""Reads the shipped manifests by their kustomization.yaml files, so that the lists of files are written once.

Understood are `resources`, `components`, and `configMapGenerator` with files, without name suffixes: what the base and
the components that `trimtab deploy` offers use. Anything else is an error, never skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import trimtab
from trimtab.apps.deploy.api_client import DeployError, Object

FILE = "kustomization.yaml"
IGNORED = {"apiVersion", "kind", "metadata"}
GANG, POD_GROUPS = "gang", "crd-podgroup.yaml"
KNOWN = {"resources", "components", "configMapGenerator"}


def manifests_folder() -> Path:
    """Where the manifests are: in the installed package, or in `deploy` of a source tree."""
    package = Path(trimtab.__file__).parent
    for folder in (package / "manifests", package.parents[1] / "deploy"):
        if (folder / FILE).is_file():
            return folder
    raise DeployError(
        "this installation of trimtab has no manifests: install the wheel, or run it from the source tree"
    )


def component_names(folder: Path) -> tuple[str, ...]:
    """The optional parts."""
    return tuple(sorted(each.parent.name for each in folder.glob(f"components/*/{FILE}")))


def read_manifests(folder: Path, components: tuple[str, ...] = ()) -> list[Object]:
    """The objects of the base, then those of each component; with gangs also their kind, which the component leaves out."""
    parts = [folder, *(folder / "components" / name for name in components)]
    definitions = _load(folder / POD_GROUPS) if GANG in components else []
    return [*(item for part in parts for item in read_kustomization(part)), *definitions]


def read_kustomization(folder: Path) -> Iterator[Object]:
    """All objects of a folder's kustomization.yaml."""
    document = _load(folder / FILE)[0]
    if unknown := document.keys() - IGNORED - KNOWN:
        raise DeployError(f"{folder / FILE}: {min(unknown)} is not supported here: apply it with kubectl apply -k")
    for name in document.get("resources") or ():
        path = folder / name
        yield from read_kustomization(path) if path.is_dir() else _load(path)
    for name in document.get("components") or ():
        yield from read_kustomization(folder / name)
    for generator in document.get("configMapGenerator") or ():
        yield _config_map(folder, generator)


def _load(path: Path) -> list[Object]:
    try:
        return [item for item in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if item]
    except (OSError, yaml.YAMLError) as error:
        raise DeployError(f"{path}: cannot be read: {error}") from None


def _config_map(folder: Path, generator: dict[str, Any]) -> Object:
    options = generator.get("options") or {}
    if not options.get("disableNameSuffixHash"):
        raise DeployError(f"{folder / FILE}: {generator['name']}: names with a suffix are not supported here")
    pairs = (each.rpartition("=") for each in generator.get("files") or ())
    data = {key or Path(file).name: (folder / file).read_text() for key, _, file in pairs}
    metadata = {key: options[key] for key in ("labels", "annotations") if key in options}
    names = {"name": generator["name"], "namespace": generator.get("namespace", "")}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {key: value for key, value in {**names, **metadata}.items() if value},
        "data": data,
    }


def read_everything(folder: Path) -> Iterator[Object]:
    """The objects of the base and of every component that can be read: all that an installation may consist of."""
    yield from read_manifests(folder, (GANG,))
    for name in component_names(folder):
        try:
            yield from list(read_kustomization(folder / "components" / name))
        except DeployError:
            continue  # it patches the base and has no objects of its own
