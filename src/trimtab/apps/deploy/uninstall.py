"""Removes an installation: what its inventory lists and what carries our marks, and nothing else.

    Deployments, CronJobs ─(pods gone)─▶ labels on nodes ─▶ leases ─▶ everything else, backwards ─▶ inventory
    ─▶ namespace, if ours and empty

The pods go first, because a scheduler that still runs would make its lease again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from trimtab.apps.deploy.api_client import (
    ApiClient,
    DeployError,
    Object,
    ObjectRef,
    Resource,
    Say,
    join_first,
    ref_of,
)
from trimtab.apps.deploy.labeller_removal import had_labeller, remove_labels
from trimtab.apps.deploy.plan import check_namespace
from trimtab.apps.deploy.recovery import marked_objects
from trimtab.apps.deploy.release import (
    TRIMTAB,
    Inventory,
    deployed_in,
    in_order,
    inventory_ref,
    is_ours,
    labeller_ref,
    lease_ref,
    read_inventory,
)
from trimtab.apps.deploy.rights import require_rights
from trimtab.apps.deploy.rollout import wait_for_pods
from trimtab.kube.lease import LABELLER_LEASE, RESCHEDULER_LEASE
from trimtab.wire.ledger import LEDGER_NAME
from trimtab.wire.requests import Request

POLL_SECONDS = 0.5
DEFAULT_LEASES = ("trimtab", LABELLER_LEASE, RESCHEDULER_LEASE)
WORKLOADS = ("Deployment", "CronJob")
# What Kubernetes itself puts into every namespace, or derives from other objects.
GENERATED = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}
DERIVED_KINDS = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}


@dataclass(frozen=True, slots=True)
class Removal:
    """What is deleted, in this order, what stays and why, what its processes made, and whether labels go."""

    namespace: str
    objects: tuple[Object, ...]
    made: tuple[ObjectRef, ...]  # leases, and the rescheduler's ledger
    removes_namespace: bool
    removes_labels: bool = False
    notes: tuple[str, ...] = ()

    @property
    def has_work(self) -> bool:
        return bool(self.objects or self.made or self.removes_namespace)

    @property
    def refs(self) -> list[ObjectRef]:
        return [ref_of(each) for each in self.objects]


async def plan_removal(client: ApiClient, namespace: str, kinds: Iterable[tuple[str, str]]) -> Removal:
    """Everything of the installation in this namespace; `kinds` are those that any version of ours may have made."""
    inventory = await read_inventory(client, namespace)
    found = await _ours(client, namespace, inventory.objects if inventory else (), kinds)
    used, notes = await _used_definitions(client, found.values())
    doomed = [found[ref] for ref in reversed(in_order(found)) if ref not in used and ref.kind != "Namespace"]
    doomed.sort(key=lambda each: (each["kind"] not in WORKLOADS, ref_of(each) == inventory_ref(namespace)))
    made = await _made_by_processes(client, namespace, inventory, found) if found else ()
    removes, note = await _removes_namespace(client, namespace, {*found, *made})
    await _check_rights(client, namespace, [*map(ref_of, doomed), *made], removes)
    traces = {labeller_ref(namespace), lease_ref(LABELLER_LEASE, namespace)}.intersection((*found, *made))
    labelled = had_labeller(inventory, namespace) or bool(traces)
    return Removal(namespace, tuple(doomed), made, removes, labelled, (*notes, *note))


async def _made_by_processes(
    client: ApiClient, namespace: str, inventory: Inventory | None, known: Container[ObjectRef]
) -> tuple[ObjectRef, ...]:
    """Further leases in our namespace, and the ledger; kube-scheduler's lease, which a profile may use, is not ours."""
    recorded = [name.split("/", 1) for name in (inventory.leases if inventory else ())]
    own = dict.fromkeys((*(name for where, name in recorded if where == namespace), *DEFAULT_LEASES))
    candidates = [*(lease_ref(name, namespace) for name in own), ObjectRef("v1", "ConfigMap", LEDGER_NAME, namespace)]
    refs = [ref for ref in candidates if ref not in known]
    return tuple([ref for ref in refs if await client.read(ref) is not None])


async def _removes_namespace(client: ApiClient, namespace: str, known: set[ObjectRef]) -> tuple[bool, tuple[str, ...]]:
    """Whether the namespace goes, too, and if not, why."""
    own = await check_namespace(client, namespace)
    if own is None:
        return False, ()
    if not is_ours(own):
        return False, (f"namespace {namespace} stays, because trimtab deploy did not make it",) if known else ()
    if others := await _others(client, namespace, known):
        return False, (f"namespace {namespace} stays, because it also has {join_first(others)}",)
    return True, ()


