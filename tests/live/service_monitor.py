"""Translates a ServiceMonitor into scrape jobs, as the Prometheus operator does, for targets that are processes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from tools.controlplane.client import Document
from tools.controlplane.rig import Rig


def scrape_jobs(rig: Rig, namespace: str, name: str, targets: dict[str, Iterable[str]]) -> list[Document]:
    """One job per endpoint of the ServiceMonitor; `targets` are the addresses of each component's pods."""
    spec = rig.admin.get(f"/apis/monitoring.coreos.com/v1/namespaces/{namespace}/servicemonitors/{name}")["spec"]
    query = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
    services = rig.admin.list(f"/api/v1/namespaces/{namespace}/services?labelSelector={query}")
    assert namespace in spec["namespaceSelector"]["matchNames"]
    components = [each["spec"]["selector"]["app.kubernetes.io/component"] for each in services]
    addresses = [address for component in components for address in targets[component]]
    for endpoint in spec["endpoints"]:
        assert all(endpoint["port"] in {port["name"] for port in each["spec"]["ports"]} for each in services)
    return [
        {"job_name": f"serviceMonitor/{namespace}/{name}/{number}", **_settings(rig, namespace, endpoint, addresses)}
        for number, endpoint in enumerate(spec["endpoints"])
    ]


def _settings(rig: Rig, namespace: str, endpoint: Document, addresses: list[str]) -> Document:
    authorization = endpoint["authorization"]
    token = _key(rig, namespace, authorization["credentials"])
    return {
        "scheme": endpoint["scheme"],
        "metrics_path": endpoint["path"],
        "authorization": {"type": authorization["type"], "credentials_file": str(token)},
        "tls_config": _tls(rig, namespace, endpoint["tlsConfig"]),
        "static_configs": [{"targets": addresses}],
    }


def _tls(rig: Rig, namespace: str, given: Document) -> Document:
    if "ca" not in given:
        return {"insecure_skip_verify": given["insecureSkipVerify"]}
    return {"ca_file": str(_key(rig, namespace, given["ca"]["secret"])), "server_name": given["serverName"]}


def _key(rig: Rig, namespace: str, selected: Document) -> Path:
    """A file with the value of a Secret's key."""
    data = rig.admin.get(f"/api/v1/namespaces/{namespace}/secrets/{selected['name']}")["data"]
    file = rig.workspace / f"{selected['name']}-{selected['key']}"
    file.write_bytes(base64.b64decode(data[selected["key"]]))
    return file
