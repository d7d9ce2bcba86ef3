"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "config": "Check a configuration file, show it in full, or print a template.",
    "demo": "Run a simulated cluster in the terminal; needs no Kubernetes.",
    "deploy": "Install Trimtab into a cluster; upgrade, check and remove it.",
    "doctor": "Check cluster and configuration; print problems with remedies.",
    "explain": "Explain why a pod is on its node, or on none.",
    "labeller": "Label nodes under pressure, by measured load.",
    "replay": "Replay a recording, and compare the decisions.",
    "run": "Schedule pods on the cluster of the kubeconfig.",
    "unmark": "Remove labels from nodes if no labeller is left.",
    "version": "Print the versions of Trimtab, of Python and of what it follows.",
}


class LazyGroup(click.Group):
    """Imports a command when it is called, so that `--help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"trimtab.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trimtab", prog_name="trimtab")
def main() -> None:
    """Trimtab, a load-aware scheduler for Kubernetes."""
