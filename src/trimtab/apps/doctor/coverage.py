"""Which nodes and running pods have a sample that the scheduler would trust, and why the others have none.

Samples are validated by the scheduler's own code (`core.load.validation`). A pod without a sample is scheduled by an
estimate, so gaps among pods do no harm by themselves; there may be very many, and a few are named.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.apps.doctor.finding import Area, Finding, Severity, ok, shorten, warning
from trimtab.apps.doctor.missing_series import NO_ANSWER, TOO_FEW_SAMPLES, MissingReason, diagnose
from trimtab.apps.doctor.source_checks import Probe, expected_metrics
from trimtab.config.trimtab.settings import PrometheusSettings
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.pressure_rules import RULE_QUERY_PREFIX
from trimtab.core.load.settings import TRACKED, LoadSettings
from trimtab.core.load.validation import SampleValidator, check_node_amounts, check_pod_amounts, well_formed
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.model.resources import CPU, GIB, MEMORY
from trimtab.core.tables import Bools
from trimtab.sources.prometheus.node_matching import MatchFailure

MAX_NAMED = 20  # pods in a finding
UNMATCHED = MatchFailure.UNMATCHED.value
STARTING, OTHER_NAMESPACE, SILENT_NODE, NO_SERIES = "starting", "other namespace", "silent node", "no series"
SCRAPE_REMEDY = "check their exporter and its scrapes"
RELABEL_REMEDY = "set nodeLabel to a label that holds the node's name or address, or relabel the series"
UNSCRAPED_REMEDY = "check the targets of Prometheus, or whether the kubelets answer metrics-server"
REASONS: Mapping[str, tuple[str, str]] = {
    "stale": ("too old", "check whether they are still scraped, or raise load.staleAfter"),
    "future": ("in the future", "synchronise the clocks of the nodes, the source and this machine by NTP"),
    "implausible": ("more than the node's capacity", "check the unit of the query, and the exporter"),
    "negative": ("negative", SCRAPE_REMEDY),
    "not a number": ("not a number", SCRAPE_REMEDY),
    "infinite": ("infinite", SCRAPE_REMEDY),
    "no time": ("without a timestamp", "check whether they are still scraped"),
    "ambiguous": (
        "ambiguous (two series for one node, or one for two)",
        "scrape each node once, or select one series by matchLabels",
    ),
    "duplicate": ("listed twice", "let the source list each node once"),
    NO_ANSWER: ("missing", "run doctor again: the source did not answer a second time"),
    TOO_FEW_SAMPLES: ("not known yet", "wait for a second scrape within rateWindow, or raise it"),
}
POD_REASONS: Mapping[str, tuple[str, str]] = {
    **REASONS,
    STARTING: ("not sampled yet", ""),
    OTHER_NAMESPACE: ("under another namespace", "keep the pod's own labels namespace and pod (see honor_labels)"),
    SILENT_NODE: (
        "no series of any pod of the node",
        "check whether these kubelets are scraped (/metrics/cadvisor), or answer metrics-server",
    ),
    NO_SERIES: ("no series", "check whether these containers report, and whether relabelling drops or renames them"),
    "implausible": ("more than the node has or uses", "check the unit of the query, and that both are of one cluster"),
    "earlier": ("of an earlier pod of that name", "wait for the next scrape"),
    "unknown": ("on a node of unknown size", "see the findings about nodes"),
}


class Coverage(NamedTuple):
    """Who has a trusted sample of one metric, and why the others have none; by node name or pod key.

    unmatched: labels of series that belong to no node. skipped: how many series belong to no pod, by reason.
    """

    resource: str
    known: frozenset[str]
    missing: Mapping[str, MissingReason]
    unmatched: tuple[str, ...] = ()
    skipped: Mapping[str, int] = {}


class RecordingValidator(SampleValidator):
    """Remembers why samples were rejected, by row."""

    def __init__(self, reading: Reading, rows: Mapping[str, int], now: float, load: LoadSettings) -> None:
        index = np.fromiter((rows.get(name, -1) for name in reading.names), dtype=np.intp, count=len(reading.names))
        super().__init__(reading, index, Counter())
        self._reading, self._now = reading, now
        self.missing: dict[int, MissingReason] = {}
        self.drop_invalid(reading.unit)
        self.drop_untimely(now, load)

    def reject(self, bad: Bools, reason: str, *, invalid: bool = False) -> None:
        for row, value, measured in zip(self.index[bad], self.values[bad], self.measured[bad], strict=True):
            self.missing.setdefault(int(row), MissingReason(reason, self._detail(reason, value, measured)))
        super().reject(bad, reason, invalid=invalid)

    def _detail(self, reason: str, value: float, measured: float) -> str:
        if reason in ("earlier", "unknown"):
            return ""
        if reason == "stale":
            return f"{self._now - measured:.0f} s"
        return f"{measured - self._now:.0f} s ahead" if reason == "future" else _amount(self._reading, value)


def _amount(reading: Reading, value: float) -> str:
    if reading.unit is Unit.FRACTION:
        return f"{value:.0%}"
    if reading.unit is Unit.ABSOLUTE and reading.resource == CPU:
        return f"{value / 1000:g} cores"
    return f"{value / GIB:.1f} GiB" if reading.unit is Unit.ABSOLUTE and reading.resource == MEMORY else f"{value:g}"


def latest_readings(probe: Probe, resource: str, subject: Subject) -> list[Reading]:
    """The probe's readings of the newest values of this metric."""
    key = (resource, subject, Statistic.LATEST)
    found = [each for each in probe.scrape.readings if (each.resource, each.subject, each.statistic) == key]
    return [each for each in found if well_formed(each, Counter())]


