"""From the shipped objects to those of one release: namespace, image, configuration, and the marks that make them ours.

The shipped objects name the namespace `trimtab` and the configuration's ConfigMap `trimtab`; nothing is read or sent here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from trimtab.apps.deploy.api_client import FIELD_MANAGER, Object
from trimtab.apps.deploy.release import DEPLOYED_IN, MANAGED_BY, Release

SHIPPED_NAMESPACE = "trimtab"
CONFIG_MAP, CONFIG_KEY = "trimtab", "config.yaml"
LABELLER_CONFIG_MAP, RESCHEDULER_CONFIG_MAP = "trimtab-labeller", "trimtab-rescheduler"
SHIPPED_LEASE = "trimtab"
RUNBOOK_URL, RUNBOOKS = "runbook_url", "docs/runbooks"
CHECKSUM = "deploy.trimtab.dev/config-checksum"
VERSION = "app.kubernetes.io/version"
NAMESPACE_KEYS = {"namespace", "namespaces", "matchNames", "kubernetes.io/metadata.name"}
# Where a namespace is part of a longer text: an account's user name, a Service's host name, a selector of series.
NAMESPACE_TEXTS = ("system:serviceaccount:{}:", ".{}.svc", 'namespace="{}"')
LEASE_FLAG, COMMANDS_WITH_LEASE_FLAG = "--lease-namespace", {"labeller", "unmark"}
RUN_LEASE_FLAG = "--leader-elect-resource-namespace"


def render(objects: Iterable[Object], release: Release) -> list[Object]:
    """The objects of this release, ready to be applied."""
    items = [_configured(_moved(each, "", release.namespace), release) for each in objects]
    sums = {each["metadata"]["name"]: checksum(each["data"]) for each in items if _holds_config(each)}
    return [_marked(_with_pods(each, release, sums), release) for each in items]


def _holds_config(item: Object) -> bool:
    return item["kind"] == "ConfigMap" and CONFIG_KEY in (item.get("data") or {})


def checksum(data: Mapping[str, str]) -> str:
    """Changes with any file of the configuration."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _moved(value: Any, key: str, namespace: str) -> Any:
    """The same with our namespace wherever the shipped one is named; the data of ConfigMaps are not ours to change."""
    if isinstance(value, dict):
        return {name: each if name == "data" else _moved(each, name, namespace) for name, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, key, namespace) for each in value]
    if not isinstance(value, str):
        return value
    if key in NAMESPACE_KEYS and value == SHIPPED_NAMESPACE:
        return namespace
    for text in NAMESPACE_TEXTS:
        value = value.replace(text.format(SHIPPED_NAMESPACE), text.format(namespace))
    return value


def _configured(item: Object, release: Release) -> Object:
    kind, name = item["kind"], item["metadata"]["name"]
    if kind == "Namespace":
        return {**item, "metadata": {**item["metadata"], "name": release.namespace}}
    if (kind, name) == ("ConfigMap", CONFIG_MAP):
        return {**item, "data": {**dict(release.files), CONFIG_KEY: release.config}}
    shared = {LABELLER_CONFIG_MAP: release.has_label_rules, RESCHEDULER_CONFIG_MAP: release.has_rescheduling}
    if kind == "ConfigMap" and shared.get(name):
        return {**item, "data": {**dict(release.files), CONFIG_KEY: release.config}}
    if (kind, name) == ("Lease", SHIPPED_LEASE) and release.lease[0] == release.namespace:
        return {**item, "metadata": {**item["metadata"], "name": release.lease[1]}}
    if kind == "PrometheusRule" and release.runbook_url_base:
        return {**item, "spec": _with_runbooks(item["spec"], release.runbook_url_base)}
    if kind == "Role":
        return {**item, "rules": [_for_lease(rule, release) for rule in item["rules"]]}
    if kind == "Deployment" and name == CONFIG_MAP and not release.leader_elect:
        # Without a lease two replicas would both schedule, also for the moment in which one replaces the other.
        return {**item, "spec": {**item["spec"], "replicas": 1, "strategy": {"type": "Recreate"}}}
    return item


def _with_runbooks(value: Any, base: str) -> Any:
    """The same with links of alerts that begin with this instead of the shipped folder."""
    if isinstance(value, list):
        return [_with_runbooks(each, base) for each in value]
    if not isinstance(value, dict):
        return value
    links = {RUNBOOK_URL: value[RUNBOOK_URL].replace(RUNBOOKS, base, 1)} if RUNBOOK_URL in value else {}
    return {**{name: _with_runbooks(each, base) for name, each in value.items()}, **links}


def _for_lease(rule: dict[str, Any], release: Release) -> dict[str, Any]:
    """The role of our own namespace allows the lease that the configuration names."""
    namespace, name = release.lease
    is_shipped = "leases" in rule["resources"] and rule.get("resourceNames") == [SHIPPED_LEASE]
    return {**rule, "resourceNames": [name]} if is_shipped and namespace == release.namespace else rule


def _with_pods(item: Object, release: Release, sums: Mapping[str, str]) -> Object:
    """With the image and the checksums in the pod template of a Deployment or CronJob."""
    if item["kind"] == "CronJob":
        job = item["spec"]["jobTemplate"]["spec"]
        template = {**item["spec"]["jobTemplate"], "spec": {**job, "template": _pods(job["template"], release, sums)}}
        return {**item, "spec": {**item["spec"], "jobTemplate": template}}
    if item["kind"] == "Deployment":
        return {**item, "spec": {**item["spec"], "template": _pods(item["spec"]["template"], release, sums)}}
    return item


def _pods(template: dict[str, Any], release: Release, sums: Mapping[str, str]) -> dict[str, Any]:
    """A checksum of the configuration rolls the pods when it changes.

    A running process does read a changed file again, but a few fields need a restart, and only a new pod proves that the
    file works: one that never becomes ready stops the rollout while the old replica goes on scheduling.
    """
    metadata, pod = template["metadata"], template["spec"]
    mounted = [volume.get("configMap", {}).get("name") for volume in pod.get("volumes", ())]
    if used := [sums[name] for name in mounted if name in sums]:
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), CHECKSUM: "-".join(used)}}
    containers = [_container(each, release) for each in pod["containers"]]
    labels = _with_version(metadata["labels"], release)
    return {"metadata": {**metadata, "labels": labels}, "spec": {**pod, "containers": containers}}


def _container(container: dict[str, Any], release: Release) -> dict[str, Any]:
    arguments = list(container.get("args", ()))
    if COMMANDS_WITH_LEASE_FLAG.intersection(arguments) and release.namespace != SHIPPED_NAMESPACE:
        arguments = [each for each in arguments if not each.startswith(LEASE_FLAG)]
        arguments.append(f"{LEASE_FLAG}={release.namespace}")
    moved = f"{RUN_LEASE_FLAG}={release.namespace}"
    arguments = [moved if each.startswith(RUN_LEASE_FLAG) else each for each in arguments]
    return {**container, "image": release.image, "args": arguments}


def _marked(item: Object, release: Release) -> Object:
    metadata = item["metadata"]
    labels = {**_with_version(metadata.get("labels", {}), release), MANAGED_BY: FIELD_MANAGER}
    annotations = {**metadata.get("annotations", {}), DEPLOYED_IN: release.namespace}
    return {**item, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def _with_version(labels: dict[str, str], release: Release) -> dict[str, str]:
    return {**labels, VERSION: release.version} if VERSION in labels else labels
