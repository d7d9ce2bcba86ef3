"""Which plugins run at which point, in which order and with which weight, by kube-scheduler's rules."""

import pytest

from tests.config.config_files import parse_body, problems_of_body
from trimtab.config.profiles import PluginRef, PluginSet, expand_multi_point, merge_plugin_set
from trimtab.config.registry import DEFAULT_PLUGINS, KUBERNETES_POINTS, REMOVED, default_profile
from trimtab.core.framework.profile import ExtensionPoint, Profile, plugin_name

DEFAULTS = {"A": 3, "B": 0, "C": 1}


def names(plugins: tuple[PluginRef, ...]) -> str:
    return "".join(each.name for each in plugins)


def asked(enabled: str = "", disabled: str = "") -> PluginSet:
    return PluginSet(tuple(PluginRef(name, 7) for name in enabled), frozenset(disabled))


def one(plugins: str) -> Profile:
    (profile,) = parse_body(f"profiles: [{{plugins: {plugins}}}]\n").settings.profiles
    return profile


@pytest.mark.parametrize(
    ("custom", "expected"),
    [
        (asked(), "A3 B0 C1"),
        (asked("D"), "A3 B0 C1 D7"),
        (asked("B"), "A3 B7 C1"),
        (asked("", "A"), "B0 C1"),
        (asked("A", "A"), "B0 C1 A7"),
        (asked("", "*"), ""),
        (asked("CD", "*"), "C7 D7"),
    ],
)
def test_multipoint_over_defaults(custom: PluginSet, expected: str) -> None:
    """A default that is listed keeps its position and takes the new weight; disabled and enabled, it comes last."""
    assert expected == " ".join(f"{each.name}{each.weight}" for each in merge_plugin_set(custom, DEFAULTS).enabled)


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (asked(), "ABC"),
        (asked("X"), "ABCX"),
        (asked("CX"), "CABX"),
        (asked("XCA"), "CABX"),
        (asked("", "B"), "AC"),
        (asked("BX", "B"), "ACBX"),
        (asked("XA", "*"), "XA"),
        (asked("", "*"), ""),
    ],
)
def test_order_at_a_point(point: PluginSet, expected: str) -> None:
    """First those in both lists in the point's order, then the rest of multiPoint, then the rest of the point."""
    assert expected == names(expand_multi_point(point, asked("ABC"), lambda name: True))


def test_only_where_they_serve() -> None:
    """multiPoint enables a plugin only at points that it implements."""
    assert "AC" == names(expand_multi_point(asked(), asked("ABC"), lambda name: name != "B"))


def test_weight_of_a_point_wins() -> None:
    """A weight under score overrides the one under multiPoint; without a weight it is 1."""
    weighed = one(
        "{multiPoint: {enabled: [{name: ImageLocality, weight: 5}, {name: TaintToleration}]}, "
        "score: {enabled: [{name: ImageLocality, weight: 8}]}}"
    )
    found = {each.name: each.weight for each in weighed.scores}
    assert {"ImageLocality": 8, "TaintToleration": 1, "NodeAffinity": 2}.items() <= found.items()


def test_star_at_a_point() -> None:
    """`*` at one point disables the plugins of that point only."""
    profile = one("{filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}]}}")
    assert ["NodeName"] == [plugin_name(each) for each in profile.filters]
    assert [each.name for each in default_profile("x").scores] == [each.name for each in profile.scores]


def test_points_that_one_method_covers() -> None:
    """A plugin may be listed at all its points in Kubernetes, even if one method here does the work of two there."""
    for point in (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE):
        body = f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: NodeResourcesFit}}]}}}}}}]\n"
        assert [] == problems_of_body(body)


@pytest.mark.parametrize(
    ("plugins", "complaint"),
    [
        (
            "{score: {enabled: [{name: NodeResourceFit}]}}",
            "unknown plugin 'NodeResourceFit' (did you mean NodeResourcesFit?)",
        ),
        ("{score: {enabled: [{name: imagelocality}]}}", "(did you mean ImageLocality?)"),
        ("{score: {disabled: [{name: TaintTolerations}]}}", "disabled[0].name: unknown plugin 'TaintTolerations'"),
        ("{scores: {}}", "3:23: profiles[0].plugins.scores: unknown field (did you mean score?)"),
        ("{score: {enable: []}}", "unknown field (did you mean enabled?)"),
        ("{score: {enabled: [{nam: x}]}}", "unknown field (did you mean name?)"),
        ("{score: {enabled: [{weight: 1}]}}", "enabled[0]: the plugin's name is missing"),
        ("{score: {enabled: [NodeName]}}", "enabled[0]: expected a mapping, got the string 'NodeName'"),
        ("{score: {enabled: [{name: ImageLocality, weight: -1}]}}", "weight: -1 is not between 0 and 2147483647"),
        ("{score: {enabled: [{name: ImageLocality, weight: 2147483648}]}}", "weight: 2147483648 is not between 0 and"),
        ("{score: {enabled: [{name: ImageLocality, weight: 1.5}]}}", "weight: expected an integer"),
        (
            "{score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}",
            "score.enabled[1]: ImageLocality is listed twice",
        ),
        ("{score: {enabled: [{name: NodeName}]}}", "NodeName does not implement score, only filter"),
        ("{bind: {enabled: [{name: NodeName}]}}", "NodeName does not implement bind, only filter"),
        ("{multiPoint: {enabled: [{name: GangScheduling}]}}", "GangScheduling is not supported yet: remove it here"),
        ("{filter: {enabled: [{name: NodeDeclaredFeatures}]}}", "NodeDeclaredFeatures is not supported yet"),
        (
            "{filter: {enabled: [{name: EBSLimits}]}}",
            "EBSLimits was removed from Kubernetes: use NodeVolumeLimits",
        ),
        (
            "{score: {enabled: [{name: SelectorSpread}]}}",
            "SelectorSpread was removed from Kubernetes: use PodTopologySpread",
        ),
        (
            "{score: {enabled: [{name: NodeResourcesMostAllocated}]}}",
            "use the scoringStrategy of NodeResourcesFit",
        ),
        ("{queueSort: {disabled: [{name: '*'}]}}", "exactly one queueSort plugin is needed, but there are 0: none"),
        ("{multiPoint: {disabled: [{name: DefaultBinder}]}}", "no bind plugin is enabled"),
        ("{bind: {disabled: [{name: '*'}]}}", "no bind plugin is enabled: do not disable DefaultBinder"),
    ],
)
def test_rejected_lists(plugins: str, complaint: str) -> None:
    """A mistake in a list of plugins is rejected with its position and the nearest valid name."""
    found = problems_of_body(f"profiles: [{{plugins: {plugins}}}]\n")
    assert any(complaint in each for each in found), found


def test_disabling_what_is_known() -> None:
    """Any plugin that Kubernetes has or had may be disabled anywhere, supported or not."""
    for name in (*KUBERNETES_POINTS, *REMOVED):
        body = f"profiles: [{{plugins: {{postFilter: {{disabled: [{{name: {name}}}]}}}}}}]\n"
        assert [] == problems_of_body(body)


def test_names_of_the_registry() -> None:
    """Every default is a name that Kubernetes knows."""
    assert set() == DEFAULT_PLUGINS.keys() - KUBERNETES_POINTS.keys()