# --- nodes


def cluster_from_readings(probes: Iterable[Probe], nodes: Sequence[Node], load: LoadSettings, now: float) -> Cluster:
    """The cluster as a scheduler knows it that has read these samples only."""
    cluster = Cluster()
    cluster.load_store.apply_settings(load)
    for node in nodes:
        cluster.upsert_node(node)
    readings = [reading for each in probes for reading in each.scrape.readings if reading.subject is Subject.NODES]
    cluster.ingest_samples(tuple(readings), now)
    return cluster


async def node_coverage(
    probes: Sequence[Probe], nodes: Sequence[Node], load: LoadSettings, now: float
) -> tuple[Coverage, ...]:
    """For each node metric that some source has an answer to."""
    resources = dict.fromkeys(resource for each in probes for resource in _node_metrics(each))

    async def cover(resource: str) -> Coverage:
        relevant = [each for each in probes if resource in _node_metrics(each)]
        known, rejected = _trusted_nodes(resource, relevant, nodes, load, now)
        missing = [node for node in nodes if node.name not in known]
        diagnosed, unmatched = await _diagnose_missing(resource, relevant, nodes, missing, now) if missing else ({}, ())
        reasons = {
            node.name: rejected.get(node.name) or diagnosed.get(node.name) or _no_match(node) for node in missing
        }
        return Coverage(resource, known, reasons, unmatched)

    return tuple(await asyncio.gather(*map(cover, resources)))


def _no_match(node: Node) -> MissingReason:
    return MissingReason(UNMATCHED, ", ".join(dict.fromkeys((node.name, *node.addresses))))


def _node_metrics(probe: Probe) -> list[str]:
    """The node metrics that this probe should return, if it had any answer."""
    answered = probe.matched_no_node or (probe.error is None and probe.scrape.readings)
    if not answered:
        return []
    keys = expected_metrics(probe.settings) or {(each.resource, each.subject) for each in probe.scrape.readings}
    return sorted(resource for resource, subject in keys if subject is Subject.NODES)


def _trusted_nodes(
    resource: str, probes: Sequence[Probe], nodes: Sequence[Node], load: LoadSettings, now: float
) -> tuple[frozenset[str], dict[str, MissingReason]]:
    rows = {node.name: row for row, node in enumerate(nodes)}
    capacity = np.array([dict(node.capacity or node.allocatable).get(resource, 0) for node in nodes], dtype=np.float64)
    known: set[str] = set()
    rejected: dict[str, MissingReason] = {}
    for reading in (each for probe in probes for each in latest_readings(probe, resource, Subject.NODES)):
        validator = RecordingValidator(reading, rows, now, load)
        check_node_amounts(validator, reading.unit, capacity, None)
        known |= {nodes[row].name for row in validator.index}
        rejected |= {nodes[row].name: reason for row, reason in validator.missing.items() if row >= 0}
    return frozenset(known), rejected


