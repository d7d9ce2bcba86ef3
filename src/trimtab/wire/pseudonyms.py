"""Replaces names in reduced objects by keyed hashes, so that a file shows how a cluster is built and not whose it is.

One text has one pseudonym wherever it stands: a node's name is the same word in its `kubernetes.io/hostname` label, in
`spec.nodeName` and in a `matchFields` term, so whatever matched before matches still. Every text is replaced unless a rule
here keeps it, because its meaning is read: keys of taints, well-known label keys, resource names, drivers, schedulers. A key
that some Gt or Lt compares keeps its whole numbers. Nodes of equal score are told apart by a hash of their names, so where
nodes tie another one of them may be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.load.estimates import REVISION_LABELS
from trimtab.core.model.csi_migration import BETA_REGION, BETA_ZONE, MIGRATED, ZONE_SEPARATOR
from trimtab.core.model.node import REGION, ZONE
from trimtab.core.model.pod import EVICT, RESCHEDULING
from trimtab.wire import affinity, node, objects, pod_json, pod_template, reduction, storage
from trimtab.wire.pod_template import ANY_ADDRESS
from trimtab.wire.reduction import ORIGINALS, Reduced

DIGEST_BYTES = 8  # 64 bits: among a million names two are equal once in forty million files
KEPT_NAMES = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease", ANY_ADDRESS, "::"})
KEPT_KEYS = frozenset({*REVISION_LABELS, "metadata.name", *(each.zone_label for each in MIGRATED.values())})
KEPT_DOMAINS = ("kubernetes.io", "k8s.io", "x-k8s.io", "koordinator.sh", "trimtab.dev")
# Labels whose values plugins and guards compare with words of their own.
KEPT_VALUES = frozenset(
    {
        "koordinator.sh/priority-class",
        "koordinator.sh/qosClass",
        "scheduler.alpha.kubernetes.io/maintenance",
        RESCHEDULING,
        EVICT,
    }
)
ZONES = frozenset({ZONE, BETA_ZONE, REGION, BETA_REGION})
EBS, EBS_URL = "vol-", "aws://"
_TELLING = (b'"Gt"', b'"Lt"', b'"ephemeral"')  # of what `learn` looks for; few objects have any of it
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_BUILT_IN_GROUP = re.compile(r"(|[^./]+/|[^/]+\.k8s\.io/)v[^/]*")

Rule = Callable[["Pseudonyms", Any], Any]


class Pseudonyms:
    """The pseudonyms of one file; `learn` must have seen every object before the first is renamed.

    key: random and kept nowhere, or names could be guessed and compared.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._known: dict[str, str] = {each: each for each in KEPT_NAMES}
        self._compared: set[str] = set()

    def learn(self, reduced: Reduced) -> None:
        """Note what an object implies for others: keys that are compared as numbers, and claims named after volumes."""
        if not any(word in reduced.content for word in _TELLING):
            return
        for each in _structs(reduced.decode()):
            shape = ORIGINALS[type(each)]
            if shape is affinity.RequirementShape and each.operator in ("Gt", "Lt"):
                self._compared.add(each.key or "")
            if shape is pod_json.PodShape and each.spec is not None:
                self._learn_claims(each.metadata.name, each.spec.volumes or ())

    def _learn_claims(self, pod: str, volumes: Iterable[Any]) -> None:
        """The claim of an ephemeral volume is called as pod and volume together, and is looked up so."""
        for each in volumes:
            if each.ephemeral is not None and each.name:
                self._known[f"{pod}-{each.name}"] = f"{self.name(pod)}-{self.name(each.name)}"

    def rename(self, reduced: Reduced) -> Reduced:
        return replace(reduced, content=msgspec.json.encode(self._struct(reduced.decode())))

    # --- texts

    def name(self, text: str) -> str:
        """Any name; the prefix of an EBS volume's is kept, because it is looked for."""
        found = self._known.get(text)
        if found is None:
            digest = blake2b(text.encode(), key=self._key, digest_size=DIGEST_BYTES).hexdigest()
            found = self._known[text] = f"{EBS if text.startswith(EBS) else 'h'}{digest}"
        return found

    def pod_key(self, key: str) -> str:
        """namespace/name."""
        namespace, _, name = key.partition("/")
        return f"{self.name(namespace)}/{self.name(name)}"

    def label_key(self, key: str) -> str:
        domain = key.rpartition("/")[0] or key
        known = key in KEPT_KEYS or any(domain == each or domain.endswith(f".{each}") for each in KEPT_DOMAINS)
        return key if known else self.name(key)

    def label_value(self, key: str, value: str) -> str:
        if key in KEPT_VALUES or (key in self._compared and _WHOLE_NUMBER.fullmatch(value)):
            return value
        if key in ZONES and ZONE_SEPARATOR in value:
            return ZONE_SEPARATOR.join(self.name(each.strip()) for each in value.split(ZONE_SEPARATOR))
        return self.name(value)

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {self.label_key(key): self.label_value(key, value) for key, value in labels.items()}

    def image(self, name: str) -> str:
        """With a tag, because a name without one stands for `latest`."""
        tagged = name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
        return f"{self.name(tagged)}:h"

    def disk(self, handle: str) -> str:
        """An EBS volume may be written with its zone or without."""
        zone, slash, volume = handle.removeprefix(EBS_URL).partition("/")
        if handle.startswith(EBS_URL) and slash:
            return f"{EBS_URL}{self.name(zone)}/{self.name(volume.strip('/'))}"
        return self.name(handle)

    # --- parts of objects

    def _any(self, held: Any) -> Any:
        match held:
            case str():
                return self.name(held)
            case tuple():
                return tuple(map(self._any, held))
            case Struct():
                return self._struct(held)
            case dict():
                raise TypeError(f"no rule for a mapping with the keys {', '.join(held)[:100]}")
        return held  # numbers, times and what is missing

    def _struct(self, held: Any) -> Any:
        shape = ORIGINALS[type(held)]
        if shape in _WHOLE:
            return _WHOLE[shape](self, held)
        values = ((name, getattr(held, name)) for name in held.__struct_fields__)
        renamed = {name: rule_of(shape, name)(self, each) for name, each in values if each is not None}
        return replace(held, **renamed)

    def requirement(self, held: Any) -> Any:
        """A line of a selector, or of the topologies of a StorageClass."""
        key = held.key or ""
        values = held.values and tuple(self.label_value(key, each) for each in held.values)
        return replace(held, key=held.key and self.label_key(key), values=values)

    def pod_annotations(self, held: Any) -> Any:
        """They have words of their own, and one of them names of volumes."""
        names = held.safe_local_volumes
        return replace(held, safe_local_volumes=names and ",".join(map(self.name, names.split(","))))

    def owner(self, held: Any) -> Any:
        """The kinds of Kubernetes itself are known; another one may be named after its owner."""
        renamed = replace(held, name=held.name and self.name(held.name), uid=held.uid and self.name(held.uid))
        if held.kind and _BUILT_IN_GROUP.fullmatch(held.api_version or "v1"):
            return renamed
        kind, version = held.kind and self.name(held.kind), held.api_version and self.name(held.api_version)
        return replace(renamed, kind=kind, api_version=version)


