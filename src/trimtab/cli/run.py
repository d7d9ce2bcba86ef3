"""`trimtab run`: the live scheduler on the cluster of the kubeconfig; the wiring is in `apps`, the words for failure here."""

from __future__ import annotations

import logging
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.serve.address import DEFAULT_ADDRESS, InvalidAddress, parse_address

BAD_INPUT = 2

if TYPE_CHECKING:
    from trimtab.apps.process import Options
    from trimtab.apps.reload import ConfigFile
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
    from trimtab.apps.logs import configure
    from trimtab.apps.process import Options
    from trimtab.cli.config import load
    from trimtab.config.kube_scheduler import default_configuration

    configuration = load(file) if file else default_configuration()
    try:
        host, port = parse_address(address)
    except InvalidAddress as error:
        raise click.BadParameter(str(error), param_hint="--serve") from None
    configure(log_level or configuration.trimtab.logging.level, configuration.trimtab.logging.format)
    for note in configuration.notes:
        logging.getLogger("trimtab").info("%s", note)
    where = kubeconfig or configuration.client_connection.kubeconfig
    sys.exit(_run(configuration, where, Options(unique_identity(name), host, port), _config_file(file)))


def unique_identity(name: str) -> str:
    """Unique whatever replicas are called: two of one identity would both hold the lease."""
    return f"{name or socket.gethostname()}_{secrets.token_hex(4)}"


def report(configuration: Configuration, message: str, level: int = logging.ERROR) -> None:
    """For people, as it is; but among lines of JSON it is one of them, for who collects these reads nothing else."""
    if configuration.trimtab.logging.format == "json":
        logging.getLogger("trimtab").log(level, "%s", message)
    else:
        click.echo(message, err=True)


def _config_file(file: str | None) -> ConfigFile | None:
    """The same file again, whenever it changes."""
    from trimtab.apps.included_files import IncludedFiles
    from trimtab.apps.plugins import installed_plugins
    from trimtab.apps.reload import ConfigFile
    from trimtab.config.kube_scheduler import parse
    from trimtab.sources.registry import SOURCE_SETTINGS

    if not file:
        return None
    path = Path(file)
    beside = IncludedFiles(path)
    return ConfigFile(path, lambda content: parse(content, file, installed_plugins(), SOURCE_SETTINGS, beside), beside)


def _run(configuration: Configuration, kubeconfig: str, options: Options, file: ConfigFile | None) -> int:
    from trimtab.apps.process import run
    from trimtab.config.diagnostics import ConfigError, printable
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.kinds import UnknownKind
    from trimtab.kube.preflight import PreflightError

    try:
        return run(configuration, find_credentials(kubeconfig), options, file)
    except (CredentialsError, UnknownKind, PreflightError) as error:
        report(configuration, printable(f"trimtab: {error}."))
    except ConfigError as error:
        report(configuration, str(error))
        return BAD_INPUT
    except OSError as error:
        where = f"{options.host}:{options.port}"
        report(configuration, f"trimtab: cannot serve on {where}: {error.strerror}. Choose another --serve address.")
    return 1
