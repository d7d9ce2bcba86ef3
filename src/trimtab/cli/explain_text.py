"""The text of `trimtab explain`: a pod's state, how it waited, decisions and node table; a node's resources and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from trimtab.cli.page_client import Json
from trimtab.core.model.duration import DAY
from trimtab.core.model.resources import GIB

ShowTime = Callable[[float], str]


def utc_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def simulated_time(at: float) -> str:
    """Of a simulation, whose clock starts at midnight of its first day."""
    return f"day {at // DAY + 1:.0f} {datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def pod_lines(answer: Json, nodes: tuple[str, ...], show: ShowTime = utc_time) -> Iterator[str]:
    yield f"pod {answer['pod']} {answer['state']}"
    yield from _waiting(answer.get("waiting"), show)
    yield f"if it were scheduled now ({answer['scheduler']}): {answer['verdict']}"
    if answer.get("stock"):
        yield f"with kube-scheduler's own profile: {answer['stock']}"
    if answer.get("note"):
        yield f"note: {answer['note']}"
    yield from _past_decisions(answer["past"], show)
    feasible = [line for line in answer["lines"] if not line.get("refused_by")]
    yield from _table(feasible)
    for line in (line for index, line in enumerate(feasible) if index == 0 or line["node"] in (answer["node"], *nodes)):
        yield from _score_details(line)
    yield from _rejections([line for line in answer["lines"] if line.get("refused_by")])
    known = {line["node"] for line in answer["lines"]}  # includes the nodes named by --node
    yield from (f"  not {name}: node not found" for name in nodes if known and name not in known)
    if (hidden := answer["nodes"] - len(answer["lines"])) > 0:
        yield f"{hidden} more nodes: select one with --node"


def node_lines(answer: Json, show: ShowTime = utc_time) -> Iterator[str]:
    yield f"node {answer['node']}: {answer['state']}, {len(answer['pods'])} pods"
    for use in answer["uses"]:
        yield f"  {_use(use)}"
    yield from _past_decisions(answer["past"], show)
    for here in answer["waiting"]:
        line = here["line"]
        verdict = ", ".join(line["reasons"]) if line.get("refused_by") else f"feasible, score {line['total']:g}"
        by = f"{line['refused_by']}: " if line.get("refused_by") else ""
        yield f"  pending pod {here['pod']}: {by}{verdict}"
    if answer.get("rescheduling"):
        yield from outlook_lines(answer["rescheduling"], show)


def outlook_lines(outlook: Json, show: ShowTime = utc_time) -> Iterator[str]:
    """What the rescheduler makes of a node."""
    yield f"rescheduling ({outlook['mode']}): {outlook['verdict']}"
    shares = (
        f"{use['resource']} {'unknown' if use['usage'] is None else format(use['usage'], '.0%')} of {use['limit']:.0%}"
        for use in outlook["uses"]
    )
    penalty = "" if outlook["penalty"] is None else f", penalty {outlook['penalty']:.1f}"
    yield f"  usage and limits: {', '.join(shares)}{penalty}"
    for each in outlook["suggested"]:
        named = f" (for {', '.join(each['pods'])})" if each["pods"] else ""
        yield f"  suggested by {each['strategy']}: {each['reason']}{named}"
    if outlook["silent"]:
        yield f"  not suggested by {', '.join(outlook['silent'])}"
    for pod in outlook["pods"]:
        yield f"  pod {pod['pod']}: {_outlook_of_pod(pod)}"
    if outlook["more_pods"]:
        yield f"  {outlook['more_pods']} more pods may be moved, and would relieve the node less"
    yield from (f"  planned {show(each['at'])}: {each['words']}" for each in outlook["plans"])


def _outlook_of_pod(pod: Json) -> str:
    if pod["guard"]:
        return f"stays, {pod['guard']}: {pod['reason']}"
    if not pod["target"]:
        return "may be moved, but no other node would take it within its limits"
    return f"may be moved, best to {pod['target']}: gain {pod['gain']:.1f}, cost {pod['cost']:.1f}"


def _use(use: Json) -> str:
    def amount(value: float | None) -> str:
        if value is None:
            return "unknown"
        return f"{value / 1000:.2f} CPU" if use["resource"] == "cpu" else f"{value / GIB:.2f} GiB"

    trust = {1.0: "fresh", 0.5: "ageing"}.get(use["trust"], "not trusted")
    return (
        f"{use['resource']}: {amount(use['allocatable'])} allocatable, {amount(use['requested'])} requested, "
        f"{amount(use['latest'])} measured ({trust}), {amount(use['expected'])} expected"
    )


def _past_decisions(past: list[Json], show: ShowTime) -> Iterator[str]:
    for each in past:
        at = show(each["at"])
        node = f" → {each['node']}" if each["node"] else ""
        yield f"  decided {at} (attempt {each['attempt']}){node}: {each['words']}"


def _table(lines: list[Json]) -> Iterator[str]:
    plugins = [*dict.fromkeys(plugin for line in lines for plugin in line.get("scores", {}))]
    rows = [["node", "total", *plugins]]
    rows += [
        [line["node"], f"{line['total']:g}", *(f"{line['scores'].get(p, 0):g}" for p in plugins)] for line in lines
    ]
    yield from _columns(rows) if lines else ()


def _score_details(line: Json) -> Iterator[str]:
    """How a node's total comes about: a row for each plugin."""
    scores: Json = line.get("plugins", {})
    rows = [[f"score of {line['node']}", "raw", "normalised", "weight", "points"]]
    rows += [
        [plugin, *(f"{each[field]:g}" for field in ("raw", "normalised", "weight", "points"))]
        for plugin, each in scores.items()
    ]
    yield from _columns(rows) if scores else ()


def _columns(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _waiting(waiting: Json | None, show: ShowTime) -> Iterator[str]:
    if waiting is None:
        return
    since, until, attempts = waiting["since"], waiting["until"], waiting["attempts"]
    waited = f"waits since {show(since)}" if until is None else f"waited {until - since:.1f} s from {show(since)} on"
    yield f"{waited}, {attempts} attempt{'' if attempts == 1 else 's'}:"
    for step in waiting["steps"]:
        yield f"  {show(step['at'])} {step['queue']}: {step['cause']}"


def _rejections(lines: list[Json]) -> Iterator[str]:
    for line in lines:
        final = "" if line.get("final") else " (preemption could help)"
        yield f"  not {line['node']}: {line['refused_by']}: {', '.join(line['reasons'])}{final}"
