"""What moves pods between the queues, by kube-scheduler's names: the values of the label `event` of a metric."""

from __future__ import annotations

from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod

POD_ADD, POD_UPDATE = "UnschedulablePodAdd", "UnschedulablePodUpdate"
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE, POP_FROM_BACKOFF = "BackoffComplete", "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"  # by the scheduler itself: its settings changed, or an equivalent pod was scheduled
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"

# A pod that gives up its node, its nomination or a reservation counts as deleted from there.
_BY_CHANGE = {
    Change.POD_DELETED | Change.NOMINATED | Change.PLUGIN_STATE: "AssignedPodDelete",
    Change.POD_ADDED: "AssignedPodAdd",
    Change.POD_UPDATED: "AssignedPodUpdate",
    Change.OWN_POD_UPDATED: POD_UPDATE,
    Change.NODE_ADDED: "NodeAdd",
    Change.NODE_DELETED: "NodeDelete",
    Change.ALLOCATABLE: "NodeUpdateNodeAllocatable",
    Change.LABELS: "NodeUpdateNodeLabel",
    Change.TAINTS: "NodeUpdateNodeTaint",
    Change.LOAD: "LoadUpdate",
}
_GROUPS = {
    "CSINode": "storage.k8s.io/",
    "CSIDriver": "storage.k8s.io/",
    "VolumeAttachment": "storage.k8s.io/",
    "CSIStorageCapacity": "storage.k8s.io/",
    "StorageClass": "storage.k8s.io/",
    "PodGroup": "scheduling.x-k8s.io/",
}
_RESOURCES = {"CsiNode": "CSINode", "CsiDriver": "CSIDriver", "CsiStorageCapacity": "CSIStorageCapacity"}


def cluster_event(
    change: Change, before: Pod | Node | Object | None = None, after: Pod | Node | Object | None = None
) -> str:
    """The name of this change of the cluster; of several the first in the table."""
    known = after if after is not None else before
    if isinstance(known, Object):
        name = _RESOURCES.get(type(known).__name__, type(known).__name__)
        return f"{_GROUPS.get(name, '')}{name}{_action(before, after)}"
    if change & Change.POD_UPDATED and isinstance(before, Pod) and isinstance(after, Pod):
        return f"AssignedPodUpdate{'PodLabel' if before.labels != after.labels else 'PodScaleDown'}"
    return next((name for flags, name in _BY_CHANGE.items() if flags & change), "NodeUpdate")


def _action(before: object, after: object) -> str:
    return "Add" if before is None else "Delete" if after is None else "Update"
