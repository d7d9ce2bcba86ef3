"""v1beta3 and v1beta2 files mean what they meant to kube-scheduler, and are noted."""

import pytest

from tests.config.config_files import FILE, FULL, HEAD, comparable, problems_of
from trimtab.config.configuration import Configuration
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.registry import REMOVED, VOLUME_LIMITS
from trimtab.core.framework.profile import Profile, plugin_name

# The file of an introduction to scheduling that many have copied from, as it stands there.
GUIDE = """\
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: custom-scheduler
  plugins:
    queueSort:
      enabled:
      - name: PrioritySort
    preFilter:
      enabled:
      - name: NodeResourcesFit
      - name: NodePorts
    filter:
      enabled:
      - name: NodeUnschedulable
      - name: NodeName
      - name: TaintToleration
      - name: NodeAffinity
    score:
      enabled:
      - name: NodeResourcesBalancedAllocation
        weight: 1
      - name: ImageLocality
        weight: 1
    bind:
      enabled:
      - name: DefaultBinder
"""


def older(version: str, body: str = "") -> str:
    return HEAD.replace("/v1", f"/{version}") + body


def notes(configuration: Configuration) -> list[str]:
    return [str(note) for note in configuration.notes if "not supported yet" not in note.message]


def only(configuration: Configuration) -> Profile:
    (profile,) = configuration.settings.profiles
    return profile


def weights(profile: Profile) -> dict[str, int]:
    return {each.name: each.weight for each in profile.scores}


@pytest.mark.parametrize(("version", "release"), [("v1beta2", "1.28"), ("v1beta3", "1.29")])
def test_noted(version: str, release: str) -> None:
    """An older version is accepted with one note, which names the version to write instead."""
    assert [
        f"f.yaml:1:13: apiVersion: kubescheduler.config.k8s.io/{version} is deprecated (removed in "
        f"kube-scheduler {release}): write kubescheduler.config.k8s.io/v1; `trimtab config show` prints the converted file"
    ] == notes(parse(older(version), FILE))


def test_the_file_of_the_guide() -> None:
    """The guide's file is valid unchanged: its own plugins, and every default."""
    profile = only(parse(GUIDE, FILE))
    default = only(parse(older("v1beta2", "profiles: [{schedulerName: custom-scheduler}]\n"), FILE))
    assert "custom-scheduler" == profile.name
    assert "PrioritySort" == plugin_name(profile.queue_sort)
    assert [plugin_name(each) for each in default.filters] == [plugin_name(each) for each in profile.filters]
    assert {"NodeResourcesFit", "NodePorts"} <= {plugin_name(each) for each in profile.filters}
    assert weights(default) == weights(profile)


def test_weights_of_v1beta2() -> None:
    """v1beta2 weighs preferences of pods less than v1 does."""
    now, then = (weights(only(parse(older(version), FILE))) for version in ("v1", "v1beta2"))
    expected = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}
    assert {name: expected.get(name, weight) for name, weight in now.items()} == then
    assert (3, 1) == (now["TaintToleration"], then["TaintToleration"])


def test_v1beta3_means_the_same() -> None:
    """A v1beta3 file means the same as v1, arguments included."""
    assert comparable(parse(FULL, FILE)) == comparable(
        parse(FULL.replace("config.k8s.io/v1", "config.k8s.io/v1beta3"), FILE)
    )


def test_rank_in_v1beta2() -> None:
    """In v1beta2 a default that a point lists keeps its position; in v1 it goes first."""
    body = "profiles: [{plugins: {filter: {enabled: [{name: NodePorts}]}}}]\n"
    now, then = (only(parse(older(version, body), FILE)).filters for version in ("v1", "v1beta2"))
    assert ("NodePorts", "NodeUnschedulable") == (plugin_name(now[0]), plugin_name(then[0]))
    assert {plugin_name(each) for each in now} == {plugin_name(each) for each in then}


def test_star_in_v1beta2() -> None:
    """`*` at a point of v1beta2 disables the defaults of that point only."""
    body = "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}]}}}]\n"
    profile = only(parse(older("v1beta2", body), FILE))
    assert {"ImageLocality": 7} == weights(profile)
    assert "NodeUnschedulable" == plugin_name(profile.filters[0])


def test_multi_point_in_v1beta2() -> None:
    """multiPoint is rejected in v1beta2, which does not have it."""
    body = "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}]}}}]\n"
    assert [
        "f.yaml:3:35: profiles[0].plugins.multiPoint: kubescheduler.config.k8s.io/v1beta2 has no multiPoint: "
        "write kubescheduler.config.k8s.io/v1, or name the points"
    ] == problems_of(older("v1beta2", body))


@pytest.mark.parametrize("name", ["healthzBindAddress", "metricsBindAddress"])
def test_addresses(name: str) -> None:
    """The addresses of v1beta2 are noted there, and unknown in any later version."""
    body = f"{name}: 0.0.0.0:10251\n"
    _, note = notes(parse(older("v1beta2", body), FILE))
    assert f"f.yaml:3:{len(name) + 3}: {name}: ignored: set by `trimtab run --serve`" in note
    assert [f"f.yaml:3:1: {name}: unknown field"] == problems_of(older("v1beta3", body))
    assert "expected a string" in problems_of(older("v1beta2", f"{name}: 10251\n"))[0]


@pytest.mark.parametrize("name", sorted(VOLUME_LIMITS))
@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_volume_limits(version: str, name: str) -> None:
    """The old volume limit plugins are accepted in the older versions, and ignored with a note."""
    body = f"profiles: [{{plugins: {{filter: {{enabled: [{{name: {name}}}]}}}}}}]\n"
    _, note = notes(parse(older(version, body), FILE))
    assert note.endswith(f"enabled[0].name: ignored: NodeVolumeLimits replaces {name}")


@pytest.mark.parametrize("name", sorted(REMOVED.keys() - VOLUME_LIMITS))
def test_plugins_that_are_gone(name: str) -> None:
    """A plugin that Kubernetes has removed is rejected by name, with what replaces it."""
    body = f"profiles: [{{plugins: {{score: {{enabled: [{{name: {name}}}]}}}}}}]\n"
    (complaint,) = problems_of(older("v1beta2", body))
    assert complaint.endswith(f"{name} was removed from Kubernetes: use {REMOVED[name]}")


@pytest.mark.parametrize(("header", "fine"), [("v1beta2", True), ("v1beta3", True), ("v1", True), ("v1beta1", False)])
def test_version_of_arguments(header: str, fine: bool) -> None:
    """Arguments in an older file may have any supported version."""
    args = f"{{apiVersion: kubescheduler.config.k8s.io/{header}, kind: NodeAffinityArgs}}"
    body = f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {args}}}]}}]\n"
    assert fine == (problems_of(older("v1beta2", body)) == [])


@pytest.mark.parametrize("content", [GUIDE, older("v1beta2"), older("v1beta3")])
def test_shown_as_v1(content: str) -> None:
    """An older file is dumped as v1 with the same meaning, without notes."""
    configuration = parse(content, FILE)
    again = parse(dump(configuration), FILE)
    assert comparable(configuration) == comparable(again)
    assert [] == notes(again)
