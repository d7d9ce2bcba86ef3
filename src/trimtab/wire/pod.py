"""Decodes pods; the parts that pods of one template share come from `pod_template`.

::

    bytes ──▶ PodShape ──▶ Pod                       all fields as expected: one pass
      │
      └─ a field is not ──▶ field by field ──▶ Pod with `spec_error`; unreadable fields are empty
                                  └─ no identity ──▶ Malformed
"""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec import Raw, Struct

from trimtab.core.model.pod import Pod
from trimtab.wire.decoding import UNREADABLE, Malformed, decode_fields, decode_part, summarize
from trimtab.wire.interning import GenerationalCache
from trimtab.wire.pod_json import Name, PodMetaShape, PodShape, PodSpecShape, PodStatusShape, RawObject
from trimtab.wire.pod_template import TemplateCache
from trimtab.wire.requests import PREEMPTED

_NO_SPEC = PodSpecShape()
_NO_STATUS = PodStatusShape()


class PodIdentity(Struct, frozen=True, rename="camel"):
    """What must be readable to tell which pod it is."""

    name: Name
    namespace: Name
    uid: Name
    resource_version: str | None = None


class PodReader:
    """Decodes pods; use one for all, because it caches what pods share."""

    kind = "Pod"
    shape = PodShape

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(PodShape).decode
        self._templates = TemplateCache()
        self._conditions: GenerationalCache[tuple[str, str], tuple[str, str]] = GenerationalCache(
            lambda condition: condition
        )

    def read(self, data: bytes | Raw) -> Pod | Malformed:
        """The pod in these bytes."""
        try:
            return self.build(self._decode(data))
        except UNREADABLE:
            return self._decode_fields(data)

    def build(self, shape: PodShape) -> Pod:
        """The pod; raises only when its resourceVersion is not a number."""
        meta, spec, status = shape.metadata, shape.spec or _NO_SPEC, shape.status or _NO_STATUS
        ready, ready_since, infeasible, preempted, unschedulable = False, None, False, False, None
        for condition in status.conditions or ():
            kind = condition.type
            if kind == "Ready":
                ready, since = condition.status == "True", condition.last_transition_time
                ready_since = since.timestamp() if ready and since is not None else None
            elif kind == "PodScheduled" and condition.status == "False":
                unschedulable = self._conditions[(condition.reason or "", condition.message or "")]
            elif kind == "PodResizePending":
                infeasible = condition.reason == "Infeasible"
            elif kind == "DisruptionTarget":
                preempted = condition.status == "True" and condition.reason == PREEMPTED
        restarts = 0
        for container in status.container_statuses or ():
            restarts += container.restart_count or 0
        template = self._templates.get(meta, spec, _without_restarts(status) if restarts else status, infeasible)
        # By position: keyword arguments would make this half as slow again. A test checks the order.
        return Pod(
            meta.uid,
            template.namespace,
            meta.name,
            int(meta.resource_version or 0),
            template.labels,
            template.owner,
            meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            meta.deletion_timestamp is not None,
            intern(spec.node_name or ""),
            intern(status.nominated_node_name or ""),
            template.scheduler_name,
            template.priority,
            template.may_preempt,
            template.scheduling_gates,
            template.spec,
            template.requests,
            intern(status.phase or "Pending"),
            status.start_time.timestamp() if status.start_time else None,
            ready,
            unschedulable,
            template.error,
            preempted,
            template.annotations,
            ready_since,
            restarts,
        )

    def _decode_fields(self, data: bytes | Raw) -> Pod | Malformed:
        errors: list[str] = []
        raw_object = decode_part(data, RawObject, "object", errors) or RawObject()
        identity = decode_part(raw_object.metadata, PodIdentity, "metadata", errors)
        metadata = decode_fields(raw_object.metadata, PodMetaShape, "metadata", [] if identity is None else errors)
        if identity is None:
            key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}".strip("/")
            return Malformed(self.kind, key, metadata.get("uid", ""), summarize(errors) or "metadata: missing")
        spec = PodSpecShape(**decode_fields(raw_object.spec, PodSpecShape, "spec", errors))
        status = PodStatusShape(**decode_fields(raw_object.status, PodStatusShape, "status", errors))
        try:
            pod = self.build(PodShape(PodMetaShape(**metadata), spec, status))
        except UNREADABLE:
            key = f"{identity.namespace}/{identity.name}"
            return Malformed(self.kind, key, identity.uid, "metadata.resourceVersion: not a number")
        return msgspec.structs.replace(pod, spec_error=summarize(errors)) if errors else pod


def _without_restarts(status: PodStatusShape) -> PodStatusShape:
    """Pods of one template stay such when one of them is restarted."""
    containers = tuple(msgspec.structs.replace(each, restart_count=0) for each in status.container_statuses or ())
    return msgspec.structs.replace(status, container_statuses=containers)
