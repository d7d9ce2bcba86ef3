"""Configuration of the real metrics-server with kwok's kubelets.

    with Rig(kwok=True, metered=True) as rig:
        rig.admin.create(metered(node("node-0"), rig.kwok.url, "10.64.0.1"))
        rig.start_metrics_server()
        rig.admin.create(using(pod("web", nodeName="node-0"), cpu="250m", memory="64Mi"))
        rig.admin.list(f"{ROOT}/nodes")   # empty until kwok was scraped twice: 20 s or so

A node's usage is the sum over its running pods; a pod without annotations uses 1m and 1Mi. A node without pods uses
nothing, which metrics-server treats as no data and omits.

The API server rejects Endpoints on loopback, and without aggregator routing it would connect to a cluster IP, which is not
routed here. So the Service is of type ExternalName: the API server connects to `localhost` with the port of the
APIService, and TLS for the name of the Service.
"""

from collections.abc import Mapping
from pathlib import Path

from tools.controlplane.client import Document
from tools.controlplane.commands import to_flags
from tools.controlplane.credentials import Credentials, base64_of

NAME, NAMESPACE = "metrics-server", "kube-system"
ROOT = "/apis/metrics.k8s.io/v1beta1"
# The minimum; CPU usage needs two scrapes.
RESOLUTION_SECONDS = 10


def flags(port: int, kubeconfig: Path, credentials: Credentials) -> list[str]:
    """metrics-server on loopback, reaching every kubelet by its shared name."""
    cert, key = credentials.server_certificate(f"{NAME}.{NAMESPACE}.svc")
    named = {
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": cert,
        "tls-private-key-file": key,
        "metric-resolution": f"{RESOLUTION_SECONDS}s",
        "kubelet-request-timeout": "5s",
        "kubelet-certificate-authority": credentials.ca_file,
        "kubelet-preferred-address-types": "InternalDNS",
        "kubelet-use-node-status-port": "true",
    }
    named |= dict.fromkeys(("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"), kubeconfig)
    return to_flags(named)


def registration(port: int, credentials: Credentials) -> list[Document]:
    """The Service and APIService that make the API server proxy metrics.k8s.io."""
    service: Document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"name": "https", "port": port}]},
    }
    registered: Document = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "service": {"name": NAME, "namespace": NAMESPACE, "port": port},
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "caBundle": base64_of(credentials.ca_file),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    return [service, registered]


def with_kubelet_metrics(node: Document, kubelet: str, internal_ip: str) -> Document:
    """The node with a kubelet at this URL that serves its usage; nothing listens at its internal IP."""
    name = node["metadata"]["name"]
    addresses = {"InternalIP": internal_ip, "Hostname": name, "InternalDNS": "localhost"}
    path = f"/metrics/nodes/{name}/metrics/resource"
    return {
        **node,
        "metadata": _annotated(node, {"metrics.k8s.io/resource-metrics-path": path}),
        "status": {
            **node["status"],
            "addresses": [{"type": kind, "address": address} for kind, address in addresses.items()],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": int(kubelet.rpartition(":")[2])}},
        },
    }


def with_usage(pod: Document, cpu: str, memory: str) -> Document:
    """The pod with annotations for the usage that its kubelet reports."""
    return {**pod, "metadata": _annotated(pod, usage_annotations(cpu, memory))}


def usage_annotations(cpu: str, memory: str) -> dict[str, str]:
    """The annotations that kwok reads a pod's usage from; patch them to change it."""
    return {"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory}


def _annotated(document: Document, annotations: Mapping[str, str]) -> Document:
    metadata = document["metadata"]
    return {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}
