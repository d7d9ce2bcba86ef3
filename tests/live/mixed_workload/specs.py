"""Builders for pod specs of the mixed workload."""

from collections.abc import Mapping
from typing import Any

from tests.live.mixed_workload.nodes import DEDICATED, NAMESPACE, POOL
from tools.controlplane.client import Document
from tools.controlplane.objects import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def make_pod(kind: str, number: int | str, /, **fields: Any) -> Document:
    """A small pod of this kind; extra fields of its spec, its namespace and labels as keywords."""
    known = {"kind": kind, **fields.pop("labels", {})}
    name = f"{kind}-{number:03}" if isinstance(number, int) else f"{kind}-{number}"
    small = {"cpu": "40m", "memory": "32Mi", "namespace": NAMESPACE, **fields}
    return pod(name, labels=known, **small)


def in_pool(pool: str) -> dict[str, Any]:
    """A node selector for this pool and a toleration for its taint."""
    return {"nodeSelector": {POOL: pool}, "tolerations": [{"key": DEDICATED, "value": pool}]}


def expression(key: str, operator: str, *values: str) -> Document:
    """One requirement of a selector."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def node_affinity(*terms: Document) -> Document:
    """Required node affinity with these terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def affinity_term(key: str, labels: Mapping[str, str], **more: Any) -> Document:
    """A pod affinity term for pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **more}


def pod_affinity(*terms: Document) -> Document:
    """Required pod affinity."""
    return {"podAffinity": {REQUIRED: list(terms)}}


def pod_anti_affinity(*terms: Document) -> Document:
    """Required pod anti-affinity."""
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def spread_constraint(key: str, kind: str, skew: int = 1, hard: bool = True, **more: Any) -> Document:
    """A spread constraint over the pods of this kind."""
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    chosen = {"matchLabels": {"kind": kind}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": chosen, **more}


def container_spec(cpu: str, **more: Any) -> Document:
    """A container with this request."""
    return {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}, **more}


def with_host_port(port: int, **more: Any) -> list[Document]:
    """A container with a host port."""
    return [container_spec("40m", ports=[{"containerPort": port, "hostPort": port, **more}])]


def claim_volume(claim: str) -> list[Document]:
    """A volume with this claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
