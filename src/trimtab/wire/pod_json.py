"""The fields of a pod's JSON that are decoded, and how far.

What pods of one template share stays undecoded (`Raw`) here: `pod_template` decodes equal bytes once. What differs from pod
to pod inside such parts (mounts, environment, names of token volumes) is left out, so that the bytes are equal.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Raw, Struct, field

from trimtab.core.model import pod
from trimtab.core.model.setting import INT32
from trimtab.wire.decoding import NULL

Name = Annotated[str, Meta(min_length=1)]
# Without a time zone it would be taken as local time.
Time = Annotated[datetime, Meta(tz=True)] | None


class RawObject(Struct, frozen=True):
    """Any object in its three parts, for decoding one that is partly broken."""

    metadata: Raw = NULL
    spec: Raw = NULL
    status: Raw = NULL


class ContainerShape(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    name: str | None = None
    image: str | None = None
    resources: Raw = NULL
    ports: Raw = NULL
    restart_policy: str | None = None

    @property
    def sidecar(self) -> bool:
        return self.restart_policy == "Always"


class ContainerStatusShape(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The resources that the kubelet reports for a container, and how often it was restarted."""

    name: str | None = None
    resources: Raw = NULL
    allocated_resources: Raw = NULL
    restart_count: int | None = 0  # no part of a template


class EmptyDirShape(Struct, frozen=True, gc=False, omit_defaults=True):
    medium: str | None = None


class HostPathShape(Struct, frozen=True, gc=False):
    """Its path affects nothing."""


