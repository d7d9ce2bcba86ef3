"""The admission policy for the labeller's account on a real API server: it may write its own keys, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.live import trimtab_process
from tests.live.account_client import Account, assert_refused, grant_too_much, labelled
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node
from tools.controlplane.rig import Rig
from trimtab.core.model.events import LabelDone, LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.taints import Taint
from trimtab.wire.outcomes import Reply, label_outcome
from trimtab.wire.requests import label_request

pytestmark = pytest.mark.live

NODE = "/api/v1/nodes/node"
KEY = "pressure.trimtab.dev/cpu"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/trimtab-labeller"
ACCOUNT = "trimtab-labeller"
SOFT = {"key": KEY, "effect": "PreferNoSchedule"}
SOFT_TAINT = Taint(KEY, "", "PreferNoSchedule")
FOREIGN = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
LABELS = {"kubernetes.io/hostname": "node", "zone": "a"}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One node with a foreign taint; the shipped account, with extra permissions."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running, "rbac.yaml", "components/labeller/labeller.yaml")
        grant_too_much(running, ACCOUNT, {"": ("nodes", "nodes/status")})
        yield running


@pytest.fixture(scope="module")
def account(rig: Rig) -> Iterator[Account]:
    """Waits until the policy is in force, which takes a moment."""
    made = Account(rig, ACCOUNT)
    rig.admin.create(node("probe"))
    values = count()  # what is there already may be sent again
    trimtab_process.wait_for(
        lambda: made.patches("/api/v1/nodes/probe", labelled(probe=str(next(values))))[0] == 403,
        60,
        "the policy in force",
    )
    yield made
    made.client.close()


@pytest.fixture(autouse=True)
def clean(rig: Rig) -> None:
    """Reset the node before each test."""
    rig.admin.raw("DELETE", NODE)
    rig.admin.create(node("node", labels=LABELS, taints=[FOREIGN]))


OWN: list[Any] = [
    labelled(**{KEY: "high"}),
    [{"op": "add", "path": "/spec/taints/-", "value": SOFT}],
    [
        {"op": "add", "path": "/metadata/labels/pressure.trimtab.dev~1memory", "value": "high"},
        {"op": "add", "path": "/spec/taints/0", "value": SOFT},
    ],
]


@pytest.mark.parametrize("change", OWN, ids=["label", "taint", "both"])
def test_its_own_keys_are_allowed(account: Account, rig: Rig, change: Any) -> None:
    """A label and a soft taint with its prefix can be added; foreign ones stay."""
    assert (200, "") == account.patches(NODE, change)
    assert FOREIGN in rig.admin.get(NODE)["spec"]["taints"]
    assert LABELS.items() <= rig.admin.get(NODE)["metadata"]["labels"].items()


def test_its_own_keys_can_be_removed(account: Account, rig: Rig) -> None:
    """Label and taint."""
    rig.admin.patch(NODE, {**labelled(**{KEY: "high"}), "spec": {"taints": [FOREIGN, SOFT]}})
    steps = [
        {"op": "test", "path": "/spec/taints/1/key", "value": KEY},
        {"op": "remove", "path": "/spec/taints/1"},
        {"op": "remove", "path": "/metadata/labels/pressure.trimtab.dev~1cpu"},
    ]
    assert (200, "") == account.patches(NODE, steps)
    found = rig.admin.get(NODE)
    assert ([FOREIGN], False) == (found["spec"]["taints"], KEY in found["metadata"]["labels"])


REFUSED: dict[str, tuple[Any, str]] = {
    "new label": (labelled(pool="batch"), "may only set labels under"),
    "changed label": (labelled(zone="b"), "may only set labels under"),
    "removed label": (labelled(zone=None), "may only remove labels under"),
    "role": (labelled(**{"node-role.kubernetes.io/control-plane": ""}), "may only set labels under"),
    "legacy label": (labelled(status="presure"), 'status=presure if the variable legacy of this policy is "true"'),
    "near the prefix": (labelled(**{"pressure.trimtab.dev.evil/cpu": "high"}), "may only set labels under"),
    "foreign taint": ([{"op": "add", "path": "/spec/taints/-", "value": {**FOREIGN, "key": "x"}}], "soft taints"),
    "foreign taint gone": ({"spec": {"taints": None}}, "soft taints"),
    "foreign taint altered": ({"spec": {"taints": [{**FOREIGN, "value": "no"}]}}, "soft taints"),
    "hard taint": ([{"op": "add", "path": "/spec/taints/-", "value": {**SOFT, "effect": "NoExecute"}}], "soft taints"),
    "cordon": ({"spec": {"unschedulable": True}}, "only change a node's labels and taints"),
    "annotation": ({"metadata": {"annotations": {"a": "b"}}}, "only change a node's labels and taints"),
    "finalizer": ({"metadata": {"finalizers": ["example.com/never"]}}, "only change a node's labels and taints"),
    "provider": ({"spec": {"providerID": "cloud://x"}}, "only change a node's labels and taints"),
    "own and foreign": (labelled(**{KEY: "high", "zone": "b"}), "may only set labels under"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_everything_else_is_forbidden(account: Account, rig: Rig, case: str) -> None:
    """Another label, a foreign or hard taint, a cordon, an annotation: 403, and the node is unchanged."""
    change, words = REFUSED[case]
    assert_refused(account, rig, NODE, change, words)


def sends(account: Account, instruction: LabelNode) -> tuple[int, LabelDone | LabelFailed]:
    """Send the labeller's own request; the status and the decoded outcome."""
    asked = label_request(instruction)
    status, answer = account.client.raw(asked.method, asked.path, asked.body, asked.content_type)
    return status, label_outcome(instruction, Reply(status, answer), 1.0)


