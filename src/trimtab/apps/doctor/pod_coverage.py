"""Decides how many running pods have no sample that the scheduler would believe, and why; judges as `core.load` does.

A pod without one counts with an estimate, so gaps are no harm by themselves. There may be very many: a few are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.apps.doctor.finding import Area, Finding, Severity, ok, shorten, warning
from trimtab.apps.doctor.missing_series import MissingReason
from trimtab.apps.doctor.node_coverage import REASONS, SCRAPE_REMEDY, RecordingValidator
from trimtab.apps.doctor.source_checks import Probe, expected_metrics
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.load.settings import TRACKED
from trimtab.core.load.validation import check_pod_amounts, well_formed
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading, Statistic, Subject

STARTING, OTHER_NAMESPACE, SILENT_NODE, NO_SERIES = "young", "namesake", "silent node", "no series"
MAX_NAMED = 20  # in what scripts read; people get fewer
POD_REASONS: Mapping[str, tuple[str, str]] = {
    STARTING: ("not yet there", ""),
    OTHER_NAMESPACE: (
        "under another namespace",
        "let series keep the pod's own labels namespace and pod (see honor_labels)",
    ),
    SILENT_NODE: (
        "nor of any other pod of the node",
        "see whether these kubelets are scraped (/metrics/cadvisor), or answer metrics-server",
    ),
    NO_SERIES: ("no series", "see whether these containers report, and whether relabelling drops or renames them"),
    "implausible": ("more than the node has or uses", "check the unit of the query, and that both are of one cluster"),
    "earlier": ("of an earlier pod of that name", "wait for the next scrape"),
    "unknown": ("on a node of unknown size", "see what is said of nodes"),
}


class PodGap(NamedTuple):
    """Of one measurement: how many pods have it, why the others do not, and how many series say nothing of any pod."""

    resource: str
    known: int
    missing: Mapping[str, MissingReason]
    skipped: Mapping[str, int]


def pod_metrics(probes: Iterable[Probe]) -> list[str]:
    """What of pods some source is meant to tell."""
    probes = list(probes)
    return [resource for resource in TRACKED if any(_expects(each, resource) for each in probes)]


def check_pods(
    probes: Sequence[Probe], wanted: Sequence[str], pods: Sequence[Pod] | str, cluster: Cluster, now: float
) -> Iterator[Finding]:
    """One finding for each reason and set of pods, whichever measurements share it."""
    if isinstance(pods, str):
        yield warning(Area.PODS, "all", pods, "allow to list pods: else nobody can tell whose samples are missing")
        return
    pods = [pod for pod in pods if pod.node and not pod.terminating]
    if not pods:
        return
    silent = [resource for resource in wanted if not any(_pod_readings(each, resource) for each in probes)]
    if silent:
        says = f"no sample of any of {len(pods)} running pods: no source answers about them"
        yield Finding(
            Severity.WARNING, Area.PODS, _and(silent), says, "see what is said of the source", count=len(pods)
        )
    gaps = [_find_gap(resource, probes, pods, cluster, now) for resource in wanted if resource not in silent]
    yield from _gap_findings(gaps, pods, cluster.load.settings.most_missing)


def _expects(each: Probe, resource: str) -> bool:
    return (resource, Subject.PODS) in expected_metrics(each.settings) or bool(_pod_readings(each, resource))


def _pod_readings(each: Probe, resource: str) -> list[Reading]:
    wanted = (resource, Subject.PODS, Statistic.LATEST)
    found = [one for one in each.scrape.readings if (one.resource, one.subject, one.statistic) == wanted]
    return [one for one in found if one.names and well_formed(one, Counter())]


def _find_gap(resource: str, probes: Sequence[Probe], pods: Sequence[Pod], cluster: Cluster, now: float) -> PodGap:
    slots = {pod.key: slot for slot, pod in enumerate(pods)}
    row = np.array([cluster.node_table.row.get(pod.node, -1) for pod in pods], dtype=np.intp)
    began = [_running_since(pod, now) for pod in pods]
    since = np.array([-np.inf if at is None else at for at in began])
    view, settings = cluster.view, cluster.load.settings
    capacity, node = view.capacity(resource).astype(np.float64), cluster.load.latest(resource)[: view.count]
    known: set[int] = set()
    losses: dict[int, MissingReason] = {}
    strangers: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    for reading in (one for each in probes for one in _pod_readings(each, resource)):
        sieve = RecordingValidator(reading, slots, now)
        sieve.drop_invalid(reading.unit)
        sieve.drop_untimely(now, settings)
        check_pod_amounts(sieve, reading.unit, row, since, capacity, node)
        known.update(sieve.index.tolist())
        losses |= sieve.missing
        strangers |= {key.partition("/")[2]: key for key in reading.names if key not in slots}
        skipped.update(dict(reading.skipped))
    measured_on = {pods[slot].node for slot in known | (losses.keys() - {-1})}
    why = {
        pod.key: losses.get(slot) or _missing_reason(pod, strangers, measured_on, began[slot], now - settings.fresh)
        for slot, pod in enumerate(pods)
        if slot not in known
    }
    return PodGap(resource, len(known), why, skipped)


def _running_since(pod: Pod, now: float) -> float | None:
    """None where nothing of it runs yet. A node whose clock is ahead cannot say: the scheduler goes by when it saw it."""
    return -np.inf if pod.started is not None and pod.started > now else pod.started


def _missing_reason(
    pod: Pod, strangers: Mapping[str, str], measured_on: set[str], began: float | None, young: float
) -> MissingReason:
    if began is None or began > young:
        return MissingReason(STARTING)
    if pod.name in strangers:
        return MissingReason(OTHER_NAMESPACE, f"as {strangers[pod.name]}")
    return MissingReason(NO_SERIES if pod.node in measured_on else SILENT_NODE, f"on {pod.node}")


# --- in words


def _gap_findings(gaps: Iterable[PodGap], pods: Sequence[Pod], most_missing: float) -> Iterator[Finding]:
    alike: dict[tuple[str, tuple[str, ...]], list[PodGap]] = {}
    whole = []
    for gap in gaps:
        if not gap.missing:
            whole.append(gap.resource)
        for reason in sorted({loss.reason for loss in gap.missing.values()}):
            mine = tuple(key for key, loss in gap.missing.items() if loss.reason == reason)
            alike.setdefault((reason, mine), []).append(gap)
    for (reason, keys), those in alike.items():
        yield _gap_finding(reason, keys, those, len(pods), most_missing)
    if whole:
        yield ok(Area.PODS, _and(whole), f"known of all {len(pods)} running pods")


def _gap_finding(
    reason: str, keys: tuple[str, ...], those: Sequence[PodGap], count: int, most_missing: float
) -> Finding:
    words, remedy = POD_REASONS.get(reason) or REASONS.get(reason, (reason, SCRAPE_REMEDY))
    losses, skipped = those[0].missing, those[0].skipped
    examples = [f"{key} ({losses[key].detail})" if losses[key].detail else key for key in keys[:MAX_NAMED]]
    says = f"{words} for {len(keys)} of {count} running pods: {shorten(examples, len(keys))}"
    if skipped and reason in (NO_SERIES, SILENT_NODE):
        says += f"; of nobody, or of more than one, are {', '.join(f'{many} ({why})' for why, many in skipped.items())}"
    few = len(keys) / count <= most_missing
    severity = Severity.OK if reason == STARTING else Severity.WARNING if few else Severity.PROBLEM
    named = keys[:MAX_NAMED]
    return Finding(severity, Area.PODS, _and(each.resource for each in those), says, remedy, (), len(keys), named)


def _and(words: Iterable[str]) -> str:
    return " and ".join(words)
