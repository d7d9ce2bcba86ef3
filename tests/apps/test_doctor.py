"""The doctor finds what is wrong with server, sources, nodes, plugins and rules, and gives remedies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.apps.fake_apiserver import URL, FakeApiServer, configured, findings_of
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.kube.fake_transport import FakeResponse, json_response
from tests.kube.fault_server import serving
from tests.sources.fake_prometheus import NODES, NOW, respond_with, series, vector
from trimtab.apps.doctor.finding import Area, Finding, Severity, by_severity, ok, shorten
from trimtab.apps.doctor.source_checks import metrics_read
from trimtab.config.kube_scheduler import default_configuration
from trimtab.config.registry import IN_TREE, default_profile
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.kube.transport import Unreachable

GIB = 1 << 30
BY_LOAD = HEAD + (
    "profiles: [{schedulerName: trimtab, plugins: {multiPoint: {disabled: [{name: DynamicResources}]}, "
    "score: {enabled: [{name: TargetLoadPacking}, {name: MemRealUsage}]}}}]\n"
)
OWN = "queries: [{name: memory, query: used, unit: bytes}], metrics: []"


async def examined(
    body: bytes, more: str = OWN, nodes: tuple[Node, ...] = tuple(NODES), rest: str = ""
) -> list[Finding]:
    """The findings if Prometheus answers every query, or the user's own, with this body."""
    async with serving(respond_with(body)) as prometheus:
        source = f"{{name: prom, prometheus: {{url: 'http://127.0.0.1:{prometheus.port}', timeout: 2s, {more}}}}}"
        configuration = configured(BY_LOAD, f"{TRIMTAB_HEAD}sources: [{source}]\n{rest}")
        return [*await FakeApiServer(nodes).run_doctor(configuration)]


def usage(**values: float) -> bytes:
    return vector(*(series({"instance": f"{name}:9100"}, str(value)) for name, value in values.items()))


# --- the API server


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Unreachable("connection refused", sent=False), "cannot be reached: connection refused"),
        (json_response({"kind": "Status", "message": "Unauthorized"}, 401), "rejects our credentials: Unauthorized"),
        (json_response(b"<html>hello</html>"), "does not answer like an API server: status 200, '<html>hello</html>'"),
    ],
)
async def test_a_server_that_cannot_be_worked_with(answer: FakeResponse, says: str) -> None:
    """One problem with a remedy, and no further requests."""
    server = FakeApiServer(pages={"/version": answer})
    (found,) = findings_of(await server.run_doctor(default_configuration()), Severity.PROBLEM)
    assert (URL, says, True) == (*found[:2], bool(found[2]))
    assert ["/version"] == [request.path for _, request in server.transport.sent]


@pytest.mark.parametrize(
    ("ahead", "severity", "says"),
    [
        (0.0, None, ""),
        (4.0, None, ""),
        (20.0, Severity.WARNING, "its clock is 20 s ahead of ours"),
        (-20.0, Severity.WARNING, "its clock is 19 s behind ours"),
        (90.0, Severity.PROBLEM, "its clock is 90 s ahead of ours"),
    ],
)
async def test_clocks_that_differ(ahead: float, severity: Severity | None, says: str) -> None:
    """Five seconds are a warning; a minute is a problem, because samples seem to be in the future."""
    found = await FakeApiServer(ahead=ahead).run_doctor(default_configuration())
    expected = [] if severity is None else [(severity, says)]
    assert expected == [(each.severity, each.message) for each in found if each.subject == "clock"]


async def test_nodes_that_may_not_be_listed() -> None:
    """A problem, without problems of the sources."""
    forbidden = json_response({"kind": "Status", "message": "nodes is forbidden"}, 403)
    async with serving(respond_with(usage(a=1.0))) as prometheus:
        source = f"{{name: prom, prometheus: {{url: 'http://127.0.0.1:{prometheus.port}', {OWN}}}}}"
        configuration = configured(BY_LOAD, f"{TRIMTAB_HEAD}sources: [{source}]\n")
        found = await FakeApiServer(pages={"/api/v1/nodes": forbidden}).run_doctor(configuration)
    assert ["cannot be listed: 403 nodes is forbidden"] == [each[1] for each in findings_of(found, Severity.PROBLEM)]
    assert "its series cannot be matched" in findings_of(found, Severity.WARNING, Area.SOURCE)[0][1]


# --- which nodes have no data, and why


def only(findings: list[Finding], node: str) -> Finding:
    (found,) = (each for each in findings if node in each.nodes and each.area is Area.NODES)
    return found


async def test_nodes_that_no_series_names() -> None:
    """The finding names the node's addresses and the labels of unmatched series."""
    found = only(await examined(usage(a=1.0, b=1.0, stranger=1.0)), "c")
    assert (Severity.WARNING, ("c",)) == (found.severity, found.nodes)
    assert "1 of 3 nodes: c (c, fd00::3); series that match no node have instance=stranger:9100" in found.message
    assert "set nodeLabel" in found.remedy


