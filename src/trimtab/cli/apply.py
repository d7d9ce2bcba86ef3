"""`trimtab apply`: carries out a plan of `trimtab plan -o`, with the credentials of the kubeconfig."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trimtab.cli.plan import INTERRUPTED, LIVE, PlanCommand, fail, make_or_exit, read_configuration
from trimtab.cli.scheduler_config import read_profiles, scheduler_config_option
from trimtab.cli.styled_lines import print_lines
from trimtab.config.diagnostics import printable
from trimtab.core.model.duration import parse_duration

if TYPE_CHECKING:
    from trimtab.apps.apply.process import MoveResult
    from trimtab.apps.plan.document import PlanDocument
    from trimtab.config.configuration import Configuration
    from trimtab.core.framework.profile import Profile
    from trimtab.kube.credentials import Credentials

DONE, SOME = 0, 2
QUESTION = "Carry out these moves? Only 'yes' is accepted: "
NO_TERMINAL = (
    "standard input is no terminal, so nobody can be asked: --auto-approve carries the plan out without asking"
)


def parse_age(ctx: click.Context, param: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None or seconds <= 0:
        raise click.BadParameter(f"{value!r} is not a duration such as 10m")
    return seconds


@click.command("apply", cls=PlanCommand)
@click.argument("file", required=False)
@click.option(
    "--config", type=click.Path(), help="The file of `trimtab run`: `rescheduling`, profiles and metric sources."
)
@scheduler_config_option
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option(
    "--namespace",
    default="",
    help="Where the ledger of moves is kept; it must exist. Default: that of leaderElection, `trimtab`.",
)
@click.option(
    "--max-age", default="10m", show_default=True, callback=parse_age, help="How old the plan may be; load changes."
)
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
def command(
    file: str | None,
    config: str | None,
    schedulers: tuple[str, ...],
    kubeconfig: str,
    namespace: str,
    max_age: float,
    auto_approve: bool,
) -> None:
    """Carry out FILE, a plan of `trimtab plan -o FILE`; without FILE, plan now.

    Nothing of Trimtab needs to run in the cluster. Each move is checked right before: its pod, its nodes, its gain, all
    guards and all budgets. The budgets are those of the ledger, ConfigMap trimtab-moves, which a running rescheduler shares.
    Ctrl-C starts no further move and waits for those under way; a second one ends at once.

    Exit code: 0 all moves are done, or there are none; 2 some were skipped or failed; 1 nothing could be done.
    """
    from trimtab.apps.apply.plan_file import CannotApply, read_plan_file

    try:
        document = read_plan_file(file) if file is not None else None
        if not auto_approve and not sys.stdin.isatty():
            fail(NO_TERMINAL)
        profiles = read_profiles(schedulers, read_configuration, fail)
        configuration = read_configuration(config)
        document = document or _plan_now(configuration, profiles, kubeconfig)
        results = _apply(
            document, file or "This plan", configuration, profiles, (kubeconfig, namespace, max_age), auto_approve
        )
    except CannotApply as error:
        fail(str(error))
    except KeyboardInterrupt:
        click.echo("\ntrimtab: interrupted: nothing was moved", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(_exit_code(results))


def _exit_code(results: list[MoveResult]) -> int:
    from trimtab.apps.apply.process import Verdict

    return DONE if all(each.verdict is Verdict.DONE for each in results) else SOME


def _plan_now(configuration: Configuration, profiles: Mapping[str, Profile], kubeconfig: str) -> PlanDocument:
    from trimtab.apps.apply.plan_file import decode_plan
    from trimtab.apps.plan.document import document_of, encode

    planned = make_or_exit(None, configuration, profiles, None, kubeconfig, "")
    return decode_plan(encode(document_of(planned, time.time())), LIVE)


def _apply(
    document: PlanDocument,
    where: str,
    configuration: Configuration,
    profiles: Mapping[str, Profile],
    given: tuple[str, str, float],
    auto_approve: bool,
) -> list[MoveResult]:
    from trimtab.apps.apply.plan_file import CannotApply, age_problem
    from trimtab.apps.apply.process import apply_configuration
    from trimtab.apps.apply.text import document_lines, result_lines
    from trimtab.apps.logs import configure
    from trimtab.config.diagnostics import ConfigError
    from trimtab.kube.credentials import CredentialsError, find_credentials

    kubeconfig, namespace, max_age = given
    if problem := age_problem(document, time.time(), max_age):
        raise CannotApply(f"{where}: {problem}")
    if not document.moves:
        click.echo(printable(f"{where} has no moves: nothing to do."))
        return []
    try:
        credentials = find_credentials(kubeconfig or configuration.client_connection.kubeconfig)
        wanted = apply_configuration(configuration, profiles, namespace)
    except (CredentialsError, ConfigError) as error:
        raise CannotApply(str(error)) from None
    asyncio.run(_check(credentials, document.metadata.cluster, wanted))
    print_lines(document_lines(document, where, time.time()))
    if not auto_approve:
        _ask()
    if problem := age_problem(document, time.time(), max_age):
        raise CannotApply(f"{where}: {problem}")
    configure(replace(configuration.trimtab.logging, level="warning", format="text"))
    results = asyncio.run(_run(wanted, credentials, document, max_age))
    print_lines(result_lines(results))
    return results


def _ask() -> None:
    from trimtab.apps.apply.plan_file import CannotApply

    click.echo()
    if input(QUESTION).strip() != "yes":
        raise CannotApply("not approved: nothing was moved")


async def _check(credentials: Credentials, cluster: str, configuration: Configuration) -> None:
    from trimtab.apps.apply.cluster_checks import LEASES, ApiServer, check_cluster
    from trimtab.kube.transport import AiohttpTransport

    leader, transport = configuration.leader_election, AiohttpTransport(credentials, rate_limiter=None)
    try:
        await check_cluster(ApiServer(transport, credentials), cluster, leader.namespace, (leader.name, *LEASES))
    finally:
        await transport.close()


async def _run(
    configuration: Configuration, credentials: Credentials, document: PlanDocument, max_age: float
) -> list[MoveResult]:
    from trimtab.apps.apply.plan_file import plan_of
    from trimtab.apps.apply.process import ApplyProcess, Listener
    from trimtab.apps.apply.text import progress_line

    listener = Listener(
        on_move=lambda record: print_lines([progress_line(record)]),
        on_skip=lambda move, reason: print_lines([((f"{move.pod}: ", "bold"), (f"skipped: {reason}", "yellow"))]),
        on_wait=lambda reason: click.echo(printable(f"waiting: {reason}"), err=True),
    )
    return await ApplyProcess(configuration, credentials, plan_of(document), max_age, listener).apply()
