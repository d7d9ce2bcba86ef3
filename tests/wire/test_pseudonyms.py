"""Pseudonyms: nothing of a cluster's names is left, and scheduling decides as before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.wire.planted_secrets import LABEL_SECRET, NAMESPACE, TEAM, ZONE, cluster
from tests.wire.test_reduction import EVERY_KIND, reader_of, reduced, types_in
from trimtab.config.registry import default_profile
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.explain import NodeRow, explain
from trimtab.core.model.node import Node
from trimtab.core.model.pod import SAFE_LOCAL_VOLUMES, Pod
from trimtab.wire.pseudonyms import Pseudonyms, rule_of
from trimtab.wire.reduction import ORIGINALS, Reduced, reduced_shape

KEY = b"0123456789abcdef"
PLAIN = {kind: [reduced(kind, each) for each in documents] for kind, documents in cluster().items()}


def pseudonyms() -> Pseudonyms:
    found = Pseudonyms(KEY)
    for items in PLAIN.values():
        for each in items:
            found.learn(each)
    return found


def renamed(by: Pseudonyms) -> dict[str, list[Reduced]]:
    return {kind: [by.rename(each) for each in items] for kind, items in PLAIN.items()}


def held(objects: dict[str, list[Reduced]]) -> Cluster:
    cluster = Cluster()
    for kind, items in objects.items():
        reader = reader_of(kind)
        for each in items:
            found: Any = reader.read(each.content)
            if isinstance(found, Node):
                cluster.upsert_node(found)
            elif isinstance(found, Pod):
                cluster.upsert_pod(found)
            else:
                cluster.upsert_object(found)
    return cluster


def decisions(objects: dict[str, list[Reduced]]) -> dict[str, dict[str, tuple[str, bool, dict[str, float], float]]]:
    """By pending pod and node: the plugin that rejects it, or every score and their sum."""
    found, profile = held(objects), default_profile("any")

    def row(line: NodeRow) -> tuple[str, bool, dict[str, float], float]:
        return line.rejected_by, line.unresolvable, line.scores, line.total

    return {
        pod.key: {line.node: row(line) for line in explain(found.view, pod, profile).rows}
        for pod in found.pods.values()
        if pod.pending
    }


def test_every_plugin_answers_as_before() -> None:
    """Affinity, taints, spread, numeric selectors, images, ports, volumes: the same nodes are rejected by the same plugins,
    and all scores are the same."""
    by, before = pseudonyms(), decisions(PLAIN)
    after = decisions(renamed(by))
    expected = {by.pod_key(pod): {by.name(node): row for node, row in rows.items()} for pod, rows in before.items()}
    assert expected == after
    assert 13 == len(before)
    rejecting = {row[0] for rows in before.values() for row in rows.values()} - {""}
    assert {
        "TaintToleration",
        "NodeAffinity",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodePorts",
        "VolumeBinding",
    } <= rejecting, rejecting


def test_no_name_is_left() -> None:
    """Of namespaces, pods, nodes, owners, images, claims, addresses, and what labels say."""
    text = b"".join(each.content for items in renamed(pseudonyms()).values() for each in items)
    for name in (
        NAMESPACE, "worker-", "web-1", "new-", "acme", "storefront", LABEL_SECRET, "zone-a", "registry", "nginx",
        "data-of-web", "volume-a", "10.0.0.", "billing", TEAM, "cores-per-socket", "uid-of", "rs-web", "files-of",
    ):  # fmt: skip
        assert name.encode() not in text, name
    for kept in (ZONE, "kubernetes.io/hostname", "dedicated", "ebs.csi.aws.com", "ReplicaSet", "apps/v1", "memory"):
        assert kept.encode() in text, kept


def test_local_volumes_are_still_listed_as_safe() -> None:
    """The annotation that lists them is renamed with them."""
    pod = next(each for each in held(renamed(pseudonyms())).pods.values() if each.spec.local_volumes)
    assert list(pod.spec.local_volumes) == pod.annotations[SAFE_LOCAL_VOLUMES].split(",")


def test_one_text_has_one_pseudonym_per_key() -> None:
    """With another key every pseudonym is another one, so two files cannot be compared by name."""
    by, other = Pseudonyms(KEY), Pseudonyms(b"another")
    assert by.name("a") == Pseudonyms(KEY).name("a") != by.name("b")
    assert by.name("a") != other.name("a")


def test_words_with_a_meaning_of_their_own_stay() -> None:
    """What is empty, the namespaces of every cluster, and values that plugins compare with words."""
    by = Pseudonyms(KEY)
    assert ["", "default", "kube-system"] == [by.name(each) for each in ("", "default", "kube-system")]
    assert "LSR" == by.label_value("koordinator.sh/qosClass", "LSR")
    assert "pod-template-hash" == by.label_key("pod-template-hash")
    assert by.label_key("app").startswith("h") and "scheduling.x-k8s.io/pod-group" == by.label_key(
        "scheduling.x-k8s.io/pod-group"
    )


def test_numbers_stay_where_they_are_compared() -> None:
    """Under the key of a Gt or Lt only; a text there has a pseudonym."""
    by = pseudonyms()
    assert "12" == by.label_value("cores-per-socket", "12")
    assert "12" != by.label_value("another", "12")
    assert by.name("many") == by.label_value("cores-per-socket", "many")


@pytest.mark.parametrize(
    ("one", "other"),
    [("nginx", "nginx:latest"), ("a.io/b", "a.io/b:latest"), ("a.io:443/b", "a.io:443/b:latest")],
)
def test_an_image_without_a_tag_is_the_latest(one: str, other: str) -> None:
    """As ImageLocality has it; another tag is another image."""
    by = Pseudonyms(KEY)
    assert by.image(one) == by.image(other) != by.image(f"{one}:1")


def test_disks_and_zones_keep_their_form() -> None:
    """An EBS volume with its zone is the one without; of a volume's zones each has its own pseudonym."""
    by = Pseudonyms(KEY)
    assert by.disk("aws://zone-a/vol-1").endswith(f"/{by.disk('vol-1')}") and by.disk("vol-1").startswith("vol-")
    assert f"{by.name('a')}__{by.name('b')}" == by.label_value(ZONE, "a__b")


def test_an_owner_of_another_group_is_renamed() -> None:
    """Its kind may be named after whoever made it."""
    document = cluster()["pods"][0]
    document["metadata"]["ownerReferences"][0] |= {"kind": "AcmeJob", "apiVersion": "acme.example/v1"}
    assert b"cme" not in Pseudonyms(KEY).rename(reduced("pods", document)).content.replace(TEAM.encode(), b"")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_mapping_has_a_rule(kind: str) -> None:
    """The keys of a mapping may be names, keys of labels or resources: only a rule tells."""
    for info in types_in(msgspec.inspect.type_info(reduced_shape(reader_of(kind).shape))):
        for field in getattr(info, "fields", ()):
            mappings = [each for each in types_in(field.type) if isinstance(each, msgspec.inspect.DictType)]
            direct = [each for each in mappings if not _inside_struct(field.type, each)]
            if direct:
                assert rule_of(ORIGINALS[info.cls], field.name) is not Pseudonyms._any, (info.cls, field.name)


def _inside_struct(info: Any, wanted: Any) -> bool:
    structs = [each for each in types_in(info) if isinstance(each, msgspec.inspect.StructType)]
    return any(wanted is each for struct in structs for each in types_in(struct))
