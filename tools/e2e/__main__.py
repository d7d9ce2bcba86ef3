"""Runs Kubernetes' own sig-scheduling specs with Trimtab as default-scheduler, and with kube-scheduler beside it.

    make e2e                          both, each on a control plane of its own
    make e2e ARGS="--focus preempt"   only the specs whose name matches
    make e2e ARGS=--mutants           each spec with the plugin that it is about disabled in Trimtab: which are weak?

Exit code 1: Trimtab fails a spec that kube-scheduler passes. Exit code 3: the programs cannot be built here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.controlplane import build
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig
from tools.e2e.cluster import cluster, start_kube_scheduler, start_trimtab
from tools.e2e.mutants import run_mutants
from tools.e2e.suite import Result, SuiteError, build_suite, run_specs

Start = Callable[[Rig], Process]
Results = Mapping[str, Sequence[Result]]
SCHEDULERS: Mapping[str, Start] = {"kube-scheduler": start_kube_scheduler, "trimtab": start_trimtab}
WIDTH = 160


def run_with(name: str, workspace: Path, focus: str) -> list[Result]:
    """Run the specs with one scheduler on a cluster of its own."""
    with cluster(workspace / name) as rig:
        scheduler = SCHEDULERS[name](rig)
        try:
            return run_specs(rig, "specs", focus)
        finally:
            scheduler.kill()


def run_all(names: Sequence[str], workspace: Path, focus: str) -> Results:
    """Run the specs with every scheduler at the same time: most of it is waiting."""
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: run_with(name, workspace, focus), names), strict=True))


def worse(results: Results) -> list[Result]:
    """The specs that Trimtab does not pass, or did not get to, although kube-scheduler passes, or was not asked."""
    if "trimtab" not in results:
        return []
    others = {each.spec: each for each in results.get("kube-scheduler", ())}
    ours = {each.spec: each for each in results["trimtab"]}
    missing = [Result(spec, "did not run", 0) for spec in others if spec not in ours]
    lost = [each for each in (*ours.values(), *missing) if not each.passed]
    return [each for each in lost if each.spec not in others or others[each.spec].passed]


def show_results(console: Console, results: Results) -> None:
    """A row per spec with what each scheduler did, then the reasons and the sums."""
    table = Table("spec", *results, title=f"sig-scheduling specs of Kubernetes {build.pinned_version()}")
    cells = {(name, each.spec): f"{each.outcome}, {each.seconds:.0f} s" for name in results for each in results[name]}
    for spec in sorted({spec for _, spec in cells}):
        table.add_row(spec, *(cells.get((name, spec), "did not run") for name in results))
    console.print(table)
    for name, found in results.items():
        for each in (each for each in found if each.message):
            console.print(f"{name}: {each.spec}: {each.outcome}: {each.message}", markup=False)
        console.print(f"{name}: {sum(each.passed for each in found)} of {len(found)} passed")


def show_mutant(console: Console, plugin: str, results: Sequence[Result]) -> None:
    """The verdict on one spec, which ran once or several times."""
    passed = sum(each.passed for each in results)
    seconds = ", ".join(f"{each.outcome} after {each.seconds:.0f} s" for each in results)
    verdict = f"weak, still passes {passed} of {len(results)} times" if passed else "fails, as it should"
    console.print(f"{plugin}: {results[0].spec}: {verdict} ({seconds})", markup=False, soft_wrap=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make e2e", description="Run Kubernetes' own scheduling specs.")
    parser.add_argument("--only", choices=SCHEDULERS, action="append", help="run with just this scheduler")
    parser.add_argument("--focus", default="", help="only specs whose name matches this regular expression")
    parser.add_argument("--mutants", action="store_true", help="run each spec without the plugin it is about instead")
    parser.add_argument("--times", type=int, default=1, help="with --mutants: run each spec so many times")
    parser.add_argument("--logs", type=Path, help="keep the logs of all processes in this folder")
    options = parser.parse_args(arguments)
    if options.times < 1:
        parser.error(f"--times {options.times} would run nothing: use 1 or more")
    return options


def judge(options: argparse.Namespace, workspace: Path, console: Console) -> int:
    """Run what was asked for, and return the exit code."""
    if options.mutants:
        run_mutants(workspace, options.focus, options.times, partial(show_mutant, console))
        return 0
    results = run_all(options.only or [*SCHEDULERS], workspace, options.focus)
    show_results(console, results)
    ran = all(results.values())  # a focus that selects no spec, or a suite that ended early, proves nothing
    return 0 if ran and not worse(results) else 1


def main(arguments: Sequence[str]) -> int:
    """Build what is missing, run, and print; a temporary folder for logs unless one is named."""
    options, console = parse(arguments), Console(width=WIDTH)
    try:
        build.build()
        build_suite()
        if options.logs:
            return judge(options, options.logs.resolve(), console)
        with tempfile.TemporaryDirectory(prefix="trimtab-e2e-") as workspace:
            return judge(options, Path(workspace), console)
    except build.Unavailable as reason:
        print(f"the end-to-end specs cannot be built here: {reason}", file=sys.stderr)
        return build.EXIT_UNAVAILABLE
    except SuiteError as reason:
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
