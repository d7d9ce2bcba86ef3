"""The real kube-scheduler gives a file the same meaning: the same plugins, order, weights and rejections."""

import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.config.config_files import FILE, problems_of
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.process import free_port
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import DEFAULT_BINDER, DEFAULT_PLUGINS, IN_TREE, KUBERNETES_POINTS
from trimtab.core.framework.profile import ExtensionPoint, Profile

pytestmark = pytest.mark.live

PROFILES = 60
SHOWN = 12
COMPARED = (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.QUEUE_SORT, ExtensionPoint.FILTER, ExtensionPoint.SCORE)
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "a", "user": {}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "current-context": "a",
}
LOGGED = re.compile(r'"the scheduler starts to work with those plugins" Plugins=(\{.*\})$')


def document(folder: Path, **fields: Any) -> dict[str, Any]:
    """A file with an unreachable API server: kube-scheduler logs its profiles before it connects."""
    (folder / "kubeconfig").write_text(yaml.safe_dump(NOWHERE))
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(folder / "kubeconfig")},
        **fields,
    }


def log_of(folder: Path, content: str) -> Iterator[str]:
    """kube-scheduler's log lines for a file; it is stopped when the caller has read enough."""
    (folder / "config.yaml").write_text(content)
    command = [str(controlplane_or_skip() / "kube-scheduler"), f"--config={folder / 'config.yaml'}", "-v=2"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={folder}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            yield from process.stdout
        finally:
            process.kill()


def refused_there(folder: Path, content: str) -> bool:
    """Whether kube-scheduler rejects a file instead of starting."""
    return all("Starting Kubernetes Scheduler" not in line for line in log_of(folder, content))


def some_set(chance: random.Random, names: list[str]) -> dict[str, Any]:
    weights = [{}, {"weight": 0}, {"weight": chance.randint(1, 50)}]
    enabled = [{"name": name, **chance.choice(weights)} for name in chance.sample(names, chance.randint(0, len(names)))]
    disabled = [{"name": name} for name in chance.sample(names, chance.randint(0, len(names)))]
    stars = [{"name": "*"}] if chance.random() < 0.2 else []
    return {"enabled": enabled, "disabled": disabled + stars}


def some_profile(chance: random.Random, number: int) -> dict[str, Any]:
    """Random lists of supported plugins at random points, without changes to queueSort and bind."""
    ordinary = [name for name in IN_TREE if name in KUBERNETES_POINTS and name != "PrioritySort"]
    plugins = {"multiPoint": some_set(chance, ordinary)}
    if {"name": "*"} in plugins["multiPoint"]["disabled"]:
        plugins["multiPoint"]["enabled"] += [{"name": "PrioritySort"}, {"name": DEFAULT_BINDER}]
    for point in (
        ExtensionPoint.PRE_ENQUEUE,
        ExtensionPoint.PRE_FILTER,
        ExtensionPoint.FILTER,
        ExtensionPoint.PRE_SCORE,
        ExtensionPoint.SCORE,
    ):
        if chance.random() < 0.5:
            plugins[point.value] = some_set(chance, [name for name in ordinary if point in KUBERNETES_POINTS[name]])
    return {"schedulerName": f"p{number}", "plugins": plugins}


def there(logged: dict[str, Any], point: ExtensionPoint) -> list[tuple[str, int]]:
    """The plugins that kube-scheduler logged for a point, without those that are not built here.

    DefaultPreemption holds pods back there while their victims are being deleted; here the engine sees to that.
    """
    listed = logged[point.value[0].upper() + point.value[1:]]["Enabled"] or []
    return [
        (each["Name"], each["Weight"])
        for each in listed
        if each["Name"] in IN_TREE and not held_back(each["Name"], point)
    ]


def held_back(name: str, point: ExtensionPoint) -> bool:
    return (name, point) == ("DefaultPreemption", ExtensionPoint.PRE_ENQUEUE)


def here(profile: Profile, point: ExtensionPoint) -> list[tuple[str, int]]:
    if point is ExtensionPoint.SCORE:
        return [(each.name, each.weight) for each in profile.scores]
    return [(name, 0) for name in profile.enabled[point]]


def test_same_plugins_everywhere(tmp_path: Path) -> None:
    """Random lists of plugins give the same plugins, in the same order and with the same weights."""
    chance = random.Random(35)
    content = yaml.safe_dump(document(tmp_path, profiles=[some_profile(chance, n) for n in range(PROFILES)]))
    logged: list[dict[str, Any]] = []
    for line in log_of(tmp_path, content):
        if found := LOGGED.search(line):
            logged.append(json.loads(found[1]))
        if len(logged) == PROFILES:
            break
    profiles = parse(content, FILE).settings.profiles
    theirs = [{point: there(each, point) for point in COMPARED} for each in logged]
    ours = [{point: here(each, point) for point in COMPARED} for each in profiles]
    assert PROFILES == len(theirs)
    assert theirs == ours


def test_same_defaults(tmp_path: Path) -> None:
    """Without lists, kube-scheduler runs exactly the default plugins listed here, at their points."""
    for line in log_of(tmp_path, yaml.safe_dump(document(tmp_path))):
        if found := LOGGED.search(line):
            break
    assert found is not None
    logged = {point[0].lower() + point[1:]: each["Enabled"] or [] for point, each in json.loads(found[1]).items()}
    expected = {
        point.value: [name for name in DEFAULT_PLUGINS if point in KUBERNETES_POINTS[name]] for point in ExtensionPoint
    }
    assert expected == {
        point: [each["Name"] for each in listed] for point, listed in logged.items() if point != "multiPoint"
    }
    weights = {each["Name"]: each["Weight"] for each in logged["score"]}
    assert {name: DEFAULT_PLUGINS[name] or 1 for name in weights} == weights


BAD_FIELDS: dict[str, dict[str, Any]] = {
    "unknown field": {"paralelism": 3},
    "parallelism of none": {"parallelism": 0},
    "share of nodes": {"percentageOfNodesToScore": 101},
    "backoff of nothing": {"podInitialBackoffSeconds": 0},
    "backoff that shrinks": {"podInitialBackoffSeconds": 11},
    "two profiles of one name": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
    "a profile without a name": {"profiles": [{"schedulerName": "a"}, {}]},
    "lease shorter than renewal": {"leaderElection": {"leaderElect": True, "leaseDuration": "5s"}},
    "negative burst": {"clientConnection": {"burst": -1}},
    "text for a number": {"parallelism": "many"},
    "number for a duration": {"leaderElection": {"leaseDuration": 15}},
}
CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def arguments(plugin: str, **args: Any) -> dict[str, Any]:
    return {"pluginConfig": [{"name": plugin, "args": args}]}


def constraints(*listed: dict[str, Any]) -> dict[str, Any]:
    return arguments("PodTopologySpread", defaultingType="List", defaultConstraints=list(listed))


BAD_PROFILES: dict[str, dict[str, Any]] = {
    "unknown plugin": {"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}},
    "plugin at a wrong point": {"plugins": {"score": {"enabled": [{"name": "NodeName"}]}}},
    "plugin twice": {"plugins": {"score": {"enabled": [{"name": "ImageLocality"}] * 2}}},
    "no queue sort": {"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}},
    "no binder": {"plugins": {"bind": {"disabled": [{"name": "*"}]}}},
    "configured twice": {"pluginConfig": [{"name": "NodeAffinity", "args": {}}] * 2},
    "unknown argument": {"pluginConfig": [{"name": "NodeAffinity", "args": {"added": {}}}]},
    "kind of another plugin": {"pluginConfig": [{"name": "NodeAffinity", "args": {"kind": "NodeResourcesFitArgs"}}]},
    "strategy without a type": {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}]},
    "group with a slash": {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResourceGroups": ["a/b"]}}]},
    "balanced weight": {
        "pluginConfig": [
            {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "cpu", "weight": 2}]}}
        ]
    },
    "weight of hard affinity": arguments("InterPodAffinity", hardPodAffinityWeight=101),
    "volumes before their time": arguments("VolumeBinding", bindTimeoutSeconds=-1),
    "shape of volumes": arguments("VolumeBinding", shape=[]),
    "preemption on no node": arguments("DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0),
    "preemption on more than all": arguments("DefaultPreemption", minCandidateNodesPercentage=101),
    "constraints of the system": arguments("PodTopologySpread", defaultConstraints=[CONSTRAINT]),
    "constraint twice": constraints(CONSTRAINT, {**CONSTRAINT, "maxSkew": 2}),
    "constraint with a selector": constraints({**CONSTRAINT, "labelSelector": {}}),
    "constraint without a skew": constraints({**CONSTRAINT, "maxSkew": 0}),
    "constraint without a key": constraints({**CONSTRAINT, "topologyKey": ""}),
    "constraint without an action": constraints({**CONSTRAINT, "whenUnsatisfiable": ""}),
    "another defaulting": arguments("PodTopologySpread", defaultingType="system"),
}


