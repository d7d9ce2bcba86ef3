"""Pods that the API server accepts although they cannot be scheduled: each gets a reason, and none delays the others."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.live import trimtab_process
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EACH, GOOD = 20, 200


def on_nodes(*terms: Document) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def near(kind: str, **term: Any) -> dict[str, Any]:
    return {"affinity": {kind: {REQUIRED: [term]}}}


def than(operator: str, value: str) -> Document:
    return {"matchExpressions": [{"key": "age", "operator": operator, "values": [value]}]}


def spread(key: str) -> dict[str, Any]:
    rule = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologySpreadConstraints": [rule]}


WEB = {"matchLabels": {"app": "web"}}
CLAIM = {"resourceClaims": [{"name": "card", "resourceClaimName": "nowhere"}]}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "older-than-a-word": (on_nodes(than("Gt", "old")), "nodeSelectorTerms[0].matchExpressions[0].values: 'old'"),
    "older-than-all": (on_nodes(than("Gt", "9" * 20)), "nodeSelectorTerms[0].matchExpressions[0].values: '999"),
    "empty-term": (on_nodes({}), "nodeSelectorTerms: none but empty terms"),
    "near-nobody": (near("podAffinity", topologyKey="no/map"), "didn't match pod affinity rules"),
    "near-no-map": (near("podAffinity", topologyKey="no/map", labelSelector=WEB), "podAffinity.required"),
    "spread-no-map": (spread("no/map"), "spec.topologySpreadConstraints[0].topologyKey: no node has the label"),
    "claiming-a-card": (CLAIM, "resource claims (plugin DynamicResources)"),
}


def test_invalid_pods_delay_no_others(rig: Rig) -> None:
    """Invalid pods come first by priority, and still every other pod is bound, and every invalid one gets a reason."""
    for file in (trimtab_process.ROOT / "deploy").glob("rbac*.yaml"):
        rig.apply(file)
    rig.admin.create_many(node(f"node-{n}", labels={"age": str(n)}) for n in range(10))
    rig.admin.create(_class())
    trimtab = trimtab_process.start(rig)
    try:
        bad = {f"{name}-{n}": name for name in _stored(rig) for n in range(EACH)}
        pods = [_pod(f"good-{n}") for n in range(GOOD)]
        pods += [_pod(name, **BAD[kind][0], priorityClassName="first") for name, kind in bad.items()]
        random.Random(4).shuffle(pods)
        rig.admin.create_many(pods)
        trimtab_process.wait_for(
            lambda: len(trimtab_process.bound(rig)) == GOOD, 60, "all good ones are bound", trimtab
        )
        trimtab_process.wait_for(lambda: not _without_reason(rig, bad), 60, "all invalid pods have a reason", trimtab)
        assert {f"good-{n}" for n in range(GOOD)} == set(trimtab_process.bound(rig))
        assert trimtab.running()
    finally:
        trimtab.terminate()


def _stored(rig: Rig) -> list[str]:
    """Before Kubernetes 1.34 the API server drops resource claims, and such a pod is like any other."""
    keeps_claims = rig.admin.raw("GET", "/apis/resource.k8s.io/v1")[0] == 200
    return [name for name, (spec, _) in BAD.items() if keeps_claims or spec is not CLAIM]


def _pod(name: str, **spec: Any) -> Document:
    return pod(name, cpu="10m", memory="8Mi", scheduler=trimtab_process.SCHEDULER, **spec)


def _class() -> Document:
    meta = {"name": "first"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1000}


def _without_reason(rig: Rig, bad: dict[str, str]) -> dict[str, set[str]]:
    """Invalid pods without an Event that names the error, and their Events instead."""
    events = rig.admin.list("/apis/events.k8s.io/v1/events?fieldSelector=reason%3DFailedScheduling")
    notes: dict[str, set[str]] = {name: set() for name in bad}
    for event in events:
        notes[event["regarding"]["name"]].add(event["note"])
    return {name: said for name, said in notes.items() if not any(BAD[bad[name]][1] in note for note in said)}
