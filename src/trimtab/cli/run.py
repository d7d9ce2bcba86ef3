"""`trimtab run`: the live scheduler on the cluster of the kubeconfig; the wiring is in `apps`, the words for failure here."""

from __future__ import annotations

import logging
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.serve.address import DEFAULT_ADDRESS, BadAddress, parse_address

BAD_INPUT = 2

if TYPE_CHECKING:
    from trimtab.apps.reload import ConfigFile
    from trimtab.apps.scheduler import Options
    from trimtab.config.configuration import Configuration


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
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Goes before the one that the configuration names.",
)
def command(file: str | None, kubeconfig: str, address: str, name: str, log_level: str | None) -> None:
    """Schedule pods on the cluster of the kubeconfig."""
    from trimtab.apps.logs import set_up
    from trimtab.apps.scheduler import Options
    from trimtab.cli.config import load
    from trimtab.config.scheduler import default_configuration

    configuration = load(file) if file else default_configuration()
    try:
        host, port = parse_address(address)
    except BadAddress as error:
        raise click.BadParameter(str(error), param_hint="--serve") from None
    set_up(log_level or configuration.own.logging.level, configuration.own.logging.format)
    for note in configuration.notes:
        logging.getLogger("trimtab").info("%s", note)
    where = kubeconfig or configuration.connection.kubeconfig
    sys.exit(_run(configuration, where, Options(identity(name), host, port), _watched(file)))


def identity(name: str) -> str:
    """Unique whatever replicas are called: two of one identity would both hold the lease."""
    return f"{name or socket.gethostname()}_{secrets.token_hex(4)}"


def say(configuration: Configuration, sentence: str, level: int = logging.ERROR) -> None:
    """For people, as it is; but among lines of JSON it is one of them, for who collects these reads nothing else."""
    if configuration.own.logging.format == "json":
        logging.getLogger("trimtab").log(level, "%s", sentence)
    else:
        click.echo(sentence, err=True)


def _watched(file: str | None) -> ConfigFile | None:
    """The same file again, whenever it changes."""
    from trimtab.apps.beside import Beside
    from trimtab.apps.plugins import installed
    from trimtab.apps.reload import ConfigFile
    from trimtab.config.scheduler import read
    from trimtab.sources.opening import KINDS

    if not file:
        return None
    path = Path(file)
    beside = Beside(path)
    return ConfigFile(path, lambda content: read(content, file, installed(), KINDS, beside), beside)


def _run(configuration: Configuration, kubeconfig: str, options: Options, file: ConfigFile | None) -> int:
    from trimtab.apps.scheduler import run
    from trimtab.config.problem import ConfigError, printable
    from trimtab.kube.credentials import CredentialsError, find
    from trimtab.kube.greeting import Unwelcome
    from trimtab.kube.kinds import Unknown

    try:
        return run(configuration, find(kubeconfig), options, file)
    except (CredentialsError, Unknown, Unwelcome) as error:
        say(configuration, printable(f"trimtab: {error}."))
    except ConfigError as error:
        say(configuration, str(error))
        return BAD_INPUT
    except OSError as error:
        where = f"{options.host}:{options.port}"
        say(configuration, f"trimtab: cannot serve on {where}: {error.strerror}. Choose another --serve address.")
    return 1
