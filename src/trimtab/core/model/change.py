"""The closed list of cluster changes: what cached results depend on, and what requeues unschedulable pods."""

from __future__ import annotations

from enum import IntFlag


class Change(IntFlag):
    """Says what an event changed, what a plugin's result depends on, and what may make a rejected pod schedulable."""

    NOTHING = 0
    NODE_ADDED = 1
    NODE_DELETED = 2
    ALLOCATABLE = 4
    LABELS = 8
    TAINTS = 16
    IMAGES = 32
    POD_ADDED = 64
    POD_DELETED = 128
    POD_UPDATED = 256  # labels or requests of a pod with a node
    LOAD = 512
    OWN_POD_UPDATED = 1024  # the pending pod itself was updated
    NOMINATED = 2048
    PLUGIN_STATE = 4096  # what a plugin keeps in the cluster
    NAMESPACES = 8192
    SELECTORS = 16384  # of Services, ReplicaSets, ReplicationControllers and StatefulSets
    STORAGE = 32768  # claims, volumes, storage classes, CSI nodes, drivers and capacities
    DISRUPTION_BUDGETS = 65536
    POD_GROUPS = 131072

    PODS = POD_ADDED | POD_DELETED | POD_UPDATED
    NODES = NODE_ADDED | ALLOCATABLE | LABELS | TAINTS
    ANY = 262143
