"""Removes what a labeller leaves behind once it is gone for good: labels and taints on nodes, and its lease.

Whether there was a labeller is read from the inventory, never from what is left to delete: a run that was interrupted may
have deleted the Deployment already, and the labels are still there.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Say
from trimtab.apps.deploy.release import (
    COMPONENT,
    LABELLER,
    TRIMTAB,
    Inventory,
    labeller_ref,
    lease_ref,
)
from trimtab.apps.deploy.rollout import wait_for_pods
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.label_cleanup import CleanupOptions, Outcome, clean_up
from trimtab.config.trimtab.labeller import LEASE
from trimtab.kube.lease import LABELLER_LEASE


def had_labeller(inventory: Inventory | None, namespace: str) -> bool:
    """Whether a labeller was installed, and its labels have not been removed since."""
    return inventory is not None and (LABELLER in inventory.components or labeller_ref(namespace) in inventory.objects)


async def remove_labels(client: ApiClient, namespace: str, timeout: float, say: Say) -> None:
    """Nobody else would remove its labels; the lease proves that no labeller runs, and goes last."""
    await wait_for_pods(client, namespace, f"{TRIMTAB},{COMPONENT}={LABELLER}", timeout)
    options = CleanupOptions(replace(LEASE, namespace=namespace), after=0.0, apply=True, identity="trimtab-deploy")
    found = await clean_up(options, ApiServer(client.transport, ""))
    for line in found.lines:
        say(line)
    if found.outcome is Outcome.HELD:
        lease = lease_ref(LABELLER_LEASE, namespace)
        raise DeployError(
            f"labels stay on nodes, because a labeller still renews {lease}: stop it, then run this again"
        )
    if found.outcome is Outcome.FAILED:
        raise DeployError(f"labels stay on nodes: {found.lines[-1]}: run trimtab unmark --after 0s --apply")
    if await client.delete(lease_ref(LABELLER_LEASE, namespace)):
        say(f"deleted {lease_ref(LABELLER_LEASE, namespace)}")
