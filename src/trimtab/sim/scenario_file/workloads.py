"""Parses the workloads of a scenario: templates of pods, and what becomes of them over time."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial

from msgspec import Struct

from trimtab.config.config_node import ConfigNode
from trimtab.config.yaml import MappingNode
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.scenario import (
    IDLE,
    NAMESPACE,
    DisruptionBudget,
    HorizontalAutoscaling,
    OwnerKind,
    PodTemplate,
    Rollout,
    Scale,
    Workload,
)
from trimtab.sim.scenario_file.patterns import parse_usage
from trimtab.sim.scenario_file.pods import decode_pod
from trimtab.sim.scenario_file.values import (
    Fields,
    Timeline,
    clock_text,
    duration,
    duration_range,
    factor,
    integer_from,
    object_name,
    percentage,
    pod_count,
    positive_duration,
    share,
)
from trimtab.wire.pod import PodReader

MAX_REPLICAS = 100_000
TEMPLATE_FIELDS = {
    "requests": "cpu, memory and other resources that each pod requests",
    "limits": "its limits; what has a limit and no request requests as much",
    "usage": "cpu and memory that it uses: levels or patterns, where a percentage is of the request",
    "pod": "labels (`app` and the workload's name unless set), and the fields of a Kubernetes PodSpec",
    "startDelay": "[1s, 4s] unless set: from the bind until its containers run, shortest and longest",
    "readyDelay": "0s unless set: from then until it is ready",
    "gracePeriod": "30s unless set: how long it takes to terminate",
    "lifetime": "of a Job or a Pod: how long it runs before it finishes",
}
WORKLOAD_FIELDS = {
    "name": "its name",
    "namespace": f"`{NAMESPACE}` unless set",
    "kind": "Deployment unless set; StatefulSet, DaemonSet, Job or Pod",
    "replicas": "1 unless set: how many pods; of a Pod, how many of the same",
    "created": "when it is created; at the beginning unless set",
    "deleted": "when it is deleted, if ever",
    "stagger": "0s unless set: the time between two of its first pods",
    **TEMPLATE_FIELDS,
    "maxSurge": "1 unless set: pods beyond replicas during a rollout, or a percentage",
    "maxUnavailable": "0 unless set: missing pods during a rollout, or a percentage",
    "rollout": "a list of new revisions: at, and those of the fields from requests to gracePeriod that change",
    "scale": "a list of `{at, replicas}`",
    "autoscaling": "a HorizontalPodAutoscaler on CPU; usage is then the work of `replicas` pods, which all share",
    "disruptionBudget": "minAvailable or maxUnavailable, as a number of pods or a percentage of replicas",
}
SCALE_FIELDS = {"at": "when", "replicas": "how many pods from then on"}
AUTOSCALING_FIELDS = {
    "minReplicas": "1 unless set: the fewest pods",
    "maxReplicas": "the most pods",
    "target": "the mean CPU usage to aim for, as a share of requests",
    "interval": "15s unless set: how often it decides; at least 1s",
    "tolerance": "10% unless set: by how much usage may miss the target",
    "scaleDownAfter": "5m unless set: how long fewer pods must be enough",
}
BUDGET_FIELDS = {"minAvailable": "pods that must stay", "maxUnavailable": "pods that may be missing"}
_FINISHING = (OwnerKind.JOB, OwnerKind.POD)
_SCALABLE = (OwnerKind.DEPLOYMENT, OwnerKind.STATEFUL_SET)
_ROLLING = (*_SCALABLE, OwnerKind.DAEMON_SET)
_ONLY_FOR = {
    "rollout": _ROLLING,
    "maxUnavailable": _ROLLING,
    "maxSurge": _ROLLING,
    "scale": _SCALABLE,
    "autoscaling": _SCALABLE,
    "lifetime": _FINISHING,
    "replicas": (*_SCALABLE, *_FINISHING),
    "stagger": (*_SCALABLE, *_FINISHING),
}


class WorkloadContext(Struct, frozen=True):
    """When the scenario takes place, and what decodes its pods: one reader for all, so that equal specs are one."""

    timeline: Timeline
    reader: PodReader


def parse_workload(node: ConfigNode, context: WorkloadContext) -> Workload:
    """The workload; its name is empty after a problem with it."""
    fields, timeline = Fields(node, WORKLOAD_FIELDS), context.timeline
    name = fields.require("name", object_name, "", "write a name")
    kind = OwnerKind(fields.get("kind", lambda each: each.choice([*OwnerKind]), OwnerKind.DEPLOYMENT))
    _check_kind(fields, kind)
    replicas = fields.get("replicas", integer_from(0, MAX_REPLICAS), 1)
    created = fields.get("created", timeline.moment, timeline.begins)
    template = parse_template(fields, name, context)
    return Workload(
        name,
        template or PodTemplate(),
        kind,
        fields.get("namespace", object_name, NAMESPACE),
        replicas,
        created,
        _deleted(fields, created, timeline),
        fields.get("stagger", duration, 0.0),
        *_rolling_update(fields, kind, replicas),
        _rollouts(fields, name, created, context if template is not None else None),
        _scales(fields, created, timeline),
        fields.find(
            "autoscaling", partial(_autoscaling, fields=fields, timeline=timeline, replicas=replicas, template=template)
        ),
        fields.find("disruptionBudget", partial(_budget, replicas=replicas)),
    )


def _check_kind(fields: Fields, kind: OwnerKind) -> None:
    for field, kinds in _ONLY_FOR.items():
        if field in fields and kind not in kinds:
            fields.at(field).error(f"a {kind} has none: remove it, or choose kind {' or '.join(kinds)}")
    if kind is OwnerKind.JOB and "lifetime" not in fields:
        fields.node.error("lifetime is missing: a Job's pods finish, write after how long")


def _rolling_update(fields: Fields, kind: OwnerKind, replicas: int) -> tuple[int, int]:
    """Pods more and pods fewer during a rollout, of which one is above 0; a small percentage counts as one pod missing."""
    surge = fields.get("maxSurge", partial(pod_count, replicas=replicas, round_up=True), 1)
    missing = fields.get("maxUnavailable", partial(pod_count, replicas=replicas, round_up=False), 0)
    if surge or missing or kind is not OwnerKind.DEPLOYMENT:
        return surge, missing
    if fields.get("maxUnavailable", percentage, 0.0) > 0 or fields.get("maxSurge", percentage, 0.0) > 0:
        return 0, 1
    fields.at("maxSurge", "maxUnavailable").error(
        "maxSurge and maxUnavailable are both 0, so no rollout could begin: raise one"
    )
    return 1, 0


def _deleted(fields: Fields, created: float, timeline: Timeline) -> float | None:
    deleted = fields.find("deleted", timeline.moment)
    if deleted is not None and deleted <= created:
        fields.at("deleted").error(f"is not after created ({clock_text(created)}): times must be in order")
    return deleted


def parse_template(fields: Fields, name: str, context: WorkloadContext) -> PodTemplate | None:
    """The template; None if its pods could not be decoded."""
    resources = {key: fields.entries[key] for key in ("requests", "limits") if key in fields}
    pod = decode_pod(fields.entries.get("pod"), resources, context.reader)
    wholes = {each: None if pod is None else pod.requests.of(each) for each in (CPU, MEMORY)}
    cpu, memory = fields.get(
        "usage", lambda node: parse_usage(node, wholes, "the pod's {} request", context.timeline), (IDLE, IDLE)
    )
    delays = (
        fields.get("startDelay", duration_range, (1.0, 4.0)),
        fields.get("readyDelay", duration, 0.0),
        fields.get("gracePeriod", duration, 30.0),
        fields.find("lifetime", positive_duration),
    )
    if pod is None:
        return None
    chosen = fields.find("pod", lambda node: (node.entries() or {}).get("schedulerName")) is not None
    scheduler = pod.scheduler_name if chosen else ""
    labels = pod.labels or ({"app": name[:63].rstrip("-.")} if name else {})
    behaviour = (*delays, pod.may_preempt)
    return PodTemplate(pod.requests, cpu, memory, pod.spec, labels, pod.priority, scheduler, *behaviour)


def _rollouts(fields: Fields, name: str, created: float, context: WorkloadContext | None) -> tuple[Rollout, ...]:
    """Each revision with the fields of the one before, unless it sets them."""
    found: list[Rollout] = []
    before, last = fields, created
    for item in fields.items("rollout"):
        changes = Fields(item, {"at", *TEMPLATE_FIELDS} - {"lifetime"})
        last = _later(changes, last, context.timeline if context is not None else Timeline())
        if context is None or not changes.is_mapping:
            continue
        before = _merged(before, changes)
        known = len(item.report.problems)
        template = parse_template(before, name, context)
        _explain_problems(item, known)
        found.append(Rollout(last, template if changes.entries.keys() - {"at"} else None))
    return tuple(found)


def _merged(before: Fields, changes: Fields) -> Fields:
    """The template's fields of one revision, with those that the next one sets, each with its place."""
    assert isinstance(changes.node.yaml, MappingNode)
    kept = {key: node for key, node in before.entries.items() if key not in changes.node.yaml.entries}
    merged = copy(changes)
    merged.entries = {key: node for key, node in {**kept, **changes.entries}.items() if key in TEMPLATE_FIELDS}
    return merged


