"""Realistic pods and nodes as the API server sends them.

There are a hundred templates; every tenth is a StatefulSet, whose pods have individual labels and claims. A running pod has 5
to 6 KB, a third of it managedFields, and a token volume with a unique random name.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

TEMPLATES = 100
NODES = 5000
Json = dict[str, Any]

_CPU = ("50m", "100m", "250m", "500m", "1", "2")
_MEMORY = ("64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "4Gi")


def running_pod(i: int) -> bytes:
    """A running pod as in a list or watch."""
    pod = _pod(i)
    pod["spec"]["nodeName"] = node_name(i % NODES)
    pod["metadata"]["managedFields"].append(_kubelet_fields(_pod_address(i)))
    pod["status"] = _running_status(i, pod["spec"]["containers"])
    return _bytes(pod)


def pending_pod(i: int) -> bytes:
    """A pending pod that was just created."""
    pod = _pod(i)
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    return _bytes(pod)


def node(i: int) -> bytes:
    """A worker node with images, labels and conditions."""
    name, zone = node_name(i), f"zone-{'abc'[i % 3]}"
    size = {"cpu": "16", "memory": "65837956Ki", "ephemeral-storage": "203056560Ki", "pods": "110"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6.4xlarge",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": zone,
    }
    status = {
        "capacity": size,
        "allocatable": {**size, "cpu": "15890m", "memory": "63226244Ki"},
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "lastHeartbeatTime": "2026-10-01T10:00:00Z",
                "lastTransitionTime": "2026-09-01T10:00:00Z",
                "reason": "KubeletReports" + kind,
                "message": "kubelet reports " + kind,
            }
            for kind in kinds
        ],
        "addresses": [{"type": "InternalIP", "address": _address(i)}, {"type": "Hostname", "address": name}],
        "images": [_node_image(template) for template in range(i % 7, TEMPLATES, 4)],
        "nodeInfo": {"kubeletVersion": "v1.35.8", "operatingSystem": "linux", "architecture": "amd64"},
    }
    metadata = {"name": name, "uid": _uid(f"node-{i}"), "resourceVersion": str(1000 + i), "labels": labels}
    return _bytes({"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status})


def node_name(i: int) -> str:
    return f"ip-{_address(i).replace('.', '-')}.region-1.compute.internal"


def _pod(i: int) -> Json:
    template = i % TEMPLATES
    app, stateful = f"service-{template:03d}", template % 10 == 9
    name = f"{app}-{i // TEMPLATES}" if stateful else f"{app}-7d9c5b{template:03x}-{_noise(f'pod-{i}', 5)}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(i, template, app, name, stateful),
        "spec": _spec(i, template, app, name, stateful),
    }


def _metadata(i: int, template: int, app: str, name: str, stateful: bool) -> Json:
    own = (
        {"apps.kubernetes.io/pod-index": str(i // TEMPLATES), "statefulset.kubernetes.io/pod-name": name}
        if stateful
        else {"pod-template-hash": f"7d9c5b{template:03x}"}
    )
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet" if stateful else "ReplicaSet",
        "name": app if stateful else f"{app}-7d9c5b{template:03x}",
        "uid": _uid(f"owner-{template}"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "generateName": f"{app}-7d9c5b{template:03x}-",
        "namespace": f"team-{template % 20:02d}",
        "uid": _uid(f"pod-{i}"),
        "resourceVersion": str(5_000_000 + i),
        "generation": 1,
        "creationTimestamp": f"2026-10-{1 + i % 28:02d}T{i % 24:02d}:{i % 60:02d}:{i % 59:02d}Z",
        "labels": {
            "app.kubernetes.io/instance": f"{app}-production",
            "app.kubernetes.io/name": app,
            **own,
        },
        "annotations": {
            "checksum/config": hashlib.sha256(app.encode()).hexdigest(),
        },
        "ownerReferences": [owner],
        "managedFields": [_creator_fields(app, str(owner["uid"]))],
    }


def _spec(i: int, template: int, app: str, name: str, stateful: bool) -> Json:
    token = f"kube-api-access-{_noise(f'token-{i}', 5)}"
    volumes: list[Json] = [{"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}}]
    if stateful:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}})
    volumes.append({"name": token, "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}})
    spec = {
        "volumes": volumes,
        "containers": [_container(template, app, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for state in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if template % 3 == 0:
        spec["affinity"] = _affinity(app)
    if template % 4 == 0:
        spec["topologySpreadConstraints"] = [_spread(app)]
    return spec


def _container(template: int, app: str, token: str) -> Json:
    probe = {"path": "/healthz", "port": "http", "scheme": "HTTP"}
    timing = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    return {
        "name": app,
        "image": _image(template),
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
        ],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
        ],
        "resources": _resources(template),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/service"},
            {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": {"httpGet": probe, "initialDelaySeconds": 10, **timing},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _running_status(i: int, containers: list[Json]) -> Json:
    started = f"2026-10-{1 + i % 28:02d}T{i % 24:02d}:{i % 60:02d}:{i % 59:02d}Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": started,
            }
            for kind in kinds
        ],
        "hostIP": _address(i % NODES),
        "hostIPs": [{"ip": _address(i % NODES)}],
        "podIP": _pod_address(i),
        "podIPs": [{"ip": _pod_address(i)}],
        "startTime": started,
        "containerStatuses": [_container_status(i, each, started) for each in containers],
        "qosClass": "Burstable",
    }


def _container_status(i: int, container: Json, started: str) -> Json:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": started}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": f"{container['image'].split(':')[0]}@sha256:{hashlib.sha256(container['image'].encode()).hexdigest()}",
        "containerID": f"containerd://{hashlib.sha256(str(i).encode()).hexdigest()}",
        "started": True,
        "allocatedResources": container["resources"]["requests"],
        "resources": container["resources"],
    }


def _resources(template: int) -> Json:
    cpu, memory = _CPU[template % 6], _MEMORY[template // 2 % 6]
    return {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": cpu, "memory": memory}}


def _affinity(app: str) -> Json:
    selector = {"matchLabels": {"app.kubernetes.io/name": app}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _spread(app: str) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
    }


def _creator_fields(app: str, owner: str) -> Json:
    """The managed fields of the controller that created the pod."""
    probe = {
        ".": {},
        "f:failureThreshold": {},
        "f:httpGet": _owned("path", "port", "scheme"),
        **_owned("periodSeconds", "successThreshold", "timeoutSeconds"),
    }
    container = {
        ".": {},
        "f:env": {".": {}, 'k:{"name":"LOG_LEVEL"}': {".": {}, **_owned("name", "value")}},
        "f:livenessProbe": probe,
        "f:ports": {".": {}, 'k:{"containerPort":8080,"protocol":"TCP"}': _owned("containerPort", "name", "protocol")},
        "f:resources": {".": {}, "f:limits": _owned("cpu", "memory"), "f:requests": _owned("cpu", "memory")},
        **_owned("image", "imagePullPolicy", "name", "terminationMessagePath", "terminationMessagePolicy"),
    }
    fields = {
        "f:metadata": {
            "f:annotations": {".": {}, "f:checksum/config": {}},
            "f:generateName": {},
            "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:pod-template-hash": {}},
            "f:ownerReferences": {".": {}, f'k:{{"uid":"{owner}"}}': {}},
        },
        "f:spec": {
            "f:containers": {f'k:{{"name":"{app}"}}': container},
            "f:volumes": {".": {}, 'k:{"name":"config"}': {".": {}, "f:configMap": _owned("defaultMode", "name")}},
            **_owned("dnsPolicy", "restartPolicy", "schedulerName", "securityContext"),
        },
    }
    return _managed("kube-controller-manager", fields)


def _kubelet_fields(address: str) -> Json:
    kinds = ("ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready")
    each = {".": {}, **_owned("lastProbeTime", "lastTransitionTime", "status", "type")}
    fields = {
        "f:status": {
            "f:conditions": {f'k:{{"type":"{kind}"}}': each for kind in kinds},
            "f:podIPs": {".": {}, f'k:{{"ip":"{address}"}}': {".": {}, "f:ip": {}}},
            **_owned("containerStatuses", "hostIP", "hostIPs", "observedGeneration", "phase", "podIP", "startTime"),
        }
    }
    return {**_managed("kubelet", fields), "subresource": "status"}


def _owned(*fields: str) -> Json:
    return {f"f:{field}": {} for field in fields}


def _managed(manager: str, fields: Json) -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-10-01T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
]


def _image(template: int) -> str:
    return f"registry.example.com/platform/service-{template:03d}:v1.{template}.0"


def _node_image(template: int) -> Json:
    digest = hashlib.sha256(_image(template).encode()).hexdigest()
    return {
        "names": [f"{_image(template).split(':')[0]}@sha256:{digest}", _image(template)],
        "sizeBytes": 50_000_000 + 1_000_000 * template,
    }


def _address(i: int) -> str:
    return f"172.16.{i // 250}.{1 + i % 250}"


def _pod_address(i: int) -> str:
    return f"10.{i // 65536 % 256}.{i // 256 % 256}.{i % 256}"


def _uid(seed: str) -> str:
    digest = hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def _noise(seed: str, length: int) -> str:
    return hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()[:length]


def _bytes(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