def _structs(held: Any) -> Iterator[Any]:
    """The struct and all structs in it."""
    if isinstance(held, tuple):
        for each in held:
            yield from _structs(each)
    elif isinstance(held, Struct):
        yield held
        for name in held.__struct_fields__:
            yield from _structs(getattr(held, name))


def _keep(pseudonyms: Pseudonyms, held: Any) -> Any:
    return held


def _keys(pseudonyms: Pseudonyms, held: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return pseudonyms.label_key(held) if isinstance(held, str) else tuple(map(pseudonyms.label_key, held))


def _images(pseudonyms: Pseudonyms, held: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return pseudonyms.image(held) if isinstance(held, str) else tuple(map(pseudonyms.image, held))


def _named(pseudonyms: Pseudonyms, held: Mapping[str, Any]) -> dict[str, Any]:
    return {pseudonyms.name(name): value for name, value in held.items()}


# Shapes whose fields depend on each other.
_WHOLE: Mapping[type[Struct], Rule] = {
    affinity.RequirementShape: Pseudonyms.requirement,
    storage.TopologyLineShape: Pseudonyms.requirement,
    pod_json.OwnerShape: Pseudonyms.owner,
    pod_json.PodAnnotationsShape: Pseudonyms.pod_annotations,
    node.AnnotationsShape: _keep,
}
# What a field holds if it is not a name, by rule and shape.
_FIELDS: Mapping[Rule, Mapping[type[Struct], str]] = {
    Pseudonyms.labels: {
        pod_json.PodMetaShape: "labels",
        pod_json.PodSpecShape: "node_selector",
        node.NodeMetaShape: "labels",
        reduction.NamespaceMeta: "labels",
        storage.LabelledMeta: "labels",
        affinity.SelectorShape: "match_labels",
        objects.LabelMapSpec: "selector",
    },
    _keys: {
        affinity.SpreadShape: "topology_key match_label_keys",
        affinity.PodTermShape: "topology_key match_label_keys mismatch_label_keys",
    },
    _images: {pod_json.ContainerShape: "image", node.ImageShape: "names"},
    _named: {objects.BudgetStatus: "disrupted_pods"},
    Pseudonyms.disk: {reduction.DiskSource: "volume_id", storage.CsiSourceShape: "volume_handle"},
    _keep: {
        pod_json.PodMetaShape: "resource_version deletion_timestamp",
        pod_json.PodSpecShape: "scheduler_name preemption_policy overhead",
        pod_json.ContainerShape: "restart_policy",
        pod_json.ContainerStatusShape: "allocated_resources",
        pod_json.PortShape: "protocol",
        pod_json.EmptyDirShape: "medium",
        pod_json.ConditionShape: "type status reason",
        pod_json.PodConditionShape: "type status reason",
        pod_json.PodStatusShape: "phase",
        pod_template.ResourcesShape: "requests limits",
        affinity.TolerationShape: "key operator effect",
        affinity.SpreadShape: "when_unsatisfiable node_affinity_policy node_taints_policy",
        node.NodeMetaShape: "resource_version annotations",
        node.TaintShape: "key effect",
        node.AddressShape: "type",
        node.NodeStatusShape: "allocatable capacity",
        objects.ObjectMetaShape: "resource_version",
        objects.PodGroupSpec: "min_resources",
        storage.StoredMeta: "deletion_timestamp",
        storage.AnnotationShape: "completed migrated",
        storage.PhaseShape: "phase",
        storage.ClaimResourcesShape: "requests",
        storage.PersistentVolumeClaimSpecShape: "access_modes volume_mode",
        storage.PersistentVolumeSpecShape: "capacity access_modes volume_mode",
        storage.CsiSourceShape: "driver",
        storage.ClassShape: "provisioner volume_binding_mode",
        storage.NodeDriverShape: "name",
        storage.DriverShape: "metadata",  # it has the name of the driver, and no other
        storage.CapacityShape: "capacity maximum_volume_size",
        storage.AttachmentSpecShape: "attacher",
        reduction.DriverSource: "driver",
        reduction.DiskSource: "kind",
    },
}
_RULES = {
    (shape, field): rule
    for rule, shapes in _FIELDS.items()
    for shape, listed in shapes.items()
    for field in listed.split()
}


@cache
def rule_of(shape: type[Struct], field: str) -> Rule:
    """The rule for a field of the shape, or of the nearest one that it extends; names are the default."""
    listed = (_RULES[each, field] for each in shape.__mro__ if (each, field) in _RULES)
    return next(listed, Pseudonyms._any)
