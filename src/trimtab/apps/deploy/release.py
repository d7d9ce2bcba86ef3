"""What is to be installed, and its record in the cluster: the inventory, a ConfigMap next to the objects.

The inventory is written before the objects that it lists and shortened after the last one is pruned, so at every moment it
names everything that an interrupted run may have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trimtab.apps.deploy.api_client import FIELD_MANAGER, ApiClient, DeployError, Object, ObjectRef
from trimtab.kube.lease import LABELLER_LEASE, RESCHEDULER_LEASE

INVENTORY = "trimtab-deploy"
MANAGED_BY = "app.kubernetes.io/managed-by"
DEPLOYED_IN = "deploy.trimtab.dev/namespace"
REPOSITORY = "trimtab"
NONE = "-"  # in the inventory, the namespace of a cluster-scoped object
LABELLER, RESCHEDULER = "labeller", "rescheduler"
LABELLER_DEPLOYMENT = "trimtab-labeller"
LEASES = "coordination.k8s.io/v1"
COMPONENT = "app.kubernetes.io/component"
TRIMTAB = "app.kubernetes.io/name=trimtab"  # selects all that is Trimtab, whoever installed it
OURS = f"{MANAGED_BY}={FIELD_MANAGER}"


@dataclass(frozen=True, slots=True)
class Release:
    """The namespace, the image, the configuration and the optional parts; an empty tag is the version's."""

    namespace: str
    version: str
    config_name: str
    config: str = field(repr=False)
    is_template: bool = True
    repository: str = REPOSITORY
    tag: str = ""
    components: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()  # those that the configuration includes, by name
    lease: tuple[str, str] = ("trimtab", "trimtab")  # namespace and name; a default-scheduler's is kube-scheduler's own
    leader_elect: bool = True
    has_label_rules: bool = False
    labels_nodes: bool = False  # the labeller writes, so it holds a lease, too
    runbook_url_base: str = ""  # of the links in alerts; empty for the shipped one
    notes: tuple[str, ...] = ()  # what people should know about its configuration
    has_rescheduling: bool = False  # its file has a section for the rescheduler

    @property
    def leases(self) -> tuple[str, ...]:
        """The leases that its processes hold, as namespace/name."""
        labelling = self.labels_nodes and LABELLER in self.components
        own = ("/".join(self.lease),) if self.leader_elect else ()
        others = {LABELLER_LEASE: labelling, RESCHEDULER_LEASE: RESCHEDULER in self.components}
        return own + tuple(f"{self.namespace}/{name}" for name, held in others.items() if held)

    @property
    def image(self) -> str:
        return image_name(self.repository, self.tag, self.version)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was installed, from which settings, and by which version."""

    objects: tuple[ObjectRef, ...]
    version: str = ""
    config_name: str = ""
    is_template: bool = True
    repository: str = REPOSITORY
    tag: str = ""
    components: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()
    runbook_url_base: str = ""

    @property
    def image(self) -> str:
        return image_name(self.repository, self.tag, self.version)


def image_name(repository: str, tag: str, version: str) -> str:
    """The image's full name; one with a digest stays as it is."""
    return repository if "@" in repository else f"{repository}:{tag or version}"


def inventory_of(release: Release, objects: Iterable[ObjectRef]) -> Inventory:
    """The inventory of a release with these objects."""
    settings = (release.version, release.config_name, release.is_template, release.repository, release.tag)
    return Inventory(tuple(objects), *settings, release.components, release.leases, release.runbook_url_base)


def inventory_ref(namespace: str) -> ObjectRef:
    return ObjectRef("v1", "ConfigMap", INVENTORY, namespace)


def lease_ref(name: str, namespace: str) -> ObjectRef:
    return ObjectRef(LEASES, "Lease", name, namespace)


def labeller_ref(namespace: str) -> ObjectRef:
    return ObjectRef("apps/v1", "Deployment", LABELLER_DEPLOYMENT, namespace)


def to_config_map(inventory: Inventory, namespace: str) -> Object:
    """The inventory as an object, itself labelled as ours."""
    settings = {name: getattr(inventory, name) for name in Inventory.__slots__ if name != "objects"}
    lines = [" ".join((each.api_version, each.kind, each.namespace or NONE, each.name)) for each in inventory.objects]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": INVENTORY,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": "trimtab",
                "app.kubernetes.io/part-of": "trimtab",
                MANAGED_BY: FIELD_MANAGER,
            },
            "annotations": {DEPLOYED_IN: namespace},
        },
        "data": {"objects": "\n".join(lines), "settings": msgspec.json.encode(settings).decode()},
    }


def from_config_map(item: Object) -> Inventory:
    """The inventory in a ConfigMap; raises DeployError if somebody has changed it beyond recognition."""
    data: dict[str, Any] = item.get("data") or {}
    try:
        rows = [line.split(" ") for line in data["objects"].splitlines()]
        objects = [
            ObjectRef(version, kind, name, "" if namespace == NONE else namespace)
            for version, kind, namespace, name in rows
        ]
        settings: dict[str, Any] = msgspec.json.decode(data["settings"])
        components, leases = (tuple(settings.pop(name)) for name in ("components", "leases"))
        return Inventory(tuple(objects), components=components, leases=leases, **settings)
    except (KeyError, ValueError, TypeError):
        where = f"ConfigMap {item['metadata'].get('namespace')}/{INVENTORY}"
        raise DeployError(f"{where} is not an inventory: delete it, and run trimtab deploy install again") from None


async def read_inventory(client: ApiClient, namespace: str) -> Inventory | None:
    """What is installed in the namespace; None if nothing is."""
    found = await client.read(inventory_ref(namespace))
    return None if found is None else from_config_map(found)


def is_ours(item: Object) -> bool:
    return (item["metadata"].get("labels") or {}).get(MANAGED_BY) == FIELD_MANAGER


def deployed_in(item: Object) -> str:
    """The namespace of the installation that the object belongs to."""
    return str((item["metadata"].get("annotations") or {}).get(DEPLOYED_IN, ""))


ORDER = (
    *("Namespace", "CustomResourceDefinition", "PriorityClass", "PriorityLevelConfiguration", "FlowSchema"),
    *("ServiceAccount", "Secret", "ConfigMap", "Lease", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "NetworkPolicy", "Service"),
    *("PodDisruptionBudget", "Deployment", "CronJob"),
)


def in_order(refs: Iterable[ObjectRef]) -> Sequence[ObjectRef]:
    """What others need first; kinds that are not listed last."""
    return sorted(refs, key=lambda ref: ORDER.index(ref.kind) if ref.kind in ORDER else len(ORDER))
