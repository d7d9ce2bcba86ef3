"""Decodes the pods of a workload by `trimtab.wire`, and finds the place in the file of what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from trimtab.config.config_node import ConfigNode
from trimtab.config.yaml import MappingNode, SequenceNode, YamlNode
from trimtab.core.model.pod import Pod
from trimtab.sim.scenario_file.pod_spec import read_shape, read_spec
from trimtab.wire.decoding import Quantities
from trimtab.wire.pod import PodReader
from trimtab.wire.quantity import nanos

_FIRST_RESOURCES = ".containers[0].resources"
_ERROR = re.compile(r"spec(\S*): (.*)")


def decode_pod(pod: ConfigNode | None, resources: Mapping[str, ConfigNode], reader: PodReader) -> Pod | None:
    """A pod of this spec, labels and workload-level `requests` and `limits`; None after a problem."""
    before = _problems(pod, resources)
    spec: dict[str, Any] = {}
    found: dict[str, str] = {}
    if pod is not None:
        spec, found = read_spec(pod)
    given = {name: read_shape(node, Quantities) for name, node in resources.items()}
    _place_resources(spec, given, resources)
    for container in spec.get("containers", ()):
        _default_requests(container)
    if _problems(pod, resources) > before:
        return None
    metadata = {"name": "pod", "namespace": "default", "uid": "pod", "labels": found}
    decoded = reader.read(msgspec.json.encode({"metadata": metadata, "spec": spec}))
    assert isinstance(decoded, Pod)
    error = decoded.spec_error or decoded.spec.error
    if error:
        _report(error, pod, resources)
        return None
    _check_limits(spec, pod, resources)
    return decoded


def _problems(pod: ConfigNode | None, resources: Mapping[str, ConfigNode]) -> int:
    return next((len(node.report.problems) for node in (pod, *resources.values()) if node is not None), 0)


def _place_resources(spec: dict[str, Any], given: Mapping[str, Any], nodes: Mapping[str, ConfigNode]) -> None:
    """Requests and limits of the workload are those of the first container, which may be left out."""
    containers = spec.setdefault("containers", [])
    if not containers:
        containers.append({"name": "main"})
    if given and containers[0].get("resources"):
        next(iter(nodes.values())).error("set it here or as resources of the first container, not both")
    elif given:
        containers[0]["resources"] = dict(given)


def _default_requests(container: dict[str, Any]) -> None:
    """As the API server does: what has a limit and no request requests its limit."""
    resources = container.get("resources")
    if resources and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _check_limits(spec: Mapping[str, Any], pod: ConfigNode | None, resources: Mapping[str, ConfigNode]) -> None:
    """The API server rejects a request above its limit."""
    for number, container in enumerate(spec["containers"]):
        amounts = container.get("resources") or {}
        for name, limit in (amounts.get("limits") or {}).items():
            request = amounts["requests"][name]
            if nanos(request) > nanos(limit):
                path = f".containers[{number}].resources.requests.{name}"
                _locate(path, pod, resources).error(f"{request} is above the limit {limit}: lower it")


def _report(error: str, pod: ConfigNode | None, resources: Mapping[str, ConfigNode]) -> None:
    """An error of `wire`, which names the field by its path in a pod."""
    match = _ERROR.fullmatch(error)
    path, message = match.groups() if match else ("", error)
    _locate(path, pod, resources).error(message)


def _locate(path: str, pod: ConfigNode | None, resources: Mapping[str, ConfigNode]) -> ConfigNode:
    """The value at this path of the pod's spec, or what is nearest to it."""
    rest = path.removeprefix(_FIRST_RESOURCES)
    for name, node in resources.items() if path.startswith(_FIRST_RESOURCES) else ():
        if rest.startswith(f".{name}"):
            return _walk(rest.removeprefix(f".{name}"), node)
    return _walk(path, pod) if pod is not None else next(iter(resources.values()))


def _walk(path: str, node: ConfigNode) -> ConfigNode:
    """As far as the path leads; resources and labels have dots in their names, so the longest key counts."""
    tree: YamlNode = node.yaml
    entries = tree.entries if isinstance(tree, MappingNode) else ()
    if keys := [key for key in entries if f"{path}.".startswith((f".{key}.", f".{key}["))]:
        longest = max(keys, key=len)
        return _walk(path.removeprefix(f".{longest}"), node.child(longest))
    index = re.match(r"\[([0-9]{1,6})\]", path)
    if index and isinstance(tree, SequenceNode) and int(index.group(1)) < len(tree.items):
        return _walk(path[index.end() :], node.items()[int(index.group(1))])
    return node