def _explain_problems(item: ConfigNode, known: int) -> None:
    """Where a field of an earlier revision does not fit to this one, say which."""
    problems, line = item.report.problems, item.yaml.position[0]
    for index in range(known, len(problems)):
        each = problems[index]
        if not each.path.startswith(item.path):
            problems[index] = replace(each, message=f"{each.message} (in the rollout of line {line})")


def _scales(fields: Fields, created: float, timeline: Timeline) -> tuple[Scale, ...]:
    found: list[Scale] = []
    last = created
    for item in fields.items("scale"):
        changes = Fields(item, SCALE_FIELDS)
        last = _later(changes, last, timeline)
        found.append(Scale(last, changes.require("replicas", integer_from(0, MAX_REPLICAS), 1, "write how many pods")))
    return tuple(found)


def _later(fields: Fields, last: float, timeline: Timeline) -> float:
    at = fields.require("at", timeline.moment, last, 'write a time of day such as "09:30", or a duration such as 10m')
    if at < last:
        fields.at("at").error(f"is before {clock_text(last)}, the time of what comes before: times must be in order")
    return max(at, last)


def _autoscaling(
    node: ConfigNode, fields: Fields, timeline: Timeline, replicas: int, template: PodTemplate | None
) -> HorizontalAutoscaling:
    inner = Fields(node, AUTOSCALING_FIELDS)
    most = inner.require("maxReplicas", integer_from(1, MAX_REPLICAS), MAX_REPLICAS, "write the most pods")
    least = inner.get("minReplicas", integer_from(1, MAX_REPLICAS), 1)
    if least > most:
        inner.at("minReplicas").error(f"{least} is above maxReplicas, {most}")
    elif "replicas" in fields and not least <= replicas <= most:
        fields.at("replicas").error(f"{replicas} is not between minReplicas, {least}, and maxReplicas, {most}")
    target = inner.require("target", factor, 1.0, "write a share of the requests such as 60%")
    if target == 0:
        inner.at("target").error("must be above 0")
    if template is not None and not template.requests.of(CPU):
        node.error("needs a CPU request: write requests")
    return HorizontalAutoscaling(
        least,
        most,
        target,
        inner.get("interval", timeline.interval, 15.0),
        inner.get("tolerance", share, 0.1),
        inner.get("scaleDownAfter", duration, 300.0),
    )


def _budget(node: ConfigNode, replicas: int) -> DisruptionBudget:
    fields = Fields(node, BUDGET_FIELDS)
    if fields.is_mapping and ("minAvailable" in fields) == ("maxUnavailable" in fields):
        both = "minAvailable" in fields
        node.error(
            "has both minAvailable and maxUnavailable: remove one" if both else "needs minAvailable or maxUnavailable"
        )
    count = partial(pod_count, replicas=replicas, round_up=True)
    return DisruptionBudget(fields.find("minAvailable", count), fields.find("maxUnavailable", count))
