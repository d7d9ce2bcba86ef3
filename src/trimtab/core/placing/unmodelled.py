"""Requirements of a pod that no plugin of the profile can judge: a hard one must never be guessed, a soft one is counted."""

from __future__ import annotations

from trimtab.core.model.pod import Pod
from trimtab.core.placing.profile import Point, Profile

INLINE = "csi"  # made on whichever node the pod goes to, so it ties the pod to none


def hard(pod: Pod, profile: Profile) -> tuple[str, ...]:
    """What keeps the pod pending until a plugin for it is there."""
    known = set(profile.enabled.get(Point.FILTER, ()))
    affinity = pod.spec.affinity
    found = (
        ("InterPodAffinity", "required pod affinity", affinity and affinity.pods.required),
        ("InterPodAffinity", "required pod anti-affinity", affinity and affinity.anti_pods.required),
        ("PodTopologySpread", "a DoNotSchedule topology spread constraint", any(each.hard for each in pod.spec.spread)),
        ("VolumeBinding", "volumes that bind to nodes", any(each.kind != INLINE for each in pod.spec.volumes)),
        ("DynamicResources", "resource claims", pod.spec.claims),
        ("Coscheduling", "a scheduling group", pod.spec.group),
    )
    return tuple(words for plugin, words, present in found if present and plugin not in known)


def soft(pod: Pod, profile: Profile) -> tuple[str, ...]:
    """What is passed over, and only counted."""
    known = {scoring.name for scoring in profile.scores}
    affinity = pod.spec.affinity
    found = (
        ("InterPodAffinity", "preferred pod affinity", affinity and affinity.pods.preferred),
        ("InterPodAffinity", "preferred pod anti-affinity", affinity and affinity.anti_pods.preferred),
        (
            "PodTopologySpread",
            "a ScheduleAnyway topology spread constraint",
            any(not each.hard for each in pod.spec.spread),
        ),
    )
    return tuple(words for plugin, words, present in found if present and plugin not in known)
