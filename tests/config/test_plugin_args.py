"""Arguments of plugins are parsed by the types of their fields and by Kubernetes' limits."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import pytest

from tests.config.config_files import FILE, HEAD, parse_body, problems_of_body
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import parse
from trimtab.config.plugin_args import build_plugin
from trimtab.config.registry import IN_TREE
from trimtab.config.schema import dump_fields
from trimtab.core.framework.resource_amounts import ResourceWeight
from trimtab.core.model.affinity import NodeAffinity as Wishes
from trimtab.core.model.affinity import PreferredSchedulingTerm
from trimtab.core.model.change import Change
from trimtab.core.model.duration import parse_duration
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.model.setting import ArgumentError, setting
from trimtab.core.plugins.node_affinity import NodeAffinity
from trimtab.core.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from trimtab.core.plugins.node_resources_fit import (
    NodeResourcesFit,
    RequestedToCapacityRatio,
    ScoringStrategy,
    ShapePoint,
)


class Colour(StrEnum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    """A mapping within the arguments."""

    long_name: str = ""
    seed: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A plugin of another package, with an argument of every supported type."""

    name: ClassVar[str] = "Foreign"
    requeue_on: ClassVar[Change] = Change.NOTHING

    share: float = 0.5
    most_pods: int = 3
    on_top: bool = False
    colour: Colour = Colour.RED
    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    perhaps: str | None = None
    odd: object = None
    percent: int = setting(50, "how full", between=(1, 100))
    at_most: int = setting(60, "how full at the most", name="most")

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("share is more than all")
        if self.at_most < self.percent:
            raise ArgumentError("most", f"must be at least percent ({self.percent})")


def read_foreign(args: str) -> None:
    body = f"profiles: [{{pluginConfig: [{{name: Foreign, args: {args}}}]}}]\n"
    parse(HEAD + body, FILE, {"Foreign": Foreign})


def test_every_type() -> None:
    """Arguments of a plugin are the fields of its dataclass in camelCase, parsed by their types."""
    args = {
        "share": 1,
        "mostPods": 7,
        "onTop": True,
        "colour": "blue",
        "inner": {"longName": "x"},
        "several": [{"longName": "y", "seed": 5}, {}],
        "perhaps": "z",
    }
    expected = Foreign(1.0, 7, True, Colour.BLUE, Inner("x"), (Inner("y", 5), Inner()), "z")
    assert expected == build_plugin("Foreign", Foreign, args)


def test_written_and_read() -> None:
    """The dumped arguments of a plugin parse as the same plugin."""
    plugin = Foreign(0.25, 7, True, Colour.BLUE, Inner("x"), (Inner("y"), Inner()), "z")
    assert plugin == build_plugin("Foreign", Foreign, dump_fields(plugin))


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (
            "{mostPod: 1}",
            "f.yaml:3:51: profiles[0].pluginConfig[0].args.mostPod: unknown field (did you mean mostPods?)",
        ),
        ("{most_pods: 1}", "unknown field (did you mean mostPods?)"),
        ("{mostPods: 1.5}", "args.mostPods: expected an integer, got the number 1.5"),
        ("{onTop: 1}", "args.onTop: expected true or false, got the number 1"),
        ("{colour: rad}", "args.colour: 'rad' is not one of blue, red (did you mean red?)"),
        ("{inner: {longNam: x}}", "args.inner.longNam: unknown field (did you mean longName?)"),
        ("{several: {}}", "args.several: expected a list, got a mapping"),
        ("{several: [{longName: 5}]}", "args.several[0].longName: expected a string, got the number 5"),
        ("{odd: 1}", "args.odd: cannot be set in a file"),
        ("{share: 2}", "f.yaml:3:50: profiles[0].pluginConfig[0].args: share is more than all"),
        ("{percent: 0}", "args.percent: 0 is not between 1 and 100"),
        ("{most: 7}", "f.yaml:3:57: profiles[0].pluginConfig[0].args.most: must be at least percent (50)"),
        ("{percent: 70}", "f.yaml:3:50: profiles[0].pluginConfig[0].args: must be at least percent (70)"),
        ("[]", "args: expected a mapping, got a list"),
        ("{kind: OtherArgs}", "args.kind: 'OtherArgs' is not one of ForeignArgs"),
    ],
)
def test_rejected_arguments(args: str, complaint: str) -> None:
    """An invalid argument is rejected at its position, whether its type or the plugin itself rejects it."""
    with pytest.raises(ConfigError) as caught:
        read_foreign(args)
    assert complaint in str(caught.value)


