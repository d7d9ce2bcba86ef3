"""The closed list of things that can change in a cluster: what columns must be redone for, and what wakes parked pods."""

from __future__ import annotations

from enum import IntFlag


class Change(IntFlag):
    """Used three ways: what an event did, what a plugin's answer depends on, and what may change a plugin's mind."""

    NOTHING = 0
    NODE_ADDED = 1
    NODE_DELETED = 2
    ALLOCATABLE = 4
    LABELS = 8
    TAINTS = 16
    IMAGES = 32
    POD_ADDED = 64
    POD_DELETED = 128
    POD_UPDATED = 256  # labels or requests of a pod that holds a place
    LOAD = 512
    OWN_POD_UPDATED = 1024  # the waiting pod itself was edited
    NOMINATED = 2048
    PLUGIN_STATE = 4096  # a plugin's own memory
    NAMESPACES = 8192
    SELECTORS = 16384  # of Services, ReplicaSets, ReplicationControllers and StatefulSets
    STORAGE = 32768  # claims, volumes, storage classes and what drivers say of nodes
    DISRUPTION_BUDGETS = 65536
    POD_GROUPS = 131072

    PODS = POD_ADDED | POD_DELETED | POD_UPDATED
    NODES = NODE_ADDED | ALLOCATABLE | LABELS | TAINTS
    ANY = 262143
