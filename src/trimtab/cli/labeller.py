"""`trimtab labeller`: labels nodes under pressure. Takes dynamic-Scheduler's flags, too (`-prom -r -s -webaddr`)."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli import dynamic_scheduler_flags
from trimtab.cli.flags import GroupedCommand, add_flags
from trimtab.cli.run import LogLevelFlag, config_file_for, overridden, report, run_process, unique_identity
from trimtab.cli.serving_flags import SERVING_FLAGS, Flags, ServingFlags, address_of, read_serving_flags

if TYPE_CHECKING:
    from trimtab.apps.config_file import ConfigFile
    from trimtab.config.configuration import Configuration

ADDRESS = "127.0.0.1:9000"
RULES = "rule.yaml"
SECONDS = 10
_GO_FLAG = re.compile(r"--?(r|s|webaddr)(?:=(.*))?", re.S)


class GoStyleFlags(GroupedCommand):
    """Flags as Go parses them: one dash or two, the value after a space or `=`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [each for arg in args for each in _normalise_flag(arg)])


def _normalise_flag(arg: str) -> list[str]:
    found = _GO_FLAG.fullmatch(arg)
    if found is None:
        return [arg]
    return [f"-{found[1]}"] if found[2] is None else [f"-{found[1]}", found[2]]


@click.command("labeller", cls=GoStyleFlags, refused=dynamic_scheduler_flags.REFUSED)
@click.option("--config", "file", type=click.Path(), help="A TrimtabConfiguration with sources and labels.")
@click.option(
    "-kubeconfig",
    "--kubeconfig",
    default="",
    help="Path of the kubeconfig; default: KUBECONFIG, in-cluster, ~/.kube/config.",
)
@click.option("-prom", "--prom", "url", default="", help="URL of a Prometheus, instead of --config.")
@click.option(
    "-r",
    "--rules",
    "rules",
    default="",
    help=f"With -prom: the rules, in dynamic-Scheduler's format; default {RULES}.",
)
@click.option(
    "-s",
    "--seconds",
    default=SECONDS,
    show_default=True,
    type=click.IntRange(1, 250),
    help="With -prom: polling interval.",
)
@click.option("--apply", is_flag=True, help="With -prom: write labels instead of only logging changes.")
@click.option(
    "-webaddr",
    "--serve",
    "address",
    default="",
    help=f"Address of /status and /nodes in plain HTTP; default {ADDRESS}, or none if the secure port is used.",
)
@click.option("--lease-namespace", default="trimtab", show_default=True, help="Namespace of the lease.")
@click.option("--identity", "name", default="", help="Prefix of this replica's name in the lease; default: hostname.")
@click.option(
    "--log-level",
    default="",
    type=click.Choice(["", "debug", "info", "warning", "error"]),
    help="Overrides logging.level.",
)
@add_flags((*dynamic_scheduler_flags.FIRST_VERSION_FLAGS, *SERVING_FLAGS))
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
    **flags: Any,
) -> None:
    """Label or softly taint nodes under pressure, by measured load; see docs/labels.md."""
    from trimtab.apps.process import Options
    from trimtab.cli.config import load_or_exit

    serving = _read_serving(flags, address)
    config_file = labeller_config(file, url, rules, seconds, apply, lease_namespace, flags)
    config_file = overridden(config_file, LogLevelFlag(log_level).apply)
    configuration = load_or_exit(config_file)
    _configure_logging(configuration, _mode_message(configuration, bool(file)))
    where = kubeconfig or configuration.client_connection.kubeconfig
    options = Options(unique_identity(name))
    sys.exit(run_process(configuration, where, options, config_file, ("labeller",), serving))


def _read_serving(flags: Flags, address: str) -> ServingFlags:
    """An address that is not loopback gets only the pages that dynamic-Scheduler served, and the health checks."""
    found = read_serving_flags(flags, "", ADDRESS)
    if not address:
        return found
    where = address_of(address, "-webaddr", anywhere=True)
    loopback = ip_address(where.host).is_loopback
    return replace(found, loopback=where if loopback else None, status=None if loopback else where)


def labeller_config(
    file: str | None,
    url: str,
    rules: str,
    seconds: int,
    apply: bool,
    lease_namespace: str,
    thresholds: Flags | None = None,
) -> ConfigFile:
    """The labeller's configuration: a TrimtabConfiguration, or a rule.yaml or thresholds, and flags."""
    given = thresholds is not None and dynamic_scheduler_flags.has_thresholds(thresholds)
    if file and (apply or url or given):
        flag, field = ("--apply", "labels.mode: apply") if apply else ("-prom", "a source")
        flag, field = ("-cpu, -mem or -cmem", "labels.rules") if given else (flag, field)
        raise click.UsageError(f"{flag} is for a rule.yaml: with --config, write {field} in {file}")
    if rules and given:
        raise click.UsageError("-cpu, -mem and -cmem are the rules: leave them out, or -r")
    if file:
        config_file = config_file_for(("labeller",), file)
    else:
        text = dynamic_scheduler_flags.rule_file(thresholds) if thresholds is not None and given else ""
        config_file = _from_rules(url, rules or RULES, text, seconds, apply)
    return _with_lease_namespace(config_file, lease_namespace)


def _from_rules(url: str, rules: str, text: str, seconds: int, apply: bool) -> ConfigFile:
    """The file of this name, or what flags say in place of it: that file is empty and never changes."""
    from trimtab.apps.config_file import ConfigFile
    from trimtab.cli.config import check_prometheus_url
    from trimtab.config.trimtab.labeller import from_rule_file

    check_prometheus_url(url, "no metric source: set -prom http://HOST:9090, or --config FILE")
    path = os.devnull if text else rules
    return ConfigFile(Path(path), lambda content: from_rule_file(text or content, path, url, float(seconds), apply))


def _with_lease_namespace(config_file: ConfigFile, namespace: str) -> ConfigFile:
    return overridden(
        config_file, lambda found: replace(found, leader_election=replace(found.leader_election, namespace=namespace))
    )


def _mode_message(configuration: Configuration, documented: bool) -> str:
    labels = configuration.settings.labels
    if labels is not None and labels.apply:
        return "trimtab labeller: mode apply: nodes are labelled."
    remedy = "set labels.mode to apply" if documented else "add --apply"
    return f"trimtab labeller: mode observe: logs changes and writes nothing; {remedy} to label nodes."


def _configure_logging(configuration: Configuration, first: str) -> None:
    import logging

    from trimtab.apps.logs import configure

    configure(configuration.trimtab.logging)
    report(configuration, first, logging.WARNING)
    for note in configuration.notes:
        logging.getLogger("trimtab").info("%s", note)
