"""Finds fields of manifests that Kubernetes does not have, which are most likely misspelt.

A pod has the fields that `trimtab.wire` decodes and those that are known to have no effect on scheduling; the fields of
workloads around it are listed here. What is inside of a field without effect is not looked at.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from trimtab.config.diagnostics import Problem, did_you_mean
from trimtab.config.yaml import MappingNode, SequenceNode, YamlNode
from trimtab.sim.scenario_file.pod_spec import NOT_SIMULATED, RAW_FIELDS, WITHOUT_EFFECT
from trimtab.wire.pod_json import ClaimShape, NamedShape, PodSpecShape, VolumeShape

Fields = dict[str, Any]  # names, each with the shape of its value: a type, Fields again, or None for anything


def _anything(names: str) -> Fields:
    return dict.fromkeys(names.split())


_META = _anything(
    "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName generation labels"
    " managedFields name namespace ownerReferences resourceVersion selfLink uid"
)
_HEAD = {"apiVersion": None, "kind": None, "metadata": _META, "status": None}
_TEMPLATE: Fields = {"template": {"metadata": _META, "spec": PodSpecShape}, "selector": None}
_REPLICAS = _anything("replicas minReadySeconds")
_SPECS: Mapping[str, Any] = {
    "Pod": PodSpecShape,
    "Deployment": _TEMPLATE | _REPLICAS | _anything("paused progressDeadlineSeconds revisionHistoryLimit strategy"),
    "ReplicaSet": _TEMPLATE | _REPLICAS,
    "StatefulSet": _TEMPLATE
    | _REPLICAS
    | _anything(
        "ordinals persistentVolumeClaimRetentionPolicy podManagementPolicy revisionHistoryLimit serviceName updateStrategy"
        " volumeClaimTemplates"
    ),
    "Job": _TEMPLATE
    | _anything(
        "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy manualSelector"
        " maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy successPolicy suspend ttlSecondsAfterFinished"
    ),
}
# Fields that `wire` decodes later or not at all.
_RAW: Fields = {**RAW_FIELDS, "schedulingGates": tuple[NamedShape, ...], "persistentVolumeClaim": ClaimShape}
_FURTHER: Mapping[type, Fields] = {
    PodSpecShape: dict.fromkeys(NOT_SIMULATED),
    VolumeShape: _anything(
        "cephfs configMap downwardAPI emptyDir fc flexVolume flocker gitRepo glusterfs hostPath image nfs"
        " photonPersistentDisk projected quobyte scaleIO secret storageos"
    ),
}


def unknown_fields(file: str, document: YamlNode, kind: str) -> list[Problem]:
    """The fields of a manifest of this kind that Kubernetes does not have."""
    found = _unknown(document, {**_HEAD, "spec": _SPECS[kind]}, "")
    return [Problem(file, *position, path, message) for position, path, message in found]


def _unknown(node: YamlNode, shape: Any, path: str) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Where, which field, and what is wrong with it; a value of another type is left to the decoder."""
    if typing.get_origin(shape) in (typing.Union, types.UnionType):
        shape = next(each for each in typing.get_args(shape) if each is not type(None))
    if typing.get_origin(shape) is tuple and isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _unknown(item, typing.get_args(shape)[0], f"{path}[{index}]")
    fields = _fields_of(shape)
    if fields is None or not isinstance(node, MappingNode):
        return
    for name, value in node.entries.items():
        inner = f"{path}.{name}" if path else name
        if name in fields:
            yield from _unknown(value, fields[name], inner)
        else:
            yield node.key_positions[name], inner, f"unknown field{did_you_mean(name, fields)}"


def _fields_of(shape: Any) -> Fields | None:
    """None if any field will do."""
    if isinstance(shape, dict):
        return shape
    if not (isinstance(shape, type) and issubclass(shape, Struct)):
        return None
    further = {**dict.fromkeys(WITHOUT_EFFECT.get(shape, ())), **_FURTHER.get(shape, {})}
    decoded = {
        each.encode_name: _RAW.get(each.encode_name) if each.type is Raw else each.type
        for each in msgspec.structs.fields(shape)
    }
    return {**further, **decoded}
