"""`trimtab demo`: decides when each moment is shown, and how fast; what happens in it is left to `apps.demo`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click

from trimtab.apps.demo import Decided, Demo, Ended, Marked, Moment, Opened, Passed
from trimtab.cli import screen

if TYPE_CHECKING:
    from rich.console import Console

FRAME = 0.15  # seconds at speed 1
OPENING = 2.0
SLOWEST, FASTEST = 0.01, 1000.0


def speed_of(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if value == 0 or SLOWEST <= value <= FASTEST:
        return value
    raise click.BadParameter(f"{value:g} is neither 0 (no waiting) nor between {SLOWEST:g} and {FASTEST:g}.")


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The same seed shows the same.")
@click.option("--speed", default=1.0, show_default=True, callback=speed_of, help="2 is twice as fast, 0 never waits.")
@click.option("--plain", is_flag=True, help="Lines of text without colour or waiting, as for a pipe.")
def command(seed: int, speed: float, plain: bool) -> None:
    """A simulated cluster in the terminal: the real engine places pods and says why. No Kubernetes needed."""
    moments = Demo(seed).moments()
    console = None if plain else _lively_console()
    if console is None:
        show_plain(seed, moments)
    else:
        show_live(seed, moments, console, lambda seconds: time.sleep(seconds / speed if speed else 0))


def _speaks_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _lively_console() -> Console | None:
    """The terminal, if it can show pictures that change in place."""
    if not (sys.stdout.isatty() and _speaks_unicode()):
        return None
    from rich.console import Console

    console = Console(highlight=False)
    return None if console.is_dumb_terminal else console


def show_plain(seed: int, moments: Iterable[Moment]) -> None:
    unicode = _speaks_unicode()
    for line in chain(screen.title(seed), _plain_lines(moments)):
        text = screen.plain(line)
        click.echo(text if unicode else text.translate(screen.ASCII))


def _plain_lines(moments: Iterable[Moment]) -> Iterator[screen.Line]:
    """Everything but the pictures in the middle of scenes; a blank line parts decisions from a picture."""
    gap: list[screen.Line] = []
    for moment in moments:
        match moment:
            case Opened():
                yield from screen.opening(moment)
                gap = []
            case Decided():
                yield from screen.decision(moment)
                gap = [screen.EMPTY]
            case Marked():
                yield from screen.mark(moment)
                gap = [screen.EMPTY]
            case Passed(picture=picture, last=True):
                yield from (*gap, *screen.cluster(picture))
            case Ended():
                yield from screen.ending(moment)


def show_live(seed: int, moments: Iterable[Moment], console: Console, wait: Callable[[float], None]) -> None:
    """One picture that changes in place; at the end the table, which stays."""
    from rich.live import Live
    from rich.text import Text

    def drawn(lines: Iterable[screen.Line]) -> Text:
        return Text("\n", no_wrap=True, overflow="ellipsis").join(Text.assemble(*line) for line in lines)

    stage = Stage(seed)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for moment in moments:
            stage.take(moment, console.width)
            live.update(drawn(stage.lines(console.height)), refresh=True)
            wait(OPENING if isinstance(moment, Opened) else FRAME if isinstance(moment, Passed) else 0)
    console.print(drawn([*screen.title(seed), *stage.last]))


class Stage:
    """What stands on the screen: the scene's opening, the cluster, and as many of the last decisions as fit.

    The newest one is shown as far as there is room; older ones whole or not at all.
    """

    def __init__(self, seed: int) -> None:
        self._title = screen.title(seed)
        self._opening: list[screen.Line] = []
        self._picture: list[screen.Line] = []
        self._decisions: list[list[screen.Line]] = []
        self.last: list[screen.Line] = []

    def take(self, moment: Moment, width: int) -> None:
        match moment:
            case Opened():
                self._opening, self._decisions = screen.opening(moment, width), []
            case Decided():
                self._decisions.append(screen.decision(moment, width))
            case Marked():
                self._decisions.append(screen.mark(moment, width))
            case Passed():
                self._picture = screen.cluster(moment.picture, width)
            case Ended():
                self.last = list(screen.ending(moment))

    def lines(self, height: int) -> list[screen.Line]:
        lines = [*self._title, *self._opening, *self._picture, screen.EMPTY]
        log: list[screen.Line] = []
        for decision in reversed(self._decisions):
            room = height - len(lines) - len(log)
            if log and len(decision) > room:
                break
            log = [*decision[: max(room, 0)], *log]
        return [*lines, *log]
