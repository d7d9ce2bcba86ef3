"""Carries out a plan: namespace, inventory, everything else, then what is no longer wanted.

Interrupted at any point it leaves an inventory that names all it may have written, and running it again completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from trimtab.apps.deploy.cluster import Cluster, DeployError, NothingWritten, Object, Say
from trimtab.apps.deploy.labeller_removal import DEPLOYMENT, remove_labels
from trimtab.apps.deploy.plan import Change, Plan
from trimtab.apps.deploy.release import from_config_map, inventory_ref, to_config_map


async def carry_out(cluster: Cluster, plan: Plan, say: Say, timeout: float, force: bool = False) -> None:
    """Write what the plan says; raises DeployError at the first refusal."""
    pending = plan.writes
    if plan.creates_namespace:
        pending = await _create_namespace(cluster, pending, say)
    deletions = [each for each in pending if each.item is None]
    record = next((each for each in plan.changes if each.ref == inventory_ref(plan.release.namespace)), None)
    if deletions and record is not None:
        await cluster.apply(_with_objects(record, deletions), force=True)
        pending = tuple(each for each in pending if each is not record)
    for change in pending:
        await _write(cluster, change, say, force)
    if any((each.ref.kind, each.ref.name) == ("Deployment", DEPLOYMENT) for each in deletions):
        await remove_labels(cluster, plan.release.namespace, timeout, say)
    if deletions and record is not None:
        await cluster.apply(_item(record), force=True)


def _item(change: Change) -> Object:
    assert change.item is not None, f"{change.ref} is deleted, not applied"
    return change.item


def _with_objects(record: Change, deletions: Sequence[Change]) -> Object:
    """The inventory with what is about to be deleted, so that an interruption forgets nothing."""
    inventory = from_config_map(_item(record))
    both = replace(inventory, objects=(*inventory.objects, *(each.ref for each in deletions)))
    return to_config_map(both, record.ref.namespace)


async def _create_namespace(cluster: Cluster, changes: Sequence[Change], say: Say) -> tuple[Change, ...]:
    """Create it, then try everything else in it; if anything is refused, remove it again. What is left to write."""
    first, *rest = changes
    made = await cluster.apply(_item(first))
    try:
        await asyncio.gather(*(cluster.dry_run(_item(each)) for each in rest if each.ref.namespace))
    except DeployError as error:
        await cluster.delete(first.ref, made["metadata"]["uid"])
        raise NothingWritten(f"{error}; {first.ref} was removed again, and nothing else was written") from None
    say(f"created {first.ref}")
    return tuple(rest)


async def _write(cluster: Cluster, change: Change, say: Say, force: bool) -> None:
    if change.item is None:
        await cluster.delete(change.ref, change.before["metadata"]["uid"] if change.before else "")
    else:
        await cluster.apply(change.item, force=force)
    say(f"{change.verb}d {change.ref}")
