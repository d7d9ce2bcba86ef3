"""What the shipped accounts, and the user system:kube-scheduler, may do on a real API server: no less and no more."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.apps.test_doctor_rbac import WITH_GANGS
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.deploy.rendering import DEPLOY, apply_strictly, write_overlay
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig
from trimtab.apps.doctor.rbac_checks import required
from trimtab.config.kube_scheduler import parse

pytestmark = pytest.mark.live
Right = tuple[str, str]  # a verb, and a resource with its group
KUBE_SCHEDULER = "system:kube-scheduler"
READ = "list watch"
# In all namespaces, beyond what every service account may do.
SCHEDULER = {
    "pods": f"get delete {READ}",
    "nodes": READ,
    "namespaces": READ,
    "services": READ,
    "replicationcontrollers": READ,
    "replicasets.apps": READ,
    "statefulsets.apps": READ,
    "pods/binding": "create",
    "pods/status": "patch",
    "events.events.k8s.io": "create patch",
    "persistentvolumeclaims": f"patch {READ}",
    "persistentvolumes": f"patch {READ}",
    "storageclasses.storage.k8s.io": READ,
    "csinodes.storage.k8s.io": READ,
    "csidrivers.storage.k8s.io": READ,
    "csistoragecapacities.storage.k8s.io": READ,
    "volumeattachments.storage.k8s.io": READ,
    "poddisruptionbudgets.policy": READ,
    "tokenreviews.authentication.k8s.io": "create",
    "subjectaccessreviews.authorization.k8s.io": "create",
}
LABELLER = {
    "nodes": f"patch {READ}",
    "tokenreviews.authentication.k8s.io": "create",
    "subjectaccessreviews.authorization.k8s.io": "create",
}
RESCHEDULER = {
    "pods": f"get patch {READ}",
    "nodes": f"patch {READ}",
    "namespaces": READ,
    "services": READ,
    "replicationcontrollers": READ,
    "replicasets.apps": f"get patch {READ}",
    "deployments.apps": "get patch",
    "statefulsets.apps": READ,
    "pods/eviction": "create",
    "pods/resize": "patch",
    "pods/status": "patch",
    "events.events.k8s.io": "create patch",
    "horizontalpodautoscalers.autoscaling": "list",
    "resourcequotas": "list",
    "persistentvolumeclaims": READ,
    "persistentvolumes": READ,
    "storageclasses.storage.k8s.io": READ,
    "csinodes.storage.k8s.io": READ,
    "csidrivers.storage.k8s.io": READ,
    "csistoragecapacities.storage.k8s.io": READ,
    "volumeattachments.storage.k8s.io": READ,
    "poddisruptionbudgets.policy": READ,
    "tokenreviews.authentication.k8s.io": "create",
    "subjectaccessreviews.authorization.k8s.io": "create",
}
ACCOUNTS = {"trimtab": SCHEDULER, "trimtab-labeller": LABELLER, "trimtab-rescheduler": RESCHEDULER}
LACKING = {
    ("list", "nodes.metrics.k8s.io"),
    ("list", "pods.metrics.k8s.io"),
    *(
        (verb, f"podgroups.{group}")
        for verb in READ.split()
        for group in ("scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
    ),
    ("get", "leases.coordination.k8s.io"),
    ("update", "leases.coordination.k8s.io"),
}

SINCE_1_33 = {(verb, "volumeattachments.storage.k8s.io") for verb in READ.split()}


@pytest.fixture(scope="module")
def installed(rig: Rig) -> Rig:
    """The scheduler, the labeller and the rescheduler, without a component that grants more."""
    assert "" == apply_strictly(rig, write_overlay(rig.workspace / "overlay", "labeller", "rescheduler"))
    return rig


@pytest.mark.parametrize(("account", "rights"), ACCOUNTS.items())
def test_an_account_has_exactly_these_rights(installed: Rig, account: str, rights: Mapping[str, str]) -> None:
    """Of all verbs on all resources that the API server serves: a stolen token reads no Secret and creates no pod."""
    expected = {(verb, resource) for resource, verbs in rights.items() for verb in verbs.split()}
    everything = [*served(installed)]
    assert 500 < len(everything)
    common = allowed(installed, "system:serviceaccount:trimtab:nobody", everything)
    assert expected == allowed(installed, f"system:serviceaccount:trimtab:{account}", everything) - common
    assert {"create", "get", "list", "watch"} >= {verb for verb, _ in common}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_lease_of_another_name_or_place_is_out_of_reach(installed: Rig, account: str) -> None:
    """Its own lease may be read and updated, in its own namespace, and no other."""
    user = f"system:serviceaccount:trimtab:{account}"
    leases = [("get", "leases.coordination.k8s.io"), ("update", "leases.coordination.k8s.io")]
    assert {*leases} == allowed(installed, user, leases, namespace="trimtab", name=account)
    assert set() == allowed(installed, user, leases, namespace="trimtab", name="other")
    assert set() == allowed(installed, user, leases, namespace="kube-system", name="kube-scheduler")


def test_the_rescheduler_reaches_no_config_map_but_its_ledger(installed: Rig) -> None:
    """In its own namespace; RBAC cannot restrict create to a name, and its policy does."""
    user = "system:serviceaccount:trimtab:trimtab-rescheduler"
    maps = [(verb, "configmaps") for verb in ("get", "list", "watch", "create", "update", "patch", "delete")]
    used = {("get", "configmaps"), ("create", "configmaps"), ("update", "configmaps")}
    assert used == allowed(installed, user, maps, namespace="trimtab", name="trimtab-moves")
    assert {("create", "configmaps")} == allowed(installed, user, maps, namespace="trimtab", name="trimtab")
    assert set() == allowed(installed, user, maps, namespace="default", name="trimtab-moves")


def test_the_file_for_kube_schedulers_user_grants_what_its_own_roles_lack(installed: Rig) -> None:
    """Of what a configuration with metrics-server and gangs needs; before and after it is applied."""
    text = f"{HEAD}{WITH_GANGS}---\n{TRIMTAB_HEAD}sources: [{{name: ms, metricsServer: {{}}}}]\n"
    needed = [each.attributes for each in required(parse(text, "trimtab.yaml"))]
    assert 40 < len(needed)
    lacking = denied(installed, needed)
    assert LACKING <= lacking <= LACKING | SINCE_1_33
    installed.apply(DEPLOY / "rbac-system-kube-scheduler.yaml")
    assert set() == denied(installed, needed)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_requests_go_to_the_priority_levels_of_the_flow_schemas(installed: Rig, account: str) -> None:
    """Lease, writes and reads each to its own; the API server names in every response the schema that it chose."""
    token = installed.service_account_token("trimtab", account)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/trimtab/leases/{account}"
    assert "trimtab-leader-election" == flow_schema(installed, token, "GET", lease)
    assert "trimtab-leader-election" == flow_schema(installed, token, "PUT", lease)
    assert "trimtab-writes" == flow_schema(installed, token, "POST", "/api/v1/namespaces/default/pods/none/binding")
    assert "trimtab-writes" == flow_schema(installed, token, "PATCH", "/api/v1/nodes/none")
    assert "trimtab-writes" == flow_schema(installed, token, "POST", "/api/v1/namespaces/default/pods/none/eviction")
    assert "trimtab-writes" == flow_schema(installed, token, "PATCH", "/apis/apps/v1/namespaces/a/deployments/none")
    assert "trimtab-writes" == flow_schema(installed, token, "PUT", "/api/v1/namespaces/trimtab/configmaps/none")
    assert "trimtab-reads" == flow_schema(installed, token, "GET", "/api/v1/pods")
    assert "trimtab-reads" == flow_schema(installed, token, "GET", "/apis/storage.k8s.io/v1/csinodes")
    assert "service-accounts" == flow_schema(
        installed, token, "POST", "/apis/events.k8s.io/v1/namespaces/default/events"
    )


def flow_schema(rig: Rig, token: str, method: str, path: str) -> str:
    """The name of the FlowSchema that the request matched, whatever became of it."""
    connection = http.client.HTTPSConnection(
        "127.0.0.1", int(rig.url.rpartition(":")[2]), context=rig.credentials.tls()
    )
    try:
        connection.request(
            method, path, body="{}" if method != "GET" else None, headers={"Authorization": f"Bearer {token}"}
        )
        chosen = connection.getresponse().headers["X-Kubernetes-PF-FlowSchema-UID"]
    finally:
        connection.close()
    schemas = rig.admin.list("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    return next(each["metadata"]["name"] for each in schemas if each["metadata"]["uid"] == chosen)


def served(rig: Rig) -> Iterator[Right]:
    """Each verb that discovery lists, with its resource."""
    groups = [group["preferredVersion"]["groupVersion"] for group in rig.admin.get("/apis")["groups"]]
    for version in ("v1", *groups):
        group = version.partition("/")[0] if "/" in version else ""  # that of the path: an Eviction's own is another
        for resource in rig.admin.get(f"/apis/{version}" if "/" in version else f"/api/{version}")["resources"]:
            full = resource["name"]
            yield from ((verb, f"{full}.{group}" if group else full) for verb in resource["verbs"])


def allowed(rig: Rig, user: str, rights: Iterable[Right], **place: str) -> set[Right]:
    """Those that the API server grants the user."""
    asked = [*rights]
    answers = rig.admin.map_concurrently(lambda right: reviewed(rig, user, {**attributes(right), **place}), asked)
    return {right for right, answer in zip(asked, answers, strict=True) if answer}


def denied(rig: Rig, needed: Iterable[Mapping[str, str]]) -> set[Right]:
    """Those that the user system:kube-scheduler is not granted."""
    found = [each for each in needed if not reviewed(rig, KUBE_SCHEDULER, each)]
    return {(each["verb"], f"{each['resource']}.{each['group']}".removesuffix(".")) for each in found}


def attributes(right: Right) -> dict[str, str]:
    verb, full = right
    resource, _, group = full.partition(".")
    name, _, subresource = resource.partition("/")
    return {"verb": verb, "resource": name, "subresource": subresource, "group": group}


def reviewed(rig: Rig, user: str, asked: Mapping[str, str]) -> bool:
    namespace = user.split(":")[2] if user.startswith("system:serviceaccount:") else ""
    accounts = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"] if namespace else []
    review: Document = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": ["system:authenticated", *accounts], "resourceAttributes": dict(asked)},
    }
    answer: bool = rig.admin.create(review)["status"]["allowed"]
    return answer
