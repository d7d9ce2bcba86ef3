"""`trimtab simulate`: compares policies on a simulated cluster, as a table, an HTML report, JSON and CSV."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec
from click.core import ParameterSource

from trimtab.config.diagnostics import ConfigError, did_you_mean, printable

if TYPE_CHECKING:
    from trimtab.apps.simulate.gates import Gate
    from trimtab.apps.simulate.study import Outputs, Pool, Study, StudyProgress

FAILED, BAD_INPUT, VIOLATED, INTERRUPTED = 1, 2, 3, 130
DEFAULT_POLICIES = ("stock", "PeakRisk")
DEFAULT_SEEDS = 6
ALL = "all"
HOW_TO_RUN = ("jobs", "out", "html", "json_file", "csv_file", "measures", "conditions", "ray")  # not what is compared


def list_names(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """What can be named, with what the first line of each file says."""
    if not value:
        return
    from trimtab.apps.simulate.policies import named_policies
    from trimtab.sim.shipped import scenario_names, scenario_text

    scenarios = {name: scenario_text(name) for name in scenario_names()}
    for heading, texts in (("scenarios", scenarios), ("policies", named_policies())):
        click.echo(f"{heading}:")
        for text in texts.values():
            click.echo(f"  {text.splitlines()[0].removeprefix('# ')}")
    ctx.exit()


def parse_measures(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    from trimtab.apps.simulate.figures import MAIN_MEASURES
    from trimtab.sim.measures import MEASURES_BY_NAME

    if value == "main":
        return MAIN_MEASURES
    names = tuple(MEASURES_BY_NAME) if value == ALL else tuple(each.strip() for each in value.split(","))
    if unknown := [name for name in names if name not in MEASURES_BY_NAME]:
        near = did_you_mean(unknown[0], MEASURES_BY_NAME)
        raise click.BadParameter(f"there is no measure {unknown[0]!r}{near}: write main, all, or some of "
                                 f"{', '.join(MEASURES_BY_NAME)}")  # fmt: skip
    return names


@click.command("simulate")
@click.argument("scenario")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME|FILE",
    help="A configuration file, a DeschedulerPolicy, a template or a shipped policy (see --list); the first is the "
    "baseline. Default: "
    f"{' and '.join(DEFAULT_POLICIES)}.",
)
@click.option("--seeds", type=click.IntRange(1, 1000), help=f"Run the seeds 1 to N; {DEFAULT_SEEDS} unless set.")
@click.option("--seed", type=click.IntRange(min=0), help="Run this seed only.")
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Runs at a time.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Keep runs and reports here, and resume.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a report for browsers.")
@click.option("--json-file", type=click.Path(path_type=Path), metavar="FILE", help="Write results as JSON.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a row for each run.")
@click.option("--measures", default="main", callback=parse_measures, help="Columns: main, all, or names with commas.")
@click.option("--fail-if", "conditions", multiple=True, metavar="EXPR", help='Exit with 3 if so, e.g. "hot80 > 0.02".')
@click.option("--until", metavar="TIME", help="With --explain: 14:30, or since the beginning 1d2h or seconds.")
@click.option("--explain", "explained", metavar="pod/NAME|node/NAME", help="Run one policy, and explain at --until.")
@click.option("--compaction", is_flag=True, help="Also find on how few nodes each policy can place the pods.")
@click.option("--ray", metavar="ADDRESS", help="Run on a Ray cluster; local starts one (needs trimtab[ray]).")
@click.option("--list", "listed", is_flag=True, is_eager=True, expose_value=False, callback=list_names,
              help="List scenarios and policies, and exit.")  # fmt: skip
def command(
    scenario: str,
    policies: tuple[str, ...],
    seeds: int | None,
    seed: int | None,
    measures: tuple[str, ...],
    conditions: tuple[str, ...],
    until: str | None,
    explained: str | None,
    compaction: bool,
    **more: Any,
) -> None:
    """Compare policies on SCENARIO, a file or the name of a shipped one (see --list).

    Exit code 0: done; 1: a run failed; 2: bad input; 3: a --fail-if condition holds; 130: interrupted.
    """
    if seed is not None and seeds is not None:
        raise click.UsageError("--seed is one seed, --seeds how many: leave one out")
    if (until is None) != (explained is None):
        raise click.UsageError("--until and --explain belong together: give both")
    chosen = [seed] if seed is not None else list(range(1, (seeds or DEFAULT_SEEDS) + 1))
    if until is not None and explained is not None:
        one = policies or DEFAULT_POLICIES[1:]
        if len(one) > 1 or (seeds or 1) > 1:
            raise click.UsageError("--explain is for one policy and one seed")
        if unused := dict(_given((*HOW_TO_RUN, "compaction"))):
            raise click.UsageError(f"--explain only prints an explanation: leave out {', '.join(unused)}")
        return _explain(_read(scenario, one, chosen[:1]), until, explained)
    study = _read(scenario, policies or DEFAULT_POLICIES, chosen)
    gates = _gates(conditions, [policy.name for policy in study.policies])
    from trimtab.apps.simulate.study import Outputs, command_of

    outputs = Outputs(more["out"], more["html"], more["json_file"], more["csv_file"])
    repeat = command_of(scenario, policies or DEFAULT_POLICIES, chosen, compaction=compaction)
    resumed = " ".join([repeat, *(f"{flag} {shlex.quote(value)}" for flag, value in _given(HOW_TO_RUN))])
    progress = _run(study, outputs, _pool(more["ray"], more["jobs"]), resumed, compaction=compaction)
    sys.exit(_report(study, progress, outputs, repeat, gates, measures))


def _given(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Those of these options that are on the command line: the flag and its value, as often as it was given."""
    ctx = click.get_current_context()
    for param in ctx.command.params:
        name = param.name or ""
        if name in names and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            for value in ctx.params[name] if param.multiple else [ctx.params[name]]:
                yield param.opts[0], ",".join(value) if isinstance(value, tuple) else str(value)


