"""Writes the files in deploy/ that are made from others: ConfigMaps of the configuration templates, and the chart's copies.

    python -m tools.manifests           write them
    python -m tools.manifests --check   exit 1 and name those that differ

A template is written once, in src/trimtab/config/templates. kustomize reads no file outside of its own folder, and Helm none
outside of the chart, hence the copies; tests/deploy compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "src" / "trimtab" / "config" / "templates"
DEFAULT = "default"
WRITTEN_BY = "# Written by `make manifests` from src/trimtab/config/templates/{name}.yaml: edit that file.\n"
LABELS = {"name": "trimtab", "instance": "trimtab", "component": "scheduler", "part-of": "trimtab"}


def manifests() -> dict[Path, str]:
    """The content of each file, by its path in the repository."""
    names = sorted(each.stem for each in TEMPLATES.glob("*.yaml"))
    return dict(written for name in names for written in _of_template(name))


def _of_template(name: str) -> Iterator[tuple[Path, str]]:
    text = (TEMPLATES / f"{name}.yaml").read_text()
    if name == DEFAULT:
        yield Path("deploy/configmap.yaml"), WRITTEN_BY.format(name=name) + config_map(text)
        return
    folder = Path("deploy/components") / f"template-{name}"
    yield folder / "configmap.yaml", WRITTEN_BY.format(name=name) + config_map(text)
    yield folder / "kustomization.yaml", _component(name, text)


def config_map(text: str) -> str:
    """The scheduler's ConfigMap, with its comments; a running process reads it again, so its name has no hash."""
    labels = "".join(f"    app.kubernetes.io/{key}: {value}\n" for key, value in LABELS.items())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: trimtab\n  namespace: trimtab\n  labels:\n" + labels
    return f"{head}data:\n  config.yaml: |\n{_indented(text, 4)}"


def _component(name: str, text: str) -> str:
    return (
        f"# The configuration template {text.splitlines()[0].removeprefix('# ')}\n"
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
        "patches:\n  - path: configmap.yaml\n"
    )


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line if line.strip() else line for line in text.splitlines(keepends=True))


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    differing = [
        path for path, text in manifests().items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    ]
    if arguments == ["--check"]:
        for path in differing:
            print(f"{path} is not as `make manifests` writes it")
        return 1 if differing else 0
    for path in differing:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(manifests()[path])
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
