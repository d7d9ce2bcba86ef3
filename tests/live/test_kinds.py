"""Extra kinds on a real API server: what is created, updated and deleted becomes an event, within our permissions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.reflector_harness import run_blocking, wait_until
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig
from trimtab.core.model.events import Event, ObjectDeleted, ObjectUpserted, Synced
from trimtab.core.model.objects import Namespace, PodDisruptionBudget, PodGroup, Service
from trimtab.core.model.resources import PodRequests
from trimtab.core.model.selectors import LabelSelector
from trimtab.kube import reflector
from trimtab.kube.credentials import find_credentials
from trimtab.kube.informers import Informers
from trimtab.kube.kinds import EXTRA_KINDS, extra_kinds
from trimtab.kube.transport import AiohttpTransport

pytestmark = pytest.mark.live
WEB = LabelSelector((("app", "web"),))
GROUP, OLDER = "scheduling.x-k8s.io", "scheduling.sigs.k8s.io"


def document(version: str, kind: str, name: str, **fields: Any) -> Document:
    meta = {"name": name} if kind == "Namespace" else {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **fields}


def definition(group: str) -> Document:
    """PodGroups as anybody might define them; a group of Kubernetes' own name wants a word of approval."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def define(rig: Rig, group: str) -> None:
    """Install the definition and wait until it is served."""
    rig.admin.create(definition(group))
    trimtab_process.wait_for(lambda: rig.admin.raw("GET", f"/apis/{group}/v1alpha1/podgroups")[0] == 200, 30, "served")


class Facts(list[Event]):
    """What was told, and how the last word on an object is found in it."""

    def last(self, key: str) -> Any:
        """The last fact about the object of this key, of whatever kind."""
        about = (each for each in reversed(self) if key in (_key(each), ""))
        return next(about, None)

    async def tells(self, key: str, true: Callable[[Any], bool]) -> Any:
        await wait_until(lambda: true(self.last(key)), 30.0)
        assert true(self.last(key)), self.last(key)
        return self.last(key)


def _key(fact: Event) -> str:
    match fact:
        case ObjectUpserted(object=found):
            return f"{found.kind} {found.key}"
        case ObjectDeleted(kind=kind, key=key):
            return f"{kind} {key}"
    return ""


@pytest.fixture(scope="module", autouse=True)
def roles(rig: Rig) -> None:
    """All that may be granted, as shipped."""
    for file in {"rbac.yaml"} | {home.role for home in EXTRA_KINDS.values()}:
        rig.apply(trimtab_process.ROOT / "deploy" / file)


@asynccontextmanager
async def watching(rig: Rig, *names: str) -> AsyncIterator[tuple[Informers, Facts]]:
    """These kinds, followed as the shipped account and listed once."""
    transport = AiohttpTransport(find_credentials(str(rig.service_account_kubeconfig("trimtab", "trimtab"))))
    facts, clock = Facts(), asyncio.get_running_loop().time
    watches = Informers(
        transport, [kind for name in names for kind in extra_kinds(name, ("It",))], facts.append, clock, Random(1)
    )
    task = asyncio.create_task(watches.run())
    try:
        await asyncio.wait_for(watches.wait_synced(), 30.0)
        yield watches, facts
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


async def test_every_kind_can_be_listed_with_the_roles_as_shipped(rig: Rig) -> None:
    """Each kind of the table is served under its path, and the files that name its right grant it."""
    async with watching(rig, *EXTRA_KINDS) as (watches, facts):
        assert set(EXTRA_KINDS) == {fact.kind for fact in facts if isinstance(fact, Synced)}
        assert watches.unsynced() is None
        await facts.tells("namespaces kube-system", lambda fact: isinstance(fact, ObjectUpserted))


async def test_namespaces_services_and_budgets(rig: Rig) -> None:
    """Created, changed and deleted: a namespace with its labels, a Service with its selector, a budget with its own."""
    async with watching(rig, "namespaces", "services", "poddisruptionbudgets") as (_, facts):
        create, path = rig.admin.create, "/api/v1/namespaces/blue"
        await run_blocking(create, document("v1", "Namespace", "blue"))
        await run_blocking(rig.admin.patch, path, {"metadata": {"labels": {"team": "b"}}})
        ports = [{"port": 80}]
        await run_blocking(create, document("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": ports}))
        rule = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        await run_blocking(create, document("policy/v1", "PodDisruptionBudget", "web", spec=rule))
        labels = {"kubernetes.io/metadata.name": "blue", "team": "b"}
        blue = await facts.tells("namespaces blue", lambda fact: bool(fact) and fact.object.labels.get("team") == "b")
        web = await facts.tells("services default/web", bool)
        budget = await facts.tells("poddisruptionbudgets default/web", bool)
        assert Namespace(name="blue", uid=blue.object.uid, version=blue.object.version, labels=labels) == blue.object
        same = {"name": "web", "namespace": "default", "selector": WEB}
        assert Service(uid=web.object.uid, version=web.object.version, **same) == web.object
        written = {"uid": budget.object.uid, "version": budget.object.version, "observed": budget.object.observed}
        written["desired_healthy"] = 0  # the API server's default, until its controller has counted
        assert PodDisruptionBudget(**written, **same) == budget.object
        await run_blocking(rig.admin.delete, "/api/v1/namespaces/default/services/web")
        gone = await facts.tells("services default/web", lambda fact: isinstance(fact, ObjectDeleted))
        assert web.object.uid == gone.uid
        assert gone.version > web.object.version


async def test_gangs_under_both_groups(rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Not defined: none. Defined while we look: found. Under the older group as well: both read, with a remark."""
    monkeypatch.setattr(reflector, "NOT_SERVED_RETRY", 1.0)
    async with watching(rig, "podgroups") as (_, facts):
        assert [Synced("podgroups", facts[0].at)] == facts
        await run_blocking(define, rig, GROUP)
        spec = {"minMember": 3, "scheduleTimeoutSeconds": 600, "minResources": {"cpu": "1500m"}}
        await run_blocking(rig.admin.create, document(f"{GROUP}/v1alpha1", "PodGroup", "gang", spec=spec))
        seen = (await facts.tells("podgroups default/gang", bool)).object
        wants = PodRequests(amounts=(("cpu", 1500),))
        assert (3, 600, wants) == (seen.min_member, seen.timeout, seen.min_resources)
        assert seen.created > 1_600_000_000
        await run_blocking(define, rig, OLDER)
        older = document(f"{OLDER}/v1alpha1", "PodGroup", "nginx-group", spec={"minMember": 3})
        await run_blocking(rig.admin.create, older)
        found = (await facts.tells("podgroups default/nginx-group", bool)).object
        assert isinstance(found, PodGroup)
        assert f"/apis/{OLDER}/v1alpha1/podgroups is deprecated" in caplog.text
        await run_blocking(
            rig.admin.delete, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.{GROUP}"
        )
        await facts.tells("podgroups default/gang", lambda fact: isinstance(fact, ObjectDeleted))
