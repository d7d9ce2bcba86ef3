"""A plan as lines of styled text: its moves with their reasons, what they change, and what was refused.

A line is a tuple of (text, style): the texts joined are plain text, and `rich` applies the styles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from trimtab.apps.plan.document import distinct
from trimtab.apps.plan.make import PlannedMoves
from trimtab.apps.plan.usage import Hottest
from trimtab.apps.whatif.text import counted
from trimtab.core.model.duration import format_duration
from trimtab.core.model.ledger import PublishedPlan
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.rescheduling.guards import CLUSTER_GUARDS, GUARDS

Line = tuple[tuple[str, str], ...]
EXAMPLES = 5  # of what a guard refused
EMPTY: Line = ()
ASKED = f"{len(CLUSTER_GUARDS)} guards of the cluster and {len(GUARDS)} of each pod were asked"


def plan_lines(planned: PlannedMoves, where: str, *, why_not: bool) -> Iterator[Line]:
    """The whole answer; `where` names the snapshot, or the cluster."""
    if planned.settings.rivals:
        yield from _rival_lines(planned, where)
        return
    moves, refusals = planned.plan.moves, distinct(planned.plan.refusals)
    yield _header(planned, where)
    yield EMPTY
    for move in moves:
        yield from move_lines(move)
        yield ("      guards  ", "dim"), ("all allow it", "green")
    if not moves:
        yield ((nothing_to_move(planned), "bold green"),)
    else:
        yield EMPTY
        yield from _totals(planned.plan)
    yield from _hottest_lines(planned.hottest)
    yield EMPTY
    yield from _refusal_lines(refusals) if why_not else (((_refusal_summary(refusals), "dim"),),)
    yield (("Nothing was changed: `trimtab plan` only reads.", "dim"),)


def _rival_lines(planned: PlannedMoves, where: str) -> Iterator[Line]:
    """What another project's rescheduler would evict: it plans no targets, and judges nothing by gain and cost."""
    yield _header(planned, where)
    yield EMPTY
    for move in planned.plan.moves:
        yield ("  - ", "bold red"), (move.pod, "bold"), (f"  leaves {move.source}: {move.reason}", "")
    yield from (EMPTY,) if planned.plan.moves else ()
    now = "  ".join(f"{each.resource} {each.before.usage:.0%} on {each.before.node}" for each in planned.hottest)
    yield (("hottest nodes now: ", "dim"), (now, ""))
    yield (("Where the replacements go is up to their scheduler. Nothing was changed: this only reads.", "dim"),)


def _header(planned: PlannedMoves, where: str) -> Line:
    count = len(planned.plan.moves)
    who, verb = next(((each.name, "evict") for each in planned.settings.rivals), ("Trimtab", "move"))
    verdict = f"{who} would {verb} {counted(count, 'pod') if count else 'no pod'}"
    at = f"{datetime.fromtimestamp(planned.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    size = f"{counted(planned.nodes, 'node')}, {counted(planned.pods, 'pod')}"
    return (verdict, "bold"), (f" of {where} ({size}), as of {at}.", "")


def move_lines(move: Move) -> Iterator[Line]:
    yield ("  ~ ", "bold yellow"), (move.pod, "bold"), (f"  {move.source} → {move.goes_to}", "")
    yield ("      why     ", "dim"), (f"{move.strategy}: {move.reason}", "")
    why = f" ({move.cost_reason})" if move.cost_reason else ""
    yield ("      gain    ", "dim"), (f"{move.gain:.1f}, cost {move.cost:.1f}{why}", "")
    if len(move.could_choose) > 1:
        yield ("      or      ", "dim"), (_other_choices(move.could_choose), "")


def _other_choices(could_choose: tuple[str, ...]) -> str:
    """All but the target."""
    shown, others = ", ".join(could_choose[1 : EXAMPLES + 1]), len(could_choose) - 1
    more = f" and {others - EXAMPLES:,} more" if others > EXAMPLES else ""
    return f"{shown}{more}: its scheduler could choose any, and the gain is the least"


def nothing_to_move(planned: PlannedMoves) -> str:
    """Why there are no moves, in one line."""
    over = [each for each in planned.hottest if each.over_before]
    refused = len({each.subject for each in planned.plan.refusals})
    if not over and not refused:
        peaks = [f"{each.resource} {each.before.usage:.0%} on {each.before.node}" for each in planned.hottest]
        return f"Nothing to move: every node is below its limits (highest: {', '.join(peaks)})."
    hot = [f"{counted(each.over_before, 'node')} above the limit of {each.resource}" for each in over]
    although = f" despite {', '.join(hot)}" if hot else ""
    pods = f"{counted(refused, 'pod')} may not be moved, and " if refused else ""
    return f"Nothing to move{although}: {pods}no possible move gains more than it costs."


def earlier_plan_lines(title: str, plan: Plan | PublishedPlan, now: float) -> Iterator[Line]:
    """A plan that is about to be carried out, with its age; `now` is in seconds since 1970."""
    age = format_duration(max(round(now - plan.at), 0))
    yield (f"{title} moves {counted(len(plan.moves), 'pod')}", "bold"), (f", planned {age} ago.", "")
    yield EMPTY
    for move in plan.moves:
        yield from move_lines(move)
    yield EMPTY
    yield from _totals(plan)


def _totals(plan: Plan | PublishedPlan) -> Iterator[Line]:
    penalty = f"penalty of all nodes {plan.penalty_before:.1f} → {plan.penalty_after:.1f}"
    yield ("Plan: ", "bold"), (f"{counted(len(plan.moves), 'move')}, {penalty}.", "")


def _hottest_lines(hottest: Iterable[Hottest]) -> Iterator[Line]:
    rows = [
        (
            each.resource,
            *(f"{peak.usage:.0%} {peak.node}" for peak in (each.before, each.after)),
            f"{each.limit:.0%}",
            f"{each.over_before} → {each.over_after}",
        )
        for each in hottest
    ]
    table = [("hottest node", "before", "after", "limit", "nodes above it"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for number, row in enumerate(table):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield ((text, "" if number else "dim"),)


# --- refusals


def _by_guard(refusals: Iterable[Refusal]) -> list[tuple[str, list[Refusal]]]:
    """The guard that refused most first."""
    groups = defaultdict[str, list[Refusal]](list)
    for each in refusals:
        groups[each.guard].append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _refusal_summary(refusals: tuple[Refusal, ...]) -> str:
    if not refusals:
        return f"{ASKED}, and none refused anything."
    groups = ", ".join(f"{len(group)} by {guard}" for guard, group in _by_guard(refusals))
    return f"{ASKED}. Refused: {groups}. --why-not shows the reasons."


def _refusal_lines(refusals: tuple[Refusal, ...]) -> Iterator[Line]:
    yield (("Why not:" if refusals else _refusal_summary(refusals), "bold"),)
    for guard, group in _by_guard(refusals):
        yield (f"  {guard}", "bold"), (f" ({len(group)})", "dim")
        yield from (((f"    {each.subject}: {each.reason}", ""),) for each in group[:EXAMPLES])
        if len(group) > EXAMPLES:
            yield ((f"    and {len(group) - EXAMPLES:,} more", "dim"),)
