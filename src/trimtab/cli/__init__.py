"""The command line: decides which command is meant and loads only that one; what it does is left to its own file."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "config": "Check a configuration file, show it in full, or print one.",
    "demo": "A simulated cluster in the terminal; no Kubernetes needed.",
    "doctor": "What is wrong with cluster and configuration, with remedies.",
    "explain": "Why this node, why not that one: asked of the live process.",
    "labeller": "Label nodes that are really under pressure.",
    "replay": "Replay a recording, and compare the decisions.",
    "run": "Schedule pods on the cluster of the kubeconfig.",
    "unmark": "Take marks off nodes where no labeller is left.",
}


class LazyGroup(click.Group):
    """Commands by name; each is imported when it is called, so that `--help` costs nothing."""

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
