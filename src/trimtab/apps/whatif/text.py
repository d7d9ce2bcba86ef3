"""The answers of `trimtab whatif` in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from trimtab.sim.whatif import Answer, FailureAnswer, Pending, Placed, further_lost, further_pending

SHOWN = 10  # lines of a list
NODES_SHOWN = 5


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def answer_lines(question: str, before: Answer, after: Answer, moved: int | None = None) -> Iterator[str]:
    """The verdict, what changes, and what is behind it."""
    yield f"What if {question}?"
    yield ""
    yield from _verdict(before, after, moved)
    yield ""
    yield from _table(before, after)
    yield from _peak_lines(before, after)
    yield from _section("Pending:", pending_lines(further_pending(before.pending, after.pending)))
    yield from _section(
        "Not evicted, because a PodDisruptionBudget forbids it:",
        [f"{each.pod} on {each.node}: {', '.join(each.budgets)}" for each in after.blocked],
    )
    yield from _section(
        "Lost, because no controller creates them again (`kubectl drain` refuses without --force):",
        list(further_lost(before, after)),
    )
    if moved is None:
        yield from _section("Placed:", _placed_lines(before.placed, after.placed))


def _verdict(before: Answer, after: Answer, moved: int | None) -> Iterator[str]:
    further = len(further_pending(before.pending, after.pending))
    if further:
        yield f"{counted(further, 'further pod')} would be pending."
    elif len(after.pending) < len(before.pending):
        yield f"{counted(len(before.pending) - len(after.pending), 'pending pod')} would find room."
    else:
        yield "No further pod would be pending."
    if after.blocked:
        yield f"The drain would not finish: {counted(len(after.blocked), 'pod')} cannot be evicted."
    if lost := further_lost(before, after):
        yield f"{counted(len(lost), 'pod')} without a controller would be lost."
    if moved is not None:
        yield f"{counted(moved, 'pod')} would run on another node."


def _table(before: Answer, after: Answer) -> Iterator[str]:
    rows = (
        ("", "now", "then"),
        ("schedulable nodes", f"{before.nodes:,}", f"{after.nodes:,}"),
        ("pods", f"{before.pods:,}", f"{after.pods:,}"),
        ("pending pods", f"{len(before.pending):,}", f"{len(after.pending):,}"),
        ("evicted or preempted pods", f"{before.evictions:,}", f"{after.evictions:,}"),
        ("node-time above 80 % CPU", f"{before.hot80:.1%}", f"{after.hot80:.1%}"),
        ("unmet CPU demand", f"{before.unmet:.2%}", f"{after.unmet:.2%}"),
        ("OOM kills", f"{before.oom_kills:,}", f"{after.oom_kills:,}"),
    )
    for name, now, then in rows:
        yield f"{name:28}{now:>10}{then:>10}"


def _peak_lines(before: Answer, after: Answer) -> Iterator[str]:
    """The nodes with the highest CPU demand then, with what it is now."""
    known = {peak.node: peak for peak in before.peaks}
    shown = after.peaks[:NODES_SHOWN]
    if not shown:
        return
    width = max(28, *(len(peak.node) + 4 for peak in shown))
    yield ""
    yield f"{'Highest demand on a node':{width}}{'CPU now':>10}{'then':>10}{'memory now':>14}{'then':>10}"
    for peak in shown:
        now = known.get(peak.node)
        cpu, memory = (f"{now.cpu:.0%}", f"{now.memory:.0%}") if now is not None else ("-", "-")
        yield f"  {peak.node:{width - 2}}{cpu:>10}{peak.cpu:>10.0%}{memory:>14}{peak.memory:>10.0%}"


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield title
        yield from (f"  {line}" for line in lines[:SHOWN])
    if len(lines) > SHOWN:
        yield f"  and {len(lines) - SHOWN:,} more"


def pending_lines(pending: Iterable[Pending]) -> list[str]:
    """By workload and reason, the largest group first."""
    groups = Counter((each.workload, each.reason) for each in pending)
    return [f"{_pods(workload, count)}: {reason}" for (workload, reason), count in groups.most_common()]


def _placed_lines(before: Iterable[Placed], after: Iterable[Placed]) -> list[str]:
    """By workload: on how many nodes, or on which one."""
    known = {(each.pod, each.node) for each in before}
    nodes: dict[str, Counter[str]] = {}
    for each in after:
        if (each.pod, each.node) not in known:
            nodes.setdefault(each.workload, Counter())[each.node] += 1
    return [f"{_pods(workload, found.total())} → {_nodes(found)}" for workload, found in nodes.items()]


def _pods(workload: str, count: int) -> str:
    return workload if count == 1 else f"{workload} ({counted(count, 'pod')})"


def _nodes(found: Counter[str]) -> str:
    some = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in found.most_common(NODES_SHOWN))
    return some if len(found) <= NODES_SHOWN else f"{some} and {counted(len(found) - NODES_SHOWN, 'other node')}"


def failure_lines(answers: Iterable[FailureAnswer]) -> Iterator[str]:
    """One line for each domain that may fail, and the pending and lost pods of each that must not."""
    for answer in answers:
        peak = f"; fullest node then: {answer.hottest.node}, CPU {answer.hottest.cpu:.0%}" if answer.hottest else ""
        domain = f"{answer.domain} ({counted(answer.nodes, 'node')})"
        if answer.survived:
            yield f"{domain} may fail: all pods find room{peak}"
            continue
        yield f"{domain} must not fail: {' and '.join(_failure_counts(answer))}{peak}"
        lines = pending_lines(answer.pending)
        lines += [f"{pod}: lost, because no controller creates it again" for pod in answer.lost]
        yield from (f"  {line}" for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            yield f"  and {len(lines) - SHOWN:,} more"


def _failure_counts(answer: FailureAnswer) -> Iterator[str]:
    if answer.pending:
        yield f"{counted(len(answer.pending), 'pod')} would be pending"
    if answer.lost:
        yield f"{counted(len(answer.lost), 'pod')} without a controller would be lost"
