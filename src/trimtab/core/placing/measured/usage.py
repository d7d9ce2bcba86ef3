"""How full nodes are: as measured where that is believed, by requests where it is not; how full is too full, plugins say.

Measured means what the node will be seen to use once every pod on it is in a sample (`LoadColumns.expected`), so that a
burst of pods is felt at once. A node without data counts what its pods ask for, a little for those that ask for nothing.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from trimtab.core.cluster.view import Floats, View
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.placing.contract import MAX_SCORE, Ints, Rows

PARTS = 10_000  # of a point, in which scores by load are counted: a small pod on a large node must still be seen
REVISIONS = ("pod-template-hash", "controller-revision-hash")


def of_daemon_set(pod: Pod) -> bool:
    """Such a pod has its one node, however full that is."""
    return pod.owner is not None and pod.owner.kind == "DaemonSet"


def kin(pod: Pod) -> Hashable:
    """All of the pod that its estimate depends on: what it asks for, and whose sibling it is."""
    owner = pod.owner.uid if pod.owner is not None else ""
    return (pod.demand, owner, *map(pod.labels.get, REVISIONS))


def estimate(view: View, pod: Pod, resource: str) -> float:
    """What the pod will use, as far as anyone can tell."""
    return view.load.estimate(pod, resource)[0]


def expected(view: View, resource: str, rows: Rows) -> Floats:
    """What each node will be seen to use; NaN where nothing is believed."""
    return view.load.expected(resource)[: view.count][rows]


def newest(view: View, resource: str) -> float:
    """When any node was measured last: the clock of whoever must give the same answer until there is news; -inf for never."""
    return float(np.fmax.reduce(view.load.measured(resource)[: view.count], initial=-np.inf))


def share_of(used: Floats, offered: Ints) -> Floats:
    """Used over offered; a node that offers nothing is full, NaN stays NaN."""
    if offered.all():
        return used / offered
    return np.divide(used, offered, out=np.where(np.isnan(used), np.nan, 1.0), where=offered > 0)


def asked(view: View, resource: str, rows: Rows, pod: Pod | None = None) -> Floats:
    """What pods on each node ask for, with this one among them."""
    if resource not in (CPU, MEMORY):
        return np.add(view.requested(resource)[rows], pod.demand.of(resource) if pod else 0, dtype=np.float64)
    column = view.scored_cpu if resource == CPU else view.scored_memory
    return np.add(column[rows], pod.demand.scored_of(resource) if pod else 0, dtype=np.float64)


def share(view: View, resource: str, rows: Rows, pod: Pod | None = None) -> Floats:
    """How full each node will be, of what it has for pods; with this pod on it, if one is named. Never NaN."""
    used = expected(view, resource, rows)
    if pod is not None:
        used = used + estimate(view, pod, resource)
    return by_requests(view, resource, rows, pod, share_of(used, view.allocatable(resource)[rows]))


def by_requests(view: View, resource: str, rows: Rows, pod: Pod | None, shares: Floats) -> Floats:
    """The shares, with requests in place of what is not known; the column that is given may be changed."""
    blind = np.isnan(shares)
    if blind.any():
        by_asking = share_of(asked(view, resource, rows, pod), view.allocatable(resource)[rows])
        shares[blind] = by_asking[blind]
    return shares


def points(share: Floats) -> Ints:
    """100 for an empty node down to 0 for a full one, in parts of a point."""
    free = 1.0 - np.minimum(share, 1.0)
    return np.rint(free * (MAX_SCORE * PARTS)).astype(np.int64)


def in_parts(whole: Floats) -> Ints:
    """Scores that are counted in whole points, as their origin does it; what floats leave below a whole is made good."""
    return np.floor(np.clip(whole, 0.0, MAX_SCORE) + 1e-9).astype(np.int64) * PARTS


def blind_spots(view: View, resources: tuple[str, ...] = (CPU, MEMORY)) -> str:
    """In words, how many nodes are judged by requests; nothing when all are measured."""
    everyone = slice(None)
    counts = {each: int(np.isnan(expected(view, each, everyone)).sum()) for each in resources}
    told = [f"{count} of {view.count} nodes without {each} data" for each, count in counts.items() if count]
    return f"{', '.join(told)}: judged by requests" if told else ""
