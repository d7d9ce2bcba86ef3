"""What pods of one template share is one value, whatever else differs; and each part is decoded correctly."""

from __future__ import annotations

import json

import pytest

from bench.api_objects import TEMPLATES, running_pod
from tests.wire.json_objects import Json, container, pod_json, read_pod
from trimtab.core.model.affinity import PodAffinityTerm, TopologySpreadConstraint
from trimtab.core.model.pod import DELETION_COST, HostPort, PodSpec, Volume
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement
from trimtab.core.model.taints import Toleration
from trimtab.wire.decoding import Malformed
from trimtab.wire.pod import PodReader


def _spec(spec: Json) -> PodSpec:
    pod = read_pod(pod_json(spec))
    assert "" == pod.spec_error
    return pod.spec


def test_siblings_share_their_parts() -> None:
    """Pods of one template have one spec, demand, labels, owner and namespace between them, and one node name."""
    reader = PodReader()
    first, second = reader.read(running_pod(0)), reader.read(running_pod(5000 * TEMPLATES))
    assert not isinstance(first, Malformed)
    assert not isinstance(second, Malformed)
    assert first.uid != second.uid
    for part in ("spec", "requests", "labels", "owner", "namespace", "node", "scheduler_name"):
        assert getattr(first, part) is getattr(second, part), part


def test_equal_specs_from_different_bytes_are_one_object() -> None:
    """White space, order of fields and fields that are not looked at do not make another spec."""
    reader = PodReader()
    spec = {"nodeSelector": {"a": "1", "b": "2"}, "containers": [container(requests={"cpu": "1"})]}
    other = {
        "containers": [container(requests={"cpu": "1000m"}, env=[{"name": "A"}])],
        "nodeSelector": {"b": "2", "a": "1"},
        "dnsPolicy": "Default",
    }
    first = read_pod(pod_json(spec), reader)
    second = reader.read(json.dumps(pod_json(other), indent=3).encode())
    assert not isinstance(second, Malformed)
    assert first.spec is second.spec
    assert first.requests is second.requests


def test_identity_survives_a_flood_of_other_templates() -> None:
    """A spec that some pod still has is found again, although its bytes have long been forgotten."""
    reader = PodReader()
    spec = {"containers": [container()], "nodeSelector": {"a": "1"}}
    kept = read_pod(pod_json(spec), reader)
    reader._templates._templates.clear()
    reader._templates._spec_keys.clear()
    for each in range(20):
        read_pod(pod_json({"nodeSelector": {"flood": str(each)}}), reader)
    assert kept.spec is read_pod(pod_json(spec), reader).spec


def test_restarts_are_no_part_of_a_template() -> None:
    """A pod that was restarted shares everything with its siblings."""
    reader = PodReader()
    for restarts in (0, 1, 7):
        read_pod(pod_json({}, {"containerStatuses": [{"name": "web", "restartCount": restarts}]}), reader)
    assert 1 == len(reader._templates._spec_keys)


def test_specs_that_nobody_has_are_forgotten() -> None:
    """When the pods and the recent bytes are gone, so is the spec: endless distinct specs do not pile up."""
    reader = PodReader()
    for each in range(20):
        read_pod(pod_json({"nodeSelector": {"flood": str(each)}}), reader)
    assert 20 == len(reader._templates._specs)
    reader._templates._templates.clear()
    reader._templates._spec_keys.clear()
    assert 0 == len(reader._templates._specs)


def test_a_hundred_templates_are_a_hundred_specs() -> None:
    """The pods of the benchmark share as they are meant to: only StatefulSets' claims make specs of their own."""
    reader = PodReader()
    pods = [reader.read(running_pod(i)) for i in range(10 * TEMPLATES)]
    assert all(not isinstance(pod, Malformed) and pod.spec_error == "" for pod in pods)
    specs = {id(pod.spec) for pod in pods if not isinstance(pod, Malformed)}
    assert TEMPLATES * 9 // 10 + TEMPLATES // 10 * 10 == len(specs)


