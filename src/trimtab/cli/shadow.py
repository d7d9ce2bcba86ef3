"""`trimtab shadow --policy FILE`: what a policy would have decided beside the scheduler of a live cluster."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.flags import Duration
from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.apps.shadow import ShadowOptions
    from trimtab.config.configuration import Configuration
    from trimtab.sim.shadow.report import Report

BAD_INPUT = 2


@click.command("shadow")
@click.option(
    "--policy", type=click.Path(), required=True, help="A file of `trimtab run`: its profiles and its sources."
)
@click.option("--for", "duration", type=Duration(), help="How long, such as 24h; default: until SIGINT or SIGTERM.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the report there as JSON, every minute and at the end; if it exists, go on from it.",
)
@click.option(
    "--cumulative", is_flag=True, help="Decide on the state as the policy would have made it, not on the real one."
)
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, not a table.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Overrides logging.level.")
def command(
    policy: str,
    duration: float | None,
    out: Path | None,
    cumulative: bool,
    kubeconfig: str,
    as_json: bool,
    log_level: str | None,
) -> None:
    """Decide what a policy would, for every pod that is scheduled, and say what would be different. Changes nothing.

    It runs beside any scheduler and only gets, lists and watches. SIGUSR1 prints the report so far.

    Exit code: 0 ended by --for or a signal, 1 failed, 2 invalid flags, policy, kubeconfig or --out.
    """
    from trimtab.apps.logs import configure
    from trimtab.apps.shadow import ShadowOptions, policy_of
    from trimtab.cli.config import load_with_text_or_exit
    from trimtab.cli.run import LogLevelFlag, config_file_for

    if duration is not None and duration <= 0:
        raise click.BadParameter("must be above 0s", param_hint="--for")
    if out is not None:
        _check_out(out)
    configuration, text = load_with_text_or_exit(config_file_for(("scheduler",), policy))
    configuration = LogLevelFlag(log_level or "").apply(configuration)
    configure(configuration.trimtab.logging)
    followed = policy_of(configuration, text, cumulative=cumulative)
    options = ShadowOptions(followed, duration, out, partial(_print, as_json))
    sys.exit(_run(configuration, kubeconfig or configuration.client_connection.kubeconfig, options))


def _check_out(out: Path) -> None:
    from trimtab.apps.atomic_file import why_not_writable

    if reason := why_not_writable(out):
        raise click.BadParameter(f"{out} cannot be written: {reason}", param_hint="--out")


def _run(configuration: Configuration, kubeconfig: str, options: ShadowOptions) -> int:
    from trimtab.apps.shadow import OutputError, run
    from trimtab.config.diagnostics import ConfigError
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.kinds import UnknownKind
    from trimtab.kube.preflight import PreflightError

    try:
        return run(configuration, find_credentials(kubeconfig), options)
    except (CredentialsError, OutputError) as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return BAD_INPUT
    except ConfigError as error:
        click.echo(str(error), err=True)
        return BAD_INPUT
    except (PreflightError, UnknownKind) as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return 1


def _print(as_json: bool, report: Report) -> None:
    from trimtab.cli.shadow_text import render
    from trimtab.sim.shadow.report import encode_report

    text = encode_report(report).decode() if as_json else "\n".join(map(printable, render(report))) + "\n"
    click.echo(text, nl=False)
    sys.stdout.flush()
