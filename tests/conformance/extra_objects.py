"""Reads the extra objects (beyond pods and nodes) of a recorded case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trimtab.core.model.objects import Object
from trimtab.wire.decoding import Malformed
from trimtab.wire.objects import budgets, namespaces, replica_sets, replication_controllers, services, stateful_sets
from trimtab.wire.storage import attachments, capacities, claims, classes, csi_drivers, csi_nodes, volumes

READERS: Mapping[str, Callable[[bytes], Object | Malformed]] = {
    "namespaces": namespaces().read,
    "services": services().read,
    "replicaSets": replica_sets().read,
    "replicationControllers": replication_controllers().read,
    "statefulSets": stateful_sets().read,
    "podDisruptionBudgets": budgets().read,
    "persistentVolumeClaims": claims().read,
    "persistentVolumes": volumes().read,
    "storageClasses": classes().read,
    "csiNodes": csi_nodes().read,
    "csiDrivers": csi_drivers().read,
    "csiStorageCapacities": capacities().read,
    "volumeAttachments": attachments().read,
}


def extra_objects(case: Mapping[str, Any]) -> Iterator[Object]:
    """All of them; those that were recorded without a UID get one, because no real object lacks it."""
    for kind, objects in (case.get("objects") or {}).items():
        for number, each in enumerate(objects):
            metadata = {"uid": f"{kind}-{number}", **each["metadata"]}
            found = READERS[kind](json.dumps({**each, "metadata": metadata}).encode())
            if isinstance(found, Malformed):
                raise ValueError(str(found))
            yield found
