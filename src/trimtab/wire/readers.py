"""The reader of each kind, by the API's plural name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimtab.wire import objects, storage
from trimtab.wire.watch import Reader

# Beyond pods and nodes, whose readers have arguments or are shared.
OBJECT_READERS: Mapping[str, Callable[[], Reader[Any]]] = {
    "namespaces": objects.namespaces,
    "services": objects.services,
    "replicationcontrollers": objects.replication_controllers,
    "replicasets": objects.replica_sets,
    "statefulsets": objects.stateful_sets,
    "poddisruptionbudgets": objects.budgets,
    "podgroups": objects.pod_groups,
    "persistentvolumeclaims": storage.claims,
    "persistentvolumes": storage.volumes,
    "storageclasses": storage.classes,
    "csinodes": storage.csi_nodes,
    "csidrivers": storage.csi_drivers,
    "csistoragecapacities": storage.capacities,
    "volumeattachments": storage.attachments,
}
