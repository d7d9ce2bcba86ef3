"""Every right of the shipped accounts, asked of a real API server, and the file of those that they are meant to have.

    python -m tests.live.account_rights     asks, and writes account_rights.yaml: read the difference before you commit it

`shipped` is `kubectl apply -k deploy/` with the labeller and the rescheduler; each further file is listed with what it adds.
The API server lists an account's rules in a namespace (SelfSubjectRulesReview, complete with the RBAC authorizer); what
every service account may do is left out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.rendering import DEPLOY, apply_strictly, write_overlay
from tests.live.account_client import Account
from tests.live.trimtab_process import wait_for
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig

GOLDEN = Path(__file__).with_suffix(".yaml")
ACCOUNTS = ("trimtab", "trimtab-labeller", "trimtab-rescheduler", "trimtab-metrics-reader")
NOBODY = "nobody"
# `default` stands for any namespace in which nothing of ours is bound, and thus for rights everywhere.
EVERYWHERE, NAMESPACES = "everywhere", ("trimtab", "kube-system")
SHIPPED = "shipped"
NO_ACCOUNT_OF_OURS = {"rbac-system-kube-scheduler.yaml"}  # test_accounts compares what it grants to that user
Rights = dict[str, list[str]]  # resource, with group and name, to verbs


def install(rig: Rig) -> None:
    """What `shipped` means, and an account without roles to compare with."""
    assert "" == apply_strictly(rig, write_overlay(rig.workspace / "overlay", "labeller", "rescheduler"))
    for name in (NOBODY, *ACCOUNTS):
        metadata = {"name": name, "namespace": "trimtab"}
        rig.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}])


def further_files() -> list[str]:
    """Files with roles or bindings that `shipped` does not contain, relative to deploy/."""
    shipped = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    contained = {*shipped, "components/labeller/labeller.yaml", "components/rescheduler/rescheduler.yaml"}
    found = {path.relative_to(DEPLOY).as_posix() for path in DEPLOY.rglob("*.yaml") if "chart" not in path.parts}
    return sorted(name for name in found - contained - NO_ACCOUNT_OF_OURS if "roleRef:" in (DEPLOY / name).read_text())


def rights_now(rig: Rig) -> dict[str, dict[str, Rights]]:
    """By account and place; a place without rights of its own is left out."""
    common = _places(rig, NOBODY)
    return {account: _without(_places(rig, account), common) for account in ACCOUNTS}


def _places(rig: Rig, account: str) -> dict[str, set[tuple[str, str]]]:
    """Rights everywhere, and those that a namespace has in addition."""
    client = Account(rig, account)
    try:
        everywhere = _rules(client, "default")
        return {EVERYWHERE: everywhere} | {place: _rules(client, place) - everywhere for place in NAMESPACES}
    finally:
        client.client.close()


def _rules(client: Account, namespace: str) -> set[tuple[str, str]]:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    status = client.client.create(review)["status"]
    assert not status["incomplete"], status
    found = {pair for rule in status["resourceRules"] for pair in _pairs(rule)}
    urls = [
        (verb, url) for rule in status["nonResourceRules"] for verb in rule["verbs"] for url in rule["nonResourceURLs"]
    ]
    return found | {*urls}


def _pairs(rule: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Each verb with its resource, written resource.group, and `resource.group name` if the rule names objects."""
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            full = f"{resource}.{group}" if group else resource
            for name in rule.get("resourceNames") or [""]:
                yield from ((verb, f"{full} {name}".strip()) for verb in rule["verbs"])


def _without(
    found: Mapping[str, set[tuple[str, str]]], common: Mapping[str, set[tuple[str, str]]]
) -> dict[str, Rights]:
    own = {place: by_resource(pairs - common[place]) for place, pairs in found.items()}
    return {place: rights for place, rights in own.items() if rights}


def by_resource(pairs: Iterable[tuple[str, str]]) -> Rights:
    """Sorted, so that a difference is easy to read."""
    rights: Rights = {}
    for verb, resource in sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        rights.setdefault(resource, []).append(verb)
    return rights


def flatten(accounts: Mapping[str, Mapping[str, Rights]]) -> set[tuple[str, str, str, str]]:
    """Account, place, resource and verb."""
    return {
        (account, place, resource, verb)
        for account, places in accounts.items()
        for place, rights in places.items()
        for resource, verbs in rights.items()
        for verb in verbs
    }


def added_by(rig: Rig, file: str, before: Mapping[str, Mapping[str, Rights]]) -> dict[str, dict[str, Rights]]:
    """The rights that a file adds; its roles and bindings are removed again."""
    known = flatten(before)
    every: list[Document] = [each for each in yaml.safe_load_all((DEPLOY / file).read_text()) if each]
    documents = [each for each in every if each["apiVersion"].startswith("rbac.")]
    rig.apply(documents)
    wait_for(lambda: flatten(rights_now(rig)) - known, 10, f"{file} grants something")
    time.sleep(0.5)  # its other roles are known, too
    new = flatten(rights_now(rig)) - known
    rig.admin.delete_many(f"{rig.admin.collection(each)}/{each['metadata']['name']}" for each in documents)
    wait_for(lambda: flatten(rights_now(rig)) == known, 10, f"{file} is gone")
    added: dict[str, dict[str, Rights]] = {}
    for account, place, resource, verb in sorted(new):
        added.setdefault(account, {}).setdefault(place, {}).setdefault(resource, []).append(verb)
    return added


def ask_everything(rig: Rig) -> dict[str, Any]:
    """The content of the golden file."""
    shipped = rights_now(rig)
    return {SHIPPED: shipped, **{file: added_by(rig, file, shipped) for file in further_files()}}


def main() -> None:
    """Write the golden file."""
    head = "# Written by `python -m tests.live.account_rights`. Every line is a right that a stolen token has.\n"
    with Rig(workspace=Path(tempfile.mkdtemp())) as rig:
        install(rig)
        GOLDEN.write_text(
            head + yaml.safe_dump(ask_everything(rig), default_flow_style=None, sort_keys=True, width=120)
        )


if __name__ == "__main__":
    main()
