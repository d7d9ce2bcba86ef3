"""Makes of a policy the rival that evicts by its rules: the descheduler's LowNodeUtilization or Koordinator's LowNodeLoad.

What the rival does not reproduce is named in a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from trimtab.config.configuration import Configuration
from trimtab.config.descheduler.evictor import check_namespaces, evictor_of, note_unsupported
from trimtab.config.descheduler.evictor_shapes import MigrationControllerArgs
from trimtab.config.descheduler.policy import CONFIGURATION, KINDS, Fields, Policy, read_policy
from trimtab.config.descheduler.shapes import (
    KUBERNETES_METRICS,
    LOW_NODE_LOAD,
    LOW_NODE_UTILIZATION,
    PROMETHEUS,
    LowNodeLoadArgs,
    LowNodeUtilizationArgs,
)
from trimtab.config.diagnostics import Note
from trimtab.config.kube_scheduler import default_configuration
from trimtab.config.manifests import holds
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.framework.resource_amounts import ResourceValues
from trimtab.core.model.duration import DAY, format_duration
from trimtab.core.model.resources import CPU, MEMORY, PODS
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import METRIC_RESOURCE
from trimtab.core.rescheduling.rivals.descheduler_low_node_utilization import (
    DeschedulerLowNodeUtilization as LowNodeUtilization,
)
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.rivals.thresholds import Thresholds
from trimtab.core.rescheduling.settings import COOLDOWN, INTERVAL, Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import RivalStrategy

ALL_NODES = "all nodes are looked at"
NOTHING_EVICTED = "nothing is evicted in a plan, and a simulation has no such thing"
LIMITED_RANGE = (10.0, DAY)

_TOP = {
    "nodeSelector": ALL_NODES,
    "dryRun": "a plan is always dry",
    "gracePeriodSeconds": NOTHING_EVICTED,
    "evictionFailureEventNotification": NOTHING_EVICTED,
    "metricsProviders": "they are not asked: the usage is that of the sources in --config, or of metrics-server",
}
_LOW_NODE_LOAD = {
    "nodeSelector": ALL_NODES,
    "prodHighThresholds": "pods of all priorities count together",
    "prodLowThresholds": "pods of all priorities count together",
    "resourceWeights": "CPU and memory have equal weights",
    "nodePools": "all nodes are one pool, with the thresholds outside of nodePools",
    "podSelectors": "all pods that the evictor lets through may be evicted",
    "continueEvictionWhileAboveTarget": "evictions of a node end below highThresholds",
    "dryRun": "a plan is always dry",
    "paused": "a plan asks what it would do, were it not paused",
}
_EVICTORS = {
    "nodeSelector": ALL_NODES,
    "namespaceLabelSelector": "namespaces count by their names only",
    "evictFailedBarePods": "failed pods use nothing, and are not looked at",
    "maxMigratingPerWorkload": "a tenth of more than ten replicas, two of four to ten, else one, as unless set",
    "maxUnavailablePerWorkload": "a tenth of more than ten replicas, two of four to ten, else one, as unless set",
    "objectLimiters": "what happened in earlier rounds is not counted",
    "defaultJobMode": NOTHING_EVICTED,
    "defaultJobTTL": NOTHING_EVICTED,
    "schedulerNames": NOTHING_EVICTED,
    "evictQPS": NOTHING_EVICTED,
    "evictBurst": NOTHING_EVICTED,
    "evictionPolicy": NOTHING_EVICTED,
    "defaultDeleteOptions": NOTHING_EVICTED,
    "arbitrationArgs": NOTHING_EVICTED,
    "maxConcurrentReconciles": NOTHING_EVICTED,
    "dryRun": "a plan is always dry",
}


class ReadPolicy(NamedTuple):
    """Settings that a policy amounts to, the notes on what they leave out, and the metric sources that it names."""

    settings: ReschedulingSettings
    notes: tuple[Note, ...]
    sources: tuple[SourceSettings, ...] = ()


def read_rival(content: str | bytes, file: str, key: str = "") -> ReadPolicy:
    """The policy by its own rules; raises ConfigError with all problems of the file."""
    policy = read_policy(content, file, key)
    note_unsupported(policy.top, _TOP)
    if policy.evictor is not None:
        note_unsupported(policy.evictor, _EVICTORS)
        if "podProtections" in policy.evictor.entries and policy.evictor.value.pod_protections.config is not None:
            policy.evictor.at("podProtections", "config").note(
                "not supported: with PodsWithPVC all pods with volume claims stay, of whatever storage class"
            )
    rival = _rival(policy)
    interval = interval_of(policy)
    notes = policy.report.finish()
    assert rival is not None
    settings = ReschedulingSettings(strategies=(rival,), interval=interval, cooldown=max(COOLDOWN, interval))
    return ReadPolicy(settings, notes)


def rival_configuration(content: str | bytes, file: str) -> Configuration | None:
    """The stock profile with the policy's rescheduler at work beside it; None if the file holds no such policy.

    Raises ConfigError.
    """
    if not holds(content, file, tuple(KINDS)):
        return None
    found, stock = read_rival(content, file), default_configuration()
    rescheduling = replace(found.settings, mode=Mode.AUTO)
    return replace(stock, settings=replace(stock.settings, rescheduling=rescheduling), notes=found.notes)


def _rival(policy: Policy) -> RivalStrategy | None:
    known = LOW_NODE_LOAD if policy.kind == CONFIGURATION else LOW_NODE_UTILIZATION
    for name, fields in policy.strategies.items():
        if name != known:
            fields.node.note(
                f"not supported: {name} is not run, because only {known} is reproduced here; `trimtab config convert` "
                "has settings with the same intent"
            )
    if known not in policy.strategies:
        policy.top.at("profiles").error(
            f"no profile enables {known}, the only plugin that is reproduced by its own rules: `trimtab config convert` "
            "has settings of Trimtab with the same intent"
        )
        return None
    fields = policy.strategies[known]
    return _low_node_load(policy, fields) if known == LOW_NODE_LOAD else _low_node_utilization(policy, fields)


def interval_of(policy: Policy) -> float:
    """Between two rounds; the descheduler's is a flag of it, 5m as it is shipped."""
    given = getattr(policy.top.value, "descheduling_interval", None)
    low, high = LIMITED_RANGE
    if given is None:
        return INTERVAL
    if not low <= given <= high:
        nearest = format_duration(min(max(given, low), high))
        policy.top.at("deschedulingInterval").note(f"{nearest} counts instead, the nearest value that is possible")
    return float(min(max(given, low), high))


