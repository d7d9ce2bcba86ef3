"""What an installation would change, found without changing anything.

    kinds known? ─▶ rights? ─▶ namespace usable? ─▶ objects ours? ─▶ dry run of every apply ─▶ Plan

Each step raises DeployError, so a plan that exists can be carried out. Objects whose namespace does not exist yet cannot be
tried before it does: `install.carry_out` tries them right after creating it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Object, ObjectRef, join_first, ref_of
from trimtab.apps.deploy.object_diff import comparable
from trimtab.apps.deploy.recovery import recover_inventory
from trimtab.apps.deploy.release import (
    MANAGED_BY,
    Inventory,
    Release,
    deployed_in,
    in_order,
    inventory_of,
    inventory_ref,
    is_ours,
    read_inventory,
    to_config_map,
)
from trimtab.apps.deploy.rights import check_reading, check_writing
from trimtab.kube.lease import LABELLER_LEASE, RESCHEDULER_LEASE

# Others may have made these before us; then they are used and left as they are.
SHARED_KINDS = ("Namespace", "CustomResourceDefinition")
OPERATOR = "monitoring.coreos.com"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object before and after; no `before` creates it, no `after` deletes it. `item` is what is applied."""

    ref: ObjectRef
    before: Object | None
    after: Object | None
    item: Object | None = None

    @property
    def verb(self) -> str:
        """create, update, delete, or keep."""
        if self.before is None or self.after is None:
            return "create" if self.before is None else "delete"
        return "keep" if comparable(self.before) == comparable(self.after) else "update"


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes in the order of writing, what was installed before, and what people should know."""

    release: Release
    changes: tuple[ObjectChange, ...]
    installed: Inventory | None
    notes: tuple[str, ...] = ()

    @property
    def writes(self) -> tuple[ObjectChange, ...]:
        """The changes that change something."""
        return tuple(each for each in self.changes if each.verb != "keep")

    @property
    def deployments(self) -> tuple[ObjectRef, ...]:
        """Those whose rollout is awaited."""
        return tuple(each.ref for each in self.changes if each.ref.kind == "Deployment" and each.after is not None)

    @property
    def creates_namespace(self) -> bool:
        return any(each.ref.kind == "Namespace" and each.verb == "create" for each in self.changes)


async def make_plan(client: ApiClient, release: Release, rendered: Sequence[Object], force: bool = False) -> Plan:
    """What applying the rendered objects would change."""
    await _check_kinds(client, rendered)
    await check_reading(client, rendered)
    await check_namespace(client, release.namespace)
    installed = await read_inventory(client, release.namespace) or await recover_inventory(client, release.namespace)
    live = await _read_all(client, [ref_of(each) for each in rendered])
    kept, notes = _leave_to_others(rendered, live)
    _check_ownership(kept, live, release.namespace)
    items = _with_inventory(kept, release)
    stale = await _read_stale(client, installed, items)
    await check_writing(client, items, live, stale)
    notes = (*release.notes, *notes, *_lease_note(installed, release))
    changes = await asyncio.gather(*(_dry_run(client, item, live.get(ref_of(item)), force) for item in items))
    deletions = [ObjectChange(ref, stale[ref], None) for ref in reversed(in_order(stale))]
    plan = Plan(release, (*changes, *deletions), installed, notes)
    late = f"namespace {release.namespace} does not exist yet: once it does, the server tries the rest in it"
    return replace(plan, notes=(*notes, late)) if plan.creates_namespace else plan


def _lease_note(installed: Inventory | None, release: Release) -> tuple[str, ...]:
    """That the lease becomes another one, if it does."""
    new = "/".join(release.lease)
    others = (f"/{LABELLER_LEASE}", f"/{RESCHEDULER_LEASE}")
    old = [each for each in (installed.leases if installed else ()) if not each.endswith(others)]
    if not old or not release.leader_elect or new in old:
        return ()
    return (
        f"the lease {join_first(old)} is replaced by {new}: it stays until all replicas are new, and until then an old and "
        "a new replica may both schedule",
    )


def _with_inventory(items: Sequence[Object], release: Release) -> list[Object]:
    """The items in the order of writing; the inventory comes right after the namespace."""
    by_ref = {ref_of(each): each for each in items}
    ordered = in_order(by_ref)
    record = to_config_map(inventory_of(release, ordered), release.namespace)
    begin = sum(ref.kind == "Namespace" for ref in ordered)
    listed = [by_ref[ref] for ref in ordered]
    return [*listed[:begin], record, *listed[begin:]]


async def check_namespace(client: ApiClient, namespace: str) -> Object | None:
    """The namespace, None if it does not exist; raises DeployError while it is being deleted."""
    found = await client.read(ObjectRef("v1", "Namespace", namespace))
    if found is not None and found["metadata"].get("deletionTimestamp"):
        raise DeployError(f"namespace {namespace} is being deleted: wait until it is gone, or choose another with -n")
    return found


async def _check_kinds(client: ApiClient, rendered: Sequence[Object]) -> None:
    kinds = {(each["apiVersion"], each["kind"]) for each in rendered}
    found = await asyncio.gather(*(client.resource(*kind) for kind in kinds))
    missing = sorted(kind for kind, resource in zip(kinds, found, strict=True) if resource is None)
    if not missing:
        return
    listed = join_first(f"{kind} ({version})" for version, kind in missing)
    if all(version.startswith(OPERATOR) for version, _ in missing):
        raise DeployError(
            f"the cluster does not have {listed}: install the Prometheus operator, or use --no-monitoring"
        )
    raise DeployError(f"the cluster does not have {listed}: see which versions of Kubernetes are supported")


async def _read_all(client: ApiClient, refs: Iterable[ObjectRef]) -> dict[ObjectRef, Object]:
    listed = list(refs)
    found = await asyncio.gather(*map(client.read, listed))
    return {ref: item for ref, item in zip(listed, found, strict=True) if item is not None}


def _leave_to_others(rendered: Sequence[Object], live: dict[ObjectRef, Object]) -> tuple[list[Object], tuple[str, ...]]:
    """Without shared objects that somebody else has made."""
    foreign = [
        ref_of(each)
        for each in rendered
        if each["kind"] in SHARED_KINDS and ref_of(each) in live and not is_ours(live[ref_of(each)])
    ]
    notes = tuple(f"{ref} exists already and is left as it is" for ref in foreign)
    return [each for each in rendered if ref_of(each) not in foreign], notes


def _check_ownership(items: Sequence[Object], live: dict[ObjectRef, Object], namespace: str) -> None:
    for ref, found in ((ref_of(each), live.get(ref_of(each))) for each in items):
        if found is None or _is_made_by_a_replica(found):
            continue
        if not is_ours(found):
            raise DeployError(f"{ref} exists and was not made by trimtab deploy ({_maker(found)})")
        if (other := deployed_in(found)) and other != namespace:
            raise DeployError(
                f"{ref} belongs to the installation in namespace {other}: use -n {other}, or remove that one first "
                f"with trimtab deploy uninstall -n {other}"
            )


def _is_made_by_a_replica(found: Object) -> bool:
    """A process that ran before, here or elsewhere, has made the lease itself; then nobody manages it."""
    return found["kind"] == "Lease" and MANAGED_BY not in (found["metadata"].get("labels") or {})


def _maker(found: Object) -> str:
    """Who made it, as far as it says, and what to do."""
    by = (found["metadata"].get("labels") or {}).get(MANAGED_BY, "")
    if by == "Helm":
        return "Helm did: use helm upgrade, or remove it first with helm uninstall"
    return "delete it, or go on using what applied it"


async def _read_stale(
    client: ApiClient, installed: Inventory | None, items: Sequence[Object]
) -> dict[ObjectRef, Object]:
    """What the last version had and this one has not, as far as it still exists and is ours."""
    wanted = {(ref.group, ref.kind, ref.namespace, ref.name) for ref in map(ref_of, items)}
    gone = [
        ref
        for ref in (installed.objects if installed else ())
        if (ref.group, ref.kind, ref.namespace, ref.name) not in wanted and ref.kind not in SHARED_KINDS
    ]
    return {ref: item for ref, item in (await _read_all(client, gone)).items() if is_ours(item)}


async def _dry_run(client: ApiClient, item: Object, before: Object | None, force: bool) -> ObjectChange:
    ref = ref_of(item)
    if ref == inventory_ref(ref.namespace):
        before = await client.read(ref)
    if ref.kind == "Lease" and before is not None:
        item = {key: value for key, value in item.items() if key != "spec"}  # the holder's
    return ObjectChange(ref, before, await client.dry_run(item, force=force), item)