def test_a_token_volume_is_not_part_of_the_template() -> None:
    """The random name of the token's volume, and its mounts, make no difference."""
    reader = PodReader()
    specs = [
        {
            "containers": [container(volumeMounts=[{"name": token}])],
            "volumes": [{"name": token, "projected": {}}, {"name": "tmp", "emptyDir": {}}],
        }
        for token in ("kube-api-access-abcde", "kube-api-access-fghij")
    ]
    first, second = (read_pod(pod_json(spec), reader).spec for spec in specs)
    assert first is second
    assert () == first.volumes
    assert 1 == len(reader._templates._templates)


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (
            {"persistentVolumeClaim": {"claimName": "data-0", "readOnly": True}},
            Volume("persistentVolumeClaim", "data-0", read_only=True),
        ),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, Volume("ephemeral", "v")),
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            Volume("gcePersistentDisk", "v", (("pdName", "d"),), True),
        ),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, Volume("awsElasticBlockStore", "v", (("volumeID", "d"),))),
        ({"azureDisk": {"diskName": "d"}}, Volume("azureDisk", "v", (("diskName", "d"),))),
        ({"csi": {"driver": "d", "volumeAttributes": {"a": "b"}}}, Volume("csi", "v", (("driver", "d"),))),
        ({"iscsi": {"iqn": "i", "lun": 0}}, Volume("iscsi", "v", (("iqn", "i"), ("lun", "0")))),
        (
            {"rbd": {"image": "i", "monitors": ["a", "b"], "pool": "p", "secretRef": {"name": "s"}}},
            Volume("rbd", "v", (("image", "i"), ("monitors", "a,b"), ("pool", "p"))),
        ),
    ],
)
def test_volumes_that_tie_to_nodes_are_kept(volume: Json, expected: Volume) -> None:
    """A volume that affects scheduling is kept with its kind and its source."""
    assert (expected,) == _spec({"volumes": [{"name": "v", **volume}]}).volumes


@pytest.mark.parametrize(
    "kind", ["configMap", "secret", "emptyDir", "projected", "downwardAPI", "hostPath", "image", "nfs"]
)
def test_volumes_that_tie_to_nothing_are_skipped(kind: str) -> None:
    """A volume that can be mounted anywhere is not part of the spec."""
    assert () == _spec({"volumes": [{"name": "v", kind: {}}]}).volumes


def test_local_volumes_are_kept_by_name() -> None:
    """Directories of the node hold data that an evicted pod leaves behind; a directory in memory does not count."""
    volumes = [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "fast", "emptyDir": {"medium": "Memory"}},
        {"name": "logs", "hostPath": {"path": "/var/log"}},
        {"name": "gone", "emptyDir": None},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
    ]
    found = _spec({"volumes": volumes})
    assert ("scratch", "logs") == found.local_volumes
    assert (Volume("persistentVolumeClaim", "data-0"),) == found.volumes


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"kubernetes.io/config.mirror": "a1b2c3"}, {"kubernetes.io/config.mirror": ""}),
        ({"karpenter.sh/do-not-disrupt": "true"}, {"karpenter.sh/do-not-disrupt": "true"}),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true", "other": "x"}, {}),
        *(({DELETION_COST: each}, {DELETION_COST: each}) for each in ("0", "-7", "2147483647", "-2147483648")),
        *(({DELETION_COST: each}, {}) for each in ("", "high", "1.5", "+1", "007", "-0", "2147483648", "1" * 5000)),
        (
            {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "scratch, other"},
            {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "scratch"},
        ),
    ],
)
def test_annotations_are_kept_as_far_as_they_have_a_meaning(annotations: Json, expected: Json) -> None:
    """A value that says nothing about eviction is not kept: there may be anything in it."""
    spec = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    assert expected == read_pod(pod_json(spec, annotations=annotations)).annotations


def test_pods_without_annotations_about_eviction_share_one_mapping() -> None:
    """A hundred thousand empty mappings would be some megabytes."""
    first = read_pod(pod_json(labels={"a": "1"}))
    second = read_pod(pod_json(labels={"a": "2"}, annotations={"other": "x"}))
    assert first.annotations is second.annotations


@pytest.mark.parametrize("kind", ["persistentVolumeClaim", "rbd"])
def test_a_null_source_is_no_volume(kind: str) -> None:
    """A kind of volume that is written down as null is not there."""
    assert () == _spec({"volumes": [{"name": "v", kind: None}]}).volumes


def test_host_ports_are_those_that_last() -> None:
    """Ports of containers and sidecars are taken, with protocol and address filled in; those of init steps are not."""
    spec = {
        "containers": [{"name": "a", "ports": [{"hostPort": 80}, {"containerPort": 1}, {"hostPort": 0}]}],
        "initContainers": [
            {
                "name": "side",
                "restartPolicy": "Always",
                "ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "::1"}],
            },
            {"name": "step", "ports": [{"hostPort": 99}]},
        ],
    }
    assert (HostPort("UDP", "::1", 53), HostPort("TCP", "0.0.0.0", 80)) == _spec(spec).ports


