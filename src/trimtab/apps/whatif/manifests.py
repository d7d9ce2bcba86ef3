"""Reads the pods of manifests: Pods themselves, and those that Deployments and the like would create.

A manifest is what a user writes, not what the API server stores, so its defaults are filled in as far as scheduling depends
on them: requests that follow from limits, and the priorities of the two built-in classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from trimtab.apps.config_file import os_error_text, read_bounded
from trimtab.apps.whatif.manifest_fields import unknown_fields
from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.config.yaml import MappingNode, SequenceNode, YamlNode, parse_documents
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.scenario import NAMESPACE, PodTemplate, TracedPod
from trimtab.sim.usage_patterns import Steady
from trimtab.wire.decoding import Malformed
from trimtab.wire.pod import PodReader

NOW = (0.0, 0.0)
REPLICAS = {"Deployment": "replicas", "ReplicaSet": "replicas", "StatefulSet": "replicas", "Job": "parallelism"}
KINDS = ("Pod", *REPLICAS)
MAX_REPLICAS = 10_000
IDENTITY = {"name": "new", "namespace": NAMESPACE, "uid": "new", "resourceVersion": "1"}
BUILTIN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
STEP = re.compile(r"([A-Za-z]\w*)|\[(\d+)\]")

Json = dict[str, Any]


class Manifests(Struct, frozen=True):
    """The pods of a file, and what of it could not be taken into account."""

    pods: tuple[TracedPod, ...]
    notes: tuple[str, ...]


def read_manifests(file: str) -> Manifests:
    """The pods of a file; raises ConfigError with the place and the remedy."""
    try:
        content = read_bounded(Path(file))
    except OSError as error:
        raise ConfigError([Problem(file, 0, 0, "", os_error_text(error))]) from None
    return parse_manifests(content, file)


def parse_manifests(content: bytes, file: str) -> Manifests:
    """The same for a file's content."""
    reader = _Reader(file)
    pods = tuple(pod for document in parse_documents(content, file) for pod in reader.read(document))
    if not pods and not reader.gated:
        near = next((hint for kind in reader.other_kinds if (hint := did_you_mean(kind, KINDS))), "")
        raise ConfigError(
            [Problem(file, 0, 0, "", f"has no pods: give a {', '.join(KINDS[:-1])} or {KINDS[-1]}{near}")]
        )
    return Manifests(pods, tuple(reader.notes))


