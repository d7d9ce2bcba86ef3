"""Parses the nodes of a scenario, and the kind of node that a cluster autoscaler adds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from trimtab.config.config_node import ConfigNode, strings
from trimtab.core.model.node import HOSTNAME, ZONE, Image, Node
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.model.selectors import Requirement, is_label_key
from trimtab.core.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from trimtab.sim.scenario import IDLE, ClusterAutoscaling, SimulatedNode
from trimtab.sim.scenario_file.patterns import parse_usage
from trimtab.sim.scenario_file.values import (
    Fields,
    Timeline,
    capacity,
    check_whole,
    duration,
    integer_from,
    labels,
    object_name,
    quantity,
    share,
)

MAX_NODES = 20_000
MACHINE_FIELDS = {
    "cpu": "CPU that pods may request, such as 16 or 7500m",
    "memory": "memory that pods may request, such as 64Gi",
    "pods": "110 unless set: how many pods it takes",
    "resources": "further resources by name, such as `nvidia.com/gpu: 8`",
    "labels": f"labels; `{HOSTNAME}` is added",
    "taints": "as in Kubernetes: key, value, effect",
    "images": "images on the node, each with its size: `{registry/app:1: 200Mi}`",
}
NODE_FIELDS = {
    "name": "its name",
    "count": "instead of name: how many such nodes",
    "namePrefix": "with count: they are called by this and a number from 1 on",
    **MACHINE_FIELDS,
    "zone": f"its `{ZONE}`",
    "zones": "with count: zones that the nodes are in by turns",
    "joins": "when it joins the cluster; from the beginning unless set",
    "systemUsage": "cpu and memory used outside of pods: levels or patterns, where a percentage is of the node",
}
TAINT_FIELDS = {"key": "", "value": "", "effect": ""}
AUTOSCALER_FIELDS = {
    "node": "the nodes it adds: the fields of a node from cpu to images",
    "maxNodes": "how many it may add",
    "provisionDelay": "2m unless set: how long a new node takes to join",
    "idleBelow": "50% unless set: a node that it added is idle below this share of requests",
    "idleAfter": "10m unless set: how long it is idle before it is removed",
}
_ADDED_NODE = "added"


def parse_nodes(node: ConfigNode, timeline: Timeline) -> list[tuple[ConfigNode, SimulatedNode]]:
    """The nodes of the list, each with its place in the file."""
    return [(item, each) for item in node.items() for each in _nodes(item, timeline)]


def _nodes(item: ConfigNode, timeline: Timeline) -> list[SimulatedNode]:
    fields = Fields(item, NODE_FIELDS)
    machine = parse_machine(fields)
    names, zones = _names(fields), _zones(fields)
    wholes = {CPU: _amount(machine, CPU), MEMORY: _amount(machine, MEMORY)}
    cpu, memory = fields.get(
        "systemUsage", lambda node: parse_usage(node, wholes, "the node's {}", timeline), (IDLE, IDLE)
    )
    joins = fields.get("joins", timeline.moment, timeline.begins)
    return [
        SimulatedNode(_named(machine, name, zones[number % len(zones)]), joins, cpu, memory)
        for number, name in enumerate(names)
    ]


def _names(fields: Fields) -> list[str]:
    if "name" in fields or "count" not in fields:
        for extra in ("count", "namePrefix", "zones"):
            if extra in fields and "name" in fields:
                fields.at(extra).error("name is for one node: remove one of the two")
        return [fields.require("name", object_name, "", "write a name, or count and namePrefix")]
    count = fields.get("count", integer_from(1, MAX_NODES), 1)
    prefix = fields.require("namePrefix", ConfigNode.string, "node-", "the nodes are called by it and a number")
    if not _is_prefix(prefix):
        fields.at("namePrefix").error(f"{prefix[:60]!r} is not the beginning of a name: use lower case, digits and '-'")
    return [f"{prefix}{number}" for number in range(1, count + 1)]


def _is_prefix(text: str) -> bool:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    return text[:1].isalnum() and set(text) <= allowed and len(text) <= 240


def _zones(fields: Fields) -> list[str]:
    if "zone" in fields and "zones" in fields:
        fields.at("zones").error("set zone or zones, not both")
    zone = fields.get("zone", ConfigNode.string, "")
    zones = [zone] if "zone" in fields else [*fields.get("zones", strings, ())]
    for each in zones:
        if not Requirement(ZONE, "In", (each,)).valid:
            fields.at("zone", "zones").error(f"{each[:60]!r} is not a valid label")
    return zones or [""]


def parse_machine(fields: Fields) -> Node:
    """A node without a name."""
    more = fields.get("resources", _extended_resources, {})
    amounts = {
        CPU: fields.require("cpu", capacity(CPU), 1000, "write a quantity such as 8"),
        MEMORY: fields.require("memory", capacity(MEMORY), 1 << 30, "write a quantity such as 32Gi"),
        PODS: fields.get("pods", integer_from(1, 1_000_000), 110),
        **more,
    }
    allocatable = tuple(sorted(amounts.items()))
    return Node(
        "",
        labels=fields.get("labels", labels, {}),
        taints=tuple(_taint(item) for item in fields.items("taints")),
        allocatable=allocatable,
        capacity=allocatable,
        images=fields.get("images", _images, ()),
    )


def _named(machine: Node, name: str, zone: str) -> Node:
    extra = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    return replace(machine, name=name, uid=f"node/{name}", labels={**machine.labels, **extra})


def _amount(machine: Node, resource: str) -> int:
    return dict(machine.allocatable)[resource]


def _extended_resources(node: ConfigNode) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for name, each in (node.entries() or {}).items():
        if name in (CPU, MEMORY, PODS):
            each.error(f"write {name} as a field of the node, not under resources")
        elif not is_label_key(name):
            each.error(f"{name[:60]!r} is not the name of a resource")
        elif check_whole(each, name):
            found[name] = quantity(each, name) or 0
    return found


def _images(node: ConfigNode) -> tuple[Image, ...]:
    sizes = {name: quantity(each, MEMORY) for name, each in (node.entries() or {}).items()}
    return tuple(Image((name,), size) for name, size in sizes.items() if size is not None)


def _taint(node: ConfigNode) -> Taint:
    fields = Fields(node, TAINT_FIELDS)
    key = fields.require("key", ConfigNode.string, "", "write the taint's key")
    value = fields.get("value", ConfigNode.string, "")
    effects = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
    effect = fields.require("effect", lambda each: each.choice(effects), "", f"write one of {', '.join(effects)}")
    if "key" in fields and key and not Requirement(key, "In", (value,)).valid:
        node.error(f"{key[:60]}={value[:70]} is not a valid taint")
    return Taint(key, value, effect)


def parse_cluster_autoscaler(node: ConfigNode) -> ClusterAutoscaling:
    fields = Fields(node, AUTOSCALER_FIELDS)
    machine = fields.require("node", _added_node, Node(_ADDED_NODE), "write cpu and memory of the nodes it adds")
    return ClusterAutoscaling(
        machine,
        fields.require("maxNodes", integer_from(1, MAX_NODES), 1, "write how many it may add"),
        fields.get("provisionDelay", duration, 120.0),
        fields.get("idleBelow", share, 0.5),
        fields.get("idleAfter", duration, 600.0),
    )


def _added_node(node: ConfigNode) -> Node:
    return replace(parse_machine(Fields(node, MACHINE_FIELDS)), name=_ADDED_NODE)
