"""Decides how a pod's JSON becomes the model's pod; leaves its shared parts to `template` and transport to others.

::

    bytes ──▶ PodShape ──▶ Pod                       all fields as expected: one pass
      │
      └─ a field is not ──▶ field by field ──▶ Pod with `spec_fault`, what is unreadable being empty
                                  └─ no identity ──▶ Malformed
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.pod import Owner, Pod
from trimtab.wire.fault import NULL, UNREADABLE, Malformed, read_fields, read_part
from trimtab.wire.intern import Recent
from trimtab.wire.shapes import Name, OwnerShape, PodMetaShape, PodShape, PodSpecShape, PodStatusShape
from trimtab.wire.template import Templates, names, summary

DEFAULT_SCHEDULER = "default-scheduler"

_NO_SPEC = PodSpecShape()
_NO_STATUS = PodStatusShape()
_NO_LABELS: dict[str, str] = {}


class Identity(Struct, frozen=True, rename="camel"):
    """Without these there is no telling which pod it is."""

    name: Name
    namespace: Name
    uid: Name
    resource_version: str | None = None


class Thirds(Struct, frozen=True):
    metadata: Raw = NULL
    spec: Raw = NULL
    status: Raw = NULL


class PodReader:
    """Reads pods; keep one for all of them, because it remembers what they share."""

    kind = "Pod"
    shape = PodShape

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(PodShape).decode
        self._templates = Templates()
        self._labels: Recent[bytes, tuple[Mapping[str, str], str]] = Recent(_labels)
        self._owners: Recent[bytes, tuple[Owner | None, str]] = Recent(_owner)
        self._words: Recent[tuple[str, str], tuple[str, str]] = Recent(lambda words: words)

    def read(self, data: bytes | Raw) -> Pod | Malformed:
        """The pod in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE:
            return self._piecemeal(data)

    def build(self, shape: PodShape) -> Pod:
        """The pod of this shape; raises only when its resourceVersion is no number."""
        meta, spec, status = shape.metadata, shape.spec or _NO_SPEC, shape.status or _NO_STATUS
        ready, infeasible, unscheduled = False, False, None
        for condition in status.conditions or ():
            if condition.type == "Ready":
                ready = condition.status == "True"
            elif condition.type == "PodScheduled" and condition.status == "False":
                unscheduled = self._words[(condition.reason or "", condition.message or "")]
            elif condition.type == "PodResizePending":
                infeasible = condition.reason == "Infeasible"
        template = self._templates.of(spec, status, infeasible)
        labels, label_fault = self._labels[bytes(meta.labels)]
        owner, owner_fault = self._owners[bytes(meta.owner_references)]
        gate_faults: list[str] = []
        return Pod(
            uid=meta.uid,
            namespace=intern(meta.namespace),
            name=meta.name,
            version=int(meta.resource_version or 0),
            labels=labels,
            owner=owner,
            created=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            deleting=meta.deletion_timestamp is not None,
            node=intern(spec.node_name or ""),
            nominated=intern(status.nominated_node_name or ""),
            scheduler=intern(spec.scheduler_name or DEFAULT_SCHEDULER),
            priority=spec.priority or 0,
            preempts=spec.preemption_policy != "Never",
            gates=names(spec.scheduling_gates, "spec.schedulingGates", gate_faults),
            spec=template.spec,
            demand=template.demand,
            phase=intern(status.phase or "Pending"),
            started=status.start_time.timestamp() if status.start_time else None,
            ready=ready,
            unscheduled=unscheduled,
            spec_fault=template.fault or label_fault or owner_fault or summary(gate_faults),
        )

    def _piecemeal(self, data: bytes | Raw) -> Pod | Malformed:
        faults: list[str] = []
        thirds = read_part(data, Thirds, "object", faults) or Thirds()
        identity = read_part(thirds.metadata, Identity, "metadata", faults)
        known = read_fields(thirds.metadata, PodMetaShape, "metadata", [] if identity is None else faults)
        if identity is None:
            key = f"{known.get('namespace', '')}/{known.get('name', '')}".strip("/")
            return Malformed(self.kind, key, known.get("uid", ""), summary(faults) or "metadata: missing")
        spec = PodSpecShape(**read_fields(thirds.spec, PodSpecShape, "spec", faults))
        status = PodStatusShape(**read_fields(thirds.status, PodStatusShape, "status", faults))
        try:
            pod = self.build(PodShape(PodMetaShape(**known), spec, status))
        except UNREADABLE:
            key = f"{identity.namespace}/{identity.name}"
            return Malformed(self.kind, key, identity.uid, "metadata.resourceVersion: not a number")
        return msgspec.structs.replace(pod, spec_fault=summary(faults)) if faults else pod


def _labels(raw: bytes) -> tuple[Mapping[str, str], str]:
    faults: list[str] = []
    labels = read_part(raw, dict[str, str], "metadata.labels", faults)
    return labels or _NO_LABELS, summary(faults)


def _owner(raw: bytes) -> tuple[Owner | None, str]:
    """The controller among the owners: there is at most one, and the others only keep the pod from being collected."""
    faults: list[str] = []
    owners = read_part(raw, tuple[OwnerShape, ...], "metadata.ownerReferences", faults) or ()
    found = next((each for each in owners if each.controller), None)
    if found is None:
        return None, summary(faults)
    return Owner(found.kind or "", found.name or "", found.uid or "", found.api_version or ""), summary(faults)
