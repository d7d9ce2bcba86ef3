"""`trimtab unmark`: takes marks off nodes where no labeller is left; whether one is, `apps` finds out."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trimtab.cli.run import unique_identity
from trimtab.config.diagnostics import printable
from trimtab.core.model.duration import parse_duration

if TYPE_CHECKING:
    from trimtab.apps.label_cleanup import CleanupOptions

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
    from trimtab.apps.label_cleanup import CleanupOptions
    from trimtab.config.trimtab.labeller import LEASE

    seconds = parse_duration(after)
    if seconds is None or seconds < 0:
        raise click.BadParameter(f"{after!r} is no span of time such as 10m", param_hint="--after")
    asked = CleanupOptions(replace(LEASE, namespace=lease_namespace), seconds, legacy, apply, unique_identity("unmark"))
    sys.exit(_run(asked, kubeconfig))


def _run(asked: CleanupOptions, kubeconfig: str) -> int:
    from trimtab.apps.doctor.apiserver_checks import ApiServer
    from trimtab.apps.label_cleanup import CleanupResult, clean_up
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.transport import AiohttpTransport

    try:
        credentials = find_credentials(kubeconfig)
    except CredentialsError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return CANNOT_RUN

    async def running() -> CleanupResult:
        transport = AiohttpTransport(credentials, rate_limiter=None)
        try:
            return await clean_up(asked, ApiServer(transport, credentials.server))
        finally:
            await transport.close()

    found = asyncio.run(running())
    for line in found.lines:
        click.echo(printable(line), err=not found.ok)
    return 0 if found.ok else 1