def _low_node_utilization(policy: Policy, fields: Fields) -> RivalStrategy | None:
    args = fields.value
    assert isinstance(args, LowNodeUtilizationArgs)
    namespaces = check_namespaces(fields, "evictableNamespaces", exclude_only=True)
    check_pair(fields, "thresholds", "targetThresholds", args.use_deviation_thresholds)
    source = metrics_source(policy, fields)
    if args.metrics_utilization.prometheus is not None:
        fields.at("metricsUtilization", "prometheus").note(
            "not supported: the query is not run, and the CPU usage of each node stands for its result"
        )
    evictor = policy.evictor.value if policy.evictor is not None else None
    limit = args.eviction_limits.node if args.eviction_limits is not None else None
    low, high = (_thresholds(fields, key, source) for key in ("thresholds", "targetThresholds"))
    own = evictor_of(policy, namespaces)
    if policy.report.problems:
        return None
    return LowNodeUtilization(
        thresholds=low,
        target_thresholds=high,
        use_deviation_thresholds=args.use_deviation_thresholds,
        number_of_nodes=args.number_of_nodes,
        metrics_source=source,
        eviction_limit_per_node=limit or 0,
        node_fit=evictor is not None and evictor.node_fit,
        evictor=replace(own, max_per_node=0) if limit == 0 else own,  # 0 is no limit to the rival
    )


