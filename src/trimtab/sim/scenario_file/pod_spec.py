"""Compares a pod's spec in a scenario file with the shapes that `trimtab.wire` decodes.

`wire` reads objects of a live API server and ignores what it does not know. A file is written by hand, so here every key and
value is checked, and what does not fit is reported at its place.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.config.config_node import ConfigNode
from trimtab.config.yaml import ScalarNode
from trimtab.core.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from trimtab.core.model.selectors import is_label_key
from trimtab.sim.scenario_file.values import check_whole, labels
from trimtab.wire.affinity import AffinityShape, SpreadShape, TolerationShape
from trimtab.wire.decoding import Quantities
from trimtab.wire.pod_json import ContainerShape, PodSpecShape, PortShape
from trimtab.wire.pod_template import ResourcesShape

# What `wire` leaves undecoded at first.
RAW_FIELDS: Mapping[str, object] = {
    "affinity": AffinityShape,
    "nodeSelector": dict[str, str],
    "overhead": Quantities,
    "ports": tuple[PortShape, ...],
    "resources": ResourcesShape,
    "tolerations": tuple[TolerationShape, ...],
    "topologySpreadConstraints": tuple[SpreadShape, ...],
}
# Fields of Kubernetes that are accepted, so that a manifest can be pasted, and do not matter here.
WITHOUT_EFFECT: Mapping[type, frozenset[str]] = {
    PodSpecShape: frozenset(
        {
            "activeDeadlineSeconds",
            "automountServiceAccountToken",
            "dnsConfig",
            "dnsPolicy",
            "enableServiceLinks",
            "ephemeralContainers",
            "hostAliases",
            "hostIPC",
            "hostPID",
            "hostUsers",
            "hostname",
            "hostnameOverride",
            "imagePullSecrets",
            "os",
            "readinessGates",
            "restartPolicy",
            "runtimeClassName",
            "securityContext",
            "serviceAccount",
            "serviceAccountName",
            "setHostnameAsFQDN",
            "shareProcessNamespace",
            "subdomain",
        }
    ),
    ContainerShape: frozenset(
        {
            "args",
            "command",
            "env",
            "envFrom",
            "imagePullPolicy",
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "resizePolicy",
            "restartPolicyRules",
            "securityContext",
            "startupProbe",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "volumeDevices",
            "volumeMounts",
            "workingDir",
        }
    ),
    PortShape: frozenset({"containerPort", "name"}),
    ResourcesShape: frozenset({"claims"}),
    TolerationShape: frozenset({"tolerationSeconds"}),
}
# Fields that would matter, and what to do instead.
NOT_SIMULATED: Mapping[str, str] = {
    "nodeName": "the scheduler decides that here: remove it",
    "preemptionPolicy": "is not simulated: remove it",
    "priorityClassName": "there are no PriorityClasses here: write priority, a number",
    "resourceClaims": "is not simulated: remove it",
    "schedulingGates": "is not simulated: create the workload later instead",
    "schedulingGroup": "is not simulated: remove it",
    "terminationGracePeriodSeconds": "write gracePeriod of the workload",
    "volumes": "volumes are not simulated: remove them",
    "workloadRef": "is not simulated: remove it",
}
_POD_FIELDS = frozenset(each.encode_name for each in msgspec.structs.fields(PodSpecShape))
_INVALID = object()


def read_spec(pod: ConfigNode) -> tuple[dict[str, Any], dict[str, str]]:
    """The spec as plain data, and the labels."""
    ignored = WITHOUT_EFFECT[PodSpecShape]
    entries = pod.fields({"labels", *_POD_FIELDS, *ignored, *NOT_SIMULATED}) or {}
    for name in NOT_SIMULATED.keys() & entries.keys():
        entries[name].error(NOT_SIMULATED[name])
    known = {
        name: node
        for name, node in entries.items()
        if name in _POD_FIELDS and name not in NOT_SIMULATED and name != "labels"
    }
    spec = _struct_fields(known, PodSpecShape)
    return spec, (labels(entries["labels"]) or {}) if "labels" in entries else {}


def read_shape(node: ConfigNode, shape: object) -> Any:
    """Plain data of this shape; what does not fit is reported and left out."""
    origin, inner = typing.get_origin(shape), typing.get_args(shape)
    if origin in (typing.Union, types.UnionType):
        return read_shape(node, next(each for each in inner if each is not type(None)))
    if origin is tuple:
        items = [read_shape(item, inner[0]) for item in node.items()]
        return [item for item in items if item is not _INVALID]
    if shape == Quantities:
        return {key: _quantity(each, key) for key, each in (node.entries() or {}).items()}
    if origin is dict:
        return {key: _scalar(each, str) for key, each in (node.entries() or {}).items()}
    if isinstance(shape, type) and issubclass(shape, Struct):
        names = {each.encode_name for each in msgspec.structs.fields(shape)}
        ignored = WITHOUT_EFFECT.get(shape, frozenset())
        entries = node.fields(names | ignored) or {}
        return _struct_fields({name: each for name, each in entries.items() if name not in ignored}, shape)
    return _scalar(node, shape)


def _struct_fields(entries: Mapping[str, ConfigNode], shape: type[Struct]) -> dict[str, Any]:
    kinds: dict[str, object] = {
        each.encode_name: RAW_FIELDS[each.encode_name] if each.type is Raw else each.type
        for each in msgspec.structs.fields(shape)
        if each.encode_name in entries
    }
    found = {name: read_shape(node, kinds[name]) for name, node in entries.items()}
    return {name: value for name, value in found.items() if value is not _INVALID}


def _scalar(node: ConfigNode, shape: object) -> Any:
    if shape is int:
        value: object = node.integer()
    else:
        value = node.boolean() if shape is bool else node.string()
    return _INVALID if value is None else value


def _quantity(node: ConfigNode, resource: str) -> Any:
    """As it is written, if it is valid."""
    if not _is_container_resource(resource):
        node.error(
            f"{resource[:60]!r} is not a resource of containers: write cpu, memory, or one such as nvidia.com/gpu"
        )
        return _INVALID
    return node.yaml.value if check_whole(node, resource) and isinstance(node.yaml, ScalarNode) else _INVALID


def _is_container_resource(name: str) -> bool:
    native = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-")
    return is_label_key(name) and (native or "/" in name)
