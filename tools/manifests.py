"""Writes the files in deploy/ that are made from others: ConfigMaps of templates, monitoring, parts of the chart.

    python -m tools.manifests           write them
    python -m tools.manifests --check   exit 1 and name those that differ

A template is written once, in src/trimtab/config/templates. kustomize reads no file outside of its own folder, and Helm none
outside of the chart, hence the copies. The table of values in the chart's README is made of the comments in values.yaml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.monitoring import files as monitoring

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "src" / "trimtab" / "config" / "templates"
DEPLOY, CHART = Path("deploy"), Path("deploy/chart/trimtab")
DEFAULT = "default"
WRITTEN_BY = "# Written by `make manifests` from src/trimtab/config/templates/{name}.yaml: edit that file.\n"
LABELS = {"name": "trimtab", "instance": "trimtab", "component": "scheduler", "part-of": "trimtab"}
SINGLE_REPLICA = """\
  # Without a lease every replica would schedule, so that there is one, and never a second beside it.
  - target: {kind: Deployment, name: trimtab}
    patch: |
      - {op: replace, path: /spec/replicas, value: 1}
      - {op: replace, path: /spec/strategy, value: {type: Recreate}}
"""
VALUES_HEADING = "## Values\n"
_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<value>.*)")


def manifests() -> dict[Path, str]:
    """The content of each file, by its path in the repository."""
    names = sorted(each.stem for each in TEMPLATES.glob("*.yaml"))
    written = dict(each for name in names for each in _of_template(name))
    for name in ("labeller", "rescheduler"):
        written[CHART / "files" / f"{name}.yaml"] = _shipped_config(name)
    written |= _monitoring()
    written[CHART / "README.md"] = _readme((ROOT / CHART / "README.md").read_text())
    return written


def _monitoring() -> dict[Path, str]:
    """Dashboards and alerts, and their copies in the chart, which makes its own PrometheusRule."""
    made = monitoring.files()
    copied = {name: text for name, text in made.items() if name != "prometheusrule.yaml"}
    return {
        **{DEPLOY / "monitoring" / name: text for name, text in made.items()},
        **{CHART / "files" / "monitoring" / name: text for name, text in copied.items()},
    }


def _of_template(name: str) -> Iterator[tuple[Path, str]]:
    text = (TEMPLATES / f"{name}.yaml").read_text()
    yield CHART / "files" / "templates" / f"{name}.yaml", text
    if name == DEFAULT:
        yield DEPLOY / "configmap.yaml", WRITTEN_BY.format(name=name) + config_map(text)
        return
    folder = DEPLOY / "components" / f"template-{name}"
    yield folder / "configmap.yaml", WRITTEN_BY.format(name=name) + config_map(text)
    yield folder / "kustomization.yaml", _component(text)


def config_map(text: str) -> str:
    """The scheduler's ConfigMap, with the comments; a running process reads it again, so its name has no hash."""
    labels = "".join(f"    app.kubernetes.io/{key}: {value}\n" for key, value in LABELS.items())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: trimtab\n  namespace: trimtab\n  labels:\n" + labels
    return f"{head}data:\n  config.yaml: |\n{_indented(text, 4)}"


def _component(text: str) -> str:
    return (
        f"# The configuration template {text.splitlines()[0].removeprefix('# ')}\n"
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
        "patches:\n  - path: configmap.yaml\n" + (SINGLE_REPLICA if "\n  leaderElect: false" in text else "")
    )


def _shipped_config(component: str) -> str:
    shipped = yaml.safe_load((ROOT / "deploy" / "components" / component / "configmap.yaml").read_text())
    text: str = shipped["data"]["config.yaml"]
    return text


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line if line.strip() else line for line in text.splitlines(keepends=True))


def _readme(text: str) -> str:
    """The README with the table of values up to date; the table is its last part."""
    before = text[: text.index(VALUES_HEADING)]
    values = (ROOT / CHART / "values.yaml").read_text()
    rows = "".join(f"| `{path}` | `{default}` | {about} |\n" for path, default, about in documented_values(values))
    return f"{before}{VALUES_HEADING}\n| value | default | |\n|---|---|---|\n{rows}"


def documented_values(text: str) -> Iterator[tuple[str, str, str]]:
    """Path, default and comment of each value: a key whose own comment is on the line before it.

    Keys below a documented one are part of its default.
    """
    defaults, parents = yaml.safe_load(text), list[str]()
    about, documented_depth = "", 99
    for line in text.splitlines():
        if line.strip().startswith("#"):
            about = line.strip().removeprefix("# ")
        elif found := _KEY.fullmatch(line):
            depth = len(found["indent"]) // 2
            parents[depth:] = [found["key"]]
            if depth <= documented_depth:
                documented_depth = depth if about else 99
                if about:
                    yield ".".join(parents), _default(defaults, parents), about
            about = ""
        else:
            about = ""


def _default(values: object, path: list[str]) -> str:
    for key in path:
        assert isinstance(values, dict)
        values = values[key]
    return yaml.safe_dump(values, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    wanted = manifests()
    differing = [path for path, text in wanted.items() if not _is(ROOT / path, text)]
    if arguments == ["--check"]:
        for path in differing:
            print(f"{path} is not as `make manifests` writes it")
        return 1 if differing else 0
    for path in differing:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(wanted[path])
        print(path)
    return 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