def _read(scenario: str, policies: tuple[str, ...], seeds: list[int]) -> Study:
    from trimtab.apps.plugins import PluginError
    from trimtab.apps.simulate.study import read_study

    try:
        study = read_study(scenario, policies, seeds)
    except ConfigError as error:
        _fail(str(error))
    except PluginError as error:
        _fail(f"trimtab: {error}.")
    for note in study.notes():
        click.echo(printable(f"note: {note}"), err=True)
    return study


def _fail(message: str, code: int = BAD_INPUT) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)


def _gates(conditions: tuple[str, ...], policies: list[str]) -> list[Gate]:
    from trimtab.apps.simulate.gates import GateError, parse_gate

    try:
        return [parse_gate(each, policies) for each in conditions]
    except GateError as error:
        _fail(f"trimtab: --fail-if: {error}")


def _pool(address: str | None, jobs: int) -> Pool:
    if address is None:
        from trimtab.apps.simulate.process_pool import ProcessPool

        return ProcessPool(jobs)
    from trimtab.apps.simulate.ray_pool import RayMissing, RayPool

    try:
        return RayPool(address, jobs)
    except RayMissing as error:
        _fail(f"trimtab: {error}.")


def _run(study: Study, outputs: Outputs, pool: Pool, resumed: str, *, compaction: bool) -> StudyProgress:
    """All jobs; where the run is interrupted, say what is finished and exit."""
    from trimtab.apps.simulate.store import Store
    from trimtab.apps.simulate.study import carry_out, resume
    from trimtab.cli.simulate_progress import show_progress

    try:
        outputs.check()
        store = Store(outputs.folder)
    except OSError as error:
        _fail(printable(f"trimtab: {error.filename} cannot be written: {error.strerror or error}."))
    progress, waiting = resume(study.jobs(compaction=compaction), store)
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        show_progress(progress, carry_out(progress, waiting, pool, store))
    except KeyboardInterrupt:
        _fail(_interrupted(progress, outputs.folder, resumed), INTERRUPTED)
    except OSError as error:
        _fail(printable(f"trimtab: a result cannot be written: {error.strerror or error}."), FAILED)
    finally:
        signal.signal(signal.SIGTERM, previous)
    return progress


def _interrupted(progress: StudyProgress, folder: Path | None, resumed: str) -> str:
    count = f"{len(progress.finished)} of {len(progress.jobs)} runs are finished"
    if folder is None:
        return f"\ntrimtab: interrupted: {count}, and none is kept: with --out DIR a run can be resumed."
    return f"\ntrimtab: interrupted: {count} and kept in {folder}; to resume: {resumed}"


def _report(
    study: Study,
    progress: StudyProgress,
    outputs: Outputs,
    repeat: str,
    gates: list[Gate],
    measures: tuple[str, ...],
) -> int:
    """Print the table, write the files, and check the gates. Returns the exit code."""
    from trimtab.apps.simulate.gates import violations
    from trimtab.cli.simulate_table import print_results

    results, runs = progress.outcome(study, repeat)
    print_results(results, measures, progress)
    try:
        outputs.write(results, runs)
    except OSError as error:
        _fail(printable(f"trimtab: {error.filename} cannot be written: {error.strerror or error}."), FAILED)
    for path, _ in outputs.paths():
        click.echo(f"written: {path}")
    for job, where in progress.failed:
        click.echo(f"failed: {job.title}: {where}", err=True)
    violated = list(violations(gates, results))
    for each in violated:
        click.echo(f"violated: {each}", err=True)
    if progress.failed:
        return FAILED
    return VIOLATED if violated else 0


def _explain(study: Study, until: str, explained: str) -> None:
    from trimtab.apps.simulate.moment import MomentError, explain_moment, parse_moment, parse_subject
    from trimtab.cli.explain import render
    from trimtab.cli.explain_text import simulated_time

    ((seed, scenario),) = study.scenarios.items()
    try:
        at, (kind, name) = parse_moment(until, scenario), parse_subject(explained)
        found = explain_moment(scenario, study.policies[0], seed, at, kind, name)
    except MomentError as error:
        _fail(printable(f"trimtab: {error}."))
    click.echo(render(kind, msgspec.to_builtins(found), (), simulated_time))
