"""Manifests of what-if questions: which pods they make, and what is said about files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.apps.whatif.manifests import MAX_REPLICAS, parse_manifests, read_manifests
from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario import TracedPod

CONTAINERS = "containers: [{name: a, image: a, resources: {requests: {cpu: 500m}}}]"
POD = f"kind: Pod\nmetadata: {{name: one, namespace: shop}}\nspec: {{{CONTAINERS}}}\n"


def pods(text: str) -> tuple[TracedPod, ...]:
    return parse_manifests(text.encode(), "api.yaml").pods


def workload(kind: str, **fields: object) -> str:
    spec = ", ".join(f"{key}: {value}" for key, value in fields.items())
    return f"kind: {kind}\nmetadata: {{name: api}}\nspec: {{{spec}, template: {{spec: {{{CONTAINERS}}}}}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD, [("shop/one", "", "ReplicaSet")]),
        (
            workload("Deployment", replicas=2),
            [("default/api-0", "api", "ReplicaSet"), ("default/api-1", "api", "ReplicaSet")],
        ),
        (workload("StatefulSet", serviceName="a"), [("default/api-0", "api", "StatefulSet")]),
        (workload("Job", parallelism=1), [("default/api-0", "api", "Job")]),
        (f"kind: List\nitems:\n- kind: Pod\n  spec: {{{CONTAINERS}}}\n", [("default/new", "", "ReplicaSet")]),
    ],
)
def test_pods_of_each_kind(text: str, expected: list[tuple[str, str, str]]) -> None:
    """Names, namespaces and owners, as their controllers make them; each requests half a core."""
    found = pods(text)
    assert expected == [(f"{each.namespace}/{each.name}", each.owner, each.owner_kind) for each in found]
    assert {500} == {each.template.requests.of("cpu") for each in found}


def test_defaults_of_the_api_server() -> None:
    """A limit is the request where there is none, also of init containers; built-in priority classes have their values."""
    (found,) = pods(
        """
        kind: Pod
        spec:
          priorityClassName: system-node-critical
          preemptionPolicy: Never
          initContainers: [{name: i, image: i, resources: {limits: {cpu: "2"}}}]
          containers: [{name: a, image: a, resources: {limits: {cpu: "3", memory: 1Gi}, requests: {cpu: "1"}}}]
        """
    )
    template = found.template
    assert (2000, 2**30) == (template.requests.of("cpu"), template.requests.of("memory"))
    assert (2_000_001_000, False) == (template.priority, template.may_preempt)


def test_notes() -> None:
    """Other objects of the file are left out, and an unknown PriorityClass is named."""
    service = "kind: Service\nmetadata: {name: web}\n---\n"
    found = parse_manifests((service + POD.replace("spec: {", "spec: {priorityClassName: high, ")).encode(), "api.yaml")
    assert (
        "Service web creates no pods here: left out",
        "Pod one has the PriorityClass high, whose value is not known: set spec.priority",
    ) == found.notes


def test_gated_pods_take_no_part() -> None:
    """As in a live cluster until somebody removes the gates; a file may have no other pods."""
    gated = "kind: Pod\nmetadata: {name: later}\nspec: {schedulingGates: [{name: quota}], " + CONTAINERS + "}\n"
    found = parse_manifests(gated.encode(), "api.yaml")
    assert () == found.pods
    assert ("Pod later waits behind scheduling gates (quota): it takes no part",) == found.notes


def test_a_node_name_is_kept() -> None:
    """Of a Pod and of a template."""
    text = POD.replace("spec: {", "spec: {nodeName: n-1, ")
    assert ["n-1"] == [each.node_name for each in pods(text)]
    text = workload("Deployment", replicas=2).replace("template: {spec: {", "template: {spec: {nodeName: n-1, ")
    assert ["n-1", "n-1"] == [each.node_name for each in pods(text)]


def test_fields_of_kubernetes_that_do_not_matter_here() -> None:
    """Whatever a real manifest has is accepted."""
    (found,) = pods(
        """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db, annotations: {a: b}, creationTimestamp: null}
        spec:
          serviceName: db
          podManagementPolicy: Parallel
          selector: {matchLabels: {app: db}}
          volumeClaimTemplates: [{metadata: {name: data}, spec: {anything: 1}}]
          template:
            metadata: {labels: {app: db}, annotations: {c: d}}
            spec:
              terminationGracePeriodSeconds: 5
              hostnameOverride: db
              securityContext: {fsGroup: 1}
              ephemeralContainers: []
              volumes: [{name: v, emptyDir: {medium: Memory}}, {name: c, configMap: {name: x, items: []}}]
              affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
                {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}
              tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]
              containers:
              - name: db
                image: db
                env: [{name: A, value: b}]
                ports: [{containerPort: 80, name: http}]
                volumeMounts: [{name: v, mountPath: /v}]
                resources: {requests: {cpu: 1, "example.com/licence": 1}, claims: [{name: x}]}
                livenessProbe: {httpGet: {path: /, port: 80}}
                restartPolicyRules: []
        status: {replicas: 1}
        """
    )
    assert 1000 == found.template.requests.of("cpu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POD.replace("resou", "reso"), "api.yaml:3:41: spec.containers[0].resorces: unknown field (did you mean resources?)"),
        (POD.replace("requests", "request"), "spec.containers[0].resources.request: unknown field (did you mean requests?)"),
        (POD.replace("{c", "{nodeselector: 1, c"), "spec.nodeselector: unknown field (did you mean nodeSelector?)"),
        (POD.replace("namespace:", "namspace:"), "api.yaml:2:23: metadata.namspace: unknown field (did you mean namespace?)"),
        (POD.replace("spec: {", "spec: {affinity: {nodeAfinity: {}}, "), "spec.affinity.nodeAfinity: unknown field"),
        (POD.replace("spec: {", "spec: {volumes: [{name: a, emptydir: {}}], "), "spec.volumes[0].emptydir: unknown field"),
        (workload("Deployment", replica=2), "spec.replica: unknown field (did you mean replicas?)"),
        (
            workload("Deployment", replicas=2).replace("{name: a", "{nam: a"),
            "spec.template.spec.containers[0].nam: unknown field (did you mean name?)",
        ),
    ],
)  # fmt: skip
def test_misspelt_fields(text: str, message: str) -> None:
    """They would change the answer without a word: they are named, with the nearest field of Kubernetes."""
    with pytest.raises(ConfigError) as error:
        pods(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "api.yaml: the file is empty"),
        ("a: ]", "api.yaml:1:4: not YAML"),
        ("- a\n- b\n", "api.yaml:1:1: must be a manifest with apiVersion, kind, metadata and spec"),
        ("kind: Servcie\n", "api.yaml: has no pods: give a Pod, Deployment, ReplicaSet, StatefulSet or Job"),
        ("kind: Deploymnet\n", "(did you mean Deployment?)"),
        ("a: 1\n", "api.yaml: has no pods"),
        ("kind: Pod\n", "api.yaml:1:1: spec.containers: a pod needs at least one container"),
        ("kind: Pod\nspec: {containers: []}\n", "api.yaml:2:8: spec.containers: a pod needs at least one container"),
        ("kind: Pod\nspec:\n  containers: [1]\n", "api.yaml:3:16: spec.containers[0]: "),
        (POD.replace("500m", "lots"), "api.yaml:3:64: spec.containers[0].resources.requests.cpu: "),
        (workload("Deployment", replicas=0), "spec.replicas: must be a whole number from 1 to 10,000"),
        (workload("Deployment", replicas="many"), "api.yaml:3:8: spec.replicas: must be a whole number"),
        (workload("Deployment", replicas="true"), "spec.replicas: must be a whole number"),
        (workload("Job", parallelism=MAX_REPLICAS + 1), "spec.parallelism: must be a whole number"),
        (
            "kind: Deployment\nspec: 7\n",
            "api.yaml:2:1: spec.template.spec.containers: a pod needs at least one container",
        ),
        (
            workload("Deployment", replicas=1).replace("template: {spec: {", "template: {spec: {nodeSelector: 5, "),
            "api.yaml:3:39: spec.template.spec.nodeSelector: ",
        ),
        ("kind: Pod\nmetadata: {labels: [a]}\nspec: {containers: [{name: a}]}\n", "api.yaml:2:12: metadata.labels: "),
    ],
)
def test_bad_manifests(text: str, message: str) -> None:
    """The file, the line and column of the field, and what is expected."""
    with pytest.raises(ConfigError) as error:
        pods(text)
    assert message in str(error.value)


@pytest.mark.parametrize(("name", "message"), [("none.yaml", "No such file or directory"), (".", "Is a directory")])
def test_files_that_cannot_be_read(name: str, message: str, tmp_path: Path) -> None:
    """Their name and the reason."""
    file = str(tmp_path / name)
    with pytest.raises(ConfigError, match=f"cannot be read: {message}"):
        read_manifests(file)