def test_a_patch_returns_the_resulting_version(account: Account, rig: Rig) -> None:
    """For labels by merge patch and taints by JSON patch: from that version on, a watch shows the change."""
    for change in ({"labels": ((KEY, "high"),)}, {"add_taints": (SOFT_TAINT,)}):
        meta = rig.admin.get(NODE)["metadata"]
        patch = LabelNode("node", meta["uid"], int(meta["resourceVersion"]), **change)  # type: ignore[arg-type]
        expected = LabelDone("node", 1.0, 0)
        status, outcome = sends(account, patch)
        now = int(rig.admin.get(NODE)["metadata"]["resourceVersion"])
        assert (200, replace(expected, version=now)) == (status, outcome)


def _made_anew(instruction: LabelNode) -> LabelNode:
    return replace(instruction, uid="3b241101-e2bb-4255-8caf-4136c566a962")


STALE: dict[str, tuple[int, Callable[[LabelNode], LabelNode]]] = {
    "label of a node made anew": (422, lambda patch: replace(_made_anew(patch), labels=((KEY, "high"),))),
    "taint of a node made anew": (422, lambda patch: replace(_made_anew(patch), add_taints=(SOFT_TAINT,))),
    "taint at an old version": (409, lambda patch: replace(patch, version=patch.version - 1, add_taints=(SOFT_TAINT,))),
    "somebody else's place": (422, lambda patch: replace(patch, remove_taints=((0, KEY),))),
    "a place that is not there": (422, lambda patch: replace(patch, remove_taints=((5, KEY),))),
    "a label that is gone": (422, lambda patch: replace(patch, labels=((KEY, None),), add_taints=(SOFT_TAINT,))),
    "a value that is none": (422, lambda patch: replace(patch, labels=((KEY, "no such value!"),))),
    "a node that is gone": (404, lambda patch: replace(patch, node="gone", labels=((KEY, "high"),))),
}


@pytest.mark.parametrize("case", STALE)
def test_an_outdated_patch_changes_nothing(account: Account, rig: Rig, case: str) -> None:
    """It fails for this node only: no permission is missing, so the others go on."""
    code, altered = STALE[case]
    before = rig.admin.get(NODE)["metadata"]
    status, outcome = sends(account, altered(LabelNode("node", before["uid"], int(before["resourceVersion"]))))
    assert (code, True) == (status, isinstance(outcome, LabelFailed) and not outcome.forbidden), outcome
    assert before["resourceVersion"] == rig.admin.get(NODE)["metadata"]["resourceVersion"]


def test_the_status_cannot_be_changed(account: Account, rig: Rig) -> None:
    """Neither by its subresource, nor with a patch of the node, where the server drops it."""
    change = {"status": {"capacity": {"cpu": "1000"}}}
    status, message = account.patches(f"{NODE}/status", change)
    assert (403, True) == (status, "not their status" in message)
    account.patches(NODE, {**change, **labelled(**{KEY: "high"})})
    assert "8" == rig.admin.get(NODE)["status"]["capacity"]["cpu"]


