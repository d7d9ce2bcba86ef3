"""What the shipped accounts, and the user system:kube-scheduler, may do on a real API server: no less and no more."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Mapping

import pytest
import yaml

from tests.apps.test_doctor_rbac import WITH_GANGS
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.deploy.rendering import DEPLOY
from tests.live.account_rights import EVERYWHERE, GOLDEN, NOBODY, SHIPPED, added_by, further_files, install, rights_now
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig
from trimtab.apps.doctor.rbac_checks import required
from trimtab.config.kube_scheduler import parse

pytestmark = pytest.mark.live
Right = tuple[str, str]  # a verb, and a resource with its group
KUBE_SCHEDULER = "system:kube-scheduler"
READ = "list watch"
PROCESSES = ("trimtab", "trimtab-labeller", "trimtab-rescheduler")
GOLDEN_RIGHTS = yaml.safe_load(GOLDEN.read_text())
# What discovery does not list: verbs of RBAC and of impersonation.
UNLISTED = [
    *(
        (verb, f"{kind}.rbac.authorization.k8s.io")
        for verb in ("bind", "escalate")
        for kind in ("roles", "clusterroles")
    ),
    *(("impersonate", kind) for kind in ("users", "groups", "serviceaccounts")),
    ("*", "*.*"),
]
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
    install(rig)
    return rig


def test_the_accounts_have_exactly_the_rights_of_the_golden_file(installed: Rig) -> None:
    """Everywhere, in our namespace and in kube-system, with the names of objects; `python -m` of its module rewrites it."""
    assert GOLDEN_RIGHTS[SHIPPED] == rights_now(installed)


def test_every_file_with_roles_is_in_the_golden_file() -> None:
    """A new one must be asked for, and read by a person."""
    assert {SHIPPED, *further_files()} == GOLDEN_RIGHTS.keys()


@pytest.mark.parametrize("file", further_files())
def test_a_further_file_adds_exactly_the_rights_of_the_golden_file(installed: Rig, file: str) -> None:
    """And to no other account."""
    assert GOLDEN_RIGHTS[file] == added_by(installed, file, GOLDEN_RIGHTS[SHIPPED])


@pytest.mark.parametrize("account", PROCESSES)
def test_an_account_has_no_right_that_the_golden_file_does_not_list(installed: Rig, account: str) -> None:
    """Of all verbs on all resources that the API server serves, asked one by one: no Secret is read, no pod created."""
    everything = [*served(installed), *UNLISTED]
    assert 500 < len(everything)
    golden = {
        (verb, resource)
        for resource, verbs in GOLDEN_RIGHTS[SHIPPED][account][EVERYWHERE].items()
        for verb in verbs
        if " " not in resource and not resource.endswith(".metrics.k8s.io")  # which is not served here
    }
    common = allowed(installed, f"system:serviceaccount:trimtab:{NOBODY}", everything)
    assert golden == allowed(installed, f"system:serviceaccount:trimtab:{account}", everything) - common
    assert {"create", "get", "list", "watch"} >= {verb for verb, _ in common}


@pytest.mark.parametrize("account", PROCESSES)
def test_a_lease_of_another_name_or_place_is_out_of_reach(installed: Rig, account: str) -> None:
    """Its own lease may be read and updated, in its own namespace, and no other updated."""
    user = f"system:serviceaccount:trimtab:{account}"
    leases = [("get", "leases.coordination.k8s.io"), ("update", "leases.coordination.k8s.io")]
    assert {*leases} == allowed(installed, user, leases, namespace="trimtab", name=account)
    assert set() == allowed(installed, user, leases, namespace="trimtab", name="other")
    assert {leases[0]} >= allowed(installed, user, leases, namespace="kube-system", name="kube-scheduler")


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


@pytest.mark.parametrize("account", PROCESSES)
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
