"""Invalid pod fields are named; the pod is decoded all the same, and nothing is raised."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.json_objects import Json, pod_json, read_pod
from tests.wire.test_garbage import ANY_JSON, _changed, _places
from trimtab.core.model.pod import Pod
from trimtab.wire.decoding import Malformed
from trimtab.wire.pod import PodReader

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
PODS = PodReader()

EVERYTHING: Json = {
    "containers": [{"name": "web", "image": "web:1"}],
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1"]}]},
                ]
            },
            PREFERRED: [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}}
            ],
        },
        "podAffinity": {
            REQUIRED: [
                {
                    "topologyKey": ZONE,
                    "labelSelector": {"matchExpressions": [{"key": "security", "operator": "In", "values": ["S1"]}]},
                    "namespaceSelector": {"matchLabels": {"team": "a"}},
                    "namespaces": ["shop"],
                    "matchLabelKeys": ["version"],
                }
            ],
        },
        "podAntiAffinity": {
            PREFERRED: [
                {
                    "weight": 7,
                    "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}},
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "topologyKey": ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Honor",
            "matchLabelKeys": ["version"],
        }
    ],
    "tolerations": [{"key": "a", "operator": "Near", "effect": "Never"}],
}
NODES = "spec.affinity.nodeAffinity"
TERMS = f"{NODES}.{REQUIRED}.nodeSelectorTerms"
NEAR = f"spec.affinity.podAffinity.{REQUIRED}[0]"
FAR = f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm"
SPREAD = "spec.topologySpreadConstraints[0]"


def node_terms(*terms: Any) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def labels(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def near(**term: Any) -> Json:
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, **term}]}}}


def far(term: Any) -> Json:
    return {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}


def spread(**changes: Any) -> Json:
    whole = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **changes}
    return {"topologySpreadConstraints": [whole]}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (node_terms(labels("disk", "Near", "ssd")), f"{TERMS}[0].matchExpressions[0].operator: 'Near' is none of"),
        (node_terms(labels("disk", "", "ssd")), f"{TERMS}[0].matchExpressions[0].operator: missing"),
        (node_terms(labels("", "Exists")), f"{TERMS}[0].matchExpressions[0].key: missing"),
        (node_terms(labels("a b", "Exists")), f"{TERMS}[0].matchExpressions[0].key: 'a b' is not the key of a label"),
        (node_terms(labels("gen", "Gt", "new")), f"{TERMS}[0].matchExpressions[0].values: 'new' is invalid for key"),
        (node_terms(labels("disk", "In")), f"{TERMS}[0].matchExpressions[0].values: '' is invalid"),
        (node_terms(labels("disk", "Exists", "x")), f"{TERMS}[0].matchExpressions[0].values: 'x' is invalid"),
        (node_terms(), f"{TERMS}: empty, which match no node"),
        (node_terms({}, {"matchExpressions": []}), f"{TERMS}: none but empty terms, which match no node"),
        (node_terms({}, labels("disk", "Near")), f"{TERMS}[1].matchExpressions[0].operator: 'Near'"),
        (
            node_terms({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
            f"{TERMS}[0].matchFields[0].operator: 'Exists' is none of In, NotIn",
        ),
        (
            node_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
            f"{TERMS}[0].matchFields[0].values: 2 values, where there must be one",
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": labels("x", "Near")}]}}},
            f"{NODES}.{PREFERRED}[0].preference.matchExpressions[0].operator: 'Near'",
        ),
        (near(topologyKey=""), f"{NEAR}.topologyKey: missing"),
        (near(topologyKey="a zone"), f"{NEAR}.topologyKey: 'a zone' is not the key of a label"),
        (
            near(labelSelector=labels("a", "Gt", "1")),
            f"{NEAR}.labelSelector.matchExpressions[0].operator: 'Gt' is none of",
        ),
        (
            near(labelSelector={"matchLabels": {"a": "b c"}}),
            f"{NEAR}.labelSelector.matchLabels: 'a=b c' is no label",
        ),
        (near(namespaceSelector=labels("a", "In")), f"{NEAR}.namespaceSelector.matchExpressions[0].values"),
        (far({}), f"{FAR}.topologyKey: missing"),
        (far(None), f"{FAR}.topologyKey: missing"),
        (
            far({"topologyKey": ZONE, "labelSelector": labels("a", "Near")}),
            f"{FAR}.labelSelector.matchExpressions[0].operator",
        ),
        (spread(topologyKey=None), f"{SPREAD}.topologyKey: missing"),
        (spread(maxSkew=0), f"{SPREAD}.maxSkew: 0 is not above zero"),
        (spread(maxSkew=-3), f"{SPREAD}.maxSkew: -3 is not above zero"),
        (spread(minDomains=0), f"{SPREAD}.minDomains: 0 is not above zero"),
        (spread(whenUnsatisfiable="Perhaps"), f"{SPREAD}.whenUnsatisfiable: 'Perhaps' is none of DoNotSchedule, Sch"),
        (spread(whenUnsatisfiable=None), f"{SPREAD}.whenUnsatisfiable: missing"),
        (spread(nodeAffinityPolicy="Maybe"), f"{SPREAD}.nodeAffinityPolicy: 'Maybe' is none of Honor, Ignore"),
        (spread(nodeTaintsPolicy="Maybe"), f"{SPREAD}.nodeTaintsPolicy: 'Maybe' is none of Honor, Ignore"),
        (spread(labelSelector=labels("a", "Near")), f"{SPREAD}.labelSelector.matchExpressions[0].operator: 'Near'"),
    ],
)
def test_the_field_is_named(spec: Json, error: str) -> None:
    """Unknown operators, empty terms, keys that are none and numbers that cannot be: the path, the value, the remedy."""
    pod = read_pod(pod_json(spec))
    assert "" == pod.spec_error
    assert pod.spec.error.startswith(error)
    assert pod.spec.error.endswith("; correct the field")


@pytest.mark.parametrize(
    "spec",
    [
        EVERYTHING,
        {},
        node_terms({}, labels("disk", "Exists")),
        node_terms(labels("disk", "Near"), labels("disk", "Exists")),
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": labels("x", "Near")}, {"weight": 1}]}}},
        near(labelSelector=None, namespaceSelector={}),
        near(topologyKey="nobody.has/this"),
        spread(labelSelector={}),
        {"nodeSelector": {"a b": "c d"}},
    ],
)
def test_what_kubernetes_accepts_is_valid(spec: Json) -> None:
    """One valid node term is enough; a preference without weight, an empty selector and an unused key are all allowed."""
    assert "" == read_pod(pod_json(spec)).spec.error


@settings(max_examples=300)
@given(st.sampled_from(_places(EVERYTHING)), ANY_JSON)
def test_any_part_of_what_a_pod_wishes_may_hold_anything(place: tuple[str | int, ...], part: Any) -> None:
    """With one part replaced it is still a pod, and an invalid or undecodable field is named."""
    data = json.loads(_changed(copy.deepcopy(EVERYTHING), place, part))
    found = PODS.read(json.dumps(pod_json(data)).encode())
    assert isinstance(found, Pod | Malformed)
    if isinstance(found, Pod):
        assert not found.spec.error or found.spec.error.startswith("spec.")