@pytest.mark.parametrize(("method", "path"), [("DELETE", NODE), ("POST", "/api/v1/nodes")])
def test_nodes_can_be_neither_created_nor_deleted(account: Account, method: str, path: str) -> None:
    """Even with the permissions to do so."""
    body = json.dumps(node("another")).encode() if method == "POST" else None
    status, answer = account.client.raw(method, path, body)
    assert (403, True) == (status, b"may only patch nodes" in answer)


def test_the_shipped_role_grants_nothing_else(rig: Rig) -> None:
    """Without the extra permissions of these tests, the account can list, watch and patch nodes, and use its lease."""
    found = rig.kubectl(
        "get",
        "clusterrole,clusterrolebinding,role,rolebinding",
        "-A",
        "-o",
        "json",
        "--field-selector=metadata.name=trimtab-labeller",
    )
    rules = [rule for item in json.loads(found)["items"] for rule in item.get("rules", ())]
    granted = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    nodes = {(verb, "nodes") for verb in ("list", "watch", "patch")}
    assert nodes | {(verb, "leases") for verb in ("create", "get", "update")} == granted


def test_other_accounts_are_not_affected(rig: Rig) -> None:
    """An administrator may still change labels."""
    rig.admin.patch(NODE, labelled(zone="b"))
    assert "b" == rig.admin.get(NODE)["metadata"]["labels"]["zone"]


def dry_run_finding(rig: Rig, *flags: str) -> Document:
    """The finding of `trimtab doctor` about labels, run by the labeller's own account; it must change no node."""
    before = rig.admin.list("/api/v1/nodes")
    kubeconfig = rig.service_account_kubeconfig("trimtab", "trimtab-labeller")
    command = [sys.executable, "-m", "trimtab", "doctor", "-kubeconfig", str(kubeconfig), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "" == done.stderr
    assert before == rig.admin.list("/api/v1/nodes")
    (found,) = (each for each in json.loads(done.stdout)["findings"] if each["subject"] == "dry run")
    return dict(found)


def old_rules(rig: Rig) -> tuple[str, ...]:
    file = rig.workspace / "rule.yaml"
    file.write_text(json.dumps({"Rulename": {"Node_mem": {"Promsql": "used", "Threshold": 70}}}))
    return ("-prom", "http://127.0.0.1:9", "-r", str(file), "--apply")


def test_doctor_reports_that_the_policy_forbids_labels(rig: Rig, account: Account) -> None:
    """The role allows them and the policy does not: a problem with its remedy, before the labeller runs."""
    found = dry_run_finding(rig, *old_rules(rig))
    assert ("problem", True) == (
        found["severity"],
        "the API server rejects +status=presure on node: 403" in found["says"],
    )
    assert "may only set labels under" in found["says"] and "set the variable legacy" in found["remedy"]


def test_doctor_reports_that_labels_are_allowed(rig: Rig, account: Account) -> None:
    """A label and a soft taint, by both kinds of patch, and nothing is written."""
    rules = [{"name": "cpu", "metric": "cpu", "above": "80%"}]
    rules += [{"name": "soft", "metric": "memory", "above": "80%", "taint": KEY}]
    source = {"name": "p", "prometheus": {"url": "http://127.0.0.1:9"}}
    file = trimtab_process.write_config(
        rig, "marks", {"sources": [source], "labels": {"mode": "apply", "rules": rules}}
    )
    found = dry_run_finding(rig, "--labeller", "--config", str(file))
    assert ("ok", "") == (found["severity"], found.get("remedy", "")), found
    assert f"+{KEY}=high on node, +taint {KEY}:PreferNoSchedule on node" in found["says"]


def test_the_legacy_label_if_the_policy_allows_it(rig: Rig, account: Account) -> None:
    """With `legacy` set, status=presure can be added and removed, but no other value, and no foreign one replaced."""
    variables = rig.admin.get(POLICY)["spec"]["variables"]
    allowed = [{**each, "expression": "true"} if each["name"] == "legacy" else each for each in variables]
    rig.admin.patch(POLICY, {"spec": {"variables": allowed}})
    trimtab_process.wait_for(
        lambda: account.patches(NODE, labelled(status="presure"))[0] == 200, 60, "the policy changed"
    )
    assert 403 == account.patches(NODE, labelled(status="fine"))[0]
    assert 200 == account.patches(NODE, labelled(status=None))[0]
    assert "ok" == dry_run_finding(rig, *old_rules(rig))["severity"]
    rig.admin.patch(NODE, labelled(status="maintenance"))
    time.sleep(0.1)
    assert [403, 403] == [account.patches(NODE, labelled(status=value))[0] for value in ("presure", None)]
