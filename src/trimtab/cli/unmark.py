"""`trimtab unmark`: removes labels and taints from nodes if no labeller is left to do it."""

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
@click.option(
    "-kubeconfig",
    "--kubeconfig",
    default="",
    help="Path of the kubeconfig; default: KUBECONFIG, in-cluster, ~/.kube/config.",
)
@click.option(
    "--after",
    default=AFTER,
    show_default=True,
    help="How long the lease must not have been renewed; 0s if no labeller will come back.",
)
@click.option("--legacy", is_flag=True, help="Also remove status=presure, which another program may have set.")
@click.option("--lease-namespace", default="trimtab", show_default=True, help="Namespace of the labeller's lease.")
@click.option(
    "--lease-name",
    default="trimtab-labeller",
    show_default=True,
    help="Its name; `trimtab` for a labeller inside `trimtab run`.",
)
@click.option("--apply", is_flag=True, help="Remove them, instead of only printing which would go.")
def command(kubeconfig: str, after: str, legacy: bool, lease_namespace: str, lease_name: str, apply: bool) -> None:
    """Remove labels and taints from nodes if no labeller is left. Run it regularly, apart from the labeller.

    Exit code: 0 done, or nothing to do; 1 something failed; 2 invalid flags or kubeconfig.
    """
    from trimtab.apps.label_cleanup import CleanupOptions
    from trimtab.config.trimtab.labeller import LEASE

    seconds = parse_duration(after)
    if seconds is None or seconds < 0:
        raise click.BadParameter(f"{after!r} is not a duration such as 10m", param_hint="--after")
    lease = replace(LEASE, namespace=lease_namespace, name=lease_name)
    options = CleanupOptions(lease, seconds, legacy, apply, unique_identity("unmark"))
    sys.exit(_run(options, kubeconfig))


def _run(options: CleanupOptions, kubeconfig: str) -> int:
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
            return await clean_up(options, ApiServer(transport, credentials.server))
        finally:
            await transport.close()

    found = asyncio.run(running())
    for line in found.lines:
        click.echo(printable(line), err=not found.ok)
    return 0 if found.ok else 1
