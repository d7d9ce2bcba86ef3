"""`trimtab config`: checks a configuration file, prints it with all defaults, prints a template, or converts a policy."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.apps import plugins
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, did_you_mean, printable
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.plugin_sources import describe_sources

if TYPE_CHECKING:
    from trimtab.apps.config_file import ConfigFile
    from trimtab.core.load.pressure_rules import Rule
    from trimtab.core.model.events import ConfigText

BAD_INPUT = 2
TEMPLATES = ("default", "production", "development", "hpc", "memory", "microservices", "multitenant")


@click.group()
def command() -> None:
    """Check a configuration file, show it with all defaults, or print a template."""


key_option = click.option(
    "--key",
    default="",
    metavar="KEY|NAME/KEY",
    help="Where FILE is a ConfigMap or Secret with several configurations: which one.",
)


@command.command()
@click.argument("file")
@key_option
def check(file: str, key: str) -> None:
    """Say whether FILE is valid and what is ignored; exit 2 with every problem if it is not.

    FILE may also be a ConfigMap or Secret that holds the configuration, or a rule.yaml of dynamic-Scheduler.
    """
    rules = rule_file_or_none(file, key)
    if rules is not None:
        names = ", ".join(rule.name for rule in rules)
        click.echo(printable(f"{file}: valid; rules of dynamic-Scheduler: {names}"))
        click.echo(f"Run them with `trimtab labeller -prom URL -r {file}`.")
        return
    configuration = load_or_exit(open_config(file, key))
    for note in configuration.notes:
        click.echo(f"note: {note}")
    names = ", ".join(profile.name for profile in configuration.settings.profiles)
    click.echo(printable(f"{file}: valid; profiles: {names}; metric sources: {describe_sources(configuration)}"))


@command.command()
@click.argument("file")
@key_option
@click.option(
    "-prom", "--prom", "url", default="", help="With a rule.yaml, which names no source: the URL of its Prometheus."
)
def show(file: str, key: str, url: str) -> None:
    """Print FILE with every default filled in, as an equivalent file.

    A rule.yaml of dynamic-Scheduler becomes a TrimtabConfiguration for `trimtab labeller --config`.
    """
    if rule_file_or_none(file, key) is None:
        if url:
            raise click.UsageError(f"-prom is for a rule.yaml: write the source in {file}")
        click.echo(dump(load_or_exit(open_config(file, key))), nl=False)
        return
    check_prometheus_url(url, f"{file} names no Prometheus: add -prom http://HOST:9090")
    click.echo(_converted_rules(file, key, url), nl=False)


def _converted_rules(file: str, key: str, url: str) -> str:
    from trimtab.cli.labeller import SECONDS
    from trimtab.config.dump import to_yaml
    from trimtab.config.trimtab.document import dump_document
    from trimtab.config.trimtab.labeller import convert_rule_file

    found = convert_rule_file(Path(file).read_bytes(), file, url, float(SECONDS), key)
    mode = "# mode: observe only logs what it would do; write apply to label nodes.\n"
    return mode + to_yaml(dump_document(found.trimtab, found.settings.load))


@command.command()
@click.argument("file")
@key_option
@click.option("--rival", is_flag=True, help="Print what runs it by its own rules in `trimtab simulate` instead.")
def convert(file: str, key: str, rival: bool) -> None:
    """Print settings of Trimtab with the intent of FILE, a policy of another rescheduler.

    FILE is a DeschedulerPolicy (descheduler/v1alpha2), or Koordinator's DeschedulerConfiguration, or the ConfigMap that holds
    one. What is not supported, or done in another way, is in the comments above the settings. Moves are only planned
    (mode: observe). Exits with 2 and every problem if FILE is invalid.
    """
    from trimtab.config.descheduler.equivalent import convert_policy
    from trimtab.config.descheduler.rivals import read_rival
    from trimtab.config.dump import to_yaml
    from trimtab.config.trimtab.document import dump_section

    content = _read_or_exit(Path(file))
    try:
        found = (read_rival if rival else convert_policy)(content, file, key)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(BAD_INPUT)
    mode = "# mode: observe only plans; simulations need mode: auto to move pods.\n"
    comments = "".join(f"# {note}\n" for note in found.notes)
    click.echo(comments + mode + to_yaml(dump_section(found.sources, found.settings)), nl=False)


def rule_file_or_none(file: str, key: str) -> tuple[Rule, ...] | None:
    """The rules of a rule.yaml; None for any other file. Exits with 2 if they are invalid."""
    from trimtab.config.manifests import locate
    from trimtab.config.trimtab.labeller import parse_rule_file

    content = _read_or_exit(Path(file))
    try:
        if not locate(content, file, key).is_rule_file:
            return None
    except ConfigError:
        return None  # reported when it is parsed as a configuration
    try:
        return parse_rule_file(content, file, key)
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(BAD_INPUT)


def check_prometheus_url(url: str, missing: str) -> None:
    """Ends with a usage error unless this can be the URL of a Prometheus; `missing` is the message for none."""
    from trimtab.config.trimtab.validation import redact_url, validate_url

    if not url:
        raise click.UsageError(missing)
    if (error := validate_url(url)) is not None:
        raise click.BadParameter(f"{redact_url(url)} {error}", param_hint="-prom")


@command.command()
@click.argument("name", required=False)
def template(name: str | None) -> None:
    """Print the template NAME, with a comment on each field; without NAME, list the templates."""
    written = templates()
    if name is None:
        for each in written.values():
            click.echo(each.splitlines()[0].removeprefix("# "))
    elif name in written:
        click.echo(written[name], nl=False)
    else:
        near = did_you_mean(name, written)
        click.echo(printable(f"trimtab: unknown template {name[:100]!r}{near}: {', '.join(written)}"), err=True)
        sys.exit(BAD_INPUT)


def templates() -> dict[str, str]:
    """The templates by name; the first line of each says what it is for."""
    folder = resources.files("trimtab.config") / "templates"
    return {name: (folder / f"{name}.yaml").read_text() for name in TEMPLATES}


def open_config(file: str, key: str = "") -> ConfigFile:
    """The file and those it includes, parsed with all installed plugins. key: in a ConfigMap or Secret."""
    from trimtab.apps.config_file import ConfigFile, IncludedFiles
    from trimtab.sources.registry import SOURCE_SETTINGS

    included = IncludedFiles(Path(file))

    def read(content: bytes) -> Configuration:
        found, installed = plugins.installed_plugins(), plugins.installed_for_rescheduling()
        return parse(content, file, found, SOURCE_SETTINGS, included, key, installed)

    return ConfigFile(Path(file), read, included)


def load_or_exit(config_file: ConfigFile, code: int = BAD_INPUT) -> Configuration:
    """Parse the file; if it is invalid, print every problem to stderr and exit with 2, or another code."""
    return load_with_text_or_exit(config_file, code)[0]


def load_with_text_or_exit(config_file: ConfigFile, code: int = BAD_INPUT) -> tuple[Configuration, ConfigText]:
    """The same, with the text that was parsed."""
    content = _read_or_exit(config_file.path, code)
    try:
        return config_file.read(content), config_file.text(content)
    except ConfigError as error:
        click.echo(str(error), err=True)
    except plugins.PluginError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
    sys.exit(code)


def _read_or_exit(path: Path, code: int = BAD_INPUT) -> bytes:
    from trimtab.apps.config_file import os_error_text, read_bounded

    try:
        return read_bounded(path)
    except OSError as error:
        click.echo(printable(f"{path}: {os_error_text(error)}"), err=True)
        sys.exit(code)