async def _check_rights(client: ApiClient, namespace: str, refs: Sequence[ObjectRef], removes: bool) -> None:
    needed = [*refs, *([ObjectRef("v1", "Namespace", namespace)] if removes else [])]
    await require_rights(client, [("delete", ref) for ref in needed])


async def _ours(
    client: ApiClient, namespace: str, listed: Iterable[ObjectRef], kinds: Iterable[tuple[str, str]]
) -> dict[ObjectRef, Object]:
    """By the inventory and by our marks, because a namespace that was deleted by hand takes the inventory with it."""
    refs = [*listed, inventory_ref(namespace)]
    read = [each for each in await asyncio.gather(*map(client.read, refs)) if each is not None]
    candidates = [*read, *await marked_objects(client, namespace, kinds)]
    return {ref_of(each): each for each in candidates if is_ours(each) and deployed_in(each) == namespace}


async def _used_definitions(client: ApiClient, items: Iterable[Object]) -> tuple[set[ObjectRef], tuple[str, ...]]:
    """Definitions of kinds of which there are objects: deleting one would delete these, and they are not ours."""
    used = set()
    for each in (item for item in items if item["kind"] == "CustomResourceDefinition"):
        group, kind = each["spec"]["group"], each["spec"]["names"]["kind"]
        versions = [version["name"] for version in each["spec"]["versions"] if version.get("served")]
        if versions and await client.list_kind(f"{group}/{versions[0]}", kind):
            used.add(ref_of(each))
    return used, tuple(f"{ref} stays, because there are objects of that kind" for ref in used)


async def _others(client: ApiClient, namespace: str, known: set[ObjectRef]) -> list[str]:
    """What else is in the namespace, other than what Kubernetes puts there and what belongs to ours."""

    async def foreign(version: str, resource: Resource) -> list[str]:
        try:
            items = await client.list_resource(version, resource, namespace)
        except DeployError:
            return [f"{resource.name}, which cannot be listed"]
        return [str(ref_of(each)) for each in items if not _belongs(each, known)]

    found = await asyncio.gather(*(foreign(*each) for each in await _namespaced_kinds(client)))
    return [name for names_of_kind in found for name in names_of_kind]


def _belongs(item: Object, known: set[ObjectRef]) -> bool:
    """Whether it is ours, belongs to another object, or is made by Kubernetes in every namespace."""
    ref = ref_of(item)
    owned = bool(item["metadata"].get("ownerReferences"))
    return owned or is_ours(item) or ref in known or (ref.kind, ref.name) in GENERATED


async def _namespaced_kinds(client: ApiClient) -> list[tuple[str, Resource]]:
    """Every kind of namespaced object that can be listed, in each group's preferred version."""
    groups = msgspec.json.decode((await client.send(Request("GET", "/apis"))).body).get("groups") or []
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    kinds = await asyncio.gather(*map(client.resources, versions))
    return [
        (version, resource)
        for version, found in zip(versions, kinds, strict=True)
        for resource in found
        if resource.namespaced and "list" in resource.verbs and resource.kind not in DERIVED_KINDS
    ]


async def carry_out_removal(client: ApiClient, removal: Removal, timeout: float, say: Say) -> None:
    """Delete it all; raises DeployError at the first refusal, and can be run again."""
    workloads = [each for each in removal.objects if each["kind"] in WORKLOADS]
    rest = [each for each in removal.objects if each["kind"] not in WORKLOADS]
    for each in workloads:
        await _delete(client, each, say)
    if removal.objects:  # also if an earlier run has deleted the workloads
        await wait_for_pods(client, removal.namespace, TRIMTAB, timeout)
    if removal.removes_labels:
        await remove_labels(client, removal.namespace, timeout, say)
    for ref in removal.made:
        if await client.delete(ref):
            say(f"deleted {ref}")
    for each in rest:
        await _delete(client, each, say)
    if removal.removes_namespace:
        ref = ObjectRef("v1", "Namespace", removal.namespace)
        await client.delete(ref)
        await _wait_until_gone(client, ref, timeout)
        say(f"deleted {ref}")


async def _delete(client: ApiClient, item: Object, say: Say) -> None:
    if await client.delete(ref_of(item), item["metadata"]["uid"]):
        say(f"deleted {ref_of(item)}")


async def _wait_until_gone(client: ApiClient, ref: ObjectRef, timeout: float) -> None:
    deadline = asyncio.get_running_loop().time() + timeout
    while await client.read(ref) is not None:
        if asyncio.get_running_loop().time() >= deadline:
            raise DeployError(f"{ref} is not gone after {timeout:g} s: see its conditions for what holds it")
        await asyncio.sleep(POLL_SECONDS)
