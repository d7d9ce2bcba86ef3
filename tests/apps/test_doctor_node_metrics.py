"""The doctor where only nodes are measured, and what it says a plugin does without any metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.apps.fake_apiserver import FakeApiServer, configured, findings_of
from tests.apps.test_doctor import usage
from tests.build import pod
from tests.config.config_files import HEAD, TRIMTAB_HEAD
from tests.kube.fake_transport import json_response
from tests.kube.fault_server import serving
from tests.sources.fake_prometheus import NOW, respond_with, vector
from trimtab.apps.doctor.finding import Area, Finding, Severity
from trimtab.apps.doctor.rbac_checks import required
from trimtab.apps.doctor.source_checks import reads_pods
from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import IN_TREE
from trimtab.core.framework.profile import multipoint
from trimtab.core.model.change import Change
from trimtab.wire.forbidden import KUBE_SCHEDULER, KUBE_SCHEDULER_FILE
from trimtab.wire.requests import rfc3339

DEPLOY = Path(__file__).parents[2] / "deploy"


def with_score(*plugins: str) -> str:
    listed = ", ".join(f"{{name: {name}}}" for name in plugins)
    return f"{HEAD}profiles: [{{schedulerName: trimtab, plugins: {{multiPoint: {{enabled: [{listed}]}}}}}}]\n"


async def examined(*plugins: str) -> list[Finding]:
    """The findings if Prometheus has the metrics of nodes alone, and pods run."""
    async with serving(respond_with(lambda query: usage(a=1, b=1, c=1) if "node_" in query else vector())) as prom:
        source = f"{{name: prom, prometheus: {{url: 'http://127.0.0.1:{prom.port}', timeout: 2s}}}}"
        configuration = configured(with_score(*plugins), f"{TRIMTAB_HEAD}sources: [{source}]\n")
        return [*await FakeApiServer(pods=[pod("web", on="a")]).run_doctor(configuration)]


@pytest.mark.parametrize("plugin", ["MemRealUsage", "LowestLoad", "Rescheduler", "LoadVariationRiskBalancing"])
async def test_metrics_of_nodes_are_enough(plugin: str) -> None:
    """No problem, and so exit code 0, for a plugin that reads nodes only; a warning says what pods cost."""
    found = await examined(plugin)
    assert [] == findings_of(found, Severity.PROBLEM)
    subjects = [(subject, message) for subject, message, _ in findings_of(found, Severity.WARNING, Area.SOURCE)]
    assert ["prom/podCPU", "prom/podMemory"] == [subject for subject, _ in subjects]
    assert all("no plugin reads metrics of pods" in message for _, message in subjects)
    assert [f"all metrics are available for {plugin}"] == [
        message for _, message, _ in findings_of(found, Severity.OK, Area.PLUGIN)
    ]


async def test_metrics_of_pods_that_are_read() -> None:
    """For a plugin that reads pods their absence stays a problem."""
    found = await examined("PeakRisk", "MemRealUsage")
    problems = [subject for subject, _, _ in findings_of(found, Severity.PROBLEM, Area.SOURCE)]
    assert ["prom/podCPU", "prom/podMemory"] == problems


async def test_a_metrics_api_without_pods() -> None:
    """The same where metrics.k8s.io serves nodes and no pods, as some adapters do."""
    item = {"timestamp": rfc3339(NOW), "window": "15s", "usage": {"cpu": "1", "memory": "1Gi"}}
    nodes = [{"metadata": {"name": name}, **item} for name in "abc"]
    server = FakeApiServer(pages={"/apis/metrics.k8s.io/v1beta1/nodes": json_response({"items": nodes})})
    source = f"{TRIMTAB_HEAD}sources: [{{name: ms, metricsServer: {{}}}}]\n"
    found = await server.run_doctor(configured(with_score("LowestLoad"), source))
    assert ["ms/pods"] == [subject for subject, _, _ in findings_of(found, Severity.WARNING, Area.SOURCE)]
    assert [] == findings_of(found, Severity.PROBLEM, Area.SOURCE)


def test_who_reads_pods() -> None:
    """Found by calling every load-aware plugin, so a new one needs no list."""
    looking = [kind for kind in IN_TREE.values() if getattr(kind, "depends_on", Change.NOTHING) & Change.LOAD]
    assert ["PeakRisk", "UsageOvercommit"] == [
        kind.name for kind in looking if reads_pods(multipoint("p", [(kind(), 1)]))
    ]


# --- without any metrics


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        (("LowestLoad",), "nodes take turns"),
        (("MemRealUsage",), "pods are scored by requests"),
        (("LowestLoad", "MemRealUsage"), "pods are scored by requests"),
    ],
)
async def test_what_is_done_instead(plugins: tuple[str, ...], words: str) -> None:
    """A plugin that lets nodes take turns without data is reported so, and others by requests."""
    source = TRIMTAB_HEAD + "sources: [{name: prom, prometheus: {url: 'http://127.0.0.1:9'}}]\n"
    found = await FakeApiServer().run_doctor(configured(with_score(*plugins), source))
    messages = [
        message for subject, message, _ in findings_of(found, Severity.PROBLEM, Area.PLUGIN) if "memory" in subject
    ]
    assert [True] == [message.endswith(words) for message in messages]


@pytest.mark.parametrize(
    ("plugin", "words"), [("LowestLoad", "nodes take turns"), ("MemRealUsage", "requests are used")]
)
async def test_no_source_at_all(plugin: str, words: str) -> None:
    """The note on the file and the line about its sources say the same."""
    found = await FakeApiServer().run_doctor(configured(with_score(plugin)))
    (note,) = [message for _, message, _ in findings_of(found, Severity.WARNING, Area.CONFIGURATION)]
    assert f"{plugin} would use measured load, but there is no source, so {words} instead" in note
    valid = next(message for subject, message, _ in findings_of(found, Severity.OK) if subject == "file")
    assert ("nodes take turns" in words) == valid.endswith("metric sources: none, nodes take turns")


# --- kube-scheduler's own user


GANGS = "profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}}]\n"
SOURCE = f"---\n{TRIMTAB_HEAD}sources: [{{name: ms, metricsServer: {{}}}}]\n"


async def test_remedies_for_the_user_of_kube_scheduler() -> None:
    """What the stock roles of system:kube-scheduler lack is in a file of its own, which the remedy names, and only that."""
    content = HEAD + GANGS.replace("{plugins", "{schedulerName: trimtab, plugins") + SOURCE
    rights = [*required(parse(content, "f.yaml"))]
    denied = {f"{right.verb} {right.resource}" for right in rights}
    found = await FakeApiServer(denied=denied).run_doctor(parse(content, "f.yaml"), KUBE_SCHEDULER)
    problems = findings_of(found, Severity.PROBLEM, Area.RIGHTS)
    own = {subject for subject, _, remedy in problems if remedy == f"apply deploy/{KUBE_SCHEDULER_FILE}"}
    gangs = {"podgroups.scheduling.x-k8s.io", "podgroups.scheduling.sigs.k8s.io"}
    lease = {"leases.coordination.k8s.io in trimtab", "leases.coordination.k8s.io trimtab in trimtab"}
    assert {"nodes.metrics.k8s.io", "pods.metrics.k8s.io", *gangs} | lease == own
    assert all(f"bind its roles to {KUBE_SCHEDULER}" in remedy for subject, _, remedy in problems if subject not in own)
    assert all(message.startswith(f"{KUBE_SCHEDULER} may not ") for _, message, _ in problems)


def test_the_file_grants_what_the_remedies_promise() -> None:
    """It binds the cluster's rules and the lease's Role to that user."""
    documents = [*yaml.safe_load_all((DEPLOY / KUBE_SCHEDULER_FILE).read_text())]
    assert {KUBE_SCHEDULER} == {each["name"] for one in documents for each in one.get("subjects", ())}
    rules = json.dumps([rule for one in documents for rule in one.get("rules", ())])
    assert all(word in rules for word in ("metrics.k8s.io", "scheduling.x-k8s.io", "podgroups"))
    assert "trimtab-lease" in {one["roleRef"]["name"] for one in documents if "roleRef" in one}
