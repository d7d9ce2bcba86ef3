"""`trimtab run`: the live scheduler on the cluster of the kubeconfig; the wiring is in `apps`, the words for failure here."""

from __future__ import annotations

import logging
import os
import socket
import sys

import click


@click.command("run")
@click.option(
    "--config", "file", type=click.Path(), help="A KubeSchedulerConfiguration; without it one profile, `trimtab`."
)
@click.option("--kubeconfig", default="", help="Goes before the one that the configuration names.")
@click.option(
    "--serve", "address", default="127.0.0.1:10261", show_default=True, help="Health and metrics; loopback only."
)
@click.option("--identity", default="", help="This replica's name in the lease and in Events.")
@click.option(
    "--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]), show_default=True
)
def command(file: str | None, kubeconfig: str, address: str, identity: str, log_level: str) -> None:
    """Schedule pods on the cluster of the kubeconfig."""
    from trimtab.cli.config import load
    from trimtab.config.scheduler import default_configuration
    from trimtab.serve.http import BadAddress, parse_address

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
    sys.exit(
        _run(configuration, kubeconfig or configuration.connection.kubeconfig, identity or _identity(), host, port)
    )


def _identity() -> str:
    """Unique even when two replicas run on one host."""
    return f"{socket.gethostname()}_{os.getpid()}"


def _run(configuration: object, kubeconfig: str, identity: str, host: str, port: int) -> int:
    from trimtab.apps.scheduler import Options, run
    from trimtab.kube.credentials import CredentialsError, find
    from trimtab.kube.greeting import Unwelcome

    try:
        return run(configuration, find(kubeconfig), Options(identity, host, port))  # type: ignore[arg-type]
    except (CredentialsError, Unwelcome) as error:
        click.echo(f"trimtab: {error}.", err=True)
    except OSError as error:
        click.echo(
            f"trimtab: cannot serve on {host}:{port}: {error.strerror}. Choose another --serve address.", err=True
        )
    return 1
