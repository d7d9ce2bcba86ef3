"""The doctor tries the labeller's own patches as dry runs, and sends no patch that could be persisted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apps.fake_apiserver import FakeApiServer, configured
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.kube.fake_transport import FakeResponse, json_response
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.config.configuration import Configuration
from trimtab.config.trimtab.labeller import from_rule_file, labeller_configuration
from trimtab.core.model.node import Node
from trimtab.core.model.taints import PREFER_NO_SCHEDULE, Taint
from trimtab.kube.transport import Unreachable
from trimtab.wire.requests import Request

OLD = "Rulename: {Node_mem: {Promsql: used, Threshold: 70}, Node_cpu: {Promsql: busy, Threshold: 70}}"
SOURCES = f"{TRIMTAB_HEAD}sources: [{{name: p, prometheus: {{url: 'http://127.0.0.1:9', timeout: 1s}}}}]\n"
KEY = "pressure.trimtab.dev/cpu"
CPU = "{name: cpu, metric: cpu, above: 80%}"
SOFT = f"{{name: soft, metric: cpu, above: 90%, label: {{key: {KEY}, value: most}}, taint: {KEY}}}"
WORDS = (
    "nodes \"a\" is forbidden: ValidatingAdmissionPolicy 'trimtab-labeller' with binding 'trimtab-labeller' denied "
    "request: the labeller may only set labels under pressure.trimtab.dev/"
)
PLANE = {"node-role.kubernetes.io/control-plane": ""}


def node(name: str, labels: dict[str, str] | None = None, *taints: Taint) -> Node:
    return Node(name, labels={"zone": "a"} if labels is None else labels, addresses=(name,), taints=taints)


def old_rules(apply: bool = True) -> Configuration:
    return from_rule_file(OLD, "rule.yaml", "http://127.0.0.1:9", 10.0, apply)


def own_rules(*rules: str, mode: str = "apply") -> Configuration:
    return labeller_configuration(
        configured(f"{SOURCES}labels: {{mode: {mode}, rules: [{', '.join(rules)}]}}\n"), "f.yaml"
    )


def reply(status: int, message: str = "") -> Callable[[Request], FakeResponse]:
    return lambda request: json_response({"kind": "Status", "message": message}, status)


def patches(server: FakeApiServer) -> list[tuple[str, object]]:
    found = [request for _, request in server.transport.sent if request.method == "PATCH"]
    return [(each.path, json.loads(each.body)) for each in found]


async def dry_runs(server: FakeApiServer, configuration: Configuration, account: str = "") -> list[Finding]:
    return [each for each in await server.run_doctor(configuration, account) if each.subject == "dry run"]


async def test_a_policy_that_refuses_every_mark_is_a_problem() -> None:
    """With the API server's message and a remedy, once for two rules that give the same label."""
    server = FakeApiServer((node("a"), node("b")), patched=reply(403, WORDS))
    (found,) = await dry_runs(server, old_rules())
    assert (Severity.PROBLEM, Area.LABELS) == (found.severity, found.area)
    assert f"the API server rejects +status=presure on a: 403 {WORDS}" == found.message
    assert "variable legacy" in found.remedy and 'to "true"' in found.remedy
    assert [("/api/v1/nodes/a?dryRun=All", {"metadata": {"uid": "a", "labels": {"status": "presure"}}})] == patches(
        server
    )


@pytest.mark.parametrize(
    ("configuration", "words"),
    [(old_rules(), 'nodes "a" is forbidden: User "ann" cannot patch resource "nodes"'), (own_rules(CPU), WORDS)],
)
async def test_another_refusal_has_another_remedy(configuration: Configuration, words: str) -> None:
    """The policy's variable helps neither without the permission to patch, nor for a label under our prefix."""
    (found,) = await dry_runs(FakeApiServer((node("a"),), patched=reply(403, words)), configuration)
    assert (Severity.PROBLEM, True) == (found.severity, "deploy/components/labeller/labeller.yaml" in found.remedy)
    assert "legacy" not in found.remedy


async def test_what_is_taken_is_told_with_who_asked() -> None:
    """A person's success proves nothing for the account that a policy restricts, so the hint names it."""
    (found,) = await dry_runs(FakeApiServer((node("a"),)), old_rules())
    assert "the API server accepts +status=presure on a from ann" == found.message
    assert (Severity.OK, True) == (found.severity, "trimtab:trimtab-labeller differently" in found.remedy)
    who = json_response({"status": {"userInfo": {"username": "system:serviceaccount:x:y"}}}, 201)
    server = FakeApiServer((node("a"),), pages={"/apis/authentication.k8s.io/v1/selfsubjectreviews": who})
    assert "" == (await dry_runs(server, old_rules()))[0].remedy


async def test_each_label_and_taint_is_tried_as_the_labeller_would_write_it() -> None:
    """A label alone by merge patch, with a taint by JSON patch; another value of a key is another label."""
    server = FakeApiServer((node("a"),))
    (found,) = await dry_runs(server, own_rules(CPU, CPU.replace("name: cpu", "name: again"), SOFT))
    assert f"+{KEY}=high on a, +{KEY}=most, +taint {KEY}:PreferNoSchedule on a" in found.message
    (plain, steps) = (body for _, body in patches(server))
    assert {"metadata": {"uid": "a", "labels": {KEY: "high"}}} == plain
    assert isinstance(steps, list) and {"key": KEY, "effect": PREFER_NO_SCHEDULE} in steps[-1]["value"]