async def test_nodes_that_nobody_measures() -> None:
    """Without unmatched series the remedy is the scrape, and the finding says that the node is not ready."""
    nodes = (*NODES[:2], Node(name="c", addresses=("fd00::3",), ready=False))
    found = only(await examined(usage(a=1.0, b=1.0), nodes=nodes), "c")
    assert "c (c, fd00::3; the node is not ready)" in found.message and "check the targets" in found.remedy


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((series({"node": "c"}, "1", NOW - 400),), "too old for 1 of 3 nodes: c (400 s)"),
        ((series({"node": "c"}, str(64 * GIB)),), "more than the node's capacity for 1 of 3 nodes: c (64.0 GiB)"),
        ((series({"node": "c"}, "-1"),), "negative for 1 of 3 nodes: c"),
        ((series({"node": "c"}, "NaN"),), "not a number for 1 of 3 nodes: c (node=c)"),
        ((series({"node": "c"}, "1", NOW + 100),), "in the future for 1 of 3 nodes: c (node=c)"),
        ((series({"node": "c"}, "1", None),), "without a timestamp for 1 of 3 nodes: c (node=c)"),
        (
            (series({"node": "c", "job": "x"}, "1"), series({"node": "c", "instance": "y"}, "1")),
            "ambiguous (two series for one node, or one for two) for 1 of 3 nodes: c (node=c and node=c instance=y)",
        ),
        (
            (series({"node": "c", "instance": "10.0.0.1:9100"}, "1"),),
            "ambiguous (two series for one node, or one for two) for 1 of 3 nodes: c (node=c instance=10.0.0.1:9100)",
        ),
    ],
)
async def test_values_that_are_not_believed(answer: tuple[list[object], ...], says: str) -> None:
    """The scheduler's own reason, with the details of this node."""
    well_told = (series({"node": "a"}, "1"), series({"node": "b"}, "1"))
    found = only(await examined(vector(*well_told, *answer)), "c")
    assert says in found.message and found.remedy


async def test_most_nodes_without_data_are_a_problem() -> None:
    """If more are missing than load.mostMissing allows."""
    assert Severity.PROBLEM is only(await examined(usage(a=1.0)), "c").severity
    assert Severity.WARNING is only(await examined(usage(a=1.0), rest="load: {mostMissing: 0.9}\n"), "c").severity


async def test_no_node_is_matched() -> None:
    """The source's own error, the nodes' addresses and the series' labels."""
    found = await examined(usage(x=1.0, y=1.0, z=1.0, w=1.0))
    assert "none of the memory series can be used" in findings_of(found, Severity.PROBLEM, Area.SOURCE)[0][1]
    lost = only(found, "a")
    assert "a (a, 10.0.0.1), b (b, 10.0.0.2), c (c, fd00::3)" in lost.message
    assert "instance=x:9100, instance=y:9100, instance=z:9100 and 1 more" in lost.message


# --- sources, plugins, rules


async def test_a_source_that_fails_is_told_once() -> None:
    """However many queries it has; each plugin that lacks its metrics is named with its profile."""
    configuration = configured(
        BY_LOAD, TRIMTAB_HEAD + "sources: [{name: prom, prometheus: {url: 'http://127.0.0.1:9'}}]\n"
    )
    found = await FakeApiServer().run_doctor(configuration)
    assert [("prom", "no connection to 127.0.0.1:9")] == [
        each[:2] for each in findings_of(found, Severity.PROBLEM, Area.SOURCE)
    ]
    blind = [each[1] for each in findings_of(found, Severity.PROBLEM, Area.PLUGIN)]
    assert "MemRealUsage of profile trimtab reads memory of nodes, and prom returns it for none" in blind[0]
    assert "TargetLoadPacking of profile trimtab reads cpu of nodes, and prom returns it for none" in blind[1]


async def test_a_measurement_that_nobody_takes() -> None:
    """MemRealUsage has its memory, and TargetLoadPacking no source for CPU."""
    found = await examined(usage(a=1.0, b=1.0, c=1.0))
    (lacking,) = findings_of(found, Severity.PROBLEM)
    assert "TargetLoadPacking of profile trimtab reads cpu of nodes, and no source returns it" in lacking[1]
    assert [("memory", "known for all 3 nodes", "")] == findings_of(found, Severity.OK, Area.NODES)


