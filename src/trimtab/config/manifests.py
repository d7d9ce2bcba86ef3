"""Finds the configuration in a Kubernetes manifest, and says what a file is that holds none.

A file may be a ConfigMap or a Secret with the configuration under one of its keys, alone or among other manifests, as
they are applied to a cluster. Positions of problems point into that file where its text is a literal block (`|`), which is
how people write it; where it is quoted or encoded, they are counted from the beginning of the key's value.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.config.yaml import MappingNode, Position, ScalarNode, SequenceNode, YamlNode, parse_documents

CARRIERS = {"ConfigMap": ("data", "binaryData"), "Secret": ("stringData", "data")}
ENCODED = {("ConfigMap", "binaryData"), ("Secret", "data")}
RULE_FILE_KEY = "Rulename"
_OWN_KINDS = ("KubeSchedulerConfiguration", "TrimtabConfiguration")
_OWN_GROUPS = ("kubescheduler.config.k8s.io/", "trimtab.dev/")
_POD_GROUPS = ("scheduling.x-k8s.io/", "scheduling.sigs.k8s.io/")
_CONFIGURATION = r"^\s*kind\s*:\s*[\"']?({kinds})\b"
_RULES = rf"|^\s*{RULE_FILE_KEY}\s*:"
_APPLY = "apply it with `kubectl apply -f {file}`"
_FOR_RESCHEDULERS = (
    "`trimtab config convert {file}` prints settings with the same intent, and `trimtab plan --descheduler-policy {file}` "
    "what it would evict"
)
_REMEDIES = {
    "Config": "pass it with --kubeconfig",
    "PodGroup": f"{_APPLY}, see docs/gangs.md",
    "Kustomization": "apply its folder with `kubectl apply -k`",
    "Component": "list its folder under `components` of a kustomization, and apply that with `kubectl apply -k`",
    "Cluster": "create the cluster with `kind create cluster --config {file}`",
    "DynamicSchedulerPolicy": "name it as policyConfigPath in the arguments of Dynamic",
    "DeschedulerPolicy": _FOR_RESCHEDULERS,
    "DeschedulerConfiguration": _FOR_RESCHEDULERS,
    "Policy": "write a KubeSchedulerConfiguration instead (kube-scheduler has no policy files since 1.23)",
}
_BY_FIELD = {
    "groups": ("a file of Prometheus rules", "name it under rule_files in the configuration of Prometheus"),
    "scrape_configs": ("the configuration of Prometheus", "pass it to Prometheus with --config.file"),
    "resources": ("a kustomization", _REMEDIES["Kustomization"]),
}


class Located(NamedTuple):
    """The documents of a configuration, and what messages call their file."""

    documents: tuple[YamlNode, ...]
    file: str

    @property
    def kind(self) -> str:
        """The kind of the first document that has one of ours; empty for a rule.yaml."""
        return next((kind for each in self.documents if (kind := _field(each, "kind")) in _OWN_KINDS), "")

    @property
    def is_rule_file(self) -> bool:
        """Whether these are the rules of a dynamic-Scheduler."""
        return any(isinstance(each, MappingNode) and RULE_FILE_KEY in each.entries for each in self.documents)


class _Entry(NamedTuple):
    """A key of a ConfigMap or Secret and its value."""

    kind: str
    name: str
    field: str
    key: str
    value: ScalarNode

    @property
    def label(self) -> str:
        return f"{self.name}/{self.key}" if self.name else self.key


def locate(content: str | bytes, file: str, key: str = "", kinds: Sequence[str] = _OWN_KINDS) -> Located:
    """The documents of the file, or of the configuration in a ConfigMap or Secret that it holds.

    key: chooses among several, as KEY, NAME or NAME/KEY. kinds: what is looked for. Raises ConfigError, also for a file of
    another kind.
    """
    documents = parse_documents(content, file)
    entry = _carried(documents, file, key, kinds)
    if entry is not None:
        return _open(entry, content, file, kinds)
    if key:
        raise _error(file, (0, 0), f"--key {key[:100]!r} needs a ConfigMap or Secret: leave it out")
    for each in _manifests(documents):
        _refuse_other_kinds(each, file, kinds)
    return Located(documents, file)


def holds(content: str | bytes, file: str, kinds: Sequence[str]) -> bool:
    """Whether the file is of one of these kinds, or has a ConfigMap or Secret with one; raises ConfigError without YAML."""
    manifests = [*_manifests(parse_documents(content, file))]
    if any(_field(each, "kind") in kinds for each in manifests):
        return True
    return any(_is_of(entry, file, kinds) for each in manifests for entry in _entries(each))


def _is_of(entry: _Entry, file: str, kinds: Sequence[str]) -> bool:
    pattern = _CONFIGURATION.format(kinds="|".join(kinds)) + (_RULES if kinds is _OWN_KINDS else "")
    return re.search(pattern, _text(entry, file), re.MULTILINE) is not None


def configuration_text(content: bytes, file: str) -> str:
    """The text of the configuration itself, without the ConfigMap or Secret around it; raises ConfigError."""
    entry = _carried(parse_documents(content, file), file, "", _OWN_KINDS)
    return content.decode() if entry is None else _decoded(entry, file)


def _carried(documents: Sequence[YamlNode], file: str, key: str, kinds: Sequence[str]) -> _Entry | None:
    """The configuration in a ConfigMap or Secret; None if the file holds none of these, or one beside a configuration."""
    manifests = [*_manifests(documents)]
    own = any(_field(each, "kind") in kinds for each in manifests)
    entries = [] if own else [entry for each in manifests for entry in _entries(each)]
    return _choose(entries, file, key, kinds) if entries else None


def _manifests(documents: Iterable[YamlNode]) -> Iterator[MappingNode]:
    """The documents that are mappings, and the items of a List."""
    for each in documents:
        if not isinstance(each, MappingNode):
            continue
        items = each.entries.get("items")
        if _field(each, "kind") == "List" and isinstance(items, SequenceNode):
            yield from _manifests(items.items)
        else:
            yield each


def _field(node: YamlNode | None, name: str) -> str:
    found = node.entries.get(name) if isinstance(node, MappingNode) else None
    return found.value if isinstance(found, ScalarNode) and isinstance(found.value, str) else ""


def _entries(manifest: MappingNode) -> Iterator[_Entry]:
    kind, name = _field(manifest, "kind"), _field(manifest.entries.get("metadata"), "name")
    for field in CARRIERS.get(kind, ()) if _field(manifest, "apiVersion") == "v1" else ():
        data = manifest.entries.get(field)
        for key, value in data.entries.items() if isinstance(data, MappingNode) else ():
            if isinstance(value, ScalarNode) and isinstance(value.value, str):
                yield _Entry(kind, name, field, key, value)


def _choose(entries: Sequence[_Entry], file: str, key: str, kinds: Sequence[str]) -> _Entry:
    if key:
        found = [each for each in entries if key in (each.key, each.name, each.label)]
    else:
        found = [each for each in entries if _is_of(each, file, kinds)]
    if len(found) == 1:
        return found[0]
    labels = ", ".join(each.label for each in found or entries)
    if found:
        remedy = "save one as a file of its own with `trimtab config show FILE --key NAME/KEY > config.yaml`"
        raise _error(file, found[1].value.position, f"holds several configurations, {labels}: {remedy}")
    if key:
        near = did_you_mean(key, [name for each in entries for name in (each.key, each.label)])
        raise _error(file, (0, 0), f"has no key {key[:100]!r}{near}: choose from {labels}")
    first = entries[0]
    raise _error(
        file,
        first.value.position,
        f"no key of this {first.kind} holds a {kinds[0]} or {kinds[1]}, it has {labels}: {_how_to_write(kinds)}",
    )


def _how_to_write(kinds: Sequence[str]) -> str:
    template = "write one under a key of it, as `trimtab config template default` prints it, or "
    return f"{template if kinds is _OWN_KINDS else ''}give the file that has one"


def _text(entry: _Entry, file: str) -> str:
    """The value; one that cannot be decoded counts as empty unless it is chosen."""
    try:
        return _decoded(entry, file)
    except ConfigError:
        return ""


def _decoded(entry: _Entry, file: str) -> str:
    text = str(entry.value.value)
    if (entry.kind, entry.field) not in ENCODED:
        return text
    try:
        return b64decode("".join(text.split()), validate=True).decode()
    except ValueError:
        message = f"{entry.field}.{entry.key} is not text in base64: encode it, or write it under stringData"
        raise _error(file, entry.value.position, message) from None


def _open(entry: _Entry, content: str | bytes, file: str, kinds: Sequence[str]) -> Located:
    text = _decoded(entry, file)
    origin = _literal_origin(entry.value, content if isinstance(content, str) else content.decode())
    name = file if origin is not None else f"{file}#{entry.label}"
    documents = parse_documents(text, name, origin or (0, 0))
    for each in _manifests(documents):
        _refuse_other_kinds(each, name, kinds)
    return Located(documents, name)


def _literal_origin(value: ScalarNode, text: str) -> Position | None:
    """How many lines and columns precede the text of a literal block in the file; None for other notations."""
    line, column = value.position
    lines = text.splitlines()
    if not lines[line - 1][column - 1 :].startswith("|"):
        return None
    for number, inner in enumerate(str(value.value).splitlines()):
        if inner.strip():
            outer = lines[line + number] if line + number < len(lines) else ""
            return (line, len(outer) - len(inner)) if outer.endswith(inner) else None
    return None


def _refuse_other_kinds(manifest: MappingNode, file: str, kinds: Sequence[str]) -> None:
    """Raises ConfigError, with what reads it, for a file that is plainly something else."""
    kind, version = _field(manifest, "kind"), _field(manifest, "apiVersion")
    if kinds is not _OWN_KINDS and kind and kind not in kinds:
        what, remedy = f"a {kind}", f"give a {' or '.join(kinds)}"
    elif kind and version and kind not in (*_OWN_KINDS, *kinds) and not version.startswith(_OWN_GROUPS):
        remedy = _REMEDIES.get(kind, _APPLY)
        if version.startswith("audit.k8s.io/"):
            remedy = "pass it to kube-apiserver with --audit-policy-file"
        elif kind == "PodGroup" and not version.startswith(_POD_GROUPS):
            remedy = f"write apiVersion {_POD_GROUPS[0]}v1alpha1, the one that Coscheduling reads, and {remedy}"
        what = f"a {kind} of {version}"
    elif not kind and (fields := [each for each in _BY_FIELD if isinstance(manifest.entries.get(each), SequenceNode)]):
        what, remedy = _BY_FIELD[fields[0]]
    else:
        return
    thing = "a configuration" if kinds is _OWN_KINDS else "the policy of a descheduler"
    raise _error(file, manifest.position, f"this is {what[:200]}, not {thing}: {remedy.format(file=file)}")


def _error(file: str, place: Position, message: str) -> ConfigError:
    return ConfigError([Problem(file, *place, "", message)])
