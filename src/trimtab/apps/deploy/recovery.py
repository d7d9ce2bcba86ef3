"""Finds the inventory again after somebody has deleted it, by the marks on the objects that it listed."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from trimtab.apps.deploy.api_client import ApiClient, Object, ObjectRef, ref_of
from trimtab.apps.deploy.kustomization import manifests_folder, read_everything, read_kustomization
from trimtab.apps.deploy.release import OURS, REPOSITORY, Inventory, deployed_in, is_ours
from trimtab.apps.deploy.render import CONFIG_KEY, RUNBOOK_URL, RUNBOOKS, VERSION

OPTIONAL = (
    "monitoring",
    "labeller",
    "rescheduler",
    "network-policy",
)  # what flags ask for; the rest follows from the configuration


async def marked_objects(client: ApiClient, namespace: str, kinds: Iterable[tuple[str, str]]) -> list[Object]:
    """All objects of these kinds, in any namespace, that carry the marks of the installation in this namespace."""
    found = await asyncio.gather(*(client.list_kind(*kind, labels=OURS) for kind in kinds))
    return [item for items in found for item in items if deployed_in(item) == namespace]


async def recover_inventory(client: ApiClient, namespace: str) -> Inventory | None:
    """What the objects tell of their installation; None without a scheduler's Deployment of ours."""
    deployment = await client.read(ObjectRef("apps/v1", "Deployment", "trimtab", namespace))
    if deployment is None or not is_ours(deployment) or deployed_in(deployment) != namespace:
        return None
    folder = manifests_folder()
    kinds = {(item["apiVersion"], item["kind"]) for item in read_everything(folder)}
    items = {ref_of(each): each for each in await marked_objects(client, namespace, kinds)}
    version = (deployment["metadata"].get("labels") or {}).get(VERSION, "")
    repository, tag = _image(deployment)
    return Inventory(
        tuple(items),
        version,
        CONFIG_KEY,
        is_template=False,  # the text in the cluster is what was installed
        repository=repository,
        tag="" if tag == version else tag,
        components=_components(folder, {(ref.kind, ref.name) for ref in items}),
        leases=tuple(f"{ref.namespace}/{ref.name}" for ref in items if ref.kind == "Lease"),
        runbook_url_base=_runbook_url_base(items),
    )


def _image(deployment: Object) -> tuple[str, str]:
    image = str(deployment["spec"]["template"]["spec"]["containers"][0].get("image") or REPOSITORY)
    repository, colon, tag = image.rpartition(":")
    return (repository, tag) if colon and "@" not in image and "/" not in tag else (image, "")


def _components(folder: Path, found: Container[tuple[str, str]]) -> tuple[str, ...]:
    """The optional parts of which anything is there."""
    parts = {name: read_kustomization(folder / "components" / name) for name in OPTIONAL}
    return tuple(
        name
        for name, items in parts.items()
        if any((each["kind"], each["metadata"]["name"]) in found for each in items)
    )


def _runbook_url_base(items: Mapping[ObjectRef, Object]) -> str:
    """What the links of alerts begin with; empty if that is the shipped folder."""
    rules = [item for ref, item in items.items() if ref.kind == "PrometheusRule"]
    alerts = [alert for item in rules for group in item["spec"]["groups"] for alert in group["rules"]]
    links = [link for alert in alerts if (link := (alert.get("annotations") or {}).get(RUNBOOK_URL))]
    base = links[0].partition("#")[0].rpartition("/")[0] if links else RUNBOOKS
    return "" if base == RUNBOOKS else base
