"""`trimtab config`: checks a configuration file, prints it with all defaults, or prints a template."""

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

if TYPE_CHECKING:
    from trimtab.apps.config_file import ConfigFile
    from trimtab.core.model.events import ConfigText

BAD_INPUT = 2
TEMPLATES = ("default", "production", "development", "hpc", "memory", "microservices", "multitenant")


@click.group()
def command() -> None:
    """Check a configuration file, show it with all defaults, or print a template."""


@command.command()
@click.argument("file")
def check(file: str) -> None:
    """Say whether FILE is valid and what is ignored; exit 2 with every problem if it is not."""
    configuration = load_or_exit(open_config(file))
    for note in configuration.notes:
        click.echo(f"note: {note}")
    names = ", ".join(profile.name for profile in configuration.settings.profiles)
    measured = ", ".join(source.name for source in configuration.trimtab.sources) or "none, scores use requests"
    click.echo(printable(f"{file}: valid; profiles: {names}; metric sources: {measured}"))


@command.command()
@click.argument("file")
def show(file: str) -> None:
    """Print FILE with every default filled in, as an equivalent file."""
    click.echo(dump(load_or_exit(open_config(file))), nl=False)


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


def open_config(file: str) -> ConfigFile:
    """The file and those it includes, parsed with all installed plugins."""
    from trimtab.apps.config_file import ConfigFile, IncludedFiles
    from trimtab.sources.registry import SOURCE_SETTINGS

    included = IncludedFiles(Path(file))
    return ConfigFile(
        Path(file),
        lambda content: parse(content, file, plugins.installed_plugins(), SOURCE_SETTINGS, included),
        included,
    )


def load_or_exit(config_file: ConfigFile) -> Configuration:
    """Parse the file; if it is invalid, print every problem to stderr and exit with 2."""
    return load_with_text_or_exit(config_file)[0]


def load_with_text_or_exit(config_file: ConfigFile) -> tuple[Configuration, ConfigText]:
    """The same, with the text that was parsed."""
    try:
        content = config_file.path.read_bytes()
        return config_file.read(content), config_file.text(content)
    except OSError as error:
        click.echo(printable(f"{config_file.path}: cannot be read: {error.strerror or error}"), err=True)
    except ConfigError as error:
        click.echo(str(error), err=True)
    except plugins.PluginError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
    sys.exit(BAD_INPUT)
