"""The list of fields is complete, the parser follows it, and docs/configuration.md has the same."""

import re
from pathlib import Path

import pytest

from tests.config.config_files import notes_of_body, problems_of_body
from trimtab.config.fields import FIELDS, children
from trimtab.config.profiles import point_names
from trimtab.config.registry import DEFAULT_BINDER, DEFAULT_PLUGINS, IN_TREE, KUBERNETES_POINTS
from trimtab.config.schema import document_fields, fields_of
from trimtab.core.framework.profile import ExtensionPoint
from trimtab.core.model.setting import Setting, Support

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

# Fields of kubescheduler.config.k8s.io/v1 as Kubernetes 1.35.8 declares them.
UPSTREAM = {
    "": "apiVersion kind parallelism leaderElection clientConnection enableProfiling enableContentionProfiling "
    "percentageOfNodesToScore podInitialBackoffSeconds podMaxBackoffSeconds profiles extenders delayCacheUntilActive",
    "leaderElection": "leaderElect leaseDuration renewDeadline retryPeriod resourceLock resourceName resourceNamespace",
    "clientConnection": "kubeconfig acceptContentTypes contentType qps burst",
    "profiles[]": "schedulerName percentageOfNodesToScore plugins pluginConfig",
    "profiles[].plugins.POINT": "enabled disabled",
    "profiles[].plugins.POINT.enabled[]": "name weight",
    "profiles[].plugins.POINT.disabled[]": "name weight",
    "profiles[].pluginConfig[]": "name args",
}
SAMPLES = {
    "parallelism": "1",
    "percentageOfNodesToScore": "1",
    "contentType": "x",
    "acceptContentTypes": "x",
    "weight": "1",
}


@pytest.mark.parametrize("schema", UPSTREAM)
def test_every_field_of_kubernetes(schema: str) -> None:
    """Each field that Kubernetes declares has a line of its own, and there is no other."""
    assert set(UPSTREAM[schema].split()) == set(children(schema))


def test_every_point_of_kubernetes() -> None:
    """Plugins may be listed at Kubernetes' twelve points and at multiPoint."""
    expected = "preEnqueue queueSort preFilter filter postFilter preScore score reserve permit preBind bind postBind"
    assert (*expected.split(), "multiPoint") == point_names()


def arguments() -> list[tuple[str, Setting]]:
    """The documented arguments of all plugins, as the page lists them."""
    return [each for name, kind in IN_TREE.items() for each in document_fields(kind, f"{name}Args.")]


def test_every_argument_is_documented() -> None:
    """The documentation of a plugin's arguments names exactly the fields of its dataclass."""
    listed = {path for path, _ in arguments()}
    assert listed == {f"{name}Args.{field.key}" for name, kind in IN_TREE.items() for field in fields_of(kind)}


def nested(path: str) -> str:
    """A file body that sets just this field."""
    text = SAMPLES.get(path.rsplit(".", 1)[-1], "true")
    for part in reversed(path.replace("POINT", "score").split(".")):
        listed = part.endswith("[]")
        if listed and part == "disabled[]":
            text = text.replace("{", "{name: '*', ")
        text = f"{{{part.removesuffix('[]')}: {f'[{text}]' if listed else text}}}"
    return text[1:-1] + "\n"


@pytest.mark.parametrize("path", [each.path for each in FIELDS if each.support is Support.IGNORED])
def test_ignored_fields_are_noted(path: str) -> None:
    """A field that the list calls ignored is noted when a file sets it."""
    (note,) = notes_of_body(nested(path))
    assert ": ignored: " in note


@pytest.mark.parametrize(
    "name", [*(each.path for each in FIELDS if each.support is Support.REJECTED), "DynamicResourcesArgs"]
)
def test_refused_fields_are_rejected(name: str) -> None:
    """A field, or arguments, that the list calls refused make a file unusable."""
    plugin = name.removesuffix("Args")
    body = (
        f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {{}}}}]}}]\n" if plugin != name else f"{name}: [{{}}]\n"
    )
    (complaint,) = problems_of_body(body)
    assert "not supported yet" in complaint


def test_the_page_says_the_same() -> None:
    """The tables of the page are the list, line by line."""
    rows = re.findall(r"^\| `(.+?)` \| (\w+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    fields = [(each.path, each.support.value, each.doc) for each in FIELDS]
    assert [*fields, *((path, each.support.value, each.doc) for path, each in arguments())] == rows


def test_the_page_names_what_is_missing() -> None:
    """The page names the default plugins that are not built."""
    text = " ".join(PAGE.read_text().split())
    missing = ", ".join(name for name in DEFAULT_PLUGINS if name not in {*IN_TREE, DEFAULT_BINDER})
    assert f"left out with a note: {missing}." in text


def test_every_plugin_of_kubernetes() -> None:
    """Every plugin that kube-scheduler 1.35 has in its tree is known by name."""
    expected = (
        "DefaultBinder DefaultPreemption DynamicResources GangScheduling ImageLocality InterPodAffinity NodeAffinity "
        "NodeDeclaredFeatures NodeName NodePorts NodeResourcesBalancedAllocation NodeResourcesFit NodeUnschedulable "
        "NodeVolumeLimits PodTopologySpread PrioritySort SchedulingGates TaintToleration VolumeBinding "
        "VolumeRestrictions VolumeZone"
    )
    assert expected.split() == sorted(KUBERNETES_POINTS)


def test_known_points() -> None:
    """Every plugin that Kubernetes knows serves at least one point, and only points that exist."""
    assert all(served and set(served) <= set(ExtensionPoint) for served in KUBERNETES_POINTS.values())
