"""Renders the demo's events as lines of styled text.

A line is a tuple of (text, style): the texts joined are plain text, and `rich` applies the styles.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator

from trimtab.apps.demo_events import NodeLabelled, PodDecided, SceneStarted, SchedulingEnded
from trimtab.core.model.duration import DAY, HOUR
from trimtab.core.model.resources import CPU, GIB, MEMORY, MIB
from trimtab.sim.demo.hot_node import HOT_NODE, Outcome
from trimtab.sim.demo.snapshot import NodeSnapshot, ResourceSnapshot, WorldSnapshot

Line = tuple[tuple[str, str], ...]

WIDTH = 100
LABELS, FIGURES = 28, 14  # widths left of the bars, and right of each
SHORTEST_BAR, LONGEST_BAR = 6, 22
WARM, HOT = 0.7, 0.9  # utilisation at which a bar changes colour
CORE = 1000.0
EMPTY: Line = (("", ""),)

COMPARED = 68  # width of the labels in the comparison
COMPARISONS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    (f"scheduled to {HOT_NODE} while the process ran there", lambda each: f"{each.on_hot_node}"),
    ("mean CPU spread between fullest and emptiest node meanwhile", lambda each: f"{each.spread * 100:.0f} %"),
    ("highest CPU demand of a node, of its capacity", lambda each: f"{each.peak * 100:.0f} %"),
    ("core-seconds of unmet demand", lambda each: f"{each.unmet_core_seconds:.0f}"),
    ("node-seconds above 80 % of CPU", lambda each: f"{each.seconds_above_80:.0f}"),
    ("pods pending at the end", lambda each: f"{each.pending}"),
)

# For terminals without Unicode.
ASCII = str.maketrans({"█": "#", "░": ".", "→": "->", **dict.fromkeys("▁▂▃", "."), **dict.fromkeys("▄▅▆▇", ":")})


def plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


def title(seed: int) -> list[Line]:
    words = "a simulated cluster, a virtual clock, the real engine"
    return [(("Trimtab demo", "bold"), (f": {words}. Seed {seed}.", ""))]


def scene_heading(opened: SceneStarted, width: int = WIDTH) -> list[Line]:
    head = f"Scene {opened.number} of {opened.of}: {opened.scene.title}"
    return [EMPTY, ((head, "bold yellow"),), *wrapped(opened.scene.description, "  ", width), EMPTY]


def decision(decided: PodDecided, width: int = WIDTH) -> list[Line]:
    """The pod's node, and why."""
    where = (f"→ {decided.node}", "bold green") if decided.node else ("stays pending", "bold red")
    again = f", attempt {decided.attempt}" if decided.attempt > 1 else ""
    head = (
        (f"  {time_of_day(decided.at)}  ", "dim"),
        (decided.pod.name, "bold"),
        (f" ({pod_requests(decided)}{again}) ", ""),
    )
    return [(*head, where), *wrapped(decided.why, " " * 12, width)]


def label_change(labelled: NodeLabelled, width: int = WIDTH) -> list[Line]:
    """The label that was added or removed, and why."""
    patch = labelled.instruction
    labels = ", ".join(
        f"loses the label {key}" if value is None else f"is labelled {key}={value}" for key, value in patch.labels
    )
    head = ((f"  {time_of_day(labelled.at)}  ", "dim"), (patch.node, "bold magenta"), (f" {labels}", "magenta"))
    return [head, *wrapped(patch.reason, " " * 12, width)]


