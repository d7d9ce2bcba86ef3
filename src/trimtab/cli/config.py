"""`trimtab config`: tells people what a file is worth; every judgement on it is left to trimtab.config."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trimtab.apps.plugins import PluginError, installed
from trimtab.config.configuration import Configuration
from trimtab.config.problem import ConfigError, printable
from trimtab.config.scheduler import read
from trimtab.config.show import shown

BAD_INPUT = 2


@click.group()
def command() -> None:
    """Check a configuration file, or show what it comes to."""


@command.command()
@click.argument("file")
def check(file: str) -> None:
    """Say whether FILE can be used, and what of it is ignored; exit 2 with every problem if it cannot."""
    configuration = load(file)
    for note in configuration.notes:
        click.echo(f"note: {note}")
    names = ", ".join(profile.name for profile in configuration.settings.profiles)
    click.echo(printable(f"{file}: can be used; schedules for {names}"))


@command.command()
@click.argument("file")
def show(file: str) -> None:
    """Print what FILE comes to, with every default filled in, as a file that means the same."""
    click.echo(shown(load(file)), nl=False)


def load(file: str) -> Configuration:
    """The configuration in a file; ends the process with 2 and every problem on stderr if it is no good."""
    try:
        return read(Path(file).read_bytes(), file, installed())
    except OSError as error:
        click.echo(printable(f"{file}: cannot be read: {error.strerror or error}"), err=True)
    except ConfigError as error:
        click.echo(str(error), err=True)
    except PluginError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
    sys.exit(BAD_INPUT)