async def test_each_query_fails_under_its_own_name() -> None:
    """With Prometheus' message, and the rule that lacks a value."""
    refused = json.dumps({"status": "error", "errorType": "bad_data", "error": "unknown function foo"}).encode()

    def answer(query: str) -> bytes:
        return refused if "foo" in query else usage(a=1.0, b=1.0, c=1.0)

    rules = "[{name: slip, query: foo(up), above: 1}, {name: full, metric: memory, above: 80%}]"
    async with serving(respond_with(answer)) as prometheus:
        source = f"{{name: prom, prometheus: {{url: 'http://127.0.0.1:{prometheus.port}', {OWN}}}}}"
        own = f"{TRIMTAB_HEAD}sources: [{source}]\nlabels: {{rules: {rules}}}\n"
        found = await FakeApiServer().run_doctor(configured(BY_LOAD, own))
    assert (
        "unknown function foo"
        in dict(each[:2] for each in findings_of(found, Severity.PROBLEM, Area.SOURCE))["prom/rule/slip"]
    )
    assert ["slip"] == [each[0] for each in findings_of(found, Severity.PROBLEM, Area.LABELS)]
    assert ["full", "now"] == [each[0] for each in findings_of(found, Severity.OK, Area.LABELS)]


async def test_a_cluster_without_metrics_server() -> None:
    """Metrics are requested as the scheduler does, and the finding has a remedy."""
    found = await FakeApiServer().run_doctor(
        configured(BY_LOAD, TRIMTAB_HEAD + "sources: [{name: ms, metricsServer: {}}]\n")
    )
    absent = ("ms", "metrics.k8s.io is not served by this cluster", "install metrics-server, or remove this source")
    assert [absent] == findings_of(found, Severity.PROBLEM, Area.SOURCE)


async def test_two_sources_for_one_measurement() -> None:
    """A warning."""
    kind = "prometheus: {url: 'http://127.0.0.1:9', metrics: [nodeCPU]}"
    found = await FakeApiServer().run_doctor(
        configured(TRIMTAB_HEAD + f"sources: [{{name: a, {kind}}}, {{name: b, {kind}}}]\n")
    )
    assert "cpu of nodes come from a and b" in findings_of(found, Severity.WARNING, Area.CONFIGURATION)[0][1]


async def test_plugins_without_any_source_are_the_notes_business() -> None:
    """The parser's note is repeated as a warning, and nothing is reported twice."""
    found = await FakeApiServer().run_doctor(configured(BY_LOAD.replace("{name: TargetLoadPacking}, ", "")))
    (note,) = findings_of(found, Severity.WARNING)
    assert "MemRealUsage would use measured load, but there is no source" in note[1]
    assert [] == findings_of(found, Severity.PROBLEM)


async def test_what_no_file_can_help_is_no_warning() -> None:
    """Else every stock file would fail with `--strict`, for a default plugin that is not supported."""
    found = await FakeApiServer().run_doctor(configured(HEAD + "profiles: [{schedulerName: trimtab}]\n"))
    assert [] == findings_of(found, Severity.WARNING)
    assert "ignored: DynamicResources" in findings_of(found, Severity.OK, Area.CONFIGURATION)[0][1]


async def test_a_secret_is_never_told(tmp_path: Path) -> None:
    """Neither a source's token nor the content of its file."""
    secret = tmp_path / "token"
    secret.write_text("hunter2\nsecond")
    found = await examined(usage(a=1.0), f"{OWN}, bearerTokenFile: {secret}")
    assert "is not a single line of printable ASCII" in findings_of(found, Severity.PROBLEM, Area.SOURCE)[0][1]
    assert "hunter2" not in repr(found)


def test_what_each_plugin_looks_at() -> None:
    """Found by calling it, so a new plugin needs no list here."""
    looking = [kind for kind in IN_TREE.values() if getattr(kind, "depends_on", Change.NOTHING) & Change.LOAD]
    asked = {kind.name: metrics_read(multipoint("p", [(kind(), 1)]))[kind.name] for kind in looking}
    assert {("cpu",): {"TargetLoadPacking", "CpuRealUsage"}, ("memory",): {"MemRealUsage"}} == {
        those: {name for name, each in asked.items() if each == those} for those in [("cpu",), ("memory",)]
    }
    assert {("cpu",), ("memory",), ("cpu", "memory")} == {*asked.values()}
    assert {} == metrics_read(default_profile("p"))


def test_worst_first() -> None:
    """Then by area."""
    mixed = [
        ok(Area.SERVER, "a", ""),
        Finding(Severity.PROBLEM, Area.PLUGIN, "b", ""),
        Finding(Severity.WARNING, Area.RIGHTS, "c", ""),
        Finding(Severity.PROBLEM, Area.RIGHTS, "d", ""),
    ]
    assert "dbca" == "".join(each.subject for each in by_severity(mixed))


def test_a_few_examples_stand_for_many() -> None:
    """Three, and how many more there are in all."""
    assert ("", "a, b, c", "a, b, c and 2 more") == (shorten([]), shorten(["a", "b", "c"]), shorten([*"abcde"]))
    assert "a, b, c and 7 more" == shorten([*"abcd"], 10)