async def test_a_node_is_chosen_where_the_mark_would_be_news() -> None:
    """Not one that is excluded, uses the key otherwise or has the label: a patch without effect always passes."""
    nodes = (node("m", PLANE), node("x", {"status": "mine"}), node("y", {"status": "presure"}), node("z"))
    server = FakeApiServer(nodes)
    await dry_runs(server, old_rules())
    assert ["/api/v1/nodes/z?dryRun=All"] == [path for path, _ in patches(server)]
    server = FakeApiServer(nodes[:3])  # all that may be marked are: so it is tried to take one off
    assert "-status on y" in (await dry_runs(server, old_rules()))[0].message
    assert {"metadata": {"uid": "y", "labels": {"status": None}}} == patches(server)[0][1]
    server = FakeApiServer(nodes[:2])
    assert ([], []) == (await dry_runs(server, old_rules()), patches(server))


@pytest.mark.parametrize("status", [404, 409])
async def test_a_node_that_changes_meanwhile_says_nothing(status: int) -> None:
    """Another node is tried, but not all of a large cluster."""
    nodes = tuple(map(node, "abcdef"))

    def first(request: Request) -> FakeResponse:
        return reply(status, "not as it was")(request) if "/a?" in request.path else json_response({"kind": "Node"})

    (found,) = await dry_runs(FakeApiServer(nodes, patched=first), old_rules())
    assert (Severity.OK, True) == (found.severity, "on b" in found.message)
    server = FakeApiServer(nodes, patched=reply(status, "not as it was"))
    (found,) = await dry_runs(server, old_rules())
    assert (Severity.WARNING, 3) == (found.severity, len(patches(server)))
    assert f"+status=presure on c cannot be tried: {status} not as it was" == found.message


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("connection reset", sent=True),
        json_response({"kind": "Status", "message": "too many requests"}, 429),
        json_response({"kind": "Status", "message": "etcd is gone"}, 503),
        json_response({"kind": "Status", "message": 'admission webhook "w" does not support dry run'}, 400),
    ],
)
async def test_what_cannot_be_tried_is_no_refusal(answer: FakeResponse) -> None:
    """It is a warning, because the outcome is unknown."""
    (found,) = await dry_runs(FakeApiServer((node("a"),), patched=lambda request: answer), old_rules())
    assert (Severity.WARNING, True) == (found.severity, "cannot be tried: " in found.message)


async def test_a_webhook_that_refuses_is_a_problem() -> None:
    """Whatever its status."""
    (found,) = await dry_runs(
        FakeApiServer((node("a"),), patched=reply(400, 'webhook "w" denied the request: no')), old_rules()
    )
    assert Severity.PROBLEM is found.severity


async def test_nobody_can_try_for_another_account() -> None:
    """The finding says so and how to try it; nothing is sent."""
    server = FakeApiServer((node("a"),))
    (found,) = await dry_runs(server, old_rules(), "bob")
    assert (Severity.WARNING, Area.LABELS) == (found.severity, found.area)
    assert "not possible for bob" in found.message and "without --as" in found.remedy
    assert [] == patches(server)


async def test_who_schedules_marks_nobody() -> None:
    """For `trimtab run` the finding names the flags that check the labeller: its account is another one."""
    server = FakeApiServer((node("a"),))
    whole = configured(
        f"{HEAD}profiles: [{{schedulerName: t}}]\n", f"{SOURCES}labels: {{mode: apply, rules: [{CPU}]}}\n"
    )
    (found,) = await dry_runs(server, whole)
    assert (Severity.OK, True, []) == (found.severity, "add --labeller" in found.remedy, patches(server))


# --- a law

ANSWERS = [
    reply(200),
    reply(403, WORDS),
    reply(404),
    reply(409),
    reply(422, "no"),
    reply(503),
]
LABELS = st.sampled_from(
    [{}, {"zone": "a"}, {"status": "presure"}, {"status": "x"}, {KEY: "high"}, {KEY: "old"}, PLANE]
)
TAINTS = st.lists(st.sampled_from([Taint(KEY, "", PREFER_NO_SCHEDULE), Taint("gpu", "", "NoSchedule")]), max_size=2)
MACHINES = st.lists(st.tuples(LABELS, TAINTS), max_size=4)
CONFIGURATIONS = [
    (old_rules(apply=True), True),
    (old_rules(apply=False), False),
    (own_rules(CPU, SOFT), True),
    (own_rules(CPU, SOFT, mode="observe"), False),
    (
        configured(f"{HEAD}profiles: [{{schedulerName: t}}]\n", f"{SOURCES}labels: {{mode: apply, rules: [{CPU}]}}\n"),
        False,
    ),
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONFIGURATIONS), MACHINES, st.sampled_from(ANSWERS), st.sampled_from(["", "bob"]))
def test_nothing_is_ever_written(
    case: tuple[Configuration, bool],
    machines: list[tuple[dict[str, str], list[Taint]]],
    answer: Callable[[Request], FakeResponse],
    account: str,
) -> None:
    """Only reads, reviews and dry runs of node patches are sent; no patch at all where labels are not written."""
    configuration, applies = case
    nodes = [node(f"n{number}", labels, *taints) for number, (labels, taints) in enumerate(machines)]
    server = FakeApiServer(nodes, patched=answer)
    asyncio.run(server.run_doctor(configuration, account))
    for _, request in server.transport.sent:
        if request.method == "PATCH":
            path, _, query = request.path.partition("?")
            assert ("/api/v1/nodes", "dryRun=All", True, "") == (path.rpartition("/")[0], query, applies, account)
        elif request.method == "POST":
            assert request.path.endswith("reviews")
        else:
            assert "GET" == request.method
