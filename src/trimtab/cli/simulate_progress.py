"""Shows how far a simulation is: a bar with the time that is left on a terminal, otherwise a line for each run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING

import click

from trimtab.apps.simulate.process_pool import JobDone, JobFailed, JobProgress, PoolEvent

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.progress import Progress

    from trimtab.apps.simulate.study import StudyProgress


def show_progress(progress: StudyProgress, events: Generator[PoolEvent]) -> None:
    """Until all jobs are done; the events' source is closed in any case."""
    if progress.stored:
        click.echo(f"{progress.stored} of {len(progress.jobs)} runs are finished already", err=True)
    with closing(events):
        if sys.stderr.isatty():
            _show_bar(progress, events)
        else:
            _show_lines(progress, events)


def _show_lines(progress: StudyProgress, events: Iterable[PoolEvent]) -> None:
    for event in events:
        count = f"[{len(progress.finished) + len(progress.failed)}/{len(progress.jobs)}]"
        if isinstance(event, JobDone):
            click.echo(f"{count} {event.job.title}: {event.finished.timing.seconds:.1f} s", err=True)
        elif isinstance(event, JobFailed):
            click.echo(f"{count} {event.job.title}: failed", err=True)


def _show_bar(progress: StudyProgress, events: Iterable[PoolEvent]) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")
    times = TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        _advance(bar, progress, events)


def _advance(bar: Progress, progress: StudyProgress, events: Iterable[PoolEvent]) -> None:
    """Jobs count by the share of them that is done, so that the time left is known before the first one is."""
    waiting = len(progress.jobs) - progress.stored
    task = bar.add_task(f"0 of {waiting} runs", total=float(waiting))
    shares: dict[str, float] = {}
    for event in events:
        shares[event.job.key] = event.share if isinstance(event, JobProgress) else 1.0
        done = len(progress.finished) + len(progress.failed) - progress.stored
        bar.update(task, completed=sum(shares.values()), description=f"{done} of {waiting} runs")