class VolumeShape(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The kinds of volumes that affect scheduling, and those whose data stays behind when the pod is evicted."""

    name: str | None = None
    persistent_volume_claim: Raw = NULL
    ephemeral: Raw = NULL
    csi: Raw = NULL
    gce_persistent_disk: Raw = NULL
    aws_elastic_block_store: Raw = NULL
    azure_disk: Raw = NULL
    azure_file: Raw = NULL
    cinder: Raw = NULL
    iscsi: Raw = NULL
    portworx_volume: Raw = NULL
    rbd: Raw = NULL
    vsphere_volume: Raw = NULL
    empty_dir: EmptyDirShape | None = None
    host_path: HostPathShape | None = None

    @property
    def local(self) -> bool:
        """Whether it is a directory of the node; one in memory is lost at every reboot anyway."""
        return self.host_path is not None or (self.empty_dir is not None and self.empty_dir.medium != "Memory")


Containers = tuple[ContainerShape, ...] | None
Volumes = tuple[VolumeShape, ...] | None
Statuses = tuple[ContainerStatusShape, ...] | None


class ConditionShape(Struct, frozen=True, gc=False):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodConditionShape(Struct, frozen=True, gc=False, rename="camel"):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time = None


class PodAnnotationsShape(Struct, frozen=True, gc=False, omit_defaults=True):
    """The annotations about eviction."""

    mirror: str | None = field(default=None, name=pod.MIRROR)
    prefer_no_eviction: str | None = field(default=None, name=pod.PREFER_NO_EVICTION)
    evict_anyway: str | None = field(default=None, name=pod.EVICT_ANYWAY)
    safe_to_evict: str | None = field(default=None, name=pod.SAFE_TO_EVICT)
    safe_local_volumes: str | None = field(default=None, name=pod.SAFE_LOCAL_VOLUMES)
    do_not_disrupt: str | None = field(default=None, name=pod.DO_NOT_DISRUPT)
    evict: str | None = field(default=None, name=pod.EVICT)
    deletion_cost: str | None = field(default=None, name=pod.DELETION_COST)
    resize: str | None = field(default=None, name=pod.RESIZE)


# The value with a meaning; of the others, apart from the list of volumes, only the presence has one.
_INT32 = re.compile(r"0|-?[1-9][0-9]{0,9}")
_MEANINGFUL = {"safe_to_evict": "false", "do_not_disrupt": "true", "evict": "never", "resize": "requests"}


def meaningful_annotations(held: Any, volumes: Any) -> dict[str, str | None]:
    """By field of PodAnnotationsShape: the value as far as it has a meaning, None if it has none.

    The rest is free text, which nobody needs: of the list of volumes only the names of these volumes are left, and a
    deletion cost must be a number as Kubernetes writes it.
    """
    found: dict[str, str | None] = {}
    for name in PodAnnotationsShape.__struct_fields__:
        value = getattr(held, name)
        if value is not None and name == "safe_local_volumes":
            known = {each.name for each in volumes or () if each.empty_dir is not None or each.host_path is not None}
            value = ",".join(each for each in map(str.strip, value.split(",")) if each in known) or None
        elif value is not None and name == "deletion_cost":
            value = value if _INT32.fullmatch(value) and -INT32 - 1 <= int(value) <= INT32 else None
        elif value is not None and name in _MEANINGFUL:
            value = value if value == _MEANINGFUL[name] else None
        elif value is not None:
            value = ""
        found[name] = value
    return found


class PodMetaShape(Struct, frozen=True, gc=False, rename="camel"):
    name: Name
    namespace: Name
    uid: Name
    resource_version: str | None = None
    labels: Raw = NULL
    owner_references: Raw = NULL
    creation_timestamp: Time = None
    deletion_timestamp: Any = None  # any value means that the pod is terminating
    annotations: PodAnnotationsShape | None = None


class PodSpecShape(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    host_network: bool | None = None
    containers: Containers = None
    init_containers: Containers = None
    volumes: Volumes = None
    scheduling_gates: Raw = NULL
    node_selector: Raw = NULL
    affinity: Raw = NULL
    tolerations: Raw = NULL
    topology_spread_constraints: Raw = NULL
    overhead: Raw = NULL
    resources: Raw = NULL
    resource_claims: Raw = NULL
    workload_ref: Raw = NULL
    scheduling_group: Raw = NULL


class PodStatusShape(Struct, frozen=True, gc=False, rename="camel"):
    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: Time = None
    conditions: tuple[PodConditionShape, ...] | None = None
    container_statuses: Statuses = None
    init_container_statuses: Statuses = None


class PodShape(Struct, frozen=True, gc=False):
    metadata: PodMetaShape
    spec: PodSpecShape | None = None
    status: PodStatusShape | None = None


class SpecKey(Struct, frozen=True, gc=False, array_like=True):
    """All that determines a pod's spec and requests, except its volumes."""

    node_selector: Raw
    affinity: Raw
    tolerations: Raw
    topology_spread_constraints: Raw
    resource_claims: Raw
    workload_ref: Raw
    scheduling_group: Raw
    overhead: Raw
    resources: Raw
    host_network: bool | None
    containers: Containers
    init_containers: Containers
    container_statuses: Statuses
    init_container_statuses: Statuses
    resize_infeasible: bool


class TemplateKey(Struct, frozen=True, gc=False, array_like=True):
    """All that pods of one template share, with the SpecKey still encoded: both are cache keys as well as shapes.

    Of containers and volumes no more are listed than are counted; the numbers are those of all.
    """

    namespace: str
    scheduler_name: str | None
    priority: int | None
    preemption_policy: str | None
    scheduling_gates: Raw
    labels: Raw
    owner_references: Raw
    volumes: Volumes
    volume_count: int
    container_count: int
    annotations: PodAnnotationsShape | None
    spec_key: Raw


class PortShape(Struct, frozen=True, gc=False, rename="camel"):
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class OwnerShape(Struct, frozen=True, gc=False, rename="camel"):
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    controller: bool | None = None


class ClaimShape(Struct, frozen=True, gc=False, rename="camel"):
    claim_name: str | None = None
    read_only: bool | None = None


class NamedShape(Struct, frozen=True, gc=False):
    name: str | None = None


class WorkloadRefShape(Struct, frozen=True, gc=False, rename="camel"):
    name: str | None = None
    pod_group: str | None = None
    pod_group_replica_key: str | None = None


class SchedulingGroupShape(Struct, frozen=True, gc=False, rename="camel"):
    pod_group_name: str | None = None