def cluster(picture: WorldSnapshot, width: int = WIDTH) -> list[Line]:
    """Two lines per node, with bars of requests and usage, and a summary line."""
    bar = min(max((width - LABELS - 2 * FIGURES) // 2, SHORTEST_BAR), LONGEST_BAR)
    head = f"{'  at ' + time_of_day(picture.at):<{LABELS}}{'requested':<{bar + FIGURES}}used"
    lines: list[Line] = [((head, "dim"),)]
    for node in picture.nodes:
        lines += _node(node, bar)
    waiting = f"; waiting: {', '.join(picture.pending)}" if picture.pending else ""
    return [*lines, ((f"  {_spread(picture)}{waiting}.", "dim"),)]


def scheduling_report(ended: SchedulingEnded) -> Iterator[Line]:
    """The table of pods, a summary, and the comparison."""
    yield EMPTY
    yield ((f"{'pod':<8}{'asks':<20}{'node':<10}why", "bold"),)
    for row in ended.rows:
        yield (
            (f"{row.pod.name:<8}{pod_requests(row):<20}", ""),
            (f"{row.node or 'pending':<9} ", "green" if row.node else "red"),
            (row.in_short, ""),
        )
    yield EMPTY
    yield ((summary(ended), "bold"),)
    yield ((f"Events written: {', '.join(f'{count} {reason}' for reason, count in ended.events)}.", ""),)
    yield EMPTY
    yield from comparison(ended.measured, ended.requested)


def what_next() -> list[Line]:
    return [EMPTY, (("README.md says how to run Trimtab on a cluster; --seed 2 shows another day.", ""),)]


def summary(ended: SchedulingEnded) -> str:
    bound = sum(bool(row.node) for row in ended.rows)
    nodes = ended.picture.nodes
    tainted = {node.name for node in nodes if node.status == "tainted"}
    astray = [row.pod.name for row in ended.rows if row.node in tainted]
    over = [node.name for node in nodes if any(each.requested > each.allocatable for each in (node.cpu, node.memory))]
    return (
        f"{bound} of {len(ended.rows)} pods bound; on the tainted node: {_names(astray)}; "
        f"nodes asked for more than they have: {_names(over)}."
    )


def comparison(measured: Outcome, requested: Outcome) -> Iterator[Line]:
    """Outcomes of scheduling by load and by requests."""
    head = f"the {measured.placed + measured.pending} pods of scenes 1 and 2, placed by"
    yield ((f"{head:<{COMPARED}}{'measured load':>15}{'requests':>11}", "bold"),)
    for words, figure in COMPARISONS:
        yield ((f"{words:<{COMPARED}}{figure(measured):>15}{figure(requested):>11}", ""),)


def pod_requests(decided: PodDecided) -> str:
    demand = decided.pod.requests
    mebibytes = demand.of(MEMORY) / MIB
    memory = f"{mebibytes / 1024:g} GiB" if mebibytes >= 1024 else f"{mebibytes:g} MiB"
    return f"{demand.of(CPU) / 1000:g} CPU, {memory}"


def time_of_day(at: float) -> str:
    seconds = int(at % DAY)
    return f"{seconds // int(HOUR):02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _node(node: NodeSnapshot, bar: int) -> list[Line]:
    count = f"{node.pods} pod{'' if node.pods == 1 else 's'}"
    about = ", ".join(filter(None, (node.status, count)))
    return [
        ((f"  {node.name:<18}", "bold"), (f"{'CPU':<8}", ""), *_bars(node.cpu, CORE, bar)),
        ((f"  {about:<18}", "dim"), (f"{'GiB':<8}", ""), *_bars(node.memory, GIB, bar)),
    ]


def _bars(meter: ResourceSnapshot, unit: float, width: int) -> Line:
    requested = f" {meter.requested / unit:>5.2f} of {meter.allocatable / unit:g}"
    left = (*bar(meter.requested / meter.allocatable, "cyan", width), (f"{requested:<{FIGURES}}", ""))
    if meter.used is None:
        return (*left, ("not measured yet", "dim"))
    share = meter.used / meter.allocatable
    return (*left, *bar(share, usage_style(share), width), (f" {meter.used / unit:>5.2f}", ""))


def usage_style(share: float) -> str:
    return "red" if share > HOT else "yellow" if share > WARM else "green"


def bar(share: float, style: str, width: int) -> Line:
    full = min(round(share * width), width)
    return (("█" * full, style), ("░" * (width - full), "dim"))


def _spread(picture: WorldSnapshot) -> str:
    """The range of CPU over the nodes that accept pods."""
    meters = [node.cpu for node in picture.nodes if node.status != "tainted"]
    requested = _range(meter.requested / meter.allocatable for meter in meters)
    used = _range(meter.used / meter.allocatable for meter in meters if meter.used is not None)
    return f"CPU of the workers: requested {requested}" + (f", used {used}" if used else "")


def _range(shares: Iterable[float]) -> str:
    percents = sorted(round(share * 100) for share in shares)
    return f"{percents[0]} to {percents[-1]} %" if percents else ""


def wrapped(text: str, indent: str, width: int) -> list[Line]:
    wrapped = textwrap.wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=indent)
    return [((line, ""),) for line in wrapped]


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
