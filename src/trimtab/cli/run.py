"""`trimtab run`: schedules pods on the cluster of the kubeconfig, and labels nodes if asked to."""

from __future__ import annotations

import logging
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from trimtab.cli import kube_scheduler_flags
from trimtab.cli.flags import GroupedCommand, add_flags
from trimtab.cli.scheduler_config import read_profiles, scheduler_config_option
from trimtab.cli.serving_flags import SERVING_FLAGS, ServingFlags, read_serving_flags
from trimtab.serve.address import DEFAULT_ADDRESS

BAD_INPUT = 2
INVARIANTS_INTERVAL = 60
MIN_RECORDING_SIZE = 1 << 20

if TYPE_CHECKING:
    from trimtab.apps.config_file import ConfigFile
    from trimtab.apps.process import Options
    from trimtab.config.configuration import Configuration
    from trimtab.core.framework.profile import Profile


def parse_controllers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Names separated by commas, each once."""
    from trimtab.apps.process import CONTROLLER_SPECS

    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if unknown := [name for name in names if name not in CONTROLLER_SPECS]:
        raise click.BadParameter(f"unknown controller {unknown[0]!r}: choose from {', '.join(CONTROLLER_SPECS)}")
    return names


def parse_size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Bytes of a quantity."""
    from trimtab.core.model.resources import NANOS
    from trimtab.wire.quantity import QuantityError, nanos

    try:
        size = nanos(value) // NANOS
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None
    if size < MIN_RECORDING_SIZE:
        raise click.BadParameter(f"{value} is less than 1Mi")
    return size


def print_version(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """As `trimtab --version`; kube-scheduler's `--version=raw` prints more than one line, too."""
    if value not in (None, "false"):
        from trimtab.cli.version import command as versions

        ctx.invoke(versions, output="text") if value == "raw" else click.echo(f"trimtab, version {version('trimtab')}")
        ctx.exit()


controllers_option = click.option(
    "--controllers",
    default="scheduler",
    show_default=True,
    callback=parse_controllers,
    help="What the process runs, separated by commas: scheduler, labeller, rescheduler; see docs/labels.md and "
    "docs/rescheduling.md.",
)


@click.command("run", cls=GroupedCommand, refused=kube_scheduler_flags.REFUSED, epilog=kube_scheduler_flags.EPILOG)
@click.option(
    "--config", "file", type=click.Path(), help="A KubeSchedulerConfiguration; default: one profile, `trimtab`."
)
@controllers_option
@scheduler_config_option
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option(
    "--serve",
    "address",
    default="",
    help=f"Plain HTTP on this loopback address; default {DEFAULT_ADDRESS}, or none if the secure port is used.",
)
@click.option(
    "--identity",
    "name",
    default="",
    help="Prefix of this replica's name in the lease and in Events; default: hostname.",
)
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="FILE", help="Record all events for `trimtab replay`."
)
@click.option(
    "--record-max-size",
    default="256Mi",
    show_default=True,
    callback=parse_size,
    help="Size at which FILE becomes FILE.1, and a new one starts.",
)
@click.option(
    "--check-invariants",
    type=click.FloatRange(min=0, min_open=True),
    is_flag=False,
    flag_value=INVARIANTS_INTERVAL,
    metavar="[SECONDS]",
    help=f"Check the state for inconsistencies every so many seconds, by default {INVARIANTS_INTERVAL}; see metrics and log.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Overrides logging.level.")
@add_flags((*SERVING_FLAGS, *kube_scheduler_flags.KUBE_SCHEDULER_FLAGS))
@click.option(
    "--version",
    is_flag=False,
    flag_value="true",
    is_eager=True,
    expose_value=False,
    metavar="[raw]",
    callback=print_version,
    help="Print the version and exit.",
)
def command(
    file: str | None,
    controllers: tuple[str, ...],
    schedulers: tuple[str, ...],
    kubeconfig: str,
    address: str,
    name: str,
    record: Path | None,
    record_max_size: int,
    check_invariants: float | None,
    log_level: str | None,
    **flags: Any,
) -> None:
    """Schedule pods on the cluster of the kubeconfig."""
    from trimtab.apps.logs import configure
    from trimtab.apps.process import Options
    from trimtab.apps.recording import RecordingOptions
    from trimtab.cli.config import load_or_exit, load_with_text_or_exit, open_config
    from trimtab.core.model.events import ConfigText

    serving = read_serving_flags(flags, address, DEFAULT_ADDRESS)
    if record is not None and flags["pod_max_in_unschedulable_pods_duration"] is not None:
        raise click.UsageError("--record keeps the file, not --pod-max-in-unschedulable-pods-duration: leave one out")
    if record is not None and schedulers:
        raise click.UsageError("--record keeps the file, not --scheduler-config: leave one out")
    others = read_profiles(schedulers, lambda each: load_or_exit(open_config(each)), _usage_error)
    level = log_level or kube_scheduler_flags.log_level(flags)
    override = partial(_overrides, flags, file is not None, LogLevelFlag(level))
    config_file = overridden(config_file_for(controllers, file, others), override) if file else None
    configuration, config = (
        load_with_text_or_exit(config_file)
        if config_file is not None
        else (override(default_for(controllers)), ConfigText())
    )
    write_and_exit(configuration, flags["write_config_to"])
    configure(configuration.trimtab.logging)
    _log_start(configuration, controllers, [*kube_scheduler_flags.ignored_flags(flags, file is not None)])
    where = kubeconfig or configuration.client_connection.kubeconfig
    recording = RecordingOptions(record, config, record_max_size, controllers) if record is not None else None
    options = Options(unique_identity(name), recording=recording, check_invariants=check_invariants)
    sys.exit(run_process(configuration, where, options, config_file, controllers, serving, flags["master"] or ""))


