"""The tags by which cases are counted."""

from __future__ import annotations

import json

from tests.differential.generators.rng import JsonObject

# A tag is given when this text is part of the question.
TEXTS = {
    "added-affinity": '"addedAffinity"',
    "arguments": '"args"',
    "default-constraints": '"defaultConstraints"',
    "ephemeral-volume": '"volumeClaimTemplate"',
    "image-volume": '"reference"',
    "in-place-resize": '"containerStatuses"',
    "init-containers": '"initContainers"',
    "match-label-keys": '"matchLabelKeys"',
    "min-domains": '"minDomains"',
    "mismatch-label-keys": '"mismatchLabelKeys"',
    "namespace-selector": '"namespaceSelector"',
    "node-affinity": '"nodeAffinity"',
    "nominated": '"nominatedPods"',
    "overhead": '"overhead"',
    "owner": '"ownerReferences"',
    "pdb": '"podDisruptionBudgets"',
    "pod-affinity": '"podAffinity"',
    "pod-anti-affinity": '"podAntiAffinity"',
    "policies": '"nodeTaintsPolicy"',
    "ports": '"hostPort"',
    "pvc": '"persistentVolumeClaim"',
    "read-write-once-pod": '"ReadWriteOncePod"',
    "service": '"services"',
    "sidecar": '"restartPolicy": "Always"',
    "spread": '"topologySpreadConstraints"',
    "storage-capacity": '"csiStorageCapacities"',
    "taints": '"taints"',
    "terminating": '"deletionTimestamp"',
}


def tags(question: JsonObject) -> list[str]:
    text = json.dumps(question)
    found = {tag for tag, part in TEXTS.items() if part in text}
    seen = [question.get("pod") or {}, *question.get("existingPods", ())]
    return sorted(
        found | ({"pod-level-resources"} if any("resources" in each.get("spec", {}) for each in seen) else set())
    )
