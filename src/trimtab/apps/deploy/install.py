"""Carries out a plan: namespace, inventory, everything else, and after the rollout what is no longer wanted.

Until the rollout is done the old replicas keep what they need: the lease that one of them holds, and the right to renew it.
A new replica that cannot start therefore does not stop the old leader.

Interrupted at any point it leaves an inventory that names all it may have written, and running it again completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trimtab.apps.deploy.api_client import ApiClient, DeployError, NothingWritten, Object, ObjectRef, Say
from trimtab.apps.deploy.labeller_removal import had_labeller, remove_labels
from trimtab.apps.deploy.plan import ObjectChange, Plan
from trimtab.apps.deploy.release import (
    LABELLER,
    TRIMTAB,
    Inventory,
    from_config_map,
    inventory_ref,
    labeller_ref,
    to_config_map,
)
from trimtab.apps.deploy.rollout import wait_for_pods, wait_for_rollout


async def carry_out(client: ApiClient, plan: Plan, say: Say, timeout: float, force: bool = False) -> None:
    """Write what the plan says; raises DeployError at the first refusal, or if what is to be replaced is not in time."""
    pending = plan.writes
    if plan.creates_namespace:
        pending = await _create_namespace(client, pending, say)
    namespace = plan.release.namespace
    record = next((each for each in plan.changes if each.ref == inventory_ref(namespace)), None)
    removed = _removed(plan)
    if removed and record is not None:
        await client.apply(_with_objects(record, removed, plan.installed), force=True)
        pending = tuple(each for each in pending if each is not record)
    for change in (each for each in pending if each.item is not None):
        await client.apply(_with_old_leases(change), force=force)
        say(f"{change.verb}d {change.ref}")
    if late := [each for each in pending if each.item is None or _with_old_leases(each) != each.item]:
        await _wait_for_new_replicas(client, plan, late, timeout, say)
    for change in late:
        await _write(client, change, say, force)
    if labeller_ref(namespace) in removed:
        await remove_labels(client, namespace, timeout, say)
    if removed and record is not None:
        await client.apply(_item(record), force=True)


def _removed(plan: Plan) -> tuple[ObjectRef, ...]:
    """What is deleted; and the labeller's Deployment as long as its labels are not removed, though it may be gone."""
    namespace = plan.release.namespace
    gone = [labeller_ref(namespace)] if had_labeller(plan.installed, namespace) else []
    left = [] if LABELLER in plan.release.components else gone
    return tuple(dict.fromkeys([*(each.ref for each in plan.writes if each.item is None), *left]))


def _item(change: ObjectChange) -> Object:
    assert change.item is not None, f"{change.ref} is deleted, not applied"
    return change.item


def _with_old_leases(change: ObjectChange) -> Object:
    """What is applied first: a Role that still allows the leases of the running replicas, anything else as it is."""
    item = _item(change)
    if item["kind"] != "Role" or change.before is None:
        return item
    old = [name for rule in change.before.get("rules") or () for name in _lease_names(rule)]
    rules = [
        {**rule, "resourceNames": list(dict.fromkeys([*named, *old]))} if (named := _lease_names(rule)) else rule
        for rule in item["rules"]
    ]
    return {**item, "rules": rules}


def _lease_names(rule: Mapping[str, Any]) -> list[str]:
    """The leases that a rule names."""
    return (rule.get("resourceNames") or []) if "leases" in (rule.get("resources") or ()) else []


async def _wait_for_new_replicas(
    client: ApiClient, plan: Plan, late: Sequence[ObjectChange], timeout: float, say: Say
) -> None:
    """Until the rollout is done; if a lease goes, also until the old pods are gone, because they would make it again."""
    await wait_for_rollout(client, plan.deployments, timeout, say)
    if any(each.ref.kind == "Lease" for each in late):
        await wait_for_pods(client, plan.release.namespace, TRIMTAB, timeout, leaving=True)


def _with_objects(record: ObjectChange, removed: Sequence[ObjectRef], installed: Inventory | None) -> Object:
    """The inventory with what is about to be deleted and the old leases, so that an interruption forgets nothing."""
    inventory = from_config_map(_item(record))
    leases = dict.fromkeys((*inventory.leases, *(installed.leases if installed else ())))
    both = replace(inventory, objects=(*inventory.objects, *removed), leases=tuple(leases))
    return to_config_map(both, record.ref.namespace)


async def _create_namespace(client: ApiClient, changes: Sequence[ObjectChange], say: Say) -> tuple[ObjectChange, ...]:
    """Create it, then try everything else in it; if anything is refused, remove it again. What is left to write."""
    first, *rest = changes
    made = await client.apply(_item(first))
    try:
        await asyncio.gather(*(client.dry_run(_item(each)) for each in rest if each.ref.namespace))
    except DeployError as error:
        await client.delete(first.ref, made["metadata"]["uid"])
        raise NothingWritten(f"{error}; {first.ref} was removed again, and nothing else was written") from None
    say(f"created {first.ref}")
    return tuple(rest)


async def _write(client: ApiClient, change: ObjectChange, say: Say, force: bool) -> None:
    if change.item is None:
        await client.delete(change.ref, change.before["metadata"]["uid"] if change.before else "")
    else:
        await client.apply(change.item, force=force)
    say(f"{change.verb}d {change.ref}")
