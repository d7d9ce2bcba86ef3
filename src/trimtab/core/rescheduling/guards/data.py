"""Guards by a pod's volumes: data that stays behind, and volumes that only its node can reach."""

from __future__ import annotations

from trimtab.core.cluster.node_selection import matching_any
from trimtab.core.framework.volumes import claim_names
from trimtab.core.model.pod import Pod
from trimtab.core.model.storage import PersistentVolume, PersistentVolumeClaim
from trimtab.core.rescheduling.disruption import lost_volumes
from trimtab.core.rescheduling.guards.context import GuardContext


def local_data(context: GuardContext, pod: Pod) -> str:
    """emptyDir and hostPath volumes, unless the pod says that they do not matter."""
    lost = [] if context.settings.allow_local_data else lost_volumes(pod)
    return f"the data of its local volume {lost[0]} would be lost" if lost else ""


def pinned_volume(context: GuardContext, pod: Pod) -> str:
    """A local PersistentVolume has a node affinity for its node alone."""
    claims = context.cluster.objects.of_kind(PersistentVolumeClaim)
    volumes = context.cluster.objects.of_kind(PersistentVolume)
    for name, _ in claim_names(pod):
        claim = claims.get(f"{pod.namespace}/{name}")
        volume = None if claim is None else volumes.get(claim.volume)
        if volume is None:
            return f"the volume of its claim {name} is not known"
        if _is_pinned(context, pod, volume):
            return f"volume {volume.name} of its claim {name} is on its node alone"
    return ""


def _is_pinned(context: GuardContext, pod: Pod, volume: PersistentVolume) -> bool:
    if volume.terms is None:
        return False
    view = context.cluster.view
    others = matching_any(view, volume.terms) & ~view.rows_named((pod.node,))
    return not others.any()
