"""Makes objects with as many entries in one field as wanted, for `bench/pathological.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.workloads import ZONE
from tools.controlplane.objects import node, pod

Json = dict[str, Any]
Case = list[Json]

MAX_BYTES = 1_500_000  # what etcd takes in one request
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
STRANGE = "strange"


def strange_pod(**spec: Any) -> Json:
    labels = spec.pop("labels", {"app": STRANGE})
    return pod(STRANGE, labels=labels, **spec)


def labels(count: int, prefix: str = "k") -> dict[str, str]:
    return {f"{prefix}{i}": "v" for i in range(count)}


def lines(keys: Iterable[str], operator: str = "Exists", values: Iterable[str] = ()) -> list[Json]:
    listed = list(values)
    return [{"key": key, "operator": operator, **({"values": listed} if listed else {})} for key in keys]


def node_terms(terms: list[Json]) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def preferred_nodes(terms: list[Json]) -> Json:
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": each} for each in terms]}}


def pod_term(key: str, **selector: Any) -> Json:
    return {"topologyKey": key, "labelSelector": selector or {"matchLabels": {"app": STRANGE}}}


def pod_affinity(kind: str, terms: list[Json], when: str = REQUIRED) -> Json:
    if when == PREFERRED:
        terms = [{"weight": 1, "podAffinityTerm": each} for each in terms]
    return {kind: {when: terms}}


def spread(key: str, *, hard: bool, **selector: Any) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector or {"matchLabels": {"app": STRANGE}},
    }


def container(i: int, **fields: Any) -> Json:
    return {"name": f"c{i}", "image": f"i{i}", **fields}


def node_with(**metadata: Any) -> Json:
    """One more node, with these further labels."""
    return node(STRANGE, cpu="32", memory="64Gi", labels={ZONE: "zone-0", **metadata.pop("labels", {})}, **metadata)


def volume_with(terms: list[Json]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": STRANGE},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "local": {"path": "/mnt"},
        },
        "status": {"phase": "Available"},
    }


def storage_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str = STRANGE, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def with_claims(*names: str, **spec: Any) -> Json:
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]
    return strange_pod(volumes=volumes, **spec)


def budget(**selector: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": STRANGE, "namespace": "default", "generation": 1},
        "spec": {"selector": selector, "minAvailable": 1},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    }


def service(selector: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": STRANGE, "namespace": "default"},
        "spec": {"selector": dict(selector)},
    }


def replica_set(**selector: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": STRANGE, "namespace": "default"},
        "spec": {"selector": selector},
    }


def pod_group(resources: int) -> Json:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": STRANGE, "namespace": "default"},
        "spec": {"minMember": 1_000_000, "minResources": {f"example.com/r{i}": "1" for i in range(resources)}},
    }


def urgent(document: Json) -> Json:
    """May preempt, and is in need of it: it asks for more than a node has left."""
    document["spec"] |= {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}
    document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "31900m"}}
    return document


def placed(document: Json, on: str = "node-00000") -> Json:
    document["spec"]["nodeName"] = on
    document["status"] = {"phase": "Running"}
    return document


def required_terms(*terms: list[Json]) -> Json:
    """A pod that requires one of these terms, each given by its lines."""
    return strange_pod(affinity=node_terms([{"matchExpressions": each} for each in terms]))


def preferred_terms(*terms: list[Json]) -> Json:
    return strange_pod(affinity=preferred_nodes([{"matchExpressions": each} for each in terms]))


def near(terms: list[Json], when: str = REQUIRED) -> Json:
    return strange_pod(affinity=pod_affinity("podAffinity", terms, when))


def apart(terms: list[Json], when: str = REQUIRED) -> Json:
    return strange_pod(affinity=pod_affinity("podAntiAffinity", terms, when))


def spreading(constraints: list[Json]) -> Json:
    return strange_pod(topologySpreadConstraints=constraints)


def with_ports(count: int) -> Json:
    return strange_pod(containers=[container(0, ports=[{"containerPort": i, "hostPort": i} for i in numbers(count)])])


def with_resources(count: int) -> Json:
    wanted = {f"example.com/r{i}": "1" for i in range(count)}
    return strange_pod(containers=[container(0, resources={"requests": wanted, "limits": wanted})])


def with_images(document: Json, count: int) -> Json:
    images = [{"names": [f"registry/image-{i}:1"], "sizeBytes": 1 << 25} for i in range(count)]
    return {**document, "status": {**document["status"], "images": images}}


def with_metadata(document: Json, **metadata: Any) -> Json:
    return {**document, "metadata": {**document["metadata"], **metadata}}


def taints(count: int, effect: str = "NoSchedule") -> list[Json]:
    return [{"key": f"t{i}", "effect": effect} for i in range(count)]


def tolerating(count: int) -> Json:
    return strange_pod(tolerations=[{"key": f"t{i}", "operator": "Exists"} for i in range(count)])


def keys(count: int) -> list[str]:
    return [f"k{i}" for i in range(count)]


def numbers(count: int) -> range:
    return range(1, count + 1)


def selecting_no_app(count: int) -> Json:
    """A selector of many lines, all of which match every pod."""
    return {"matchExpressions": lines(keys(count), "DoesNotExist")}


def owned(document: Json) -> Json:
    """By the replica set."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": STRANGE, "uid": STRANGE, "controller": True}
    return with_metadata(document, ownerReferences=[owner])