def metrics_source(policy: Policy, fields: Fields) -> str:
    """Where LowNodeUtilization has usage from; empty for requests."""
    used = fields.value.metrics_utilization
    if used.metrics_server and used.source:
        fields.at("metricsUtilization").error("metricsServer and source are both set: the descheduler refuses it")
    if used.source == PROMETHEUS and (used.prometheus is None or not used.prometheus.query):
        fields.at("metricsUtilization").error("prometheus.query is missing: the descheduler needs it with this source")
    if used.source == KUBERNETES_METRICS and used.prometheus is not None:
        fields.at("metricsUtilization", "prometheus").error(f"may not be set with {KUBERNETES_METRICS}: remove it")
    if used.metrics_server or used.source == KUBERNETES_METRICS:
        collector = getattr(policy.top.value, "metrics_collector", None)
        providers = getattr(policy.top.value, "metrics_providers", ())
        if not (collector and collector.enabled) and all(each.source != KUBERNETES_METRICS for each in providers):
            fields.at("metricsUtilization").error(
                f"the descheduler needs a provider for it: add metricsProviders: [{{source: {KUBERNETES_METRICS}}}]"
            )
        return KUBERNETES_METRICS
    return str(used.source)


def check_pair(fields: Fields, low: str, high: str, deviation: bool) -> None:
    """Percentages of the same resources; those of `low` are not above those of `high`."""
    below, above = (dict(getattr(fields.value, snake(key)).values) for key in (low, high))
    for key, values in ((low, below), (high, above)):
        for name, percent in values.items():
            if not 0 <= percent <= 100:
                fields.at(key, name).error(f"{percent:g} is not between 0 and 100")
    if low == "thresholds" and set(below) != set(above):
        fields.at(high).error(f"{low} and {high} must have the same resources")
    for name in below.keys() & above.keys():
        if below[name] > above[name] and not deviation:
            fields.at(low, name).error(f"{below[name]:g} is above the {above[name]:g} of {high}: lower it")


def snake(key: str) -> str:
    """The name of a field by its key."""
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in key)


def _thresholds(fields: Fields, key: str, source: str = "") -> Thresholds:
    """Of the resources that a rival compares; in Prometheus mode there is one, which CPU stands for."""
    values: ResourceValues = getattr(fields.value, snake(key))
    known: Mapping[str, str] = (
        {METRIC_RESOURCE: CPU} if source == PROMETHEUS else {CPU: CPU, MEMORY: MEMORY, PODS: PODS}
    )
    for name, _ in values.values:
        if name not in known:
            fields.at(key, name).note(f"not supported: only {', '.join(known)} are compared with their thresholds")
    found = {known[name]: value for name, value in values.values if name in known}
    return Thresholds(found.get(CPU), found.get(MEMORY), found.get(PODS))


def _low_node_load(policy: Policy, fields: Fields) -> RivalStrategy | None:
    args = fields.value
    assert isinstance(args, LowNodeLoadArgs)
    note_unsupported(fields, _LOW_NODE_LOAD)
    namespaces = check_namespaces(fields, "evictableNamespaces")
    check_pair(fields, "lowThresholds", "highThresholds", args.use_deviation_thresholds)
    condition = args.anomaly_condition
    evictor = policy.evictor.value if policy.evictor is not None else MigrationControllerArgs()
    given = evictor.max_migrating_per_node if isinstance(evictor, MigrationControllerArgs) else None
    low, high = (_thresholds(fields, key) for key in ("lowThresholds", "highThresholds"))
    if policy.report.problems:
        return None
    return KoordinatorLowNodeLoad(
        low_thresholds=low,
        high_thresholds=high,
        use_deviation_thresholds=args.use_deviation_thresholds,
        number_of_nodes=args.number_of_nodes,
        consecutive_abnormalities=condition.consecutive_abnormalities or 5,
        consecutive_normalities=condition.consecutive_normalities or 3,
        anomaly_timeout=min(max(condition.timeout, 1.0), 3600.0),
        detector_cache_timeout=args.detector_cache_timeout,
        node_metric_expiration=float(args.node_metric_expiration_seconds),
        node_fit=args.node_fit or evictor.node_fit,
        max_migrating_per_node=2 if given is None else given,
        skip_check_expected_replicas=isinstance(evictor, MigrationControllerArgs)
        and evictor.skip_check_expected_replicas,
        evictor=evictor_of(policy, namespaces),
    )


def in_one_round(settings: ReschedulingSettings) -> ReschedulingSettings:
    """A plan is one round, so that a node which is too full now counts as abnormal at once."""
    rivals = (
        replace(each, consecutive_abnormalities=1) if isinstance(each, KoordinatorLowNodeLoad) else each
        for each in settings.rivals
    )
    return replace(settings, strategies=tuple(rivals))
