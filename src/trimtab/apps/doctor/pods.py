"""Decides how many running pods have no sample that the scheduler would believe, and why; judges as `core.load` does.

A pod without one counts with an estimate, so gaps are no harm by themselves. There may be very many: a few are named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.apps.doctor.coverage import SCRAPE, WORDS, NamedSieve
from trimtab.apps.doctor.finding import Area, Finding, Severity, some, warning, well
from trimtab.apps.doctor.looks import Look, answers
from trimtab.apps.doctor.sightings import Loss
from trimtab.core.cluster.state import Cluster
from trimtab.core.load.intake import believe_pods, well_formed
from trimtab.core.load.state import TRACKED
from trimtab.core.model.pod import Pod
from trimtab.core.model.sample import Reading, Statistic, Subject

YOUNG, NAMESAKE, SILENT, UNSEEN = "young", "namesake", "silent node", "no series"
MOST_NAMED = 20  # in what scripts read; people get fewer
OF_PODS: Mapping[str, tuple[str, str]] = {
    YOUNG: ("not yet there", ""),
    NAMESAKE: ("under another namespace", "let series keep the pod's own labels namespace and pod (see honor_labels)"),
    SILENT: (
        "nor of any other pod of the node",
        "see whether these kubelets are scraped (/metrics/cadvisor), or answer metrics-server",
    ),
    UNSEEN: ("no series", "see whether these containers report, and whether relabelling drops or renames them"),
    "implausible": ("more than the node has or uses", "check the unit of the query, and that both are of one cluster"),
    "earlier": ("of an earlier pod of that name", "wait for the next scrape"),
    "unknown": ("on a node of unknown size", "see what is said of nodes"),
}


class Gap(NamedTuple):
    """Of one measurement: how many pods have it, why the others do not, and how many series say nothing of any pod."""

    resource: str
    known: int
    losses: Mapping[str, Loss]
    skipped: Mapping[str, int]


def asked_for(looks: Iterable[Look]) -> list[str]:
    """What of pods some source is meant to tell."""
    looks = list(looks)
    return [resource for resource in TRACKED if any(_is_to_tell(each, resource) for each in looks)]


def told(
    looks: Sequence[Look], wanted: Sequence[str], pods: Sequence[Pod] | str, cluster: Cluster, now: float
) -> Iterator[Finding]:
    """One finding for each reason and set of pods, whichever measurements share it."""
    if isinstance(pods, str):
        yield warning(Area.PODS, "all", pods, "allow to list pods: else nobody can tell whose samples are missing")
        return
    pods = [pod for pod in pods if pod.node and not pod.deleting]
    if not pods:
        return
    silent = [resource for resource in wanted if not any(_of_pods(each, resource) for each in looks)]
    if silent:
        says = f"no sample of any of {len(pods)} running pods: no source answers about them"
        yield Finding(
            Severity.WARNING, Area.PODS, _and(silent), says, "see what is said of the source", count=len(pods)
        )
    gaps = [_gap(resource, looks, pods, cluster, now) for resource in wanted if resource not in silent]
    yield from _in_words(gaps, pods, cluster.load.settings.most_missing)


def _is_to_tell(each: Look, resource: str) -> bool:
    return (resource, Subject.PODS) in answers(each.settings) or bool(_of_pods(each, resource))


def _of_pods(each: Look, resource: str) -> list[Reading]:
    wanted = (resource, Subject.PODS, Statistic.LATEST)
    found = [one for one in each.scrape.readings if (one.resource, one.subject, one.statistic) == wanted]
    return [one for one in found if one.names and well_formed(one, Counter())]


def _gap(resource: str, looks: Sequence[Look], pods: Sequence[Pod], cluster: Cluster, now: float) -> Gap:
    slots = {pod.key: slot for slot, pod in enumerate(pods)}
    row = np.array([cluster.columns.row.get(pod.node, -1) for pod in pods], dtype=np.intp)
    began = [_began(pod, now) for pod in pods]
    since = np.array([-np.inf if at is None else at for at in began])
    view, settings = cluster.view, cluster.load.settings
    capacity, node = view.capacity(resource).astype(np.float64), cluster.load.latest(resource)[: view.count]
    known: set[int] = set()
    losses: dict[int, Loss] = {}
    strangers: dict[str, str] = {}
    skipped: Counter[str] = Counter()
    for reading in (one for each in looks for one in _of_pods(each, resource)):
        sieve = NamedSieve(reading, slots, now)
        sieve.sound(reading.unit)
        sieve.timely(now, settings)
        believe_pods(sieve, reading.unit, row, since, capacity, node)
        known.update(sieve.index.tolist())
        losses |= sieve.losses
        strangers |= {key.partition("/")[2]: key for key in reading.names if key not in slots}
        skipped.update(dict(reading.skipped))
    measured_on = {pods[slot].node for slot in known | (losses.keys() - {-1})}
    why = {
        pod.key: losses.get(slot) or _unseen(pod, strangers, measured_on, began[slot], now - settings.fresh)
        for slot, pod in enumerate(pods)
        if slot not in known
    }
    return Gap(resource, len(known), why, skipped)


def _began(pod: Pod, now: float) -> float | None:
    """None where nothing of it runs yet. A node whose clock is ahead cannot say: the scheduler goes by when it saw it."""
    return -np.inf if pod.started is not None and pod.started > now else pod.started


def _unseen(pod: Pod, strangers: Mapping[str, str], measured_on: set[str], began: float | None, young: float) -> Loss:
    if began is None or began > young:
        return Loss(YOUNG)
    if pod.name in strangers:
        return Loss(NAMESAKE, f"as {strangers[pod.name]}")
    return Loss(UNSEEN if pod.node in measured_on else SILENT, f"on {pod.node}")


# --- in words


def _in_words(gaps: Iterable[Gap], pods: Sequence[Pod], most_missing: float) -> Iterator[Finding]:
    alike: dict[tuple[str, tuple[str, ...]], list[Gap]] = {}
    whole = []
    for gap in gaps:
        if not gap.losses:
            whole.append(gap.resource)
        for reason in sorted({loss.reason for loss in gap.losses.values()}):
            mine = tuple(key for key, loss in gap.losses.items() if loss.reason == reason)
            alike.setdefault((reason, mine), []).append(gap)
    for (reason, keys), those in alike.items():
        yield _lost(reason, keys, those, len(pods), most_missing)
    if whole:
        yield well(Area.PODS, _and(whole), f"known of all {len(pods)} running pods")


def _lost(reason: str, keys: tuple[str, ...], those: Sequence[Gap], count: int, most_missing: float) -> Finding:
    words, remedy = OF_PODS.get(reason) or WORDS.get(reason, (reason, SCRAPE))
    losses, skipped = those[0].losses, those[0].skipped
    examples = [f"{key} ({losses[key].detail})" if losses[key].detail else key for key in keys[:MOST_NAMED]]
    says = f"{words} for {len(keys)} of {count} running pods: {some(examples, len(keys))}"
    if skipped and reason in (UNSEEN, SILENT):
        says += f"; of nobody, or of more than one, are {', '.join(f'{many} ({why})' for why, many in skipped.items())}"
    few = len(keys) / count <= most_missing
    severity = Severity.OK if reason == YOUNG else Severity.WARNING if few else Severity.PROBLEM
    named = keys[:MOST_NAMED]
    return Finding(severity, Area.PODS, _and(each.resource for each in those), says, remedy, (), len(keys), named)


def _and(words: Iterable[str]) -> str:
    return " and ".join(words)
