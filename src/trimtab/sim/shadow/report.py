"""The report of a shadow as JSON: what would have been different, for people and programs, and what is needed to go on.

::

    {"apiVersion": "trimtab.dev/v1alpha1", "kind": "ShadowReport",
     "policy": {"file": "policy.yaml", "profiles": ["trimtab"], "digest": "sha256 of what was read", "cumulative": false},
     "started": 1769846400.0, "updated": 1769850000.0, "watchedSeconds": 3600.0, "finished": true,
     "summary": {"decided": 12, "same": 8, "equal": 2, "different": 1, "pending": 1, "undecided": 0, "unscheduled": 0,
                 "late": 0, "preempting": 0, "unbound": 0,
                 "load": {"cpu": {"nodeMinutes": 180, "real": SIDE, "shadow": SIDE}, "memory": {…}}},
     "differences": [{"uid": …, "pod": "shop/web-1", "scheduler": …, "comparison": "different", "real": "a", "shadow": "b",
                      "at": 1769846500.0, "late": true, "preempts": true, "reason": …}],
     "state": {…}}

    SIDE   {"hotNodeMinutes": {"80": 12.0, "90": 3.0, "100": 0.0}, "spread": 0.08, "peak": 0.97, "peakNode": "a"}

`load` is absent if nothing was measured. Shares are of allocatable. Differences are the newest 1,000. `state` is for the next
start with the same file and policy, and for nobody else.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from trimtab.sim.shadow.load_comparison import LoadComparison, ResourceLoad, Side
from trimtab.sim.shadow.outcomes import Counts, Outcome
from trimtab.sim.shadow.shadow import Shadow
from trimtab.sim.snapshot_document import API_VERSION
from trimtab.wire.decoding import UNREADABLE, format_error

KIND = "ShadowReport"


class ReportError(Exception):
    """Why a file cannot be continued."""


class FollowedPolicy(Struct, frozen=True):
    """The policy that the shadow follows, and how; `digest` tells whether it is still the same."""

    file: str
    profiles: tuple[str, ...]
    digest: str
    cumulative: bool = False


class State(Struct):
    """What a shadow has counted, and the living pods that would be elsewhere."""

    counts: Counts = field(default_factory=Counts)
    load: LoadComparison = field(default_factory=LoadComparison)
    moved: tuple[Outcome, ...] = ()


class Report(Struct, kw_only=True, rename="camel"):
    """The document; times are in seconds since 1970."""

    api_version: str = API_VERSION
    kind: str = ""
    policy: FollowedPolicy
    started: float
    updated: float
    watched_seconds: float
    finished: bool
    summary: dict[str, Any] = {}
    differences: tuple[Outcome, ...] = ()
    state: State


def make_report(
    shadow: Shadow, policy: FollowedPolicy, started: float, now: float, watched: float, *, finished: bool
) -> Report:
    """What the shadow has found so far."""
    return Report(
        kind=KIND,
        policy=policy,
        started=started,
        updated=now,
        watched_seconds=round(watched, 3),
        finished=finished,
        summary=_summary(shadow),
        differences=tuple(shadow.differences),
        state=State(shadow.counts, shadow.load, tuple(shadow.moved.values())),
    )


def _summary(shadow: Shadow) -> dict[str, Any]:
    counts = {"decided": shadow.counts.decided, **msgspec.structs.asdict(shadow.counts), "unbound": shadow.unbound}
    if not shadow.load.measured:
        return counts
    load = {resource: _resource(each) for resource, each in shadow.load.resources.items() if each.minutes}
    return {**counts, "load": load, "unmeasured": shadow.load.unmeasured}


def _resource(load: ResourceLoad) -> dict[str, Any]:
    sides = {name: _side(load, side) for name, side in (("real", load.real), ("shadow", load.shadow))}
    return {"nodeMinutes": round(load.node_minutes, 2), **sides}


def _side(load: ResourceLoad, side: Side) -> dict[str, Any]:
    return {
        "hotNodeMinutes": {level: round(minutes, 2) for level, minutes in side.hot_minutes.items()},
        "spread": round(load.spread(side), 4),
        "peak": round(side.peak, 4),
        "peakNode": side.peak_node,
    }


def encode_report(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def resume(shadow: Shadow, content: bytes, policy: FollowedPolicy) -> Report:
    """Let the shadow go on from a report; raises ReportError if that is not one of the same policy."""
    try:
        found = msgspec.json.decode(content, type=Report)
    except UNREADABLE as error:
        raise ReportError(format_error("", error).lstrip(".: ")) from None
    if (found.kind, found.api_version) != (KIND, API_VERSION):
        raise ReportError(f"kind {found.kind[:40]!r} of {found.api_version[:40]!r} is not {KIND!r} of {API_VERSION!r}")
    if found.policy.digest != policy.digest:
        raise ReportError(f"policy: it is the report of another policy ({found.policy.file[:200]})")
    if found.policy.cumulative != policy.cumulative:
        raise ReportError(
            f"policy.cumulative: it is the report of a shadow {'with' if found.policy.cumulative else 'without'} --cumulative"
        )
    shadow.counts, shadow.load = found.state.counts, found.state.load
    shadow.load.measured_at = None  # what happened in between was not measured
    shadow.moved = {each.uid: each for each in found.state.moved}
    shadow.differences.extend(found.differences)
    return found
