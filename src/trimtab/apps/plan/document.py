"""The document of a plan, which `trimtab plan --json` prints and `-o FILE` writes.

::

    {"apiVersion": "trimtab.dev/v1alpha1", "kind": "Plan",
     "metadata": {"created": "2026-01-31T08:00:00Z", "trimtab": "1.4.0",
                  "at": "2026-01-31T07:59:58Z",          when the cluster was as the plan says
                  "cluster": "4c1f…",                    the UID of the namespace kube-system; absent if unknown
                  "hashed": false,                       whether names are pseudonyms
                  "notes": ["…"]},
     "moves": [{"pod": "shop/web-1", "uid": "…", "resourceVersion": "41", "source": "n-1", "target": "n-2",
                "strategy": "ResourceOptimization", "reason": "cpu at 95%, above 80%", "gain": 80.5, "cost": 32.0,
                "costReason": "priority 1000",           only if the pod does not cost what others do
                "couldChoose": ["n-2", "n-3"],           only if another scheduler places it, which could choose one of these
                "promised": [0.72, 0.35],                utilisation of source and target after the move
                "relief": 1.2}],                         the gain by snapshot; both are what the move is graded by
     "refusals": [{"subject": "shop/db-0", "guard": "minimum age", "reason": "…"}],
     "penalty": {"before": 120.5, "after": 40.0},
     "hottest": [{"resource": "cpu", "limit": 0.8, "before": {"node": "n-1", "usage": 0.95}, "after": …,
                  "overBefore": 1, "overAfter": 0}]}

UID and resourceVersion tell whether a pod is still the one that was planned for; "0" is an unknown version.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from trimtab.apps.plan.make import PlannedMoves
from trimtab.apps.plan.usage import Hottest, Peak
from trimtab.core.model.plan import Move, Refusal

API_VERSION, KIND = "trimtab.dev/v1alpha1", "Plan"
DIGITS = 3
Time = Annotated[datetime, Meta(tz=True)]


class Metadata(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """About the plan as a whole."""

    created: Time
    at: Time
    trimtab: str
    cluster: str = ""
    hashed: bool = False
    notes: tuple[str, ...] = ()


class PlannedMove(Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """A move, with what identifies its pod; otherwise as `core.model.plan.Move`."""

    pod: str
    uid: str
    resource_version: str
    source: str
    target: str
    strategy: str
    reason: str
    gain: float
    cost: float
    cost_reason: str = ""
    could_choose: tuple[str, ...] = ()
    promised: tuple[float, float] | None = None
    relief: float | None = None


class PlannedRefusal(Struct, frozen=True, forbid_unknown_fields=True):
    """What is not moved, and which guard refused."""

    subject: str
    guard: str
    reason: str


class Penalty(Struct, frozen=True, forbid_unknown_fields=True):
    """Of all nodes together."""

    before: float
    after: float


class HottestNode(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """As `usage.Hottest`."""

    resource: str
    limit: float
    before: Peak
    after: Peak
    over_before: int
    over_after: int


class PlanDocument(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The whole document."""

    api_version: str
    kind: str
    metadata: Metadata
    moves: tuple[PlannedMove, ...]
    refusals: tuple[PlannedRefusal, ...]
    penalty: Penalty
    hottest: tuple[HottestNode, ...]


def document_of(planned: PlannedMoves, created: float) -> PlanDocument:
    """`created` is in seconds since 1970."""
    plan = planned.plan
    return PlanDocument(
        API_VERSION,
        KIND,
        Metadata(
            *(_time(created), _time(planned.at), version("trimtab")),
            *(planned.cluster, planned.hashed, planned.notes),
        ),
        tuple(_move(each, planned.versions[each.uid]) for each in plan.moves),
        tuple(PlannedRefusal(each.subject, each.guard, each.reason) for each in distinct(plan.refusals)),
        Penalty(round(plan.penalty_before, DIGITS), round(plan.penalty_after, DIGITS)),
        tuple(_hottest(each) for each in planned.hottest),
    )


def encode(document: PlanDocument) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def distinct(refusals: tuple[Refusal, ...]) -> tuple[Refusal, ...]:
    """Each once: several strategies, or resources, may have suggested the same pod."""
    return tuple(dict.fromkeys(refusals))


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(round(at, DIGITS), UTC)


def _move(move: Move, resource_version: int) -> PlannedMove:
    places = move.pod, move.uid, str(resource_version), move.source, move.target
    worth = round(move.gain, DIGITS), round(move.cost, DIGITS)
    promised = None if move.promised is None else (round(move.promised[0], DIGITS), round(move.promised[1], DIGITS))
    relief = None if move.relief is None else round(move.relief, DIGITS)
    why = move.strategy, move.reason
    return PlannedMove(*places, *why, *worth, move.cost_reason, move.could_choose, promised, relief)


def _hottest(each: Hottest) -> HottestNode:
    before, after = (Peak(peak.node, round(peak.usage, DIGITS)) for peak in (each.before, each.after))
    return HottestNode(each.resource, each.limit, before, after, each.over_before, each.over_after)
