"""Rules about volumes: claims, node affinity, zones, sharing, limits."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.live.checker.cluster_objects import ClusterObjects, full_name, labels
from tests.live.checker.selectors import any_term_matches
from tests.live.node_accounting import Document, parse_quantity

ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BETWEEN_ZONES = "__"


class Use(NamedTuple):
    """One bound pod's use of one claim and its volume, if any."""

    pod: Document
    claim: str
    volume: Document | None


def uses(cluster: ClusterObjects) -> Iterator[Use]:
    """All uses of claims by bound pods."""
    claims = {full_name(claim): claim for claim in cluster.claims}
    volumes = {full_name(volume): volume for volume in cluster.volumes}
    for pod in cluster.bound:
        for used in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" in used:
                claim = f"{pod['metadata']['namespace']}/{used['persistentVolumeClaim']['claimName']}"
                spec = claims.get(claim, {"spec": {}})["spec"]
                yield Use(pod, claim, volumes.get(spec.get("volumeName", "")))


def claimed(cluster: ClusterObjects) -> Iterator[str]:
    """A bound pod whose claim has no volume with a matching claimRef, size and class."""
    claims = {full_name(claim): claim for claim in cluster.claims}
    for use in uses(cluster):
        if use.volume is None or not _belongs(claims[use.claim], use.volume):
            yield f"{full_name(use.pod)} is on a node, but its claim {use.claim} has no volume of its own"


def _belongs(claim: Document, volume: Document) -> bool:
    asked, offered = claim["spec"]["resources"]["requests"]["storage"], volume["spec"]["capacity"]["storage"]
    known = (volume["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"]
    alike = (claim["spec"].get("storageClassName") or "") == (volume["spec"].get("storageClassName") or "")
    return (
        known
        and alike
        and parse_quantity(offered) >= parse_quantity(asked)
        and claim.get("status", {}).get("phase") == "Bound"
    )


def reach(cluster: ClusterObjects) -> Iterator[str]:
    """A pod on a node that its volume's node affinity does not match."""
    for pod, _, volume in uses(cluster):
        terms = ((volume or {"spec": {}})["spec"].get("nodeAffinity") or {}).get("required")
        if volume and not any_term_matches(terms, cluster.node_of(pod)):
            yield f"{full_name(pod)} is on {pod['spec']['nodeName']}, where {full_name(volume)} cannot be reached"


def zones(cluster: ClusterObjects) -> Iterator[str]:
    """A pod in another zone than its volume's labels."""
    for pod, _, volume in uses(cluster):
        for key in ZONES:
            wanted = labels(volume).get(key) if volume else None
            if wanted is not None and labels(cluster.node_of(pod)).get(key) not in wanted.split(BETWEEN_ZONES):
                yield f"{full_name(pod)} is not in {key} {wanted}, as its volume is"


def sharing(cluster: ClusterObjects) -> Iterator[str]:
    """Two pods with the same ReadWriteOncePod claim."""
    lonely = {full_name(claim) for claim in cluster.claims if "ReadWriteOncePod" in claim["spec"]["accessModes"]}
    users = Counter(use.claim for use in uses(cluster))
    return (f"{users[claim]} pods use {claim}, which is for one" for claim in sorted(lonely) if users[claim] > 1)


def limits(cluster: ClusterObjects) -> Iterator[str]:
    """A node with more volumes of a driver than its limit."""
    attached: dict[tuple[str, str], set[str]] = defaultdict(set)
    for pod, _, volume in uses(cluster):
        if volume and (csi := volume["spec"].get("csi")):
            attached[pod["spec"]["nodeName"], csi["driver"]].add(csi["volumeHandle"])
    for node in cluster.csi_nodes:
        for driver in node["spec"]["drivers"]:
            most, found = (driver.get("allocatable") or {}).get("count"), attached[full_name(node), driver["name"]]
            if most is not None and len(found) > most:
                yield f"{full_name(node)} has {len(found)} volumes of {driver['name']}, more than {most}"
