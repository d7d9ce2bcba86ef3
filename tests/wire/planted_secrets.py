"""A small cluster as the API server lists it, with a secret in every place where people put one.

It has affinity, taints, spread constraints, numeric selectors, images, volumes and a PodGroup, so that a decision depends on
most of what may be renamed.
"""

from __future__ import annotations

from typing import Any

from tests.wire.json_objects import Json

SECRET = "hunter2-correct-horse"
LABEL_SECRET = "label-battery-staple"  # in a label's value, which scheduling reads
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACE, TEAM = "acme-shop", "acme.example/team"


def secret_metadata(name: str, **more: Any) -> Json:
    """Metadata with a secret wherever there may be one."""
    return {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-31T08:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "token": SECRET},
        "managedFields": [{"manager": SECRET, "fieldsV1": {"f:spec": {SECRET: {}}}}],
        "finalizers": [f"acme.example/{SECRET}"],
        "generateName": SECRET,
        **more,
    }


def node(index: int, **more: Any) -> Json:
    name = f"worker-{index}"
    labels = {HOSTNAME: name, ZONE: f"zone-{'ab'[index % 2]}", TEAM: "storefront", "cores-per-socket": str(4 * index)}
    room = {"cpu": str(4 + index), "memory": f"{8 + index}Gi", "pods": "110"}
    taints = [{"key": "dedicated", "value": "billing", "effect": "NoSchedule"}] if index == 3 else []
    return {
        "metadata": secret_metadata(name, labels=labels),
        "spec": {"podCIDR": SECRET, "providerID": SECRET, "taints": taints},
        "status": {
            "allocatable": room,
            "capacity": room,
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.0.{index}"},
                {"type": "ExternalDNS", "address": SECRET},
            ],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": SECRET, "message": SECRET},
                {"type": SECRET, "status": "True"},
            ],
            "images": [{"names": [f"registry.acme.example/shop:v{index}", "nginx:latest"], "sizeBytes": 300 << 20}],
            "nodeInfo": {"machineID": SECRET},
        },
        **more,
    }


def container(name: str = "main", image: str = "nginx", **more: Any) -> Json:
    return {
        "name": name,
        "image": image,
        "command": ["sh", "-c", SECRET],
        "args": [f"--password={SECRET}"],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
        "livenessProbe": {"httpGet": {"path": SECRET, "httpHeaders": [{"name": "a", "value": SECRET}]}},
        "volumeMounts": [{"name": "v", "mountPath": f"/{SECRET}"}],
        "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
        "ports": [{"containerPort": 80, "name": SECRET}],
        **more,
    }


