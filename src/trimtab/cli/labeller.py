"""`trimtab labeller`: marks nodes under pressure; the wiring is in `apps`, the words for failure and dynamic-Scheduler's
flags (`-kubeconfig -prom -r -s -webaddr`) here."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.run import report, unique_identity
from trimtab.serve.address import InvalidAddress, parse_address

if TYPE_CHECKING:
    from trimtab.apps.reload import ConfigFile
    from trimtab.config.configuration import Configuration

ADDRESS = "127.0.0.1:9000"
RULES = "rule.yaml"
SECONDS = 10
BAD_INPUT = 2
_GO_FLAG = re.compile(r"--?(r|s|webaddr)(?:=(.*))?", re.S)


class GoStyleFlags(click.Command):
    """As Go reads them: one dash or two, the value behind a blank or a `=`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [each for arg in args for each in _normalise_flag(arg)])


def _normalise_flag(arg: str) -> list[str]:
    found = _GO_FLAG.fullmatch(arg)
    if found is None:
        return [arg]
    return [f"-{found[1]}"] if found[2] is None else [f"-{found[1]}", found[2]]


@click.command("labeller", cls=GoStyleFlags)
@click.option("--config", "file", type=click.Path(), help="A TrimtabConfiguration with sources and labels.")
@click.option("-kubeconfig", "--kubeconfig", default="", help="The cluster; else the usual places.")
@click.option("-prom", "--prom", "url", default="", help="A Prometheus, in place of --config.")
@click.option(
    "-r", "--rules", "rules", default=RULES, show_default=True, help="Its rules, in dynamic-Scheduler's form."
)
@click.option(
    "-s", "--seconds", default=SECONDS, show_default=True, type=click.IntRange(1, 250), help="How often it is asked."
)
@click.option("--apply", is_flag=True, help="With -prom: write the marks, rather than say what would be written.")
@click.option("-webaddr", "--serve", "address", default=ADDRESS, show_default=True, help="Pages; loopback only.")
@click.option("--lease-namespace", default="trimtab", show_default=True, help="Where replicas agree who writes.")
@click.option("--identity", "name", default="", help="Begins this replica's name in the lease; else its host's.")
@click.option(
    "--log-level", default="", type=click.Choice(["", "debug", "info", "warning", "error"]), help="info unless set."
)
def command(
    file: str | None,
    kubeconfig: str,
    url: str,
    rules: str,
    seconds: int,
    apply: bool,
    address: str,
    lease_namespace: str,
    name: str,
    log_level: str,
) -> None:
    """Label or softly taint nodes that are really under pressure; see docs/labels.md."""
    host, port = _parse_serve(address)
    config_file = labeller_config(file, url, rules, seconds, apply, lease_namespace)
    configuration = load_or_exit(config_file)
    _configure_logging(configuration, log_level, _mode_message(configuration, bool(file)))
    sys.exit(
        _run(
            configuration,
            config_file,
            kubeconfig or configuration.client_connection.kubeconfig,
            unique_identity(name),
            host,
            port,
        )
    )


def _parse_serve(address: str) -> tuple[str, int]:
    """`:9000` used to mean every address of the machine; pages that ask nobody who he is are served on loopback."""
    try:
        return parse_address(f"127.0.0.1{address}" if address.startswith(":") else address)
    except InvalidAddress as error:
        raise click.BadParameter(str(error), param_hint="-webaddr") from None


def labeller_config(
    file: str | None, url: str, rules: str, seconds: int, apply: bool, lease_namespace: str
) -> ConfigFile:
    """Where a labeller's settings stand, and how they are read: a configuration of ours, or a rule.yaml and flags."""
    config_file = _from_config(file, apply, url) if file else _from_rules(url, rules, seconds, apply)
    return _with_lease_namespace(config_file, lease_namespace)


def _from_config(file: str, apply: bool, url: str) -> ConfigFile:
    from trimtab.apps.included_files import IncludedFiles
    from trimtab.apps.plugins import installed_plugins
    from trimtab.apps.reload import ConfigFile
    from trimtab.config.kube_scheduler import parse
    from trimtab.config.trimtab.labeller import labeller_configuration
    from trimtab.sources.registry import SOURCE_SETTINGS

    if apply or url:
        flag, field = ("--apply", "labels.mode: apply") if apply else ("-prom", "a source")
        raise click.UsageError(f"{flag} belongs to a rule.yaml: with --config, write {field} in {file}")
    path = Path(file)
    beside = IncludedFiles(path)
    return ConfigFile(
        path,
        lambda content: labeller_configuration(
            parse(content, file, installed_plugins(), SOURCE_SETTINGS, beside), file
        ),
        beside,
    )


def _from_rules(url: str, rules: str, seconds: int, apply: bool) -> ConfigFile:
    from trimtab.apps.reload import ConfigFile
    from trimtab.config.trimtab.labeller import from_rule_file
    from trimtab.config.trimtab.validation import redact_url, validate_url

    if not url:
        raise click.UsageError("say where measurements come from: -prom http://HOST:9090, or --config FILE")
    if (fault := validate_url(url)) is not None:
        raise click.BadParameter(f"{redact_url(url)} {fault}", param_hint="-prom")
    return ConfigFile(Path(rules), lambda content: from_rule_file(content, rules, url, float(seconds), apply))


def _with_lease_namespace(config_file: ConfigFile, namespace: str) -> ConfigFile:
    def read(content: bytes) -> Configuration:
        found = config_file.read(content)
        return replace(found, leader_election=replace(found.leader_election, namespace=namespace))

    return replace(config_file, read=read)


def load_or_exit(config_file: ConfigFile) -> Configuration:
    """Ends the process with 2 and every problem on stderr if it is no good."""
    from trimtab.apps.plugins import PluginError
    from trimtab.config.diagnostics import ConfigError, printable

    try:
        return config_file.read(config_file.path.read_bytes())
    except OSError as error:
        click.echo(printable(f"{config_file.path}: cannot be read: {error.strerror or error}"), err=True)
    except ConfigError as error:
        click.echo(str(error), err=True)
    except PluginError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
    sys.exit(BAD_INPUT)


def _mode_message(configuration: Configuration, documented: bool) -> str:
    labels = configuration.settings.labels
    if labels is not None and labels.apply:
        return "trimtab labeller: mode apply: nodes are marked."
    remedy = "set labels.mode to apply" if documented else "add --apply"
    return f"trimtab labeller: mode observe: says what it would mark and writes nothing; {remedy} to mark nodes."


def _configure_logging(configuration: Configuration, level: str, first: str) -> None:
    import logging

    from trimtab.apps.logs import configure

    configure(level or configuration.trimtab.logging.level, configuration.trimtab.logging.format)
    report(configuration, first, logging.WARNING)
    for note in configuration.notes:
        logging.getLogger("trimtab").info("%s", note)


def _run(
    configuration: Configuration, config_file: ConfigFile, kubeconfig: str, identity: str, host: str, port: int
) -> int:
    from trimtab.apps.labeller import run
    from trimtab.apps.process import Options
    from trimtab.config.diagnostics import ConfigError, printable
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.preflight import PreflightError

    try:
        return run(configuration, config_file, find_credentials(kubeconfig), Options(identity, host, port))
    except (CredentialsError, PreflightError) as error:
        report(configuration, printable(f"trimtab: {error}."))
    except ConfigError as error:
        report(configuration, str(error))
        return BAD_INPUT
    except OSError as error:
        report(configuration, f"trimtab: cannot serve on {host}:{port}: {error.strerror}. Choose another -webaddr.")
    return 1
