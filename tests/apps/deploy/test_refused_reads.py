"""Logs that cannot be read, and Events that the account may not list."""

from __future__ import annotations

import json

import pytest

from tests.apps.deploy.object_server import Object, ObjectServer
from tests.kube.fake_transport import FakeResponse, FakeStream, FakeTransport, json_response
from trimtab.apps.deploy.api_client import ApiClient, DeployError
from trimtab.apps.deploy.pod_logs import LogOptions, print_logs
from trimtab.apps.deploy.probe_pods import Bindings, ProbeOptions
from trimtab.apps.deploy.scheduling_checks import CheckOptions, SchedulingChecks
from trimtab.apps.deploy.status import read_installation
from trimtab.wire.requests import Request

pytestmark = pytest.mark.looptime
SCHEDULER, LABELLER = (
    {"app.kubernetes.io/name": "trimtab", "app.kubernetes.io/component": name} for name in ("scheduler", "labeller")
)
FORBIDDEN = {"kind": "Status", "message": 'events is forbidden: User "u" cannot list resource "events"', "code": 403}
KINDS = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True} for kind in ("Pod", "Event", "Node")]


def item(kind: str, name: str, labels: dict[str, str], version: str = "v1") -> Object:
    metadata = {"name": name, "namespace": "mine", "uid": name, "labels": labels}
    spec = {"containers": [{"name": "c", "image": "a"}]}
    whole = spec if kind == "Pod" else {"replicas": 0, "template": {"metadata": {}, "spec": spec}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": whole}


@pytest.mark.parametrize(
    ("installed", "component", "message"),
    [
        (
            [SCHEDULER],
            "labeller",
            "the labeller is not installed in namespace mine: trimtab deploy upgrade --labeller adds",
        ),
        ([SCHEDULER, LABELLER], "labeller", "no pod of the labeller is in namespace mine: see trimtab deploy status"),
        ([], "labeller", "no pod of the labeller is in namespace mine"),
        ([SCHEDULER], "", "no pod of trimtab is in namespace mine"),
    ],
)
async def test_no_pod_has_logs(installed: list[dict[str, str]], component: str, message: str) -> None:
    """One that was never installed is told from one that has no pod now."""
    items = [item("Deployment", f"d{index}", labels, "apps/v1") for index, labels in enumerate(installed)]
    client = ApiClient(ObjectServer(*items).transport)
    with pytest.raises(DeployError, match=message):
        await print_logs(client, LogOptions("mine", component=component), print, print)


async def test_each_log_that_cannot_be_read_has_its_own_line() -> None:
    """The last sentence counts them."""
    server = ObjectServer(item("Pod", "a", SCHEDULER), item("Pod", "b", SCHEDULER))
    refused = json.dumps({"kind": "Status", "message": "container is waiting to start"}).encode()
    server.transport.open = lambda request: FakeStream(400, text=refused)
    warned: list[str] = []
    with pytest.raises(DeployError, match=r"^2 of 2 logs could not be read: see the reasons above$"):
        await print_logs(ApiClient(server.transport), LogOptions("mine"), print, warned.append)
    assert ["cannot read the log of a: 400", "cannot read the log of b: 400"] == [each[:29] for each in warned]


def answer(request: Request) -> FakeResponse:
    """A server that lets everything but Events be read; the one pod stays pending."""
    path = request.path.split("?")[0]
    if path == "/api/v1":
        return json_response({"resources": KINDS})
    if path.endswith("/events"):
        return json_response(FORBIDDEN, 403)
    return json_response({"metadata": {"name": "p"}, "spec": {}}, 201 if request.method == "POST" else 200)


async def test_events_that_may_not_be_listed_skip_the_check() -> None:
    """Not the whole test: its reason is shown, and what follows goes on."""
    options = CheckOptions(ProbeOptions("mine", "trimtab", "r"), "mine", 1, 5.0)
    checks = SchedulingChecks(ApiClient(FakeTransport(answer)), options, Bindings())
    result = await checks.check_impossible_pod()
    assert ("impossible pod", None) == result[:2]
    assert 'cannot list events: 403 events is forbidden: User "u"' in result.message


async def test_the_status_without_the_right_to_list_events() -> None:
    """Everything else is shown; the warning says why there are none."""
    server = ObjectServer(item("Deployment", "trimtab", SCHEDULER, "apps/v1"), kinds={"v1": ("Event",)})
    server.refused = "/events"
    found = await read_installation(ApiClient(server.transport), "mine")
    assert (1, True) == (len(found.workloads), "not shown: cannot list events: 403" in found.warnings[0])