async def _diagnose_missing(
    resource: str, probes: Sequence[Probe], nodes: Sequence[Node], missing: Sequence[Node], now: float
) -> tuple[dict[str, MissingReason], tuple[str, ...]]:
    reasons: dict[str, MissingReason] = {}
    unmatched: list[str] = []
    names = frozenset(node.name for node in missing)
    for settings in (probe.settings for probe in probes):
        if isinstance(settings, PrometheusSettings):
            diagnosis = await diagnose(settings, resource, nodes, names, now)
            reasons = {**diagnosis.missing, **reasons}
            unmatched += diagnosis.unmatched
    return reasons, tuple(dict.fromkeys(unmatched))


def check_nodes(coverages: Iterable[Coverage], nodes: Sequence[Node], load: LoadSettings) -> Iterator[Finding]:
    """One finding per reason and set of nodes; metrics of label rules are reported with their rule."""
    gaps, complete = _group(each for each in coverages if not each.resource.startswith(RULE_QUERY_PREFIX))
    for (reason, names), those in gaps.items():
        message, remedy = describe_gap(reason, names, those[0], nodes)
        known = max(len(each.known) for each in those)
        enough = known and 1 - known / len(nodes) <= load.most_missing
        severity = Severity.WARNING if enough else Severity.PROBLEM
        yield Finding(severity, Area.NODES, _and(each.resource for each in those), message, remedy, names)
    if complete and nodes:
        yield ok(Area.NODES, _and(complete), f"known for all {len(nodes)} nodes")


def describe_gap(reason: str, names: Sequence[str], coverage: Coverage, nodes: Sequence[Node]) -> tuple[str, str]:
    """Why these nodes have no value, with a few examples, and the remedy."""
    not_ready = {node.name for node in nodes if not node.ready}
    details = {
        name: (coverage.missing[name].detail, "the node is not ready" if name in not_ready else "") for name in names
    }
    examples = shorten([_example(name, *details[name]) for name in names])
    if reason != UNMATCHED:
        text, remedy = REASONS.get(reason, (reason, SCRAPE_REMEDY))
        return f"{text} for {len(names)} of {len(nodes)} nodes: {examples}", remedy
    message = f"no series for {len(names)} of {len(nodes)} nodes: {examples}"
    if coverage.unmatched:
        return f"{message}; series that match no node have {shorten(coverage.unmatched)}", RELABEL_REMEDY
    return message, UNSCRAPED_REMEDY


# --- pods


def pod_metrics(probes: Sequence[Probe]) -> list[str]:
    """The pod metrics that some source should return."""
    return [resource for resource in TRACKED if any(_expects(each, resource) for each in probes)]


def _expects(probe: Probe, resource: str) -> bool:
    return (resource, Subject.PODS) in expected_metrics(probe.settings) or bool(_pod_readings(probe, resource))


def _pod_readings(probe: Probe, resource: str) -> list[Reading]:
    return [each for each in latest_readings(probe, resource, Subject.PODS) if each.names]


def check_pods(
    probes: Sequence[Probe], metrics: Sequence[str], pods: Sequence[Pod] | str, cluster: Cluster, now: float
) -> Iterator[Finding]:
    """One finding per reason and set of pods; `pods` may be the reason why they cannot be listed."""
    if isinstance(pods, str):
        yield warning(Area.PODS, "all", pods, "allow listing pods, to find those without samples")
        return
    pods = [pod for pod in pods if pod.node and not pod.terminating]
    if not pods:
        return
    silent = [resource for resource in metrics if not any(_pod_readings(each, resource) for each in probes)]
    if silent:
        message = f"no sample of any of {len(pods)} running pods: no source answers about them"
        remedy = "see the findings about the source"
        yield Finding(Severity.WARNING, Area.PODS, _and(silent), message, remedy, count=len(pods))
    coverages = [_pod_coverage(each, probes, pods, cluster, now) for each in metrics if each not in silent]
    gaps, complete = _group(coverages)
    for (reason, keys), those in gaps.items():
        yield _pod_finding(reason, keys, those, len(pods), cluster.load.settings.most_missing)
    if complete:
        yield ok(Area.PODS, _and(complete), f"known for all {len(pods)} running pods")


