"""The arguments of Kubernetes' plugins have its names, defaults and limits."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.diagnostics import ConfigError
from trimtab.config.plugin_args import build_plugin, parse_plugin
from trimtab.config.registry import IN_TREE
from trimtab.config.schema import FieldSchema, dump_fields, dump_value, fields_of
from trimtab.config.yaml import from_plain
from trimtab.core.model.affinity import TopologySpreadConstraint
from trimtab.core.model.change import Change
from trimtab.core.model.setting import Support


@dataclass(frozen=True, slots=True)
class Standing:
    """Another plugin with arguments of the same names."""

    name: ClassVar[str] = "Standing"
    requeue_on: ClassVar[Change] = Change.NOTHING

    hard_pod_affinity_weight: int = 1
    defaulting_type: str = "System"


def made(plugin: str, args: dict[str, object]) -> Any:
    return build_plugin(plugin, {**IN_TREE, "Standing": Standing}[plugin], args)


def constraint(**fields: object) -> dict[str, object]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}


def listed(*constraints: dict[str, object]) -> dict[str, object]:
    return {"defaultingType": "List", "defaultConstraints": list(constraints)}


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        ("InterPodAffinity", {"hardPodAffinityWeight": 100}, {"hard_pod_affinity_weight": 100}),
        (
            "InterPodAffinity",
            {"ignorePreferredTermsOfExistingPods": True},
            {"ignore_preferred_terms_of_existing_pods": True},
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": 0, "shape": None}, {"bind_timeout_seconds": 0}),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0}, {"min_candidate_nodes_percentage": 0}),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": 0}, {"min_candidate_nodes_absolute": 0}),
        (
            "Coscheduling",
            {"permitWaitingTimeSeconds": 5, "podGroupBackoffSeconds": 7},
            {"permit_waiting_time_seconds": 5, "pod_group_backoff_seconds": 7},
        ),
        ("PodTopologySpread", {"defaultingType": "System", "defaultConstraints": []}, {}),
        ("PodTopologySpread", listed(), {"defaulting_type": "List"}),
        (
            "PodTopologySpread",
            listed(constraint(), constraint(maxSkew=3, whenUnsatisfiable="DoNotSchedule", minDomains=2)),
            {
                "default_constraints": (
                    TopologySpreadConstraint("zone", 1, False),
                    TopologySpreadConstraint("zone", 3, True, min_domains=2),
                ),
                "defaulting_type": "List",
            },
        ),
        (
            "PodTopologySpread",
            listed(constraint(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor", matchLabelKeys=["app"])),
            {
                "default_constraints": (
                    TopologySpreadConstraint(
                        "zone",
                        hard=False,
                        node_affinity_policy="Ignore",
                        node_taints_policy="Honor",
                        match_label_keys=("app",),
                    ),
                ),
                "defaulting_type": "List",
            },
        ),
    ],
)
def test_read_and_written(plugin: str, args: dict[str, object], expected: dict[str, Any]) -> None:
    """Arguments are parsed into the fields of their names, and dumped so that they parse as the same."""
    assert IN_TREE[plugin](**expected) == made(plugin, args)
    assert IN_TREE[plugin](**expected) == made(plugin, dump_fields(made(plugin, args)))


@pytest.mark.parametrize(
    ("plugin", "args", "complaint"),
    [
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight: 101 is not between 0 and 100"),
        ("InterPodAffinity", {"hardPodAffinityWeight": -1}, "hardPodAffinityWeight: -1 is not between 0 and 100"),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: -1 must be 0 or more"),
        ("VolumeBinding", {"shape": []}, "args.shape: storage capacity is not scored"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "101 is not between 0 and 100"),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute: -1 must be 0 or more"),
        (
            "DefaultPreemption",
            {"minCandidateNodesAbsolute": 0, "minCandidateNodesPercentage": 0},
            "args.minCandidateNodesAbsolute: cannot be 0 while minCandidateNodesPercentage is 0",
        ),
        ("Coscheduling", {"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds: -1 must be 0 or more"),
        (
            "PodTopologySpread",
            {"defaultingType": "system"},
            "'system' is not one of List, System (did you mean System?)",
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [constraint()]},
            "args.defaultConstraints: must be empty unless defaultingType is List",
        ),
        ("PodTopologySpread", listed(constraint(maxSkew=0)), "defaultConstraints[0].maxSkew: 0 is not between 1 and"),
        ("PodTopologySpread", listed(constraint(maxSkew=None)), "defaultConstraints[0]: maxSkew is missing"),
        ("PodTopologySpread", listed(constraint(topologyKey="")), "topologyKey: '' is not a valid label name"),
        ("PodTopologySpread", listed(constraint(topologyKey="a b")), "topologyKey: 'a b' is not a valid label name"),
        (
            "PodTopologySpread",
            listed(constraint(whenUnsatisfiable="Never")),
            "'Never' is not one of DoNotSchedule, Sched",
        ),
        ("PodTopologySpread", listed(constraint(labelSelector={})), "labelSelector: must not be set: it is deduced"),
        ("PodTopologySpread", listed(constraint(minDomains=0)), "minDomains: 0 is not between 1 and"),
        ("PodTopologySpread", listed(constraint(skew=1)), "defaultConstraints[0].skew: unknown field"),
        (
            "PodTopologySpread",
            listed(constraint(), constraint(maxSkew=2)),
            "defaultConstraints[1]: a second one for zone with the same whenUnsatisfiable",
        ),
    ],
)
def test_rejected(plugin: str, args: dict[str, object], complaint: str) -> None:
    """What kube-scheduler rejects is rejected with the position of the argument."""
    with pytest.raises(ConfigError) as caught:
        made(plugin, args)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "field"),
    [
        (name, field)
        for name, kind in IN_TREE.items()
        for field in fields_of(kind)
        if field.setting.support is Support.IGNORED
    ],
)
def test_ignored_arguments_are_noted(plugin: str, field: FieldSchema) -> None:
    """An ignored argument is parsed, and noted at its position."""
    report = Report("f.yaml")
    args = {field.key: dump_value(field.default, field.type)}
    parse_plugin(plugin, IN_TREE[plugin], ConfigNode(from_plain(args), report, "args"))
    assert [] == report.problems
    (note,) = report.notes
    assert str(note).startswith(f"f.yaml: args.{field.key}: ignored: ")


def test_limits_are_of_their_plugin() -> None:
    """The same names in another plugin have no limits but their type."""
    expected = Standing(hard_pod_affinity_weight=101, defaulting_type="mine")
    assert expected == made("Standing", {"hardPodAffinityWeight": 101, "defaultingType": "mine"})
