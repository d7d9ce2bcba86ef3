"""`trimtab resume`: lets the rescheduler move pods again after `trimtab pause`."""

from __future__ import annotations

import click

from trimtab.cli.deploy.connection import cluster_options
from trimtab.cli.kill_switch import lease_option, switch_moves


@click.command("resume")
@cluster_options
@lease_option
def command(kubeconfig: str, context: str, leases: tuple[tuple[str, str], ...]) -> None:
    """Allow moves again: removes the annotation trimtab.dev/paused from the lease.

    Exit code: 0 resumed, also if moves were not paused; 1 no lease, no permission or no answer; 2 invalid flags or
    kubeconfig.
    """
    switch_moves(kubeconfig, context, leases, None)
