"""What a policy would have decided for one pod, compared with where the pod really went, and the counts of all.

same        the same node
equal       another node to which the policy gives the same score: its tie break chose between them
different   another node, to which the policy prefers its own
pending     no node is feasible for the policy, though another scheduler found one
undecided   the policy cannot decide: it may not list a kind that the pod needs, or the pod has an unsupported feature
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from trimtab.core.model.pod import Pod
from trimtab.core.model.schedule_result import Placement, Unschedulable
from trimtab.core.scheduling.evaluator import NOT_EVALUATED


class Comparison(StrEnum):
    """How the policy's decision compares with the real one."""

    SAME = "same"
    EQUAL = "equal"
    DIFFERENT = "different"
    PENDING = "pending"
    UNDECIDED = "undecided"


class Outcome(Struct, frozen=True, omit_defaults=True):
    """One pod: the node it went to, and the one that the policy would have chosen ("" for none)."""

    uid: str
    pod: str
    scheduler: str
    comparison: Comparison
    real: str
    shadow: str
    at: float  # when it was decided
    late: bool = False  # decided when the pod was seen bound, on the state without it
    preempts: bool = False  # the policy would have preempted other pods for it
    reason: str = ""  # why no node is feasible, or why nothing was decided

    @property
    def moved(self) -> bool:
        """Whether its load would be elsewhere; between equally good nodes the policy does not care, so it stays."""
        return self.comparison in (Comparison.DIFFERENT, Comparison.PENDING)


class Counts(Struct):
    """Pods by outcome; `unscheduled` were deleted before any scheduler had found a node."""

    same: int = 0
    equal: int = 0
    different: int = 0
    pending: int = 0
    undecided: int = 0
    unscheduled: int = 0
    late: int = 0
    preempting: int = 0

    @property
    def decided(self) -> int:
        return self.same + self.equal + self.different + self.pending

    def add(self, outcome: Outcome) -> None:
        name = outcome.comparison.value
        setattr(self, name, getattr(self, name) + 1)
        self.late += outcome.late
        self.preempting += outcome.preempts


def compare(
    pod: Pod,
    verdict: Placement | Unschedulable,
    best: Collection[str],
    at: float,
    *,
    scheduler: str = "",
    late: bool = False,
    preempts: bool = False,
) -> Outcome:
    """The outcome for a pod that is bound now; `best` are the nodes that the policy scored highest."""
    shadow = verdict.node if isinstance(verdict, Placement) else ""
    reason = "" if isinstance(verdict, Placement) else verdict.message()
    return Outcome(
        pod.uid,
        pod.key,
        scheduler or pod.scheduler_name,
        _comparison(pod.node, verdict, best),
        pod.node,
        shadow,
        at,
        late,
        preempts,
        reason,
    )


def _comparison(real: str, verdict: Placement | Unschedulable, best: Collection[str]) -> Comparison:
    if isinstance(verdict, Unschedulable):
        return Comparison.UNDECIDED if verdict.plugins in NOT_EVALUATED else Comparison.PENDING
    if verdict.node == real:
        return Comparison.SAME
    return Comparison.EQUAL if real in best else Comparison.DIFFERENT
