"""`trimtab pause`: stops all moves of the rescheduler at once, until `trimtab resume`."""

from __future__ import annotations

import click

from trimtab.cli.deploy.connection import cluster_options
from trimtab.cli.kill_switch import lease_option, switch_moves


@click.command("pause")
@cluster_options
@lease_option
@click.option("--reason", required=True, metavar="TEXT", help="Why; shown in plans, logs and refusals.")
def command(kubeconfig: str, context: str, leases: tuple[tuple[str, str], ...], reason: str) -> None:
    """Stop all moves: sets the annotation trimtab.dev/paused on the lease. Plans go on, and say why nothing moves.

    It is read before each move is sent, so no move begins a second later. Moves whose pod has left already are
    followed to their end.

    Exit code: 0 paused, also if it was before; 1 no lease, no permission or no answer; 2 invalid flags or kubeconfig.
    """
    text = " ".join(reason.split())
    if text in ("", "false"):
        raise click.BadParameter(
            "write why moves are paused; an empty text or `false` pauses nothing", param_hint="--reason"
        )
    switch_moves(kubeconfig, context, leases, text)
