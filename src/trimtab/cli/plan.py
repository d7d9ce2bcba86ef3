"""`trimtab plan`: which pods the rescheduler would move, of a snapshot or of the live cluster. Only reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from trimtab.cli.scheduler_config import read_profiles, scheduler_config_option
from trimtab.cli.styled_lines import print_lines
from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.apps.plan.make import PlannedMoves
    from trimtab.apps.plan.text import Line
    from trimtab.config.configuration import Configuration
    from trimtab.core.framework.profile import Profile
    from trimtab.core.rescheduling.settings import ReschedulingSettings
    from trimtab.sim.snapshot_file import ClusterSnapshot

NOTHING, ERROR, MOVES, INTERRUPTED = 0, 1, 2, 130
LIVE = "the cluster"


class PlanCommand(click.Command):
    """Invalid flags exit with 1, because 2 says that there are moves."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **extra)
        except click.UsageError as error:
            error.exit_code = ERROR  # type: ignore[misc]  # which click declares for the class
            raise


@click.command("plan", cls=PlanCommand)
@click.option("--snapshot", type=click.Path(), help="A file of `trimtab snapshot`; without it the live cluster.")
@click.option(
    "--config", type=click.Path(), help="The file of `trimtab run`: `rescheduling`, profiles and metric sources."
)
@scheduler_config_option
@click.option(
    "--descheduler-policy",
    "policy",
    metavar="FILE",
    help="Print what a descheduler would evict by this DeschedulerPolicy, or by Koordinator's file, instead.",
)
@click.option("--exact", is_flag=True, help="Find the best plan of a small pool, with HiGHS, instead of a good one.")
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option("--why-not", is_flag=True, help="Also print what was refused, and why.")
@click.option("--node", default="", metavar="NAME", help="Also explain this node: why its pods should leave, or stay.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Also write the plan to this file, as JSON.")
def command(
    snapshot: str | None,
    config: str | None,
    schedulers: tuple[str, ...],
    policy: str | None,
    exact: bool,
    kubeconfig: str,
    why_not: bool,
    node: str,
    as_json: bool,
    output: Path | None,
) -> None:
    """Plan which running pods should move to another node, and print the plan. Changes nothing.

    Nothing needs to be installed in the cluster. Without a metric source in --config, metrics-server is asked.

    Exit code: 0 nothing to move, 2 there are moves, 1 no plan: invalid flags or files, no metrics, or the cluster cannot be
    read; 130 if interrupted.
    """
    try:
        _check_output(output)
        _check_node(node, as_json=as_json, policy=policy)
        if exact and policy is not None:
            fail("--exact is for plans of Trimtab: leave out --descheduler-policy")
        profiles = read_profiles(schedulers, read_configuration, fail)
        configuration, rival = read_configuration(config), _rival(policy)
        planned = make_or_exit(snapshot, configuration, profiles, rival, kubeconfig, node, exact=exact)
        _write(planned, output)
        _print(planned, snapshot or LIVE, why_not=why_not, as_json=as_json)
    except KeyboardInterrupt:  # which click ends with 1
        click.echo("\ntrimtab: interrupted: there is no plan", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(MOVES if planned.plan.moves else NOTHING)


def fail(message: str) -> NoReturn:
    for line in message.splitlines():
        click.echo(printable(f"trimtab: {line}"), err=True)
    sys.exit(ERROR)


# --- what is given


def _check_output(output: Path | None) -> None:
    from trimtab.apps.atomic_file import why_not_writable

    if output is not None and (reason := why_not_writable(output)):
        fail(f"-o: {output} cannot be written: {reason}")


def _check_node(node: str, *, as_json: bool, policy: str | None) -> None:
    if node and as_json:
        fail("--node is for people: leave out --json, or ask the live process with `trimtab explain node/NAME -o json`")
    if node and policy is not None:
        fail("--node explains plans of Trimtab: leave out --descheduler-policy")


def read_configuration(file: str | None) -> Configuration:
    from trimtab.cli.config import load_or_exit, open_config
    from trimtab.config.kube_scheduler import default_configuration

    return load_or_exit(open_config(file), ERROR) if file is not None else default_configuration()


def _rival(file: str | None) -> ReschedulingSettings | None:
    """The rescheduler that a policy of another project describes, for the one round that a plan is."""
    from trimtab.apps.config_file import os_error_text, read_bounded
    from trimtab.config.descheduler.rivals import in_one_round, read_rival
    from trimtab.config.diagnostics import ConfigError

    if file is None:
        return None
    try:
        found = read_rival(read_bounded(Path(file)), file)
    except OSError as error:
        fail(f"--descheduler-policy: {file}: {os_error_text(error)}")
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(ERROR)
    for note in found.notes:
        _note(str(note))
    return in_one_round(found.settings)


# --- the plan


def make_or_exit(
    snapshot: str | None,
    configuration: Configuration,
    profiles: Mapping[str, Profile],
    rival: ReschedulingSettings | None,
    kubeconfig: str,
    node: str,
    *,
    exact: bool = False,
) -> PlannedMoves:
    from trimtab.apps.plan.make import NothingPlanned, make_plan, settings_for

    notes: tuple[str, ...] = ()
    try:
        settings = settings_for(configuration, profiles, rival)
        cluster = _cluster(snapshot, configuration, kubeconfig)
        notes = cluster.metadata.notes
        if not cluster.nodes:
            fail(f"{snapshot or LIVE} has no nodes, so there is nothing to plan")
        planned = make_plan(cluster, settings, node, exact=exact)
    except NothingPlanned as error:
        for note in notes:
            _note(note)
        fail(f"nothing is planned: {error}")
    for note in planned.notes:
        _note(note)
    return planned


def _cluster(snapshot: str | None, configuration: Configuration, kubeconfig: str) -> ClusterSnapshot:
    from trimtab.apps.plan.cluster import read_live_cluster
    from trimtab.apps.snapshot.objects import SnapshotFailed
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.sim.snapshot_file import SnapshotError, read_snapshot

    try:
        if snapshot is not None:
            return read_snapshot(snapshot)
        credentials = find_credentials(kubeconfig or configuration.client_connection.kubeconfig)
        return read_live_cluster(configuration, credentials, _progress)
    except (SnapshotError, SnapshotFailed, CredentialsError, OSError) as error:
        fail(str(error))


def _note(text: str) -> None:
    click.echo(printable(f"note: {text}"), err=True)


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{message} …", err=True)


# --- output


def _write(planned: PlannedMoves, output: Path | None) -> None:
    from trimtab.apps.atomic_file import write_atomically
    from trimtab.apps.plan.document import document_of, encode

    if output is None:
        return
    try:
        write_atomically(output, [encode(document_of(planned, time.time()))])
    except OSError as error:
        fail(f"-o: {output} cannot be written: {error.strerror or error}")


def _print(planned: PlannedMoves, where: str, *, why_not: bool, as_json: bool) -> None:
    from trimtab.apps.plan.document import document_of, encode
    from trimtab.apps.plan.text import plan_lines

    if as_json:
        click.echo(encode(document_of(planned, time.time())), nl=False)
        return
    lines = [*plan_lines(planned, where, why_not=why_not), *_node_lines(planned)]
    print_lines(lines)


def _node_lines(planned: PlannedMoves) -> Iterable[Line]:
    from msgspec import to_builtins

    from trimtab.cli.explain_text import outlook_lines

    if planned.outlook is None:
        return ()
    shown = outlook_lines({**to_builtins(planned.outlook), "plans": ()})
    return [(), ((f"node {planned.outlook.node}", "bold"),), *(((line, ""),) for line in shown)]
