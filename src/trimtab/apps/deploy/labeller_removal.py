"""Removes what a labeller leaves behind once it is gone for good: labels and taints on nodes, and its lease."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from trimtab.apps.deploy.cluster import Cluster, DeployError, ObjectRef, Say, names
from trimtab.apps.deploy.release import LABELLER_LEASE
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.label_cleanup import CleanupOptions, clean_up
from trimtab.config.trimtab.labeller import LEASE

DEPLOYMENT = "trimtab-labeller"
LEASES = "coordination.k8s.io/v1"
PODS = "app.kubernetes.io/name=trimtab"
POLL_SECONDS = 0.5


def lease_ref(name: str, namespace: str) -> ObjectRef:
    return ObjectRef(LEASES, "Lease", name, namespace)


async def wait_for_pods(cluster: Cluster, namespace: str, labels: str, timeout: float) -> None:
    """Wait until no pod has these labels; a process that still runs would write again what is removed here."""
    deadline = asyncio.get_running_loop().time() + timeout
    while pods := await cluster.list_kind("v1", "Pod", namespace, labels=labels):
        if asyncio.get_running_loop().time() >= deadline:
            left = names(each["metadata"]["name"] for each in pods)
            raise DeployError(f"pods are not gone after {timeout:g} s: {left}; check their nodes, then run it again")
        await asyncio.sleep(POLL_SECONDS)


async def remove_labels(cluster: Cluster, namespace: str, timeout: float, say: Say) -> None:
    """Nobody else would remove its labels; the lease proves that no labeller runs, and goes last."""
    await wait_for_pods(cluster, namespace, f"{PODS},app.kubernetes.io/component=labeller", timeout)
    options = CleanupOptions(replace(LEASE, namespace=namespace), after=0.0, apply=True, identity="trimtab-deploy")
    found = await clean_up(options, ApiServer(cluster.transport, ""))
    for line in found.lines:
        say(line)
    if not found.ok:
        raise DeployError(f"labels stay on nodes: {found.lines[-1]}: run trimtab unmark --after 0s --apply")
    if await cluster.delete(lease_ref(LABELLER_LEASE, namespace)):
        say(f"deleted {lease_ref(LABELLER_LEASE, namespace)}")
