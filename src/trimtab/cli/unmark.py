"""`trimtab unmark`: takes marks off nodes where no labeller is left; whether one is, `apps` finds out."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trimtab.cli.run import identity
from trimtab.config.problem import printable
from trimtab.core.model.span import duration

if TYPE_CHECKING:
    from trimtab.apps.unmarking import Asked

AFTER = "10m"
CANNOT_RUN = 2


@click.command("unmark")
@click.option("-kubeconfig", "--kubeconfig", default="", help="The cluster; else the usual places.")
@click.option(
    "--after",
    default=AFTER,
    show_default=True,
    help="How long nobody must have renewed its lease; 0s if none will come.",
)
@click.option("--legacy", is_flag=True, help="Also status=presure; another program that puts it may have no lease.")
@click.option("--lease-namespace", default="trimtab", show_default=True, help="Where the labeller's lease is.")
@click.option("--apply", is_flag=True, help="Take them off, rather than say which would go.")
def command(kubeconfig: str, after: str, legacy: bool, lease_namespace: str, apply: bool) -> None:
    """Take marks off nodes if no labeller is left to do it: run it now and then, apart from the labeller.

    Exit code: 0 done, or nothing to do; 1 not everything could be looked at or taken off; 2 cannot be run.
    """
    from trimtab.apps.unmarking import Asked
    from trimtab.config.own.labelling.labeller import LEASE

    seconds = duration(after)
    if seconds is None or seconds < 0:
        raise click.BadParameter(f"{after!r} is no span of time such as 10m", param_hint="--after")
    asked = Asked(replace(LEASE, namespace=lease_namespace), seconds, legacy, apply, identity("unmark"))
    sys.exit(_run(asked, kubeconfig))


def _run(asked: Asked, kubeconfig: str) -> int:
    from trimtab.apps.doctor.server import Named
    from trimtab.apps.unmarking import Result, unmark
    from trimtab.kube.credentials import CredentialsError, find
    from trimtab.kube.transport import AiohttpTransport

    try:
        credentials = find(kubeconfig)
    except CredentialsError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return CANNOT_RUN

    async def running() -> Result:
        transport = AiohttpTransport(credentials, limiter=None)
        try:
            return await unmark(asked, Named(transport, credentials.server))
        finally:
            await transport.close()

    found = asyncio.run(running())
    for line in found.lines:
        click.echo(printable(line), err=not found.well)
    return 0 if found.well else 1
