"""In-tree volume plugins and the CSI drivers that replace them: names, zone labels and volume handles.

Handles only need to be equal where two volumes are the same disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from trimtab.core.model.node import REGION, ZONE
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR = "__"  # between the zones in a volume's label

UNSPECIFIED = "UNSPECIFIED"
_EBS = re.compile(r"vol-[^/]*")

Terms = tuple[NodeSelectorTerm, ...] | None


class InTreePlugin(NamedTuple):
    """One plugin: its driver, the driver's zone label, and the field that names the disk."""

    plugin: str
    driver: str
    zone_label: str
    disk_field: str


# By the volume field of the plugin.
MIGRATED: Mapping[str, InTreePlugin] = {
    "awsElasticBlockStore": InTreePlugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone", "volumeID"
    ),
    "gcePersistentDisk": InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone", "pdName"
    ),
    "azureDisk": InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "", "diskURI"),
    "cinder": InTreePlugin(
        "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone", "volumeID"
    ),
    "portworxVolume": InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com", "", "volumeID"),
}
# Migrated plugins whose volumes kube-scheduler neither counts nor translates.
UNCOUNTED: Mapping[str, str] = {
    "azureFile": "kubernetes.io/azure-file",
    "vsphereVolume": "kubernetes.io/vsphere-volume",
}
# The one plugin whose volumes count only on nodes that report it as migrated.
MIGRATED_PER_NODE = "kubernetes.io/portworx-volume"

BY_PLUGIN: Mapping[str, InTreePlugin] = {each.plugin: each for each in MIGRATED.values()}
MIGRATABLE = frozenset({*BY_PLUGIN, *UNCOUNTED.values()})


def volume_handle(field: str, source: Mapping[str, str], labels: Mapping[str, str] | None = None) -> str:
    """The driver's handle of the disk; empty if it has none."""
    disk = source.get(MIGRATED[field].disk_field, "")
    if field == "awsElasticBlockStore" and disk.startswith("aws://"):
        disk = disk.removeprefix("aws://").partition("/")[2].strip("/")
        return disk if _EBS.fullmatch(disk) else ""
    if field == "gcePersistentDisk":
        return _gce_handle(disk, (labels or {}).get(BETA_ZONE) or (labels or {}).get(ZONE) or "")
    if field == "azureDisk" and source.get("kind", "Managed").lower() != "managed":
        return ""
    return disk


def _gce_handle(disk: str, label: str) -> str:
    zones = label.split(ZONE_SEPARATOR)
    if len(zones) == 1:
        return f"projects/{UNSPECIFIED}/zones/{zones[0] or UNSPECIFIED}/disks/{disk}"
    regions = {zone.rpartition("-")[0] for zone in zones}
    return f"projects/{UNSPECIFIED}/regions/{regions.pop()}/disks/{disk}" if len(regions) == 1 else ""


def migrated_terms(zone: str, terms: Terms, labels: Mapping[str, str]) -> Terms:
    """The volume's node affinity with the driver's zone label; zones come from the volume's labels if it has none."""
    if not zone:
        return terms
    keys = {line.key for term in terms or () for line in term.match_expressions}
    beta = ZONE not in keys and (BETA_ZONE in keys or (ZONE not in labels and BETA_ZONE in labels))
    found = BETA_ZONE if beta else ZONE
    if any(line.key == found and line.values for term in terms or () for line in term.match_expressions):
        terms = _rename_key(terms or (), found, zone)
    else:
        zones = tuple(sorted({each.strip() for each in labels.get(found, "").split(ZONE_SEPARATOR)} - {""}))
        terms = _add_requirement(terms, Requirement(zone, "In", zones)) if zones else terms
    return _rename_key(terms, BETA_REGION, REGION) if beta and terms else terms


def _rename_key(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                Requirement(new, line.operator, line.values) if line.key == old else line
                for line in term.match_expressions
            ),
        )
        for term in terms
    )


def _add_requirement(terms: Terms, line: Requirement) -> tuple[NodeSelectorTerm, ...]:
    held = terms or (NodeSelectorTerm(),)
    return tuple(replace(term, match_expressions=(*term.match_expressions, line)) for term in held)
