"""Renders the demo's moves as lines of styled text: the plan, each move step by step, grades, and the day in two charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from trimtab.apps.demo_events import MoveAdvanced, MoveGraded, MovesEnded
from trimtab.apps.plan.make import PlannedMoves
from trimtab.apps.plan.text import plan_lines
from trimtab.cli.demo_screen import CORE, EMPTY, Line, bar, plain, time_of_day, usage_style, wrapped
from trimtab.core.model.duration import HOUR, MINUTE
from trimtab.core.model.ledger import MoveState
from trimtab.sim.demo.hot_node import HIGH_UTILISATION
from trimtab.sim.demo.morning import MORNING_PLAY, SLOT, DayOutcome
from trimtab.sim.demo.snapshot import NodeSnapshot, WorldSnapshot

WIDTH = 80
WHERE = "the simulated cluster"
NODE_BAR = 40
INDENT = 12  # of what follows a time
EIGHTHS = " ▁▂▃▄▅▆▇█"
ROW = 0.2  # of a chart; the top row is what is above the limit
ROWS, GUTTER, GAP = 5, 5, 3
COMPARED, FIGURE = 52, 14

STEPS: dict[MoveState, Callable[[MoveAdvanced], str]] = {
    MoveState.CHARGED: lambda _: "it is written to the ledger first",
    MoveState.SURGED: lambda step: f"its {step.record.workload.partition(' ')[0]} has one replica more",
    MoveState.PLACED: lambda step: f"the replacement is on {step.record.node}",
    MoveState.LEAVING: lambda _: "it is ready: now the old pod leaves",
    MoveState.DONE: lambda step: f"moved within {step.record.ended - step.record.at:.0f} s",
}


def brief_cluster(picture: WorldSnapshot) -> list[Line]:
    """One line per node: what is used of its CPU."""
    head = f"  at {time_of_day(picture.at):<{NODE_BAR + 14}}CPU used"
    return [((head, "dim"),), *(_brief_node(node) for node in picture.nodes)]


def _brief_node(node: NodeSnapshot) -> Line:
    name = (f"  {node.name:<10}", "bold"), (f"{node.pods:>2} pods  ", "dim")
    if node.cpu.used is None:
        return (*name, ("not measured yet", "dim"))
    share = node.cpu.used / node.cpu.allocatable
    figures = f" {node.cpu.used / CORE:>5.2f} of {node.cpu.allocatable / CORE:g}  {share:>4.0%}"
    return (*name, *bar(share, usage_style(share), NODE_BAR), (figures, ""))


def plan(planned: PlannedMoves, width: int = WIDTH) -> Iterator[Line]:
    """As `trimtab plan` prints it, in lines of this width."""
    for line in plan_lines(planned, WHERE, why_not=False):
        text = plain(line)
        if len(text) <= width:
            yield line or EMPTY
        else:
            yield from wrapped(text.lstrip(), " " * (len(text) - len(text.lstrip())), width)


def move_step(step: MoveAdvanced, width: int = WIDTH) -> list[Line]:
    """A move's new state, and how many pods of its workload are ready; the first one says what moves, and why."""
    record = step.record
    text = STEPS[record.state](step) if record.state in STEPS else record.message
    words = f"{_workload(record.workload)}{record.state:<9}{text:<36}"
    line: Line = (*_time(step.at), (words, ""), (f"{step.ready} of {step.wanted} ready", "green"))
    if record.state is not MoveState.CHARGED:
        return [line]
    head = (*_time(step.at), (record.pod, "bold"), (f"  {record.source} → {record.target}", "bold yellow"))
    why = f"{record.strategy}: {record.reason}; gain {record.gain:.1f}, cost {record.cost:.1f}"
    return [head, *wrapped(why, " " * INDENT, width), line]


def grade(graded: MoveGraded) -> list[Line]:
    """What the move was worth: the relief of both nodes, as promised and as measured."""
    found, after = graded.grade, graded.grade.after
    age = f"{after / HOUR:.0f} h" if after >= HOUR else f"{after / MINUTE:.0f} min"
    verdict = ("it helped", "green") if found.helped else ("in vain", "red")
    words = f"relief {found.promised:.2f} promised, {found.measured:.2f} after {age}: "
    return [(*_time(graded.at), (f"{_workload(graded.record.workload)}{'graded':<9}{words}", ""), verdict)]


def moves_report(ended: MovesEnded) -> Iterator[Line]:
    """The hottest node over the day in two charts, and the figures of both days."""
    yield EMPTY
    head = f"{'with moves':<{_columns(ended.moved) + GAP}}the same day without moves"
    yield ((f"CPU of the hottest node; the top row is above {HIGH_UTILISATION * 100:.0f} %", "bold"),)
    yield EMPTY
    yield ((f"{'':<{GUTTER}}{head}", "bold"),)
    yield from _charts(ended.moved, ended.unmoved)
    yield EMPTY
    yield ((f"{'':<{COMPARED}}{'with moves':>{FIGURE}}{'without':>{FIGURE}}", "bold"),)
    for words, moved, unmoved in _comparisons(ended):
        yield ((f"{words:<{COMPARED}}{moved:>{FIGURE}}{unmoved:>{FIGURE}}", ""),)


def _charts(moved: DayOutcome, unmoved: DayOutcome) -> Iterator[Line]:
    for row in reversed(range(ROWS)):
        style = "red" if row * ROW >= HIGH_UTILISATION else "cyan"
        left, right = (_chart_row(each.hottest, row) for each in (moved, unmoved))
        yield (f"{(row + 1) * ROW * 100:>3.0f}% ", "dim"), (left, style), (" " * GAP, ""), (right, style)
    begins = MORNING_PLAY.scenario().begins
    axes = (_axis(begins, _columns(each)) for each in (moved, unmoved))
    yield ((f"{'':<{GUTTER}}{(' ' * GAP).join(axes)}", "dim"),)


def _chart_row(values: Sequence[float], row: int) -> str:
    """Eighths of a row's height."""
    filled = (min(max(round((value / ROW - row) * 8), 0), 8) for value in values)
    return "".join(EIGHTHS[each] for each in filled)


def _columns(day: DayOutcome) -> int:
    return len(day.hottest)


def _axis(begins: float, columns: int) -> str:
    first, last = (time_of_day(each)[:5] for each in (begins, begins + columns * SLOT))
    return f"{first}{last:>{columns - len(first)}}"


def _comparisons(ended: MovesEnded) -> Iterator[tuple[str, str, str]]:
    moved, unmoved = ended.moved, ended.unmoved
    done = [each for each in ended.records if each.state is MoveState.DONE]
    graded = [each.grades[-1] for each in done if each.grades]
    yield "node-minutes above 80 % of CPU", f"{moved.minutes_above_80:.0f}", f"{unmoved.minutes_above_80:.0f}"
    yield "highest CPU demand of a node, of its capacity", f"{moved.peak * 100:.0f} %", f"{unmoved.peak * 100:.0f} %"
    yield "seconds with fewer ready pods than replicas", f"{moved.seconds_short:.0f}", f"{unmoved.seconds_short:.0f}"
    yield "moves", f"{len(done)}", "0"
    yield "moves that helped, as measured", f"{sum(each.helped for each in graded)} of {len(graded)}", ""


def _time(at: float) -> Line:
    return ((f"  {time_of_day(at)}  ", "dim"),)


def _workload(workload: str) -> str:
    return f"{workload.partition(' ')[2]:<8} "