def spoilt(good: dict[str, Any], what: str) -> str:
    """A valid file with one mistake."""
    fields = BAD_FIELDS.get(what) or {"profiles": [{"schedulerName": "a", **BAD_PROFILES[what]}]}
    merged = {name: {**good[name], **value} if isinstance(value, dict) else value for name, value in fields.items()}
    return yaml.safe_dump({**good, **merged})


@pytest.mark.parametrize("what", [*BAD_FIELDS, *BAD_PROFILES])
def test_same_rejections(tmp_path: Path, what: str) -> None:
    """What kube-scheduler rejects is rejected here, too."""
    content = spoilt(document(tmp_path), what)
    assert (True, True) == (refused_there(tmp_path, content), problems_of(content) != [])


def test_same_welcome(tmp_path: Path) -> None:
    """The file without the mistakes is valid there and here."""
    content = yaml.safe_dump(document(tmp_path, profiles=[{"schedulerName": "a"}]))
    assert (False, False) == (refused_there(tmp_path, content), problems_of(content) != [])


GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "InterPodAffinity": {"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True},
    "PodTopologySpread": {
        "defaultingType": "List",
        "defaultConstraints": [
            {**CONSTRAINT, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["app"]},
            {**CONSTRAINT, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3},
        ],
    },
    "VolumeBinding": {"bindTimeoutSeconds": 0, "shape": None},
    "DefaultPreemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 5},
}


