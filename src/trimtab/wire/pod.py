"""Decides how a pod's JSON becomes the model's pod; leaves its shared parts to `template` and transport to others.

::

    bytes ──▶ PodShape ──▶ Pod                       all fields as expected: one pass
      │
      └─ a field is not ──▶ field by field ──▶ Pod with `spec_error`, what is unreadable being empty
                                  └─ no identity ──▶ Malformed
"""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.pod import Pod
from trimtab.wire.decode_errors import UNREADABLE, Malformed, decode_fields, decode_part, summarize
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.pod_json import Name, PodMetaShape, PodShape, PodSpecShape, PodStatusShape, RawObject
from trimtab.wire.pod_template import TemplateCache
from trimtab.wire.requests import PREEMPTED

_NO_SPEC = PodSpecShape()
_NO_STATUS = PodStatusShape()


class PodIdentity(Struct, frozen=True, rename="camel"):
    """Without these there is no telling which pod it is."""

    name: Name
    namespace: Name
    uid: Name
    resource_version: str | None = None


class PodReader:
    """Reads pods; keep one for all of them, because it remembers what they share."""

    kind = "Pod"
    shape = PodShape

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(PodShape).decode
        self._templates = TemplateCache()
        self._words: GenerationalCache[tuple[str, str], tuple[str, str]] = GenerationalCache(lambda words: words)

    def read(self, data: bytes | Raw) -> Pod | Malformed:
        """The pod in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE:
            return self._piecemeal(data)

    def build(self, shape: PodShape) -> Pod:
        """The pod of this shape; raises only when its resourceVersion is no number."""
        meta, spec, status = shape.metadata, shape.spec or _NO_SPEC, shape.status or _NO_STATUS
        ready, infeasible, preempted, unscheduled = False, False, False, None
        for condition in status.conditions or ():
            kind = condition.type
            if kind == "Ready":
                ready = condition.status == "True"
            elif kind == "PodScheduled" and condition.status == "False":
                unscheduled = self._words[(condition.reason or "", condition.message or "")]
            elif kind == "PodResizePending":
                infeasible = condition.reason == "Infeasible"
            elif kind == "DisruptionTarget":
                preempted = condition.status == "True" and condition.reason == PREEMPTED
        kin = self._templates.get(meta, spec, status, infeasible)
        # By position: naming the fields costs half as much again as all else here. A test watches over their order.
        return Pod(
            meta.uid,
            kin.namespace,
            meta.name,
            int(meta.resource_version or 0),
            kin.labels,
            kin.owner,
            meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            meta.deletion_timestamp is not None,
            intern(spec.node_name or ""),
            intern(status.nominated_node_name or ""),
            kin.scheduler_name,
            kin.priority,
            kin.may_preempt,
            kin.scheduling_gates,
            kin.spec,
            kin.requests,
            intern(status.phase or "Pending"),
            status.start_time.timestamp() if status.start_time else None,
            ready,
            unscheduled,
            kin.error,
            preempted,
        )

    def _piecemeal(self, data: bytes | Raw) -> Pod | Malformed:
        faults: list[str] = []
        thirds = decode_part(data, RawObject, "object", faults) or RawObject()
        identity = decode_part(thirds.metadata, PodIdentity, "metadata", faults)
        known = decode_fields(thirds.metadata, PodMetaShape, "metadata", [] if identity is None else faults)
        if identity is None:
            key = f"{known.get('namespace', '')}/{known.get('name', '')}".strip("/")
            return Malformed(self.kind, key, known.get("uid", ""), summarize(faults) or "metadata: missing")
        spec = PodSpecShape(**decode_fields(thirds.spec, PodSpecShape, "spec", faults))
        status = PodStatusShape(**decode_fields(thirds.status, PodStatusShape, "status", faults))
        try:
            pod = self.build(PodShape(PodMetaShape(**known), spec, status))
        except UNREADABLE:
            key = f"{identity.namespace}/{identity.name}"
            return Malformed(self.kind, key, identity.uid, "metadata.resourceVersion: not a number")
        return msgspec.structs.replace(pod, spec_error=summarize(faults)) if faults else pod