def pod(name: str, app: str, on: str = "", **spec: Any) -> Json:
    volumes = [
        {"name": "s", "secret": {"secretName": SECRET}},
        {"name": "c", "configMap": {"name": SECRET}},
        {"name": "p", "projected": {"sources": [{"secret": {"name": SECRET}}]}},
        {"name": "h", "hostPath": {"path": f"/{SECRET}"}},
        {"name": "scratch-of-acme", "emptyDir": {"sizeLimit": SECRET}},
        {
            "name": "d",
            "csi": {
                "driver": "secrets.csi.example",
                "volumeAttributes": {"k": SECRET},
                "nodePublishSecretRef": {"name": SECRET},
            },
        },
        {"name": "r", "rbd": {"monitors": ["10.1.1.1"], "image": f"disk-of-{name}", "keyring": SECRET, "user": SECRET}},
        {"name": "f", "azureFile": {"secretName": SECRET, "shareName": "files-of-acme"}},
    ]
    about_eviction = {
        "kubernetes.io/config.mirror": SECRET,
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": SECRET,
        "descheduler.alpha.kubernetes.io/evict": SECRET,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": SECRET,
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": f"h,{SECRET},scratch-of-acme",
        "karpenter.sh/do-not-disrupt": SECRET,
        "trimtab.dev/evict": SECRET,
    }
    return {
        "metadata": secret_metadata(
            name,
            namespace=NAMESPACE,
            annotations={"token": SECRET, **about_eviction},
            labels={"app": app, TEAM: "storefront", "note": LABEL_SECRET},
            ownerReferences=[
                {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": app, "uid": f"rs-{app}", "controller": True}
            ],
        ),
        "spec": {
            "containers": [container()],
            "volumes": volumes,
            "nodeName": on,
            "serviceAccountName": SECRET,
            "imagePullSecrets": [{"name": SECRET}],
            "hostname": SECRET,
            "securityContext": {"seLinuxOptions": {"level": SECRET}},
            **spec,
        },
        "status": {
            "phase": "Running" if on else "Pending",
            "message": SECRET,
            "podIP": SECRET,
            "conditions": [{"type": "PodScheduled", "status": "True" if on else "False", "message": SECRET}],
            "containerStatuses": [{"name": "main", "state": {"waiting": {"message": SECRET}}, "imageID": SECRET}],
        },
    }


def _spread(app: str, key: str) -> Json:
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _affinity(kind: str, app: str, key: str = HOSTNAME) -> Json:
    term = {
        "topologyKey": key,
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]},
    }
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _node_affinity(**line: Any) -> Json:
    required = {"nodeSelectorTerms": [{"matchExpressions": [line]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def cluster() -> dict[str, list[Json]]:
    """The objects by kind; pods whose names begin with `new-` are pending."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["worker-2"]}]}
    by_name = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}
    pending = [
        pod("new-plain", "web"),
        pod("new-zone", "web", nodeSelector={ZONE: "zone-a"}),
        pod("new-spread", "web", topologySpreadConstraints=[_spread("web", HOSTNAME), _spread("web", ZONE)]),
        pod("new-apart", "web", affinity=_affinity("podAntiAffinity", "web")),
        pod("new-beside", "cart", affinity=_affinity("podAffinity", "db", ZONE)),
        pod("new-tolerant", "web", tolerations=[{"key": "dedicated", "value": "billing", "effect": "NoSchedule"}]),
        pod("new-other-value", "web", tolerations=[{"key": "dedicated", "value": "other", "effect": "NoSchedule"}]),
        pod("new-many-cores", "web", affinity=_node_affinity(key="cores-per-socket", operator="Gt", values=["4"])),
        pod("new-by-name", "web", affinity={"nodeAffinity": by_name}),
        pod("new-image", "web", containers=[container(image="registry.acme.example/shop:v2")]),
        pod("new-port", "web", containers=[container(ports=[{"hostPort": 8080, "hostIP": "10.0.0.1"}])]),
        pod("new-claim", "web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data-of-web"}}]),
        pod("new-scratch", "web", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
    ]
    bound = [
        pod("web-1", "web", on="worker-1"),
        pod("db-1", "db", on="worker-2"),
        pod("port-1", "web", on="worker-0", containers=[container(ports=[{"hostPort": 8080, "hostIP": "10.0.0.1"}])]),
    ]
    return {
        "nodes": [node(index) for index in range(4)],
        "pods": [*bound, *pending],
        "namespaces": [{"metadata": secret_metadata(NAMESPACE, labels={"kubernetes.io/metadata.name": NAMESPACE})}],
        "replicasets": [
            {
                "metadata": secret_metadata("web", namespace=NAMESPACE, labels={"a": SECRET}),
                "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"x": SECRET}}},
            }
        ],
        "persistentvolumeclaims": [_claim("data-of-web", "volume-a"), _claim("new-scratch-scratch", "volume-b")],
        "persistentvolumes": [
            _volume("volume-a", "zone-a", "data-of-web"),
            _volume("volume-b", "zone-b", "new-scratch-scratch"),
        ],
        "storageclasses": [
            {
                "metadata": secret_metadata("acme-fast"),
                "provisioner": "ebs.csi.aws.com",
                "volumeBindingMode": "WaitForFirstConsumer",
                "parameters": {"csi.storage.k8s.io/secret": SECRET},
            }
        ],
        "csidrivers": [{"metadata": {"name": "ebs.csi.aws.com", "uid": "d"}, "spec": {"tokenRequests": [SECRET]}}],
    }


def _claim(name: str, volume: str) -> Json:
    owner = {
        "ownerReferences": [{"kind": "Pod", "name": "new-scratch", "uid": "uid-of-new-scratch", "controller": True}]
    }
    metadata = secret_metadata(name, namespace=NAMESPACE, **(owner if "scratch" in name else {}))
    metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": volume, "storageClassName": "acme-fast"}
    return {"metadata": metadata, "spec": {**spec, "dataSource": {"name": SECRET}}, "status": {"phase": "Bound"}}


def _volume(name: str, zone: str, claim: str) -> Json:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{name}", "volumeAttributes": {"k": SECRET}}
    return {
        "metadata": secret_metadata(name, labels={ZONE: zone}),
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "acme-fast",
            "claimRef": {"namespace": NAMESPACE, "name": claim, "uid": f"uid-of-{claim}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "csi": {**csi, "nodeStageSecretRef": {"name": SECRET}},
        },
        "status": {"phase": "Bound", "message": SECRET},
    }
