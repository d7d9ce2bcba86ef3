"""Carries out a plan: namespace, inventory, everything else, then what is no longer wanted.

Interrupted at any point it leaves an inventory that names all it may have written, and running it again completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from trimtab.apps.deploy.api_client import ApiClient, DeployError, NothingWritten, Object, ObjectRef, Say
from trimtab.apps.deploy.labeller_removal import had_labeller, remove_labels
from trimtab.apps.deploy.plan import ObjectChange, Plan
from trimtab.apps.deploy.release import LABELLER, from_config_map, inventory_ref, labeller_ref, to_config_map


async def carry_out(client: ApiClient, plan: Plan, say: Say, timeout: float, force: bool = False) -> None:
    """Write what the plan says; raises DeployError at the first refusal."""
    pending = plan.writes
    if plan.creates_namespace:
        pending = await _create_namespace(client, pending, say)
    namespace = plan.release.namespace
    record = next((each for each in plan.changes if each.ref == inventory_ref(namespace)), None)
    removed = _removed(plan)
    if removed and record is not None:
        await client.apply(_with_objects(record, removed), force=True)
        pending = tuple(each for each in pending if each is not record)
    for change in pending:
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


def _with_objects(record: ObjectChange, removed: Sequence[ObjectRef]) -> Object:
    """The inventory with what is about to be deleted, so that an interruption forgets nothing."""
    inventory = from_config_map(_item(record))
    both = replace(inventory, objects=(*inventory.objects, *removed))
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
