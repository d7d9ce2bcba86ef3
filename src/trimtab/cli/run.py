"""`trimtab run`: the live scheduler on the cluster of the kubeconfig; the wiring is in `apps`, the words for failure here."""

from __future__ import annotations

import logging
import secrets
import socket
import sys

import click

from trimtab.serve.http import DEFAULT_ADDRESS, BadAddress, parse_address


@click.command("run")
@click.option(
    "--config", "file", type=click.Path(), help="A KubeSchedulerConfiguration; without it one profile, `trimtab`."
)
@click.option("--kubeconfig", default="", help="Goes before the one that the configuration names.")
@click.option(
    "--serve", "address", default=DEFAULT_ADDRESS, show_default=True, help="Health and metrics; loopback only."
)
@click.option(
    "--identity", "name", default="", help="Begins this replica's name in the lease and in Events; else its host's."
)
@click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), show_default=True
)
def command(file: str | None, kubeconfig: str, address: str, name: str, log_level: str) -> None:
    """Schedule pods on the cluster of the kubeconfig."""
    from trimtab.cli.config import load
    from trimtab.config.scheduler import default_configuration

    configuration = load(file) if file else default_configuration()
    try:
        host, port = parse_address(address)
    except BadAddress as error:
        raise click.BadParameter(str(error), param_hint="--serve") from None
    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    for note in configuration.notes:
        logging.getLogger("trimtab").info("%s", note)
    sys.exit(_run(configuration, kubeconfig or configuration.connection.kubeconfig, identity(name), host, port))


def identity(name: str) -> str:
    """Unique whatever replicas are called: two of one identity would both hold the lease."""
    return f"{name or socket.gethostname()}_{secrets.token_hex(4)}"


def _run(configuration: object, kubeconfig: str, identity: str, host: str, port: int) -> int:
    from trimtab.apps.scheduler import Options, run
    from trimtab.kube.credentials import CredentialsError, find
    from trimtab.kube.greeting import Unwelcome
    from trimtab.kube.kinds import Unknown

    try:
        return run(configuration, find(kubeconfig), Options(identity, host, port))  # type: ignore[arg-type]
    except (CredentialsError, Unknown, Unwelcome) as error:
        click.echo(f"trimtab: {error}.", err=True)
    except OSError as error:
        click.echo(
            f"trimtab: cannot serve on {host}:{port}: {error.strerror}. Choose another --serve address.", err=True
        )
    return 1