def test_images_are_one_for_each_container() -> None:
    """Every container counts, init ones too, also when two have the same image or none."""
    spec = {"containers": [{"image": "a"}, {"image": "a"}, {}], "initContainers": [{"image": "b"}]}
    assert ("a", "a", "", "b") == _spec(spec).images


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, None),
        ({"labelSelector": None}, None),
        ({"labelSelector": {}}, LabelSelector()),
        ({"labelSelector": {"matchLabels": None, "matchExpressions": None}}, LabelSelector()),
        ({"labelSelector": {"matchLabels": {"b": "2", "a": "1"}}}, LabelSelector((("a", "1"), ("b", "2")))),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            LabelSelector((), (Requirement("a", "Exists"),)),
        ),
    ],
)
def test_no_selector_and_an_empty_one_differ(written: Json, expected: LabelSelector | None) -> None:
    """Null and absent select nothing, empty selects all: they are told apart in affinity and in spreading."""
    term = {"topologyKey": "zone", **written}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = _spec({"affinity": {"podAffinity": {required: [term]}}, "topologySpreadConstraints": [term]})
    assert spec.affinity is not None
    assert expected == spec.affinity.pod_affinity.required[0].selector
    assert expected == spec.topology_spread[0].selector


def test_namespace_selectors_differ_likewise() -> None:
    """An empty namespace selector means every namespace, none means the pod's own."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [{"topologyKey": "z", "namespaceSelector": {}}, {"topologyKey": "z", "namespaces": ["a"]}]
    spec = _spec({"affinity": {"podAntiAffinity": {required: terms}}})
    assert spec.affinity is not None
    assert (
        PodAffinityTerm("z", namespace_selector=LabelSelector()),
        PodAffinityTerm("z", namespaces=("a",)),
    ) == spec.affinity.pod_anti_affinity.required


def test_node_affinity_keeps_what_is_absent_apart() -> None:
    """Required terms that are absent ask for nothing; an empty list of them matches no node."""
    required, preferred = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
    gt = {"key": "cores", "operator": "Gt", "values": ["4"]}
    both = _spec(
        {
            "affinity": {
                "nodeAffinity": {
                    required: {"nodeSelectorTerms": [{"matchFields": [gt]}, {}]},
                    preferred: [{"weight": 3, "preference": {"matchExpressions": [gt]}}],
                }
            }
        }
    ).affinity
    assert both is not None
    requirement = Requirement("cores", "Gt", ("4",))
    assert (NodeSelectorTerm((), (requirement,)), NodeSelectorTerm()) == both.node_affinity.required
    assert both.node_affinity.preferred is not None
    assert (3, NodeSelectorTerm((requirement,))) == (
        both.node_affinity.preferred[0].weight,
        both.node_affinity.preferred[0].preference,
    )
    empty = _spec({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": None}}}}).affinity
    absent = _spec({"affinity": {"nodeAffinity": {}}}).affinity
    assert empty is not None
    assert absent is not None
    assert ((), None) == (empty.node_affinity.required, absent.node_affinity.required)


def test_node_selector_keeps_what_is_absent_apart() -> None:
    """No node selector and an empty one are told apart; an empty value is a value."""
    assert _spec({}).node_selector is None
    assert () == _spec({"nodeSelector": {}}).node_selector
    assert (("a", ""),) == _spec({"nodeSelector": {"a": ""}}).node_selector


def test_spreading_has_kubernetes_defaults() -> None:
    """Policies default to Honor and Ignore; anything but ScheduleAnyway is hard."""
    soft = {
        "topologyKey": "z",
        "maxSkew": 2,
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": 3,
        "matchLabelKeys": ["h"],
    }
    hard = {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    assert (
        TopologySpreadConstraint("z", 2, hard=False, min_domains=3, match_label_keys=("h",)),
        TopologySpreadConstraint("z", 1, hard=True, node_taints_policy="Honor"),
    ) == _spec({"topologySpreadConstraints": [soft, hard]}).topology_spread


def test_tolerations_may_leave_out_anything() -> None:
    """A toleration without key, with a value it should not have, or with nothing at all is kept as written."""
    written = [{"operator": "Exists"}, {"key": "a", "operator": "Exists", "value": "odd"}, {}]
    expected = (Toleration("", "Exists"), Toleration("a", "Exists", "odd"), Toleration())
    assert expected == _spec({"tolerations": written}).tolerations


@pytest.mark.parametrize(
    ("spec", "group"),
    [
        ({"workloadRef": {"name": "job", "podGroup": "workers", "podGroupReplicaKey": "3"}}, "job/workers/3"),
        ({"workloadRef": {"name": "job", "podGroup": "workers"}}, "job/workers"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "g"),
        ({}, ""),
    ],
)
def test_scheduling_groups_become_text(spec: Json, group: str) -> None:
    """Both spellings of a scheduling group give a name, and a pod without one gives none."""
    assert group == _spec(spec).scheduling_group


def test_resource_claims_are_kept_by_name() -> None:
    """The names of resource claims are kept, so that such a pod is never placed as if it had none."""
    assert ("gpu", "nic") == _spec({"resourceClaims": [{"name": "gpu"}, {"name": "nic"}]}).resource_claims
