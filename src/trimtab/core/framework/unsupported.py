"""Requirements of a pod that nothing in Trimtab can judge: they are named, never guessed.

What a plugin could judge and a profile leaves out is another matter: there the operator has decided, as in kube-scheduler.
"""

from __future__ import annotations

from trimtab.core.model.pod import Pod


def unsupported_features(pod: Pod) -> tuple[str, ...]:
    """What keeps the pod pending until a plugin for it is there."""
    found = (
        ("resource claims (plugin DynamicResources)", pod.spec.resource_claims),
        ("a scheduling group of its spec (plugin GangScheduling)", pod.spec.scheduling_group),
    )
    return tuple(words for words, present in found if present)