class _Reader:
    """Reads the documents of one file; other kinds than those with pods are noted."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.notes: list[str] = []
        self.other_kinds: list[str] = []
        self.gated = False

    def read(self, node: YamlNode) -> Iterator[TracedPod]:
        document = _plain(node)
        if not isinstance(document, dict):
            raise self._error(node, "", "must be a manifest with apiVersion, kind, metadata and spec")
        if document.get("kind") == "List" and isinstance(node, MappingNode):
            for item in getattr(node.entries.get("items"), "items", ()):
                yield from self.read(item)
            return
        kind = str(document.get("kind") or "nothing")
        if kind not in KINDS:
            self.other_kinds.append(kind)
            self.notes.append(f"{kind} {_mapping(document, 'metadata').get('name', '')} creates no pods here: left out")
            return
        if unknown := unknown_fields(self.file, node, kind):
            raise ConfigError(unknown)
        yield from self._pods(node, document, kind)

    def _pods(self, node: YamlNode, document: Json, kind: str) -> Iterator[TracedPod]:
        meta, spec = _mapping(document, "metadata"), _mapping(document, "spec")
        name, namespace = str(meta.get("name") or "new"), str(meta.get("namespace") or NAMESPACE)
        replicas = 1 if kind == "Pod" else self._replicas(node, spec, REPLICAS[kind])
        content, path = (document, "") if kind == "Pod" else (_mapping(spec, "template"), "spec.template.")
        pod = self._pod(node, content, path, f"{kind} {name}")
        if pod.scheduling_gates:
            self.gated = True
            gates = ", ".join(pod.scheduling_gates)
            self.notes.append(f"{kind} {name} waits behind scheduling gates ({gates}): it takes no part")
            return
        template = _template(pod)
        if kind == "Pod":
            yield TracedPod(name, template, NOW, namespace=namespace, node_name=pod.node)
            return
        owner_kind = "ReplicaSet" if kind == "Deployment" else kind
        for number in range(replicas):
            yield TracedPod(f"{name}-{number}", template, NOW, None, name, owner_kind, namespace, node_name=pod.node)

    def _replicas(self, node: YamlNode, spec: Json, field: str) -> int:
        replicas = spec.get(field, 1)
        if type(replicas) is not int or not 0 < replicas <= MAX_REPLICAS:
            raise self._error(node, f"spec.{field}", f"must be a whole number from 1 to {MAX_REPLICAS:,}")
        return replicas

    def _pod(self, node: YamlNode, pod: Json, path: str, named: str) -> Pod:
        """As the reader of live pods decodes it."""
        spec = _mapping(pod, "spec")
        if not spec.get("containers"):
            raise self._error(node, f"{path}spec.containers", "a pod needs at least one container")
        content = {"metadata": {**_mapping(pod, "metadata"), **IDENTITY}, "spec": self._with_defaults(spec, named)}
        read = PodReader().read(msgspec.json.encode(content))
        if isinstance(read, Malformed):
            raise self._error(node, *_place(path, read.error))
        if error := read.spec_error or read.spec.error:
            raise self._error(node, *_place(path, error))
        return read

    def _with_defaults(self, spec: Json, named: str) -> Json:
        """With what the API server would fill in."""
        filled = {**spec}
        for field in ("containers", "initContainers"):
            if isinstance(containers := spec.get(field), list):
                filled[field] = [_with_requests(each) for each in containers]
        name = spec.get("priorityClassName")
        if name and "priority" not in spec:
            filled["priority"] = BUILTIN_PRIORITIES.get(str(name), 0)
            if str(name) not in BUILTIN_PRIORITIES:
                self.notes.append(f"{named} has the PriorityClass {name}, whose value is not known: set spec.priority")
        return filled

    def _error(self, node: YamlNode, path: str, message: str) -> ConfigError:
        return ConfigError([Problem(self.file, *_position(node, path), path, message)])


def _template(pod: Pod) -> PodTemplate:
    """It is taken to use what it requests: nothing has been measured."""
    return PodTemplate(
        requests=pod.requests,
        cpu=Steady(float(pod.requests.of(CPU))),
        memory=Steady(float(pod.requests.of(MEMORY))),
        spec=pod.spec,
        labels=pod.labels,
        priority=pod.priority,
        scheduler_name=pod.scheduler_name,
        may_preempt=pod.may_preempt,
    )


def _with_requests(container: Any) -> Any:
    """A limit without a request is the request, too."""
    resources = _mapping(container, "resources")
    limits = _mapping(resources, "limits")
    if not limits:
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **_mapping(resources, "requests")}}}


def _mapping(value: Any, key: str) -> Json:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _plain(node: YamlNode) -> Any:
    match node:
        case MappingNode():
            return {key: _plain(each) for key, each in node.entries.items()}
        case SequenceNode():
            return [_plain(each) for each in node.items]
    return node.value


# --- places


def _place(prefix: str, error: str) -> tuple[str, str]:
    """The field and the message of a decoder's error, `spec.x[0].y: message`."""
    path, _, message = error.partition(": ")
    return (f"{prefix}{path}", message) if message else ("", error)


def _position(node: YamlNode, path: str) -> tuple[int, int]:
    """Line and column of the field, or of the nearest one around it that exists."""
    position = node.position
    for name, index in STEP.findall(path):
        if isinstance(node, MappingNode) and name in node.entries:
            position, node = node.key_positions[name], node.entries[name]
        elif isinstance(node, SequenceNode) and index and int(index) < len(node.items):
            node = node.items[int(index)]
            position = node.position
        else:
            break
    return position
