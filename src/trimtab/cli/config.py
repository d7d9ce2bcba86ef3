"""`trimtab config`: tells people what a file is worth; every judgement on it is left to trimtab.config."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import click

from trimtab.apps.included_files import IncludedFiles
from trimtab.apps.plugins import PluginError, installed_plugins
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, did_you_mean, printable
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse

BAD_INPUT = 2
TEMPLATES = ("default", "production", "development", "hpc", "memory", "microservices", "multitenant")


@click.group()
def command() -> None:
    """Check a configuration file, show what it comes to, or print one to begin with."""


@command.command()
@click.argument("file")
def check(file: str) -> None:
    """Say whether FILE can be used, and what of it is ignored; exit 2 with every problem if it cannot."""
    configuration = load(file)
    for note in configuration.notes:
        click.echo(f"note: {note}")
    names = ", ".join(profile.name for profile in configuration.settings.profiles)
    measured = ", ".join(source.name for source in configuration.trimtab.sources) or "nothing, requests stand in"
    click.echo(printable(f"{file}: can be used; schedules for {names}; measures by {measured}"))


@command.command()
@click.argument("file")
def show(file: str) -> None:
    """Print what FILE comes to, with every default filled in, as a file that means the same."""
    click.echo(dump(load(file)), nl=False)


@command.command()
@click.argument("name", required=False)
def template(name: str | None) -> None:
    """Print the template NAME, with a word on each field; without NAME, list them."""
    written = templates()
    if name is None:
        for each in written.values():
            click.echo(each.splitlines()[0].removeprefix("# "))
    elif name in written:
        click.echo(written[name], nl=False)
    else:
        near = did_you_mean(name, written)
        click.echo(printable(f"trimtab: there is no template {name[:100]!r}{near}: {', '.join(written)}"), err=True)
        sys.exit(BAD_INPUT)


def templates() -> dict[str, str]:
    """The ready files by name; each says in its first line what it is for."""
    folder = resources.files("trimtab.config") / "templates"
    return {name: (folder / f"{name}.yaml").read_text() for name in TEMPLATES}


def load(file: str) -> Configuration:
    """The configuration in a file; ends the process with 2 and every problem on stderr if it is no good."""
    from trimtab.sources.registry import SOURCE_SETTINGS

    try:
        return parse(Path(file).read_bytes(), file, installed_plugins(), SOURCE_SETTINGS, IncludedFiles(Path(file)))
    except OSError as error:
        click.echo(printable(f"{file}: cannot be read: {error.strerror or error}"), err=True)
    except ConfigError as error:
        click.echo(str(error), err=True)
    except PluginError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
    sys.exit(BAD_INPUT)
