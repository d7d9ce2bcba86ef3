"""`trimtab demo`: shows the demo in the terminal, as a live screen or as plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import click

from trimtab.apps.demo import PARTS, Demo
from trimtab.apps.demo_events import (
    ClusterFrame,
    DemoEvent,
    MoveAdvanced,
    MoveGraded,
    MovesEnded,
    NodeLabelled,
    PlanMade,
    PodDecided,
    SceneStarted,
    SchedulingEnded,
)
from trimtab.cli import demo_moves_screen, demo_screen
from trimtab.sim.demo.morning import MORNING_PLAY

if TYPE_CHECKING:
    from rich.console import Console

FRAME = 0.15  # seconds at speed 1
SCENE_PAUSE, PLAN_PAUSE, STEP_PAUSE = 2.0, 5.0, 0.5
PAUSES: Mapping[type[DemoEvent], float] = {
    SceneStarted: SCENE_PAUSE,
    ClusterFrame: FRAME,
    PlanMade: PLAN_PAUSE,
    MoveAdvanced: STEP_PAUSE,
    MoveGraded: STEP_PAUSE,
}
SLOWEST, FASTEST = 0.01, 1000.0


def validate_speed(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if value == 0 or SLOWEST <= value <= FASTEST:
        return value
    raise click.BadParameter(f"{value:g} is neither 0 (no waiting) nor between {SLOWEST:g} and {FASTEST:g}.")


@click.command()
@click.argument("part", required=False, type=click.Choice(PARTS), metavar=f"[{'|'.join(PARTS)}]")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The same seed gives the same run."
)
@click.option(
    "--speed", default=1.0, show_default=True, callback=validate_speed, help="2 is twice as fast, 0 does not wait."
)
@click.option("--plain", is_flag=True, help="Plain lines without colour or waiting.")
def command(part: str | None, seed: int, speed: float, plain: bool) -> None:
    """Run a simulated cluster in the terminal: the real engine schedules pods and explains why, and moves pods before a
    node runs hot. Needs no Kubernetes. Name a part to see that alone.
    """
    events = Demo(seed, part or "").events()
    console = None if plain else _interactive_console()
    if console is None:
        show_plain(seed, events)
    else:
        show_live(seed, events, console, lambda seconds: time.sleep(seconds / speed if speed else 0))


def _supports_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _interactive_console() -> Console | None:
    """The terminal, if it can update in place."""
    if not (sys.stdout.isatty() and _supports_unicode()):
        return None
    from rich.console import Console

    console = Console(highlight=False)
    return None if console.is_dumb_terminal else console


def show_plain(seed: int, events: Iterable[DemoEvent]) -> None:
    unicode = _supports_unicode()
    for line in chain(demo_screen.title(seed), _plain_lines(events), demo_screen.what_next()):
        text = demo_screen.plain(line)
        click.echo(text if unicode else text.translate(demo_screen.ASCII))


def _plain_lines(events: Iterable[DemoEvent]) -> Iterator[demo_screen.Line]:
    """All events, with a snapshot only at the end of a scene; a blank line separates decisions from it."""
    gap: list[demo_screen.Line] = []
    for event in events:
        match event:
            case SceneStarted():
                yield from demo_screen.scene_heading(event, _width_of(event))
                gap = []
            case PodDecided():
                yield from demo_screen.decision(event)
                gap = [demo_screen.EMPTY]
            case NodeLabelled():
                yield from demo_screen.label_change(event)
                gap = [demo_screen.EMPTY]
            case MoveAdvanced():
                yield from demo_moves_screen.move_step(event)
                gap = [demo_screen.EMPTY]
            case MoveGraded():
                yield from demo_moves_screen.grade(event)
            case PlanMade():
                yield from (demo_screen.EMPTY, *demo_moves_screen.plan(event.planned))
            case ClusterFrame(last=True):
                yield from (*gap, *_cluster(event, demo_screen.WIDTH))
            case SchedulingEnded():
                yield from demo_screen.scheduling_report(event)
            case MovesEnded():
                yield from demo_moves_screen.moves_report(event)


def _width_of(started: SceneStarted) -> int:
    return demo_moves_screen.WIDTH if started.scene in MORNING_PLAY.scenes else demo_screen.WIDTH


def _cluster(frame: ClusterFrame, width: int) -> list[demo_screen.Line]:
    if frame.brief:
        return demo_moves_screen.brief_cluster(frame.picture)
    return demo_screen.cluster(frame.picture, width)


def show_live(seed: int, events: Iterable[DemoEvent], console: Console, wait: Callable[[float], None]) -> None:
    """One screen that is updated in place, and the final report."""
    from rich.live import Live
    from rich.text import Text

    def render(lines: Iterable[demo_screen.Line]) -> Text:
        return Text("\n", no_wrap=True, overflow="ellipsis").join(Text.assemble(*line) for line in lines)

    live_screen = LiveScreen(seed)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for event in events:
            live_screen.update(event, console.width)
            live.update(render(live_screen.lines(console.height)), refresh=True)
            wait(PAUSES.get(type(event), 0.0))
    console.print(render([*demo_screen.title(seed), *live_screen.final_lines, *demo_screen.what_next()]))


class LiveScreen:
    """The screen: the scene's heading, the cluster, and as many of the last decisions as fit.

    The newest is cut to the space left; older ones are shown in full or not at all.
    """

    def __init__(self, seed: int) -> None:
        self._title = demo_screen.title(seed)
        self._opening: list[demo_screen.Line] = []
        self._picture: list[demo_screen.Line] = []
        self._decisions: list[list[demo_screen.Line]] = []
        self.final_lines: list[demo_screen.Line] = []

    def update(self, event: DemoEvent, width: int) -> None:
        match event:
            case SceneStarted():
                self._opening, self._decisions = demo_screen.scene_heading(event, width), []
            case PodDecided():
                self._decisions.append(demo_screen.decision(event, width))
            case NodeLabelled():
                self._decisions.append(demo_screen.label_change(event, width))
            case PlanMade():
                self._picture = []
                self._decisions.append(list(demo_moves_screen.plan(event.planned, width)))
            case MoveAdvanced():
                self._decisions.append(demo_moves_screen.move_step(event, width))
            case MoveGraded():
                self._decisions.append(demo_moves_screen.grade(event))
            case ClusterFrame():
                self._picture = _cluster(event, width)
            case SchedulingEnded():
                self.final_lines += demo_screen.scheduling_report(event)
            case MovesEnded():
                self.final_lines += demo_moves_screen.moves_report(event)

    def lines(self, height: int) -> list[demo_screen.Line]:
        lines = [*self._title, *self._opening, *self._picture, demo_screen.EMPTY]
        log: list[demo_screen.Line] = []
        for decision in reversed(self._decisions):
            space = height - len(lines) - len(log)
            if log and len(decision) > space:
                break
            log = [*decision[: max(space, 0)], *log]
        return [*lines, *log]
