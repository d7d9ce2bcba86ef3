"""Parses what happens to nodes, to the leader and to metrics."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.config_node import ConfigNode
from trimtab.config.diagnostics import did_you_mean
from trimtab.sim.scenario import Failover, MetricsPipeline, NodeAction, NodeEvent, Outage, OutageKind
from trimtab.sim.scenario_file.patterns import parse_period
from trimtab.sim.scenario_file.values import Fields, Timeline, clock_text, duration, share

FAILOVER = "failover"
METRICS_FIELDS = {
    "interval": "30s unless set, in a trace its step: how often usage is measured; at least 1s",
    "delay": "0s unless set: how much later the scheduler sees it",
    "loss": "0% unless set: the share of samples of nodes that are missing",
    "gaps": "0% unless set: the share of samples of pods that are missing",
    "noise": "0% unless set: the largest error of a sample",
    "outages": "a list of times when metrics fail",
}
OUTAGE_FIELDS = {
    "begins": "when it begins",
    "ends": "when it ends",
    "kind": "silent unless set: no answer; zeros: zeros with a new timestamp; stale: the last samples over and over",
    "nodes": "the nodes it affects; all unless set",
}
EVENT_FIELDS = {
    "at": "when",
    "action": "cordon, uncordon, drain, fail, recover or remove a node; or failover",
    "node": "the node",
    "takeover": "of a failover, 15s unless set: until another replica leads",
}

Joins = Mapping[str, float]  # nodes by name, with the time when they join


def parse_metrics(node: ConfigNode, timeline: Timeline, joins: Joins, default: MetricsPipeline) -> MetricsPipeline:
    fields = Fields(node, METRICS_FIELDS)
    return MetricsPipeline(
        fields.get("interval", timeline.interval, default.interval),
        fields.get("delay", duration, default.delay),
        fields.get("loss", share, default.loss),
        fields.get("gaps", share, default.gaps),
        fields.get("noise", share, default.noise),
        tuple(_outage(item, timeline, joins) for item in fields.items("outages")),
    )


def _outage(node: ConfigNode, timeline: Timeline, joins: Joins) -> Outage:
    fields = Fields(node, OUTAGE_FIELDS)
    begins, ends = parse_period(fields, timeline)
    kind = OutageKind(fields.get("kind", lambda each: each.choice([*OutageKind]), OutageKind.SILENT))
    names = [known_node(item, joins) for item in fields.items("nodes")]
    return Outage(begins, ends, kind, tuple(name for name in names if name))


def known_node(node: ConfigNode, joins: Joins) -> str | None:
    """The name of a node of the scenario."""
    name = node.string()
    if name is not None and name not in joins:
        node.error(f"there is no node {name[:60]!r}{did_you_mean(name, joins)}")
        return None
    return name


def parse_events(
    items: list[ConfigNode], timeline: Timeline, joins: Joins
) -> tuple[tuple[NodeEvent, ...], tuple[Failover, ...]]:
    """Events, which must be in the order of their times."""
    node_events: list[NodeEvent] = []
    failovers: list[Failover] = []
    last = timeline.begins
    for item in items:
        fields = Fields(item, EVENT_FIELDS)
        at = fields.require(
            "at", timeline.moment, last, 'write a time of day such as "09:30", or a duration after begins'
        )
        if at < last:
            fields.at("at").error(f"is before {clock_text(last)}, the time of the event before it: put events in order")
        last = max(at, last)
        actions = [*NodeAction, FAILOVER]
        action = fields.require("action", lambda each: each.choice(actions), "", f"write one of {', '.join(actions)}")  # noqa: B023
        if action == FAILOVER:
            failovers.append(_failover(fields, at))
        elif (event := _node_event(fields, at, action, joins)) is not None:
            node_events.append(event)
    return tuple(node_events), tuple(failovers)


def _failover(fields: Fields, at: float) -> Failover:
    if "node" in fields:
        fields.at("node").error("a failover is of the scheduler, not of a node: remove it")
    return Failover(at, fields.get("takeover", duration, 15.0))


def _node_event(fields: Fields, at: float, action: str, joins: Joins) -> NodeEvent | None:
    if "takeover" in fields:
        fields.at("takeover").error(f"is for action {FAILOVER} only: remove it")
    name = fields.require("node", lambda each: known_node(each, joins), "", "write which node")
    if name and at < joins[name]:
        fields.at("at").error(f"{name} joins at {clock_text(joins[name])} only: write a later time")
    return NodeEvent(at, name, NodeAction(action)) if name and action else None
