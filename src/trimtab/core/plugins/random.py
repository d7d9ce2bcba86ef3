"""Random: a random ranking of the nodes for each pod: a baseline to compare other policies with.

The score is a hash of the pod's UID, the node's name and `seed`, so it is the same in every run, in a replay and in
whatever order nodes were added, and nodes rank independently for each pod. It declares no signature: no two pods have
the same scores, so nothing could be cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Rows
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import INT32, check_ranges, setting

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Random:
    """Another seed gives another ranking for every pod."""

    name: ClassVar[str] = "Random"
    requeue_on: ClassVar[Change] = Change.NOTHING
    normalise: ClassVar[Normalise] = Normalise.NONE
    score_scale: ClassVar[int] = 1_000_000  # so that equal scores are rare

    seed: int = setting(0, "0 unless set: another number gives another ranking", between=(0, INT32))

    def __post_init__(self) -> None:
        check_ranges(self)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        key = np.uint64(name_hash(f"{self.seed}/{pod.uid}"))
        mixed = mix(view.name_hash[rows] ^ key) >> np.uint64(11)  # 53 bits, which a float holds exactly
        return (mixed * (0.5**53 * MAX_SCORE * self.score_scale)).astype(np.int64)


def mix(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of the value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
