"""`trimtab version`: prints the versions that a bug report needs."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version

import click

from trimtab.apps.event_loop import has_uvloop

KUBERNETES = "1.35"  # the kube-scheduler whose plugins, configuration and API versions we follow


def versions() -> dict[str, str]:
    """What runs here, by the name of the component."""
    return {
        "trimtab": version("trimtab"),
        "kubernetes": KUBERNETES,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "uvloop": version("uvloop") if has_uvloop() else "no",
    }


@click.command()
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format."
)
def command(output: str) -> None:
    """Print the versions of Trimtab, of the Kubernetes API that it follows, of Python and of uvloop."""
    found = versions()
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        click.echo(f"{name + ':':12}{value}")
