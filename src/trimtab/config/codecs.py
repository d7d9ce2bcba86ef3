"""Parses and dumps types whose shape in a configuration file differs from the one in memory, most of them Kubernetes' own.

The limits are those of kube-scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.config.config_node import ConfigNode, strings
from trimtab.config.yaml import ScalarNode
from trimtab.core.framework.resource_amounts import ResourceAmounts, ResourceValues
from trimtab.core.model.affinity import NodeAffinity, PreferredSchedulingTerm, TopologySpreadConstraint
from trimtab.core.model.duration import Duration, format_duration
from trimtab.core.model.resources import CPU, amounts
from trimtab.core.model.selectors import LabelSelector, NodeSelectorTerm, Requirement, selector_error
from trimtab.core.model.setting import INT32
from trimtab.wire.affinity import PREFERRED, REQUIRED
from trimtab.wire.quantity import QuantityError, nanos

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
POLICIES = ("Honor", "Ignore")
_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_NAME = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_PART}")


@dataclass(frozen=True, slots=True)
class Codec:
    """How a type is parsed from a file (None after a problem), and dumped as plain data."""

    parse: Callable[[ConfigNode], Any]
    dump: Callable[[Any], object]


def _parse_affinity(node: ConfigNode) -> NodeAffinity | None:
    entries = node.fields([REQUIRED, PREFERRED])
    if entries is None:
        return None
    required = preferred = None
    if REQUIRED in entries:
        inner = entries[REQUIRED].fields(["nodeSelectorTerms"]) or {}
        required = tuple(_parse_term(item) for item in inner["nodeSelectorTerms"].items()) if inner else ()
    if PREFERRED in entries:
        preferred = tuple(_parse_preference(item) for item in entries[PREFERRED].items())
    return NodeAffinity(required, preferred)


def _parse_preference(node: ConfigNode) -> PreferredSchedulingTerm:
    entries = node.fields(["weight", "preference"]) or {}
    weight = entries["weight"].integer(0, INT32) if "weight" in entries else 0
    return PreferredSchedulingTerm(
        weight or 0, _parse_term(entries["preference"]) if "preference" in entries else NodeSelectorTerm()
    )


def _parse_term(node: ConfigNode) -> NodeSelectorTerm:
    entries = node.fields(["matchExpressions", "matchFields"]) or {}
    labels = entries["matchExpressions"].items() if "matchExpressions" in entries else []
    names = entries["matchFields"].items() if "matchFields" in entries else []
    return NodeSelectorTerm(tuple(map(_parse_label_requirement, labels)), tuple(map(_parse_field_requirement, names)))


def _parse_label_requirement(node: ConfigNode, operators: tuple[str, ...] = OPERATORS) -> Requirement:
    requirement, complete = _parse_requirement(node, operators)
    if complete and not requirement.valid:
        node.error(
            "is not a valid requirement: In and NotIn need values, Exists and DoesNotExist none, Gt and Lt one integer; "
            "key and values must be valid labels"
        )
    return requirement


def _parse_field_requirement(node: ConfigNode) -> Requirement:
    requirement, complete = _parse_requirement(node, OPERATORS[:2])
    if complete and (requirement.key != "metadata.name" or len(requirement.values) != 1):
        node.error("only metadata.name is supported, with exactly one value")
    return requirement


def _parse_requirement(node: ConfigNode, operators: tuple[str, ...]) -> tuple[Requirement, bool]:
    """The requirement, and whether all of it could be parsed."""
    before = len(node.report.problems)
    entries = node.fields(["key", "operator", "values"]) or {}
    key = entries["key"].string() if "key" in entries else ""
    operator = entries["operator"].choice(operators) if "operator" in entries else ""
    values = strings(entries["values"]) if "values" in entries else ()
    if "operator" not in entries and len(node.report.problems) == before:
        node.error("operator is missing")
    return Requirement(key or "", operator or "", values), len(node.report.problems) == before


def _dump_affinity(value: NodeAffinity) -> object:
    plain: dict[str, object] = {}
    if value.required is not None:
        plain[REQUIRED] = {"nodeSelectorTerms": [_dump_term(term) for term in value.required]}
    if value.preferred is not None:
        plain[PREFERRED] = [
            {"weight": each.weight, "preference": _dump_term(each.preference)} for each in value.preferred
        ]
    return plain


def _dump_term(term: NodeSelectorTerm) -> object:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {
        part: [_dump_requirement(each) for each in requirements] for part, requirements in parts.items() if requirements
    }


def _dump_requirement(value: Requirement) -> object:
    return {"key": value.key, "operator": value.operator, "values": list(value.values)}


def _parse_selector(node: ConfigNode) -> LabelSelector | None:
    before = len(node.report.problems)
    entries = node.fields(["matchLabels", "matchExpressions"]) or {}
    labels = _parse_string_map(entries["matchLabels"]) if "matchLabels" in entries else ()
    lines = entries["matchExpressions"].items() if "matchExpressions" in entries else []
    selector = LabelSelector(labels, tuple(_parse_requirement(each, OPERATORS[:4])[0] for each in lines))
    if len(node.report.problems) > before:
        return None
    if (
        error := "selects every pod: write matchLabels or matchExpressions"
        if selector.empty
        else selector_error(selector)
    ):
        node.error(error)
        return None
    return selector


def _dump_selector(value: LabelSelector) -> object:
    plain: dict[str, object] = {"matchLabels": dict(value.match_labels)} if value.match_labels else {}
    lines = [_dump_requirement(each) for each in value.match_expressions]
    return {**plain, "matchExpressions": lines} if lines else plain


def _parse_spread(node: ConfigNode) -> TopologySpreadConstraint:
    """A default constraint; it has no selector, which is deduced for each pod."""
    entries = node.fields(["maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", *_SPREAD_EXTRAS]) or {}
    for name in ("maxSkew", "topologyKey", "whenUnsatisfiable"):
        if name not in entries:
            node.error(f"{name} is missing")
    if "labelSelector" in entries:
        entries["labelSelector"].error("must not be set: it is deduced for each pod")
    key = entries["topologyKey"].string() if "topologyKey" in entries else None
    if key is not None and not LABEL_NAME.fullmatch(key):
        entries["topologyKey"].error(f"{key[:100]!r} is not a valid label name")
    action = entries["whenUnsatisfiable"].choice((HARD, SOFT)) if "whenUnsatisfiable" in entries else None
    skew = entries["maxSkew"].integer(1, INT32) if "maxSkew" in entries else None
    extras = {field: parse(entries[name]) for name, (field, parse) in _SPREAD_EXTRAS.items() if name in entries}
    return TopologySpreadConstraint(key or "", skew or 1, action != SOFT, **extras)


_SPREAD_EXTRAS: Mapping[str, tuple[str, Callable[[ConfigNode], Any]]] = {
    "minDomains": ("min_domains", lambda node: node.integer(1, INT32)),
    "nodeAffinityPolicy": ("node_affinity_policy", lambda node: node.choice(POLICIES)),
    "nodeTaintsPolicy": ("node_taints_policy", lambda node: node.choice(POLICIES)),
    "matchLabelKeys": ("match_label_keys", strings),
}


def _dump_spread(value: TopologySpreadConstraint) -> object:
    plain: dict[str, object] = {
        "maxSkew": value.max_skew,
        "topologyKey": value.topology_key,
        "whenUnsatisfiable": HARD if value.hard else SOFT,
        "nodeAffinityPolicy": value.node_affinity_policy,
        "nodeTaintsPolicy": value.node_taints_policy,
    }
    if value.min_domains is not None:
        plain["minDomains"] = value.min_domains
    return {**plain, "matchLabelKeys": list(value.match_label_keys)} if value.match_label_keys else plain


def _parse_amounts(node: ConfigNode) -> ResourceAmounts:
    entries = node.entries() or {}
    quantities = {name: value for name, each in entries.items() if (value := parse_quantity(each)) is not None}
    return ResourceAmounts(amounts(quantities))


def parse_quantity(node: ConfigNode) -> int | None:
    """Billionths; Kubernetes accepts a plain number as a quantity, too."""
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


def _parse_values(node: ConfigNode) -> ResourceValues:
    entries = node.entries() or {}
    values = {name: value for name, each in entries.items() if (value := each.number()) is not None}
    return ResourceValues(tuple(values.items()))


def _parse_duration(node: ConfigNode) -> Duration | None:
    seconds = node.duration()
    return None if seconds is None else Duration(seconds)


def _parse_string_map(node: ConfigNode) -> tuple[tuple[str, str], ...]:
    values = {key: each.string() for key, each in (node.entries() or {}).items()}
    return tuple((key, value) for key, value in values.items() if value is not None)


def _parse_string_or_number(node: ConfigNode) -> str | float | None:
    is_string = isinstance(node.yaml, ScalarNode) and isinstance(node.yaml.value, str)
    return node.string() if is_string else node.number()


CODECS: Mapping[object, Codec] = {
    Duration: Codec(_parse_duration, format_duration),
    str | float: Codec(_parse_string_or_number, lambda value: value),
    tuple[tuple[str, str], ...]: Codec(_parse_string_map, dict),
    ResourceAmounts: Codec(_parse_amounts, _dump_amounts),
    ResourceValues: Codec(_parse_values, lambda value: dict(value.values)),
    Requirement: Codec(lambda node: _parse_label_requirement(node, OPERATORS[:4]), _dump_requirement),
    LabelSelector: Codec(_parse_selector, _dump_selector),
    NodeAffinity: Codec(_parse_affinity, _dump_affinity),
    TopologySpreadConstraint: Codec(_parse_spread, _dump_spread),
}