def test_same_arguments(tmp_path: Path) -> None:
    """Arguments within the limits are accepted there and here."""
    given = [{"name": name, "args": args} for name, args in GOOD_ARGUMENTS.items() if name in IN_TREE]
    content = yaml.safe_dump(document(tmp_path, profiles=[{"schedulerName": "a", "pluginConfig": given}]))
    assert (False, []) == (refused_there(tmp_path, content), problems_of(content))


def run_there(folder: Path, content: str, profiles: int) -> list[dict[str, list[tuple[str, int]]]]:
    """By profile and point, the plugins that kube-scheduler runs and that exist here, with the weights of scores."""
    logged: list[dict[str, Any]] = []
    for line in log_of(folder, content):
        logged += [json.loads(found[1])] if (found := LOGGED.search(line)) else []
        if len(logged) == profiles:
            break
    return [
        {
            point: [(each["Name"], each["Weight"] if point == "score" else 0) for each in lists["Enabled"] or []]
            for point, lists in each.items()
            if point.lower() != "multipoint"
        }
        for each in logged
    ]


def without_missing(plugins: list[dict[str, list[tuple[str, int]]]]) -> list[dict[str, list[tuple[str, int]]]]:
    known = {*IN_TREE, DEFAULT_BINDER}
    return [{point: [each for each in listed if each[0] in known] for point, listed in one.items()} for one in plugins]


def test_shown_is_the_same_there(tmp_path: Path) -> None:
    """kube-scheduler runs the output of `config show` with the plugins, points and weights of the file itself."""
    chance = random.Random(36)
    profiles = [{"schedulerName": "plain"}, *(some_profile(chance, number) for number in range(SHOWN - 1))]
    content = yaml.safe_dump(document(tmp_path, profiles=profiles))
    original = run_there(tmp_path, content, SHOWN)
    assert SHOWN == len(original)
    assert without_missing(original) == run_there(tmp_path, dump(parse(content, FILE)), SHOWN)


def test_shown_is_welcome_there(tmp_path: Path) -> None:
    """kube-scheduler accepts what becomes of a v1beta2 file, which it refuses, and of arguments with all their fields."""
    given = [{"name": name, "args": args} for name, args in GOOD_ARGUMENTS.items() if name in IN_TREE]
    old = {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"}
    lists = {
        "preFilter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "NodePorts"}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 1}]},
        "bind": {"enabled": [{"name": DEFAULT_BINDER}]},
    }
    profile = {"schedulerName": "custom-scheduler", "plugins": lists, "pluginConfig": given}
    content = yaml.safe_dump(document(tmp_path, **old, profiles=[profile]))
    shown = dump(parse(content, FILE))
    assert "# For Trimtab and kube-scheduler," in shown
    assert (True, False) == (refused_there(tmp_path, content), refused_there(tmp_path, shown))


def test_shown_is_refused_there(tmp_path: Path) -> None:
    """kube-scheduler refuses a file with plugins that it does not have, as the comment above it says."""
    profile = {"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "PeakRisk"}]}}}
    shown = dump(parse(yaml.safe_dump(document(tmp_path, profiles=[profile])), FILE))
    assert "# For Trimtab: kube-scheduler itself has no PeakRisk." in shown
    assert refused_there(tmp_path, shown)
