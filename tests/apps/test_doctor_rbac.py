"""The doctor checks exactly the permissions that the product needs, and names the file that grants each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apps.fake_apiserver import FakeApiServer, configured, findings_of
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.kube.fake_transport import json_response
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.doctor.finding import Area, Severity
from trimtab.apps.doctor.rbac_checks import SERVING, account_of, required
from trimtab.config.configuration import Configuration
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.trimtab.labeller import combined_configuration, labeller_configuration
from trimtab.sources.registry import SOURCE_SETTINGS
from trimtab.wire.forbidden import RESCHEDULER_ACCOUNT, SCHEDULER_ACCOUNT

DEPLOY = Path(__file__).parents[2] / "deploy"
WITH_GANGS = (
    "profiles: [{schedulerName: trimtab, plugins: {multiPoint: {enabled: [{name: Coscheduling}], "
    "disabled: [{name: PrioritySort}]}}}]\n"
)
OPTIONAL = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "DefaultPreemption")
WITHOUT_OPTIONAL = (
    "profiles: [{schedulerName: trimtab, plugins: {multiPoint: {disabled: ["
    + ", ".join(f"{{name: {name}}}" for name in OPTIONAL)
    + "]}}}]\n"
)
SERVER = "sources: [{name: ms, metricsServer: {}}]\n"
LABELS = SERVER + "labels: {mode: apply, rules: [{name: cpu, metric: cpu, above: 80%}]}\n"


def granted(account: str, *files: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of every rule in these files that some binding gives to the account."""
    documents = [each for file in files for each in yaml.safe_load_all((DEPLOY / file).read_text())]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "trimtab"}
    roles = [each["roleRef"] for each in documents if subject in each.get("subjects", ())]
    bound = {(role["kind"], role["name"]) for role in roles}
    mine = [each for each in documents if (each["kind"], each["metadata"]["name"]) in bound]
    rules: list[Any] = [rule for each in mine for rule in each["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rescheduling(section: str) -> Configuration:
    """Of a rescheduler with this section, alone under its account."""
    text = f"{TRIMTAB_HEAD}{SERVER}rescheduling: {section}\n"
    return configuration_for(("rescheduler",), parse(text, "f.yaml", source_kinds=SOURCE_SETTINGS), "f.yaml")


EVERY_MOVE = "{mode: auto, remedies: {softTaint: true, resize: true}}"
MOVES = ("components/rescheduler/rescheduler.yaml", "rbac-metrics.yaml")


def labelling(content: str) -> Configuration:
    return labeller_configuration(configured(content), "f.yaml")


@pytest.mark.parametrize(
    ("configuration", "files"),
    [
        (default_configuration(), ("rbac.yaml", "rbac-volumes.yaml", "rbac-preemption.yaml")),
        (
            configured(HEAD + WITH_GANGS, TRIMTAB_HEAD + SERVER),
            (
                "rbac.yaml",
                "rbac-volumes.yaml",
                "rbac-preemption.yaml",
                "components/gang/rbac-gang.yaml",
                "rbac-metrics.yaml",
            ),
        ),
        (labelling(TRIMTAB_HEAD + LABELS), ("components/labeller/labeller.yaml", "rbac-metrics.yaml")),
        (
            combined_configuration(parse(f"{HEAD}{WITHOUT_OPTIONAL}---\n{TRIMTAB_HEAD}{LABELS}", "f.yaml"), "f.yaml"),
            ("rbac.yaml", "components/labeller/labeller.yaml", "rbac-labeller.yaml", "rbac-metrics.yaml"),
        ),
        (rescheduling(EVERY_MOVE), MOVES),
    ],
)
def test_rights_are_those_of_the_shipped_files(configuration: Configuration, files: tuple[str, ...]) -> None:
    """Neither more nor fewer, so that no unused permission is recommended."""
    account = account_of(configuration).rpartition(":")[2]
    assert granted(account, *files) == {(right.group, right.resource, right.verb) for right in required(configuration)}


NODES_PATCHED, RESIZED = {("", "nodes", "patch")}, {("", "pods", "get"), ("", "pods/resize", "patch")}
SURGED = {
    *(("apps", kind, verb) for kind in ("deployments", "replicasets") for verb in ("get", "patch")),
    ("autoscaling", "horizontalpodautoscalers", "list"),
    ("", "resourcequotas", "list"),
    ("", "pods", "patch"),
}


@pytest.mark.parametrize(
    ("section", "spared"),
    [
        ("{mode: auto}", NODES_PATCHED | RESIZED),
        ("{mode: auto, method: eviction}", NODES_PATCHED | RESIZED | SURGED),
        ("{mode: auto, method: replacementOnly}", NODES_PATCHED | RESIZED | {("", "pods/eviction", "create")}),
    ],
)
def test_a_rescheduler_needs_what_its_settings_use(section: str, spared: set[tuple[str, str, str]]) -> None:
    """Whoever evicts only, or taints and resizes nothing, may leave those rules out."""
    needed = {(right.group, right.resource, right.verb) for right in required(rescheduling(section))}
    assert granted("trimtab-rescheduler", *MOVES) - spared == needed


def test_a_rescheduler_that_observes_writes_nothing_but_its_lease() -> None:
    """So that it can be tried with the first group of its role file."""
    verbs = {(right.resource, right.verb) for right in required(rescheduling("{mode: observe}"))}
    assert {("leases", verb) for verb in ("create", "get", "update")} == {
        each for each in verbs if each[1] not in ("list", "watch")
    }


async def test_what_the_rescheduler_lacks_is_in_its_own_role_file() -> None:
    """Also the kinds that its guards and its pods' scheduler read; the ledger by its name."""
    denied = {"list poddisruptionbudgets", "create pods/eviction", "update configmaps"}
    found = await FakeApiServer(denied=denied).run_doctor(rescheduling("{mode: auto}"), RESCHEDULER_ACCOUNT)
    remedy = "apply deploy/components/rescheduler/rescheduler.yaml"
    assert [
        ("poddisruptionbudgets.policy", f"{RESCHEDULER_ACCOUNT} may not list them", remedy),
        ("pods/eviction", f"{RESCHEDULER_ACCOUNT} may not create them", remedy),
        ("configmaps trimtab-moves in trimtab", f"{RESCHEDULER_ACCOUNT} may not update them", remedy),
    ] == findings_of(found, Severity.PROBLEM, Area.RIGHTS)


@pytest.mark.parametrize(
    ("leader", "remedy"),
    [
        ("{}", "apply deploy/rbac.yaml"),
        (
            "{resourceName: mine}",
            "apply deploy/rbac.yaml with the lease's namespace and name in its Role",
        ),
        (
            "{resourceName: kube-scheduler, resourceNamespace: kube-system}",
            "apply deploy/components/default-scheduler/rbac-default-scheduler.yaml",
        ),
    ],
)
def test_a_lease_by_another_name_needs_another_role(leader: str, remedy: str) -> None:
    """The remedy names the file that grants it, or what to change in it."""
    rights = required(configured(f"{HEAD}profiles: [{{schedulerName: trimtab}}]\nleaderElection: {leader}\n"))
    assert {remedy} == {right.remedy for right in rights if right.resource == "leases"}


async def test_what_is_missing_is_named_by_verb_and_file() -> None:
    """One finding per resource, and no ok finding; the files are for another account than the one that was refused."""
    server = FakeApiServer(denied={"list persistentvolumes", "patch persistentvolumes", "create pods/binding"})
    found = await server.run_doctor(default_configuration())
    volumes = "apply deploy/rbac-volumes.yaml, or disable NodeVolumeLimits, VolumeBinding and VolumeZone"
    to_ann = f"; it grants them to {SCHEDULER_ACCOUNT}, so bind its roles to ann"
    assert [
        ("pods/binding", "ann may not create them", f"apply deploy/rbac.yaml{to_ann}"),
        ("persistentvolumes", "ann may not list, patch them", volumes + to_ann),
    ] == findings_of(found, Severity.PROBLEM)
    found = await server.run_doctor(default_configuration(), SCHEDULER_ACCOUNT)
    assert "apply deploy/rbac.yaml" == findings_of(found, Severity.PROBLEM)[0][2]
    assert [] == findings_of(found, Severity.OK, Area.RIGHTS)


async def test_rights_of_another_account() -> None:
    """A service account is reviewed with the groups that the server gives it."""
    server, account = FakeApiServer(), "system:serviceaccount:team:trimtab"
    found = await server.run_doctor(default_configuration(), account)
    groups = ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]
    assert {"SubjectAccessReview"} == {review["kind"] for review in server.reviews}
    assert all((account, groups) == (each["spec"]["user"], each["spec"]["groups"]) for each in server.reviews)
    count = len(server.reviews) - len(SERVING)
    assert [(account, f"has all {count} permissions", "")] == findings_of(found, Severity.OK, Area.RIGHTS)


@pytest.mark.parametrize("account", [SCHEDULER_ACCOUNT, "system:kube-scheduler", "ann"])
async def test_the_secure_port_needs_rights_of_its_own(account: str) -> None:
    """A warning for accounts of a cluster, with the roles: pods are scheduled without them, and elsewhere it is off."""
    server = FakeApiServer(denied={"create tokenreviews", "get configmaps"})
    found = findings_of(await server.run_doctor(default_configuration(), account), Severity.WARNING, Area.RIGHTS)
    missing = (
        "create tokenreviews.authentication.k8s.io, get configmaps extension-apiserver-authentication in kube-system"
    )
    others = f", and bind its roles (system:auth-delegator, extension-apiserver-authentication-reader) to {account}"
    expected = [
        (
            "secure port",
            f"{account} may not {missing}, so the secure port cannot tell who may read /metrics and /explain, and "
            "refuses them",
            f"apply deploy/rbac-serving.yaml{'' if account == SCHEDULER_ACCOUNT else others}",
        )
    ]
    assert (expected if account != "ann" else []) == found


async def test_rights_that_cannot_be_asked_about_are_no_rights_that_are_missing() -> None:
    """A warning with the reason."""
    forbidden = json_response({"kind": "Status", "message": "not yours to ask"}, 403)
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    found = await FakeApiServer(pages={path: forbidden}).run_doctor(default_configuration())
    assert [] == findings_of(found, Severity.PROBLEM)
    assert "cannot be reviewed: 403 not yours to ask" in findings_of(found, Severity.WARNING, Area.RIGHTS)[0][1]
