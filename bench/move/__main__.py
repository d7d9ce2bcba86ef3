"""`make bench-move`: Trimtab and the SIG descheduler take turns on one live cluster with the same replayed load.

    make bench-move                                       all of them, and the table in docs/bench-move.md
    make bench-move ARGS="--only trimtab --minutes 10"    one of them, for ten minutes
    make bench-move ARGS="--speed 1"                      in real time: more than an hour for each

Exit code 3: the control plane or the descheduler cannot be built here.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.move.cluster import MoveCluster
from bench.move.reschedulers import TURNS, Turn
from bench.move.table import HEADS, markdown, rows, write_into
from bench.move.timescale import TimeScale
from bench.move.turn import RescheduleFailed, Result, take_turn
from bench.move.workload import Workload
from tools.controlplane import build
from tools.descheduler.build import build_descheduler, descheduler_version

SPEED, MINUTES = 15.0, 60.0
KEYS = tuple(turn.key for turn in TURNS)

Results = dict[str, list[Result]]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-move", description="Compare reschedulers on a live cluster.")
    parser.add_argument("--only", choices=KEYS, action="append", help="just this one; may be repeated")
    parser.add_argument("--speed", type=float, default=SPEED, help=f"simulated seconds in a real one ({SPEED:.0f})")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"simulated minutes of a turn ({MINUTES:.0f})")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each, every round with another seed (1)")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    parser.add_argument("--logs", type=Path, help="keep the logs of all processes in a new folder in this one")
    options = parser.parse_args(arguments)
    if not 1 <= options.speed <= 30:
        parser.error(f"--speed {options.speed:g}: use 1 to 30; plans would follow each other in less than ten seconds")
    if options.minutes <= 0 or options.rounds < 1:
        parser.error("--minutes must be above 0, and --rounds at least 1")
    return options


def run_all(options: argparse.Namespace, workspace: Path, console: Console) -> Results:
    """All turns of all rounds on one cluster."""
    turns = [turn for turn in TURNS if turn.key in (options.only or KEYS)]
    results: Results = {turn.title: [] for turn in turns}
    with MoveCluster(TimeScale(options.speed), workspace) as cluster:
        for number in range(1, options.rounds + 1):
            for turn in turns:
                result = run_turn(turn, cluster, number, options, console)
                results[turn.title].append(result)
    return results


def run_turn(turn: Turn, cluster: MoveCluster, number: int, options: argparse.Namespace, console: Console) -> Result:
    """One turn in a namespace of its own, with its progress."""

    def note(text: str) -> None:
        console.print(
            f"{time.strftime('%H:%M:%S')} round {number}, {turn.title}: {text}", highlight=False, soft_wrap=True
        )

    namespace = f"round-{number}-{turn.key}"
    return take_turn(turn, cluster, Workload(number), namespace, options.minutes, note)


def show(console: Console, results: Results) -> None:
    table = Table(title="in simulated time; all beside kube-scheduler", title_justify="left")
    for index, head in enumerate(HEADS):
        table.add_column(head, justify="left" if index == 0 else "right")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)


def page_content(options: argparse.Namespace, results: Results) -> str:
    """The table, and on what it was measured."""
    seeds = "seed 1" if options.rounds == 1 else f"means over seeds 1 to {options.rounds}"
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    versions = f"Kubernetes {build.pinned_version()}, descheduler {descheduler_version()}"
    measured = f"{options.minutes:.0f} minutes at {options.speed:g} times their speed, {seeds}; {versions}; {machine}."
    return f"{markdown(results)}\n\n{measured}"


def main(arguments: Sequence[str]) -> int:
    """Build what is missing, run, print and write."""
    options, console = parse(arguments), Console()
    try:
        build.build()
        build_descheduler()
    except build.Unavailable as reason:
        print(f"the benchmark cannot run here: {reason}", file=sys.stderr)
        return build.EXIT_UNAVAILABLE
    run = partial(run_all, options, console=console)
    try:
        if options.logs:
            results = run(options.logs.resolve() / time.strftime("%Y%m%d-%H%M%S"))
        else:
            with tempfile.TemporaryDirectory(prefix="trimtab-bench-move-") as workspace:
                results = run(Path(workspace))
    except RescheduleFailed as reason:
        print(reason, file=sys.stderr)
        return 1
    show(console, results)
    if options.page:
        write_into(options.page, page_content(options, results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