def _pod_coverage(
    resource: str, probes: Sequence[Probe], pods: Sequence[Pod], cluster: Cluster, now: float
) -> Coverage:
    slots = {pod.key: slot for slot, pod in enumerate(pods)}
    rows = np.array([cluster.node_table.row.get(pod.node, -1) for pod in pods], dtype=np.intp)
    started = [_running_since(pod, now) for pod in pods]
    since = np.array([-np.inf if at is None else at for at in started])
    view, settings = cluster.view, cluster.load.settings
    capacity, usage = view.capacity(resource).astype(np.float64), cluster.load.latest(resource)[: view.count]
    known: set[int] = set()
    rejected: dict[int, MissingReason] = {}
    unknown: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    for reading in (each for probe in probes for each in _pod_readings(probe, resource)):
        validator = RecordingValidator(reading, slots, now, settings)
        check_pod_amounts(validator, reading.unit, rows, since, capacity, usage)
        known.update(validator.index.tolist())
        rejected |= validator.missing
        unknown |= {key.partition("/")[2]: key for key in reading.names if key not in slots}
        skipped.update(dict(reading.skipped))
    sampled_nodes = {pods[slot].node for slot in known | (rejected.keys() - {-1})}
    missing = {
        pod.key: rejected.get(slot) or _missing_reason(pod, unknown, sampled_nodes, started[slot], now - settings.fresh)
        for slot, pod in enumerate(pods)
        if slot not in known
    }
    return Coverage(resource, frozenset(pods[slot].key for slot in known), missing, skipped=skipped)


def _running_since(pod: Pod, now: float) -> float | None:
    """None if it does not run yet. A start in the future, by a node's wrong clock, counts as long ago."""
    return -np.inf if pod.started is not None and pod.started > now else pod.started


def _missing_reason(
    pod: Pod, unknown: Mapping[str, str], sampled_nodes: set[str], started: float | None, young: float
) -> MissingReason:
    if started is None or started > young:
        return MissingReason(STARTING)
    if pod.name in unknown:
        return MissingReason(OTHER_NAMESPACE, f"as {unknown[pod.name]}")
    return MissingReason(NO_SERIES if pod.node in sampled_nodes else SILENT_NODE, f"on {pod.node}")


def _pod_finding(
    reason: str, keys: tuple[str, ...], those: Sequence[Coverage], total: int, most_missing: float
) -> Finding:
    text, remedy = POD_REASONS.get(reason, (reason, SCRAPE_REMEDY))
    named, missing, skipped = keys[:MAX_NAMED], those[0].missing, those[0].skipped
    examples = [_example(key, missing[key].detail) for key in named]
    message = f"{text} for {len(keys)} of {total} running pods: {shorten(examples, len(keys))}"
    if skipped and reason in (NO_SERIES, SILENT_NODE):
        counts = ", ".join(f"{count} ({why})" for why, count in skipped.items())
        message += f"; series that belong to no pod, or to several: {counts}"
    few = len(keys) / total <= most_missing
    severity = Severity.OK if reason == STARTING else Severity.WARNING if few else Severity.PROBLEM
    return Finding(severity, Area.PODS, _and(each.resource for each in those), message, remedy, (), len(keys), named)


# --- both


def _group(
    coverages: Iterable[Coverage],
) -> tuple[dict[tuple[str, tuple[str, ...]], list[Coverage]], list[str]]:
    """Gaps by reason and who lacks the sample, whichever metrics share them; and the metrics without a gap."""
    gaps: dict[tuple[str, tuple[str, ...]], list[Coverage]] = {}
    complete = []
    for each in coverages:
        if not each.missing:
            complete.append(each.resource)
        for reason in sorted({missing.reason for missing in each.missing.values()}):
            names = tuple(name for name, missing in each.missing.items() if missing.reason == reason)
            gaps.setdefault((reason, names), []).append(each)
    return gaps, complete


def _example(name: str, *details: str) -> str:
    text = "; ".join(filter(None, details))
    return f"{name} ({text})" if text else name


def _and(words: Iterable[str]) -> str:
    return " and ".join(words)
