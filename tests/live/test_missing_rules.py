"""Each rule of the shipped roles taken away on a real API server: doctor and process name what is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
import yaml

from tests.apps.fake_apiserver import configured
from tests.apps.test_doctor_rbac import EVERY_MOVE, LABELS, SERVER, WITH_GANGS, labelling, rescheduling
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.deploy.rendering import DEPLOY
from tests.live import trimtab_process
from tests.live.account_rights import install
from tests.live.audit_checker import grants
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.finding import Finding, Severity
from trimtab.apps.doctor.rbac_checks import account_of, check_rbac
from trimtab.config.configuration import Configuration
from trimtab.kube.credentials import find_credentials
from trimtab.kube.transport import PooledTransport

pytestmark = pytest.mark.live
SCHEDULING = configured(HEAD + WITH_GANGS, TRIMTAB_HEAD + SERVER)
ROLES = {
    "rbac.yaml": SCHEDULING,
    "rbac-volumes.yaml": SCHEDULING,
    "rbac-preemption.yaml": SCHEDULING,
    "rbac-metrics.yaml": SCHEDULING,
    "components/gang/rbac-gang.yaml": SCHEDULING,
    "components/labeller/labeller.yaml": labelling(TRIMTAB_HEAD + LABELS),
    "components/rescheduler/rescheduler.yaml": rescheduling(EVERY_MOVE),
}
NEEDED_AT_ONCE = {"pods", "nodes"}  # without these the process ends, and says so


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Everything as shipped, and the files for gangs."""
    with Rig(controlplane_or_skip()) as running:
        install(running)
        running.apply(DEPLOY / "components/gang/rbac-gang.yaml")
        running.admin.create(node("node"))
        yield running


@pytest.mark.parametrize("file", ROLES)
def test_the_doctor_names_each_missing_rule(rig: Rig, file: str) -> None:
    """Exactly the verbs and resources of that rule that no other grants, with the file that grants them."""
    documents: list[Document] = [*yaml.safe_load_all((DEPLOY / file).read_text())]
    findings_once(rig, ROLES[file], set())
    for role in (each for each in documents if each["kind"] in ("Role", "ClusterRole")):
        for rule in role["rules"]:
            others = [each for each in role["rules"] if each is not rule]
            if lost := named(role["rules"]) - named(others):
                rig.apply([{**role, "rules": others}])
                found = findings_once(rig, ROLES[file], {what for what, _ in lost})
                assert {True} == {f"apply deploy/{file}" in each.remedy for each in found}
        rig.apply([role])


def findings_once(rig: Rig, configuration: Configuration, expected: set[str]) -> tuple[Finding, ...]:
    """What the doctor finds once the API server has heard of the change: that exactly this is missing."""
    account, deadline = account_of(configuration), time.monotonic() + 10
    while (now := missing(found := doctor(rig, configuration, account), account)) != expected:
        assert time.monotonic() < deadline, f"{sorted(now)} instead of {sorted(expected)}"
        time.sleep(0.05)
    return found


def doctor(rig: Rig, configuration: Configuration, account: str) -> tuple[Finding, ...]:
    async def ask() -> tuple[Finding, ...]:
        async with PooledTransport(find_credentials(str(rig.admin_kubeconfig))) as transport:
            return await check_rbac(ApiServer(transport, rig.url), configuration, account)

    return asyncio.run(ask())


def missing(found: tuple[Finding, ...], account: str) -> set[str]:
    """`verb resource` of each problem, without the names of objects and namespaces."""
    pairs = set()
    for each in found:
        if each.severity is Severity.PROBLEM:
            verbs = each.message.removeprefix(f"{account} may not ").removesuffix(" them").split(", ")
            pairs |= {f"{verb} {each.subject.split()[0]}" for verb in verbs}
    return pairs


def named(rules: list[Document]) -> set[tuple[str, str]]:
    """`verb resource` of all rules, with the name of the object where a rule has names."""
    return {
        (f"{verb} {resource}.{group}".removesuffix("."), name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def test_the_process_names_every_kind_that_it_may_not_read(rig: Rig) -> None:
    """All at once within a minute, in its log, with the remedy, and it stays alive; test_roles is about how it goes on."""
    kinds = set()
    for file in ("rbac.yaml", "rbac-volumes.yaml", "rbac-preemption.yaml"):
        for role in yaml.safe_load_all((DEPLOY / file).read_text()):
            if role["kind"] == "ClusterRole":
                kept = [
                    rule
                    for rule in role["rules"]
                    if "list" not in rule["verbs"] or NEEDED_AT_ONCE >= {*rule["resources"]}
                ]
                kinds |= {resource for _, _, resource in grants([role]) - grants([{**role, "rules": kept}])}
                rig.apply([{**role, "rules": kept}])
    kinds -= {"volumeattachments"}  # which the doctor names, and the process counts as none
    assert 12 == len(kinds)
    rig.admin.create(pod("web", scheduler=trimtab_process.SCHEDULER))
    trimtab = trimtab_process.start(rig, "blind")
    try:
        trimtab_process.wait_for(
            lambda: all(f'cannot list resource "{kind}"' in trimtab.log.read_text() for kind in kinds),
            60,
            "all named",
            trimtab,
        )
        assert 200 == trimtab_process.page(trimtab, "/livez")[0]
        assert trimtab.running()
    finally:
        trimtab.terminate()
        trimtab_process.install(rig)


def test_the_process_names_the_lease_that_it_may_not_take(rig: Rig) -> None:
    """And binds nothing without it."""
    role: Document = next(
        each for each in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()) if each["kind"] == "Role"
    )
    rig.apply([{**role, "rules": []}])
    rig.admin.create(pod("later", scheduler=trimtab_process.SCHEDULER))
    trimtab = trimtab_process.start(rig, "leaseless")
    try:
        words = 'cannot get resource "leases"'
        trimtab_process.wait_for(lambda: words in trimtab.log_tail(), 60, "the lease is named", trimtab)
        assert (True, 200) == (trimtab.running(), trimtab_process.page(trimtab, "/livez")[0])
        assert "later" not in trimtab_process.bound(rig)
        rig.apply([role])
        trimtab_process.wait_for(lambda: "later" in trimtab_process.bound(rig), 60, "bound once granted", trimtab)
    finally:
        trimtab.terminate()
