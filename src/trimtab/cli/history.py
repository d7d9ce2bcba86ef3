"""`trimtab history`: the moves in the ledger of the live cluster, what they were worth, and what budgets have left."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from trimtab.cli.deploy.connection import BAD_INPUT, FAILED, cluster_options, fail, namespace_option
from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.core.model.ledger import Ledger
    from trimtab.core.rescheduling.move_budgets import Budgets
    from trimtab.kube.credentials import Credentials

ASCII = str.maketrans({"→": "->"})


@click.command("history")
@cluster_options
@namespace_option
@click.option(
    "--config", type=click.Path(), help="The file of `trimtab run`, for its budgets; default: the usual ones."
)
@click.option("--since", default="", metavar="DURATION", help="Only moves of the last 6h, say.")
@click.option("--strategy", default="", metavar="NAME", help="Only moves of this strategy.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    kubeconfig: str, context: str, namespace: str, config: str | None, since: str, strategy: str, as_json: bool
) -> None:
    """Print the moves that are recorded in the cluster, with their grades, and what budgets have left. Only reads.

    Exit code: 0 printed, also if there are none; 1 the ledger or the cluster cannot be read; 2 invalid flags, configuration
    or kubeconfig.
    """
    from trimtab.apps.move_history import History, Wanted, history_document, history_lines

    seconds = _seconds(since)
    budgets = _budgets(config)
    ledger, now = _read(kubeconfig, context, namespace), time.time()
    wanted = Wanted(now - seconds if seconds is not None else 0.0, strategy)
    history = History(ledger, tuple(each for each in ledger.records if wanted.includes(each)), budgets, namespace, now)
    if as_json:
        click.echo(history_document(history))
        return
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    for line in map(printable, history_lines(history)):
        click.echo(line if unicode else line.translate(ASCII))


def _seconds(since: str) -> float | None:
    from trimtab.core.model.duration import parse_duration

    seconds = parse_duration(since) if since else None
    if since and (seconds is None or seconds <= 0):
        raise click.BadParameter(f"{since!r} is not a duration such as 6h", param_hint="--since")
    return seconds


def _budgets(config: str | None) -> Budgets:
    from trimtab.core.rescheduling.move_budgets import DEFAULT_BUDGETS

    if config is None:
        return DEFAULT_BUDGETS
    from trimtab.cli.config import load_or_exit, open_config

    settings = load_or_exit(open_config(config), BAD_INPUT).settings.rescheduling
    return DEFAULT_BUDGETS if settings is None else settings.budgets


def _read(kubeconfig: str, context: str, namespace: str) -> Ledger:
    from trimtab.apps.move_history import LedgerUnreadable
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.transport import Unreachable

    try:
        credentials = find_credentials(kubeconfig, context)
    except CredentialsError as error:
        fail(str(error), BAD_INPUT)
    try:
        return asyncio.run(_connected(credentials, namespace))
    except LedgerUnreadable as error:
        fail(str(error), FAILED)
    except Unreachable as error:
        fail(f"the API server {credentials.server} ({credentials.origin}) cannot be reached: {error}", FAILED)


async def _connected(credentials: Credentials, namespace: str) -> Ledger:
    from trimtab.apps.move_history import read_ledger
    from trimtab.kube.transport import AiohttpTransport, ReadOnlyTransport

    transport = ReadOnlyTransport(AiohttpTransport(credentials, rate_limiter=None))
    try:
        return await read_ledger(transport, namespace, time.time())
    finally:
        await transport.close()