def test_added_affinity() -> None:
    """Node affinity has Kubernetes' shape in files and the model's in memory."""
    args = {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 4,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                }
            ],
        }
    }
    named = NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n",)),))
    required = (NodeSelectorTerm((Requirement("a", "Exists"),)), NodeSelectorTerm())
    expected = NodeAffinity(Wishes(required, (PreferredSchedulingTerm(4, named),)))
    assert expected == build_plugin("NodeAffinity", NodeAffinity, args)


def test_required_without_terms() -> None:
    """A required affinity without terms is kept as one that no node matches, not as none."""
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
    assert NodeAffinity(Wishes(())) == build_plugin("NodeAffinity", NodeAffinity, args)


def test_strategy() -> None:
    """A scoring strategy is parsed with its shape; resources without a weight, or of weight 0, have the weight 1."""
    args = {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "cpu", "weight": 0}, {"name": "example.com/x", "weight": 5}],
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 100}]},
        }
    }
    resources = (ResourceWeight("cpu", 1), ResourceWeight("example.com/x", 5))
    strategy = ScoringStrategy(
        "RequestedToCapacityRatio", resources, RequestedToCapacityRatio((ShapePoint(0, 10), ShapePoint(100, 0)))
    )
    expected = NodeResourcesFit(scoring_strategy=strategy)
    assert expected == build_plugin("NodeResourcesFit", NodeResourcesFit, args)


