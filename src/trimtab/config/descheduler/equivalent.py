"""Makes of a policy the section `rescheduling` with the same intent, and the metric sources that it names.

| plugin                      | strategy                                                                    |
|-----------------------------|-----------------------------------------------------------------------------|
| LowNodeUtilization          | ResourceOptimization; LoadBalancing by deviation with useDeviationThresholds |
| LowNodeLoad                 | HotSpot; LoadBalancing by deviation with useDeviationThresholds             |
| HighNodeUtilization         | Consolidate                                                                 |
| RemovePodsViolating…        | the strategy of the same name                                               |
| RemoveDuplicates            | the same                                                                    |

The mode is observe, whatever the policy did. What Trimtab does in another way, or not at all, is named in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from trimtab.config.descheduler.equivalent_evictor import EXCLUDED_ANYWAY, evictor_settings
from trimtab.config.descheduler.evictor import check_namespaces, note_unsupported
from trimtab.config.descheduler.policy import Fields, Policy, read_policy
from trimtab.config.descheduler.rivals import ReadPolicy, check_pair, interval_of, metrics_source, snake
from trimtab.config.descheduler.shapes import LOW_NODE_LOAD, LOW_NODE_UTILIZATION, PREFERRED_AFFINITY, PROMETHEUS
from trimtab.config.diagnostics import Info
from trimtab.config.trimtab.settings import (
    MetricsServerSettings,
    PrometheusSettings,
    SourceSettings,
    parse_url,
)
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.rescheduling.settings import COOLDOWN, LIMITS, ReschedulingSettings
from trimtab.core.rescheduling.strategies.consolidate import Consolidate
from trimtab.core.rescheduling.strategies.hot_spot import HotSpot
from trimtab.core.rescheduling.strategies.interface import Strategy
from trimtab.core.rescheduling.strategies.load_balancing import DEVIATION, LoadBalancing
from trimtab.core.rescheduling.strategies.registry import STRATEGIES
from trimtab.core.rescheduling.strategies.remove_duplicates import RemoveDuplicates
from trimtab.core.rescheduling.strategies.remove_pods_violating_node_taints import RemovePodsViolatingNodeTaints
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

SNAPSHOT, MOST_HITS = 300.0, 6  # seconds, and how many of them HotSpot counts
TARGETS = "every target is checked by itself, and stays within the limits with the pod"
ANY_NUMBER = "one target is enough, because each move is checked with its own"
BY_USAGE = "the policy compares requests, and Trimtab what is measured"
NO_SELECTOR = "strategies have no selector of their own, so pods that do not match may be planned for, too"

_UNSUPPORTED: Mapping[str, Mapping[str, str]] = {
    LOW_NODE_UTILIZATION: {
        "numberOfNodes": ANY_NUMBER,
        "evictionLimits": "a plan has one limit for all nodes, maxMoves",
    },
    "HighNodeUtilization": {
        "numberOfNodes": "set maxNodes of Consolidate for how many nodes are emptied at the same time",
        "evictionModes": "all resources with limits count",
    },
    LOW_NODE_LOAD: {
        "paused": "remove the section to plan nothing",
        "dryRun": "the mode is observe anyway, in which nothing is moved",
        "numberOfNodes": ANY_NUMBER,
        "nodeMetricExpirationSeconds": "samples are trusted as `load` says, and nothing is moved after maxMetricsAge",
        "nodeSelector": "all nodes are planned for",
        "podSelectors": NO_SELECTOR,
        "nodeFit": "where a pod fits is always checked",
        "prodHighThresholds": "pods of all priorities count together",
        "prodLowThresholds": "pods of all priorities count together",
        "resourceWeights": "the fullest resource counts, each measured by its own limit",
        "detectorCacheTimeout": "how long a node was hot is in its snapshots",
        "nodePools": "all nodes have the same limits; LoadBalancing compares nodes by poolLabel",
        "continueEvictionWhileAboveTarget": "a plan ends where no move is worth its disruption",
    },
    "RemovePodsViolatingNodeTaints": {
        "labelSelector": NO_SELECTOR,
        "includePreferNoSchedule": "a preference alone is no reason to move a pod",
        "includedTaints": "taints are chosen by excludedTaints only",
    },
    "RemovePodsViolatingNodeAffinity": {"labelSelector": NO_SELECTOR},
    "RemovePodsViolatingInterPodAntiAffinity": {"labelSelector": NO_SELECTOR},
    "RemovePodsViolatingTopologySpreadConstraint": {
        "labelSelector": NO_SELECTOR,
        "topologyBalanceNodeFit": "where a pod fits is always checked",
    },
}
_TOP = {
    "nodeSelector": "all nodes are planned for",
    "dryRun": "the mode is observe anyway, in which nothing is moved",
    "gracePeriodSeconds": "pods get their own grace period",
    "evictionFailureEventNotification": "what is refused is in the plan, with its reason",
    "maxNoOfPodsToEvictPerNode": "a plan has one limit for all nodes, maxMoves",
    "maxNoOfPodsToEvictPerNamespace": "a plan has one limit for all namespaces, maxMoves",
}


@dataclass(slots=True)
class _Draft:
    """What the plugins have asked for so far."""

    policy: Policy
    interval: float
    strategies: dict[str, Strategy] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=lambda: dict(LIMITS))
    excluded: list[set[str]] = field(default_factory=list)  # namespaces, by plugin


def convert_policy(content: str | bytes, file: str, key: str = "") -> ReadPolicy:
    """Raises ConfigError with all problems of the file."""
    policy = read_policy(content, file, key)
    note_unsupported(policy.top, _TOP)
    draft = _Draft(policy, interval_of(policy))
    for name, fields in policy.strategies.items():
        note_unsupported(fields, _UNSUPPORTED.get(name, {}))
        _note_namespaces(draft, fields)
        strategy = _CONVERTERS[name](draft, fields)
        if strategy is not None:
            draft.strategies[strategy.name] = strategy
    _keep_common_namespaces(draft)
    values = evictor_settings(policy, set.intersection(*draft.excluded) if draft.excluded else set())
    if not draft.strategies and not policy.report.problems:
        policy.top.at("profiles").error("no enabled plugin has a counterpart: there is nothing to convert")
    sources = tuple(_sources(policy))
    if not sources:
        policy.top.node.note("Trimtab plans by measured usage, and the policy names no source: add one to sources")
    notes = policy.report.finish()
    section = ReschedulingSettings(
        interval=draft.interval,
        limits=draft.limits,
        strategies=tuple(draft.strategies.values()),
        **{"cooldown": max(COOLDOWN, draft.interval), **values},
    )
    return ReadPolicy(section, notes, sources)


# --- namespaces and sources


def _namespaces_key(fields: Fields) -> str:
    return "evictableNamespaces" if hasattr(fields.value, "evictable_namespaces") else "namespaces"


def _note_namespaces(draft: _Draft, fields: Fields) -> None:
    key = _namespaces_key(fields)
    found = check_namespaces(fields, key)
    draft.excluded.append(set(found.exclude) if found is not None else set())
    if found is not None and found.include:
        fields.at(key, "include").note(
            "not supported: pods of all namespaces are planned for but those of excludedNamespaces"
        )


def _keep_common_namespaces(draft: _Draft) -> None:
    """A namespace is excluded for all strategies or for none: the note says of which ones it is not."""
    common = set.intersection(*draft.excluded) if draft.excluded else set()
    for fields, excluded in zip(draft.policy.strategies.values(), draft.excluded, strict=True):
        if others := sorted(excluded - common - {*EXCLUDED_ANYWAY}):
            fields.at(_namespaces_key(fields), "exclude").note(
                f"not supported: excludedNamespaces is for all strategies, and others have no such exclusion of "
                f"{', '.join(others)}"
            )


def _sources(policy: Policy) -> Iterable[SourceSettings]:
    top, names = policy.top.value, set[str]()
    collector = getattr(top, "metrics_collector", None)
    if collector is not None and collector.enabled:
        names.add("metrics-server")
        yield MetricsServerSettings("metrics-server")
    for number, each in enumerate(getattr(top, "metrics_providers", ())):
        node = policy.top.at("metricsProviders").items()[number]
        if each.source == PROMETHEUS and each.prometheus is not None and each.prometheus.url:
            inner = node.child("prometheus")
            if (url := parse_url(inner.child("url"))) is not None and "prometheus" not in names:
                names.add("prometheus")
                yield PrometheusSettings("prometheus", url)
            if each.prometheus.auth_token is not None:
                inner.child("authToken").note("not supported: mount the Secret, and name it as bearerTokenFile")
        elif each.source == PROMETHEUS:
            node.note("not supported: it has no url, so no source is written for it")
        elif "metrics-server" not in names:
            names.add("metrics-server")
            yield MetricsServerSettings("metrics-server")


# --- strategies


def _limits(draft: _Draft, fields: Fields, key: str) -> None:
    """What is above its threshold there is above its limit here."""
    for name, percent in getattr(fields.value, snake(key)).values:
        if name not in (CPU, MEMORY):
            fields.at(key, name).note("not supported: limits are those of cpu and memory")
        elif percent <= 0:
            fields.at(key, name).error("must be above 0: no node can use less")
        else:
            draft.limits[name] = percent / 100


def _deviation(fields: Fields, key: str) -> Strategy | None:
    percents = [percent for name, percent in getattr(fields.value, snake(key)).values if name in (CPU, MEMORY)]
    if not percents or min(percents) <= 0:
        fields.at(key).error("needs cpu or memory, above 0, for a deviation from their mean")
        return None
    if len(set(percents)) > 1:
        fields.at(key).note(f"imbalanceThreshold is one for all resources: {min(percents):g} counts")
    return LoadBalancing(imbalance_threshold=min(percents), measure=DEVIATION)


def _low_node_utilization(draft: _Draft, fields: Fields) -> Strategy | None:
    check_namespaces(fields, "evictableNamespaces", exclude_only=True)
    args, before = fields.value, len(fields.node.report.problems)
    check_pair(fields, "thresholds", "targetThresholds", args.use_deviation_thresholds)
    source = metrics_source(draft.policy, fields)
    fields.at("thresholds").note(f"not needed: {TARGETS}", Info)
    if source == PROMETHEUS:
        fields.at("metricsUtilization", "prometheus").note(
            "not supported: usage is measured by the metrics of the source, and the limits keep their defaults"
        )
        return ResourceOptimization()
    if not source:
        fields.node.note(f"not the same: {BY_USAGE}")
    if len(fields.node.report.problems) > before:
        return None
    if args.use_deviation_thresholds:
        return _deviation(fields, "targetThresholds")
    _limits(draft, fields, "targetThresholds")
    return ResourceOptimization()


def _low_node_load(draft: _Draft, fields: Fields) -> Strategy | None:
    args, before = fields.value, len(fields.node.report.problems)
    check_pair(fields, "lowThresholds", "highThresholds", args.use_deviation_thresholds)
    if "lowThresholds" in fields.entries:
        fields.at("lowThresholds").note(f"not needed: {TARGETS}", Info)
    if len(fields.node.report.problems) > before:
        return None
    condition = args.anomaly_condition
    if args.use_deviation_thresholds:
        fields.at("anomalyCondition").note("not supported: LoadBalancing compares the newest samples")
        return _deviation(fields, "highThresholds")
    _limits(draft, fields, "highThresholds")
    rounds = (condition.consecutive_abnormalities or 5) + 1
    hits = min(max(ceil(rounds * draft.interval / SNAPSHOT), 1), MOST_HITS)
    fields.at("anomalyCondition").note(
        f"hot for {hits} snapshots of five minutes stands for {rounds} rounds; nodes are forecast, too, and those that "
        "cool down by themselves are left alone",
        Info,
    )
    return HotSpot(hits=hits)


def _high_node_utilization(draft: _Draft, fields: Fields) -> Strategy | None:
    check_namespaces(fields, "evictableNamespaces", exclude_only=True)
    percents = dict(fields.value.thresholds.values)
    for name in percents:
        if name not in (CPU, MEMORY):
            fields.at("thresholds", name).note("not supported: a node is cold by its usage of cpu and memory")
    shares = [100 * percents[name] / (100 * draft.limits[name]) for name in (CPU, MEMORY) if percents.get(name)]
    fields.node.note(f"not the same: {BY_USAGE}, as a share of the limits, at all times")
    if not shares or min(shares) > 100:
        fields.at("thresholds").error("needs cpu or memory, above 0 and below their limits")
        return None
    return Consolidate(threshold=round(min(shares), 1))


def _remove_duplicates(draft: _Draft, fields: Fields) -> Strategy:
    return RemoveDuplicates(exclude_owner_kinds=fields.value.exclude_owner_kinds)


def _node_taints(draft: _Draft, fields: Fields) -> Strategy:
    keys = []
    for number, taint in enumerate(fields.value.excluded_taints):
        if "=" in taint:
            fields.at("excludedTaints").items()[number].note("not supported: a taint is excluded by its key alone")
        keys.append(taint.partition("=")[0])
    if "excludedTaints" not in fields.entries:
        fields.node.note(
            "pods leave cordoned nodes, too, as there: exclude node.kubernetes.io/unschedulable to keep them"
        )
    return RemovePodsViolatingNodeTaints(excluded_taints=tuple(dict.fromkeys(keys)))


def _node_affinity(draft: _Draft, fields: Fields) -> Strategy:
    if PREFERRED_AFFINITY in fields.value.node_affinity_type:
        fields.at("nodeAffinityType").note("not supported: a preference alone is no reason to move a pod")
    return STRATEGIES["RemovePodsViolatingNodeAffinity"]()


def _spread(draft: _Draft, fields: Fields) -> Strategy:
    if "ScheduleAnyway" in fields.value.constraints:
        fields.at("constraints").note("not supported: constraints with ScheduleAnyway are no reason to move a pod")
    return STRATEGIES["RemovePodsViolatingTopologySpreadConstraint"]()


def _anti_affinity(draft: _Draft, fields: Fields) -> Strategy:
    return STRATEGIES["RemovePodsViolatingInterPodAntiAffinity"]()


_CONVERTERS: Mapping[str, Callable[[_Draft, Fields], Any]] = {
    LOW_NODE_UTILIZATION: _low_node_utilization,
    LOW_NODE_LOAD: _low_node_load,
    "HighNodeUtilization": _high_node_utilization,
    "RemoveDuplicates": _remove_duplicates,
    "RemovePodsViolatingNodeTaints": _node_taints,
    "RemovePodsViolatingNodeAffinity": _node_affinity,
    "RemovePodsViolatingInterPodAntiAffinity": _anti_affinity,
    "RemovePodsViolatingTopologySpreadConstraint": _spread,
}
