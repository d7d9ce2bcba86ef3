"""Decides how arguments are read whose shape or limits are Kubernetes' own; leaves all others to `arguments`.

The limits are those that kube-scheduler puts on the same arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.config.config_node import INT32, INT64, ConfigNode, strings
from trimtab.config.tree import ScalarNode
from trimtab.config.trimtab.values import format_duration
from trimtab.core.framework.resource_amounts import ResourceAmounts, ResourceValues, ResourceWeight
from trimtab.core.model.affinity import NodeAffinity, PreferredSchedulingTerm, TopologySpreadConstraint
from trimtab.core.model.duration import Duration
from trimtab.core.model.resources import CPU, MEMORY, amounts
from trimtab.core.model.selectors import NodeSelectorTerm, Requirement
from trimtab.core.plugins.node_resources_fit import ScoringStrategy, ShapePoint
from trimtab.wire.quantity import QuantityError, nanos

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
RATIO = "requestedToCapacityRatio"
SYSTEM, LIST = "System", "List"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
POLICIES = ("Honor", "Ignore")
DEFAULT_RESOURCES = (ResourceWeight(CPU), ResourceWeight(MEMORY))
_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_NAME = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_PART}")


@dataclass(frozen=True, slots=True)
class Codec:
    """How a type is read from its place in a file (None after a problem), and written as plain data."""

    parse: Callable[[ConfigNode], Any]
    dump: Callable[[Any], object]


def validate(plugin: str, made: Any) -> Iterator[tuple[str, int | None, str]]:
    """What kube-scheduler asks of whole arguments beyond their types: the argument, the item, and what is wrong."""
    judge = VALIDATORS.get(plugin)
    yield from judge(made) if judge is not None else ()


def _validate_fit(made: Any) -> Iterator[tuple[str, int | None, str]]:
    for number, name in enumerate(made.ignored_resources):
        if not _LABEL_NAME.fullmatch(name):
            yield "ignoredResources", number, f"{name[:100]!r} is no name of a resource"
    for number, name in enumerate(made.ignored_resource_groups):
        if "/" in name or not _LABEL_NAME.fullmatch(name):
            yield "ignoredResourceGroups", number, f"{name[:100]!r} is no name of a group: the part before the '/'"


def _validate_balance(made: Any) -> Iterator[tuple[str, int | None, str]]:
    names = [resource.name for resource in made.resources]
    for number, resource in enumerate(made.resources):
        if resource.name in names[:number]:
            yield "resources", number, f"the resource {resource.name[:100]} stands twice"
        if resource.weight != 1:
            yield "resources", number, "the weight must be 1"


def _validate_preemption(made: Any) -> Iterator[tuple[str, int | None, str]]:
    if made.min_candidate_nodes_percentage == made.min_candidate_nodes_absolute == 0:
        yield "minCandidateNodesAbsolute", None, "cannot be 0 while minCandidateNodesPercentage is 0"


def _validate_spread(made: Any) -> Iterator[tuple[str, int | None, str]]:
    if made.defaulting_type == SYSTEM and made.default_constraints:
        yield "defaultConstraints", None, f"must be empty unless defaultingType is {LIST}"
    kinds = [(each.topology_key, each.hard) for each in made.default_constraints]
    for number, kind in enumerate(kinds):
        if kind in kinds[:number]:
            yield "defaultConstraints", number, f"a second one for {kind[0][:100]} with the same whenUnsatisfiable"


VALIDATORS: Mapping[str, Callable[[Any], Iterator[tuple[str, int | None, str]]]] = {
    "NodeResourcesFit": _validate_fit,
    "NodeResourcesBalancedAllocation": _validate_balance,
    "DefaultPreemption": _validate_preemption,
    "PodTopologySpread": _validate_spread,
}


def _no_shape(node: ConfigNode) -> None:
    node.error("storage capacity is not scored; kube-scheduler too refuses this unless StorageCapacityScoring is on")


# Arguments that may hold less than their type says.
RANGES: Mapping[str, Callable[[ConfigNode], object | None]] = {
    "Coscheduling.permitWaitingTimeSeconds": lambda spot: spot.integer(0, INT64),
    "Coscheduling.podGroupBackoffSeconds": lambda spot: spot.integer(0, INT64),
    "Coscheduling.podGroupRejectPercentage": lambda spot: spot.integer(0, 100),
    "DefaultPreemption.minCandidateNodesPercentage": lambda spot: spot.integer(0, 100),
    "DefaultPreemption.minCandidateNodesAbsolute": lambda spot: spot.integer(0, INT32),
    "InterPodAffinity.hardPodAffinityWeight": lambda spot: spot.integer(0, 100),
    "PodTopologySpread.defaultingType": lambda spot: spot.choice((SYSTEM, LIST)),
    "VolumeBinding.bindTimeoutSeconds": lambda spot: spot.integer(0, INT64),
    "VolumeBinding.shape": _no_shape,
}


def _parse_affinity(node: ConfigNode) -> NodeAffinity | None:
    entries = node.fields([REQUIRED, PREFERRED])
    if entries is None:
        return None
    required = preferred = None
    if REQUIRED in entries:
        inner = entries[REQUIRED].fields(["nodeSelectorTerms"]) or {}
        required = tuple(_term(item) for item in inner["nodeSelectorTerms"].items()) if inner else ()
    if PREFERRED in entries:
        preferred = tuple(_preference(item) for item in entries[PREFERRED].items())
    return NodeAffinity(required, preferred)


def _preference(node: ConfigNode) -> PreferredSchedulingTerm:
    entries = node.fields(["weight", "preference"]) or {}
    weight = entries["weight"].integer(0, INT32) if "weight" in entries else 0
    return PreferredSchedulingTerm(
        weight or 0, _term(entries["preference"]) if "preference" in entries else NodeSelectorTerm()
    )


def _term(node: ConfigNode) -> NodeSelectorTerm:
    entries = node.fields(["matchExpressions", "matchFields"]) or {}
    labels = entries["matchExpressions"].items() if "matchExpressions" in entries else []
    names = entries["matchFields"].items() if "matchFields" in entries else []
    return NodeSelectorTerm(tuple(map(_on_labels, labels)), tuple(map(_on_fields, names)))


def _on_labels(node: ConfigNode) -> Requirement:
    line, complete = _requirement(node, OPERATORS)
    if complete and not line.valid:
        node.error(
            "Kubernetes would refuse this: In and NotIn need values, Exists and DoesNotExist none, "
            "Gt and Lt one whole number; key and values must be valid labels"
        )
    return line


def _on_fields(node: ConfigNode) -> Requirement:
    line, complete = _requirement(node, OPERATORS[:2])
    if complete and (line.key != "metadata.name" or len(line.values) != 1):
        node.error("only metadata.name may be asked for, with exactly one value")
    return line


def _requirement(node: ConfigNode, operators: tuple[str, ...]) -> tuple[Requirement, bool]:
    """The line, and whether it could be read as a whole."""
    before = len(node.report.problems)
    entries = node.fields(["key", "operator", "values"]) or {}
    key = entries["key"].string() if "key" in entries else ""
    operator = entries["operator"].choice(operators) if "operator" in entries else ""
    values = strings(entries["values"]) if "values" in entries else ()
    if "operator" not in entries and len(node.report.problems) == before:
        node.error("the operator is missing")
    return Requirement(key or "", operator or "", values), len(node.report.problems) == before


def _dump_affinity(value: NodeAffinity) -> object:
    written: dict[str, object] = {}
    if value.required is not None:
        written[REQUIRED] = {"nodeSelectorTerms": [_dump_term(term) for term in value.required]}
    if value.preferred is not None:
        written[PREFERRED] = [
            {"weight": each.weight, "preference": _dump_term(each.preference)} for each in value.preferred
        ]
    return written


def _dump_term(term: NodeSelectorTerm) -> object:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {
        part: [{"key": line.key, "operator": line.operator, "values": list(line.values)} for line in lines]
        for part, lines in parts.items()
        if lines
    }


def _parse_resources(node: ConfigNode) -> tuple[ResourceWeight, ...]:
    return tuple(map(_parse_resource, node.items())) or DEFAULT_RESOURCES


def _parse_resource(node: ConfigNode) -> ResourceWeight:
    entries = node.fields(["name", "weight"])
    if entries is not None and "name" not in entries:
        node.error("the name of the resource is missing")
    entries = entries or {}
    name = entries["name"].string() if "name" in entries else ""
    weight = entries["weight"].integer(0, 100) if "weight" in entries else 1
    return ResourceWeight(name or "", weight or 1)


def _parse_strategy(node: ConfigNode) -> ScoringStrategy | None:
    entries = node.fields(["type", "resources", RATIO])
    if entries is None:
        return None
    if "type" not in entries:
        node.error(f"the type is missing: one of {', '.join(STRATEGIES)}")
        return None
    kind = entries["type"].choice(STRATEGIES)
    resources = _parse_resources(entries["resources"]) if "resources" in entries else DEFAULT_RESOURCES
    shape = _shape(entries[RATIO]) if RATIO in entries else ()
    if kind == STRATEGIES[2] and RATIO not in entries:
        node.error(f"the type {kind} needs {RATIO}.shape")
    elif kind is not None and kind != STRATEGIES[2] and RATIO in entries:
        entries[RATIO].note(f"ignored: the type is {kind}")
        shape = ()
    return ScoringStrategy(kind or STRATEGIES[0], resources, shape)


def _shape(node: ConfigNode) -> tuple[ShapePoint, ...]:
    entries = node.fields(["shape"])
    if entries is None:
        return ()
    items = entries["shape"].items() if "shape" in entries else []
    points = tuple(map(_point, items))
    if not points:
        node.error("the shape needs at least one point")
    for item, before, after in zip(items[1:], points, points[1:], strict=False):
        if before.utilization >= after.utilization:
            item.error("utilization must rise from point to point")
            break
    return points


def _point(node: ConfigNode) -> ShapePoint:
    entries = node.fields(["utilization", "score"]) or {}
    utilization = entries["utilization"].integer(0, 100) if "utilization" in entries else 0
    score = entries["score"].integer(0, 10) if "score" in entries else 0
    return ShapePoint(utilization or 0, score or 0)


def _parse_spread(node: ConfigNode) -> TopologySpreadConstraint:
    """A default constraint; whom it counts is deduced for each pod, so it has no selector of its own."""
    entries = node.fields(["maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", *_SPREAD_EXTRAS]) or {}
    for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"):
        if name not in entries:
            node.error(f"{name} is missing")
    if "labelSelector" in entries:
        entries["labelSelector"].error("must not be set: it is deduced for each pod")
    key = entries["topologyKey"].string() if "topologyKey" in entries else None
    if key is not None and not _LABEL_NAME.fullmatch(key):
        entries["topologyKey"].error(f"{key[:100]!r} is no name of a label")
    action = entries["whenUnsatisfiable"].choice((HARD, SOFT)) if "whenUnsatisfiable" in entries else None
    skew = entries["maxSkew"].integer(1, INT32) if "maxSkew" in entries else None
    extras = {field: read(entries[name]) for name, (field, read) in _SPREAD_EXTRAS.items() if name in entries}
    return TopologySpreadConstraint(key or "", skew or 1, action != SOFT, **extras)


_SPREAD_EXTRAS: Mapping[str, tuple[str, Callable[[ConfigNode], Any]]] = {
    "minDomains": ("min_domains", lambda spot: spot.integer(1, INT32)),
    "nodeAffinityPolicy": ("node_affinity_policy", lambda spot: spot.choice(POLICIES)),
    "nodeTaintsPolicy": ("node_taints_policy", lambda spot: spot.choice(POLICIES)),
    "matchLabelKeys": ("match_label_keys", strings),
}


def _dump_spread(value: TopologySpreadConstraint) -> object:
    written: dict[str, object] = {
        "maxSkew": value.max_skew,
        "topologyKey": value.topology_key,
        "whenUnsatisfiable": HARD if value.hard else SOFT,
        "nodeAffinityPolicy": value.node_affinity_policy,
        "nodeTaintsPolicy": value.node_taints_policy,
    }
    if value.min_domains is not None:
        written["minDomains"] = value.min_domains
    return {**written, "matchLabelKeys": list(value.match_label_keys)} if value.match_label_keys else written


def _dump_resource(value: ResourceWeight) -> object:
    return {"name": value.name, "weight": value.weight}


def _dump_strategy(value: ScoringStrategy) -> object:
    written: dict[str, object] = {
        "type": value.type,
        "resources": [_dump_resource(each) for each in value.resources],
    }
    if value.shape:
        points = [{"utilization": point.utilization, "score": point.score} for point in value.shape]
        written[RATIO] = {"shape": points}
    return written


def _parse_amounts(node: ConfigNode) -> ResourceAmounts:
    entries = node.entries() or {}
    read = {name: billionths for name, each in entries.items() if (billionths := _parse_quantity(each)) is not None}
    return ResourceAmounts(amounts(read))


def _parse_quantity(node: ConfigNode) -> int | None:
    """Billionths; Kubernetes takes a plain number for a quantity, too."""
    text = node.yaml.value if isinstance(node.yaml, ScalarNode) and not node.yaml.ambiguity else None
    if not isinstance(text, str | int | float) or isinstance(text, bool):
        node.error('expected a quantity such as "500m" or "2Gi"')
        return None
    try:
        return nanos(text)
    except QuantityError as error:
        node.error(f'{error}: write it as "500m" or "2Gi"')
        return None


def _dump_amounts(value: ResourceAmounts) -> object:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in value.amounts}


def _parse_figures(node: ConfigNode) -> ResourceValues:
    entries = node.entries() or {}
    read = {name: figure for name, each in entries.items() if (figure := each.number()) is not None}
    return ResourceValues(tuple(read.items()))


def _parse_duration(node: ConfigNode) -> Duration | None:
    seconds = node.duration()
    return None if seconds is None else Duration(seconds)


CODECS: Mapping[object, Codec] = {
    Duration: Codec(_parse_duration, format_duration),
    ResourceAmounts: Codec(_parse_amounts, _dump_amounts),
    ResourceValues: Codec(_parse_figures, lambda value: dict(value.values)),
    NodeAffinity: Codec(_parse_affinity, _dump_affinity),
    ScoringStrategy: Codec(_parse_strategy, _dump_strategy),
    tuple[ResourceWeight, ...]: Codec(_parse_resources, lambda value: [_dump_resource(each) for each in value]),
    ResourceWeight: Codec(_parse_resource, _dump_resource),
    TopologySpreadConstraint: Codec(_parse_spread, _dump_spread),
}