@pytest.mark.parametrize("args", [None, {}, {"resources": []}, {"resources": None}])
def test_default_resources(args: dict[str, object] | None) -> None:
    """No resources, or an empty list of them, means cpu and memory."""
    plugin = build_plugin("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocation, args)
    assert NodeResourcesBalancedAllocation((ResourceWeight("cpu", 1), ResourceWeight("memory", 1))) == plugin


REQUIRED = "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}"


@pytest.mark.parametrize(
    ("plugin", "args", "complaint"),
    [
        ("NodeResourcesFit", "ignoredResources: ['a b']", "ignoredResources[0]: 'a b' is not a valid resource name"),
        (
            "NodeResourcesFit",
            "ignoredResourceGroups: [a/b]",
            "ignoredResourceGroups[0]: 'a/b' is not a valid resource group",
        ),
        ("NodeResourcesFit", "scoringStrategy: {}", "scoringStrategy: type is missing: one of LeastAllocated"),
        ("NodeResourcesFit", "scoringStrategy: {type: MoreAllocated}", "(did you mean MostAllocated?)"),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}",
            "resources[0].weight: 101 is not between 0 and 100",
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: MostAllocated, resources: [{weight: 1}]}",
            "resources[0]: name is missing",
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: RequestedToCapacityRatio}",
            "the type RequestedToCapacityRatio needs requestedToCapacityRatio.shape",
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}",
            "requestedToCapacityRatio: the shape needs at least one point",
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
            "{shape: [{utilization: 5, score: 11}, {utilization: 5}]}}",
            "shape[0].score: 11 is not between 0 and 10",
        ),
        (
            "NodeResourcesFit",
            "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
            "{shape: [{utilization: 5, score: 1}, {utilization: 5}]}}",
            "shape[1]: utilization must increase from point to point",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "resources: [{name: cpu}, {name: cpu}]",
            "resources[1]: the resource cpu is listed twice",
        ),
        (
            "NodeResourcesBalancedAllocation",
            "resources: [{name: cpu, weight: 2}]",
            "resources[0]: the weight must be 1",
        ),
        (
            "NodeAffinity",
            REQUIRED % "{matchExpressions: [{key: a, operator: in}]}",
            "'in' is not one of DoesNotExist, Exists",
        ),
        ("NodeAffinity", REQUIRED % "{matchExpressions: [{key: a}]}", "matchExpressions[0]: operator is missing"),
        (
            "NodeAffinity",
            REQUIRED % "{matchExpressions: [{key: a, operator: In}]}",
            "is not a valid requirement: In and",
        ),
        ("NodeAffinity", REQUIRED % "{matchExpressions: [{key: a, operator: Gt, values: [x]}]}", "one integer"),
        ("NodeAffinity", REQUIRED % "{matchExpressions: [{key: a, operator: Gt, values: [5]}]}", "put it in quotes"),
        ("NodeAffinity", REQUIRED % "{matchExpressions: [{key: -a, operator: Exists}]}", "must be valid labels"),
        (
            "NodeAffinity",
            REQUIRED % "{matchFields: [{key: metadata.uid, operator: In, values: [a]}]}",
            "only metadata.name",
        ),
        (
            "NodeAffinity",
            REQUIRED % "{matchFields: [{key: metadata.name, operator: Exists}]}",
            "'Exists' is not one of In, NotIn",
        ),
        ("NodeAffinity", REQUIRED % "{matchLabels: {}}", "nodeSelectorTerms[0].matchLabels: unknown field"),
        ("NodeName", "node: a", "args.node: unknown field"),
        ("DefaultBinder", "x: a", "args.x: unknown field"),
        ("NodeDeclaredFeatures", "x: 1", "pluginConfig[0].name: NodeDeclaredFeatures is not supported yet"),
        ("NodeResourceFit", "", "unknown plugin 'NodeResourceFit' (did you mean NodeResourcesFit?)"),
        (
            "NodeAffinity",
            "apiVersion: kubescheduler.config.k8s.io/v1beta3",
            "apiVersion: 'kubescheduler.config.k8s.io/v1beta3'",
        ),
    ],
)
def test_rejected_by_kubernetes_rules(plugin: str, args: str, complaint: str) -> None:
    """Arguments that kube-scheduler rejects, or that do not exist, are rejected at their position."""
    found = problems_of_body(f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {{{args}}}}}]}}]\n")
    assert any(complaint in each for each in found), found


def test_configured_twice() -> None:
    """A plugin may be configured once per profile."""
    found = problems_of_body("profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]\n")
    assert ["f.yaml:3:57: profiles[0].pluginConfig[1].name: NodeAffinity is configured twice"] == found


def test_shape_of_another_strategy() -> None:
    """A shape that the strategy does not use is noted; kube-scheduler ignores it."""
    args = "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {shape: [{utilization: 0}]}}}"
    notes = parse_body(f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]\n").notes
    assert any(note.message == "ignored: the type is MostAllocated" for note in notes)


def test_defaults_are_valid() -> None:
    """The default arguments of every plugin are valid in a file."""
    for name, kind in IN_TREE.items():
        assert kind() == build_plugin(name, kind, dump_fields(kind()))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        (".5s", 0.5),
        ("2us", 2e-6),
        ("2µs", 2e-6),
        ("-3s", -3.0),
        ("+3s", 3.0),
        ("0", 0.0),
        ("", None),
        ("-", None),
        ("5", None),
        ("s", None),
        (".s", None),
        ("1 s", None),
        ("1d", None),
        ("1e3s", None),
        ("１s", None),
        ("9999999999h", None),
        ("9" * 5000 + "s", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    """Durations are Go's: numbers with units, up to what 64 bits of nanoseconds hold."""
    assert seconds == parse_duration(text)
