"""Runs the benchmark and writes docs/benchmark.md with its plots: `make benchmark DATA=folder`.

Finished runs are kept in `.benchmark`, so that an interrupted benchmark goes on where it ended.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.benchmark.page import Section, write_page
from bench.benchmark.suites import FAULT_SCENARIOS, TRACES, policies, trace_files
from trimtab.apps.simulate.process_pool import JobDone, JobFailed, ProcessPool
from trimtab.apps.simulate.store import Store
from trimtab.apps.simulate.study import Study, carry_out, read_study, resume
from trimtab.cli.config import TEMPLATES

ROOT = Path(__file__).resolve().parents[2]


def run(study: Study, folder: Path, jobs: int, console: Console) -> Section | None:
    """All jobs of one scenario; None if one of them failed."""
    store = Store(folder)
    progress, waiting = resume(study.jobs(), store)
    name = next(iter(study.scenarios.values())).name
    columns = TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=len(progress.jobs), completed=len(progress.finished))
        for event in carry_out(progress, waiting, ProcessPool(jobs), store):
            if isinstance(event, JobDone | JobFailed):
                bar.advance(task)
    for job, where in progress.failed:
        console.print(f"{name}: {job.title} failed: {where}")
    if progress.failed:
        return None
    results, runs = progress.outcome(study, f"make benchmark SCENARIO={name}")
    return Section(results, runs)


def compared(name: str) -> tuple[str, ...]:
    """The policies that are run on this trace or scenario."""
    variants = {variant.name: variant for variant in TRACES}
    if name in variants and variants[name].movers:
        return variants[name].movers
    return policies(frozenset(TEMPLATES), strict=name not in variants or variants[name].strict)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.benchmark", description="Compare all policies; write docs/benchmark.md."
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TRIMTAB_DATA") or None, help="folder of traces")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=ROOT / ".benchmark")
    parser.add_argument("--only", action="append", default=[], help="only this trace or scenario; may be repeated")
    options = parser.parse_args(arguments)
    console = Console()
    files = trace_files(options.data, options.out / "scenarios") if options.data else {}
    for variant in TRACES:
        if variant.name not in files:
            console.print(f"{variant.name}: its trace is not in {options.data or 'a data folder (--data)'}, left out")
    wanted = {**{name: str(path) for name, path in files.items()}, **{name: name for name in FAULT_SCENARIOS}}
    chosen = {name: given for name, given in wanted.items() if name in (options.only or wanted)}
    seeds = range(1, options.seeds + 1)
    sections = [
        run(read_study(given, compared(name), seeds), options.out / name, options.jobs, console)
        for name, given in chosen.items()
    ]
    complete = [section for section in sections if section is not None]
    write_page(complete, ROOT / "docs", [name for name in wanted if name not in chosen])
    return 0 if len(complete) == len(sections) else 1


if __name__ == "__main__":
    sys.exit(main())