def _overrides(
    flags: Mapping[str, Any], has_file: bool, level: LogLevelFlag, configuration: Configuration
) -> Configuration:
    return level.apply(kube_scheduler_flags.overrides(flags, has_file, configuration))


class LogLevelFlag:
    """The level of the command line, or empty: it wins over the file, also when that changes while the process runs."""

    def __init__(self, level: str) -> None:
        self._level = level
        self._in_file = ""  # at the last read

    def apply(self, configuration: Configuration) -> Configuration:
        """The configuration with this level; a level of the file that changes without effect is logged."""
        own = configuration.trimtab
        if not self._level:
            return configuration
        if self._in_file not in ("", own.logging.level):
            log = logging.getLogger("trimtab")
            log.warning("logging.level has no effect, the flag wins: file=%s flag=%s", own.logging.level, self._level)
        self._in_file = own.logging.level
        return replace(configuration, trimtab=replace(own, logging=replace(own.logging, level=self._level)))


def overridden(config_file: ConfigFile, override: Callable[[Configuration], Configuration]) -> ConfigFile:
    """The file with what flags say, also after a reload."""
    return replace(config_file, read=lambda content: override(config_file.read(content)))


def _log_start(configuration: Configuration, controllers: tuple[str, ...], ignored: list[str]) -> None:
    log = logging.getLogger("trimtab")
    log.info("starting: controllers=%s", ",".join(controllers))
    for note in configuration.notes:
        log.info("%s", note)
    if ignored:
        log.info("flags of kube-scheduler that have no effect here: flags=%s", ", ".join(ignored))


def write_and_exit(configuration: Configuration, path: str | None) -> None:
    """For --write-config-to: write the configuration and exit, unless there is no path."""
    from trimtab.config.dump import dump

    if path is None:
        return
    try:
        Path(path).write_text(dump(configuration))
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--write-config-to") from None
    sys.exit(0)


def unique_identity(name: str) -> str:
    """Two replicas of one identity would both hold the lease, hence the random suffix."""
    return f"{name or socket.gethostname()}_{secrets.token_hex(4)}"


def report(configuration: Configuration, message: str, level: int = logging.ERROR) -> None:
    """Print to stderr, or log it when `logging.format` is json."""
    if configuration.trimtab.logging.format == "json":
        logging.getLogger("trimtab").log(level, "%s", message)
    else:
        click.echo(message, err=True)


def _usage_error(message: str) -> NoReturn:
    raise click.UsageError(message)


def config_file_for(controllers: tuple[str, ...], file: str, others: Mapping[str, Profile] | None = None) -> ConfigFile:
    """The file, parsed for a process with these controllers, beside schedulers with these profiles."""
    from trimtab.apps.controller_configuration import configuration_for
    from trimtab.cli.config import open_config

    config_file = open_config(file)

    def read(content: bytes) -> Configuration:
        return configuration_for(controllers, config_file.read(content), file, others or {})

    return replace(config_file, read=read)


def default_for(controllers: tuple[str, ...]) -> Configuration:
    """The configuration without a file, which has no label rules."""
    from trimtab.config.kube_scheduler import default_configuration

    if "labeller" in controllers:
        raise click.UsageError("--controllers labeller needs --config FILE with sources and labels")
    if "rescheduler" in controllers:
        raise click.UsageError("--controllers rescheduler needs --config FILE with sources and a section rescheduling")
    return default_configuration()


def scheduler_configuration(file: str | None) -> Configuration:
    """The configuration of a scheduler, of a file or without one; exits with the problems of the file."""
    from trimtab.cli.config import load_or_exit

    controllers = ("scheduler",)
    return load_or_exit(config_file_for(controllers, file)) if file else default_for(controllers)


def run_process(
    configuration: Configuration,
    kubeconfig: str,
    options: Options,
    file: ConfigFile | None,
    controllers: tuple[str, ...],
    serving: ServingFlags,
    master: str = "",
) -> int:
    """Run until it ends; failures to start are reported in one sentence. Returns the exit code."""
    from trimtab.apps import process
    from trimtab.apps.recording import RecordingError
    from trimtab.config.diagnostics import ConfigError, printable
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.kinds import UnknownKind
    from trimtab.kube.preflight import PreflightError
    from trimtab.serve.client_ca import LookupFailed
    from trimtab.serve.listener import CannotListen
    from trimtab.serve.serving_certificate import CertificateError

    specs = [process.CONTROLLER_SPECS[name] for name in controllers]
    try:
        credentials = find_credentials(kubeconfig, server=master)
        options = replace(options, serving=serving.serving(credentials.in_cluster))
        return process.run(configuration, credentials, options, file, specs)
    except (CannotListen, LookupFailed, UnknownKind, PreflightError) as error:
        report(configuration, printable(f"trimtab: {error}."))
    except (CertificateError, CredentialsError, RecordingError) as error:
        report(configuration, printable(f"trimtab: {error}."))
        return BAD_INPUT
    except ConfigError as error:
        report(configuration, str(error))
        return BAD_INPUT
    return 1
