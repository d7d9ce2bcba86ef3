"""The command line: one module per command, imported when it is called."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from importlib import import_module

import click

GIVEN = "trimtab.cli.given"  # the arguments, in a context's `meta`
NUMBERS = {  # click names the type, and nobody writes "an integer range"
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float": "is not a number",
}
COMMANDS = {
    "apply": "Carry out a plan of `trimtab plan -o`, move by move.",
    "approve": "Let a rescheduler carry out the plan that waits for approval.",
    "config": "Check a configuration file, show it in full, or print a template.",
    "demo": "Run a simulated cluster in the terminal; needs no Kubernetes.",
    "deploy": "Install Trimtab into a cluster; upgrade, check and remove it.",
    "doctor": "Check cluster and configuration; print problems with remedies.",
    "explain": "Explain why a pod is on its node, or on none.",
    "history": "Print the moves of the live cluster, and what they were worth.",
    "labeller": "Label nodes under pressure, by measured load.",
    "pause": "Stop all moves of running pods at once.",
    "plan": "Plan which running pods should move, and why; only reads.",
    "replay": "Replay a recording, and compare the decisions.",
    "resume": "Allow moves again after `trimtab pause`.",
    "run": "Schedule pods on the cluster of the kubeconfig.",
    "shadow": "Compare what a policy would decide with a live scheduler.",
    "simulate": "Compare policies on a simulated cluster; needs no Kubernetes.",
    "snapshot": "Write objects and load of a live cluster to a file.",
    "unmark": "Remove labels from nodes if no labeller is left.",
    "version": "Print the versions of Trimtab, of Python and of what it follows.",
    "whatif": "Simulate a change of the cluster; say what would be pending.",
}


class LazyGroup(click.Group):
    """Imports a command when it is called, so that `--help` is fast.

    `-help`, as Go's programs have it, is the same for every command; a long flag with one dash is refused by its name.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = ["--help" if each == "-help" else each for each in args]
        ctx.meta[GIVEN] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.BadParameter as error:
            found = next((each for each in NUMBERS if each in error.message), None)
            if found is None:
                raise
            message = error.message.replace(found, NUMBERS[found])
            raise _with_code(error, click.BadParameter(message, error.ctx, error.param, error.param_hint)) from None
        except click.NoSuchOption as error:
            if error.option_name.startswith("--") or error.ctx is None:
                raise  # click has looked for a similar one itself
            known = {name for each in error.ctx.command.params for name in each.opts}
            message = _unknown_with_one_dash(error.option_name, ctx.meta[GIVEN], known)
            raise _with_code(error, click.UsageError(message, error.ctx)) from None

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


def _with_code(error: click.UsageError, worded: click.UsageError) -> click.UsageError:
    """In other words, with the exit code that the command gave it."""
    worded.exit_code = error.exit_code  # type: ignore[misc]  # which click declares for the class
    return worded


def _unknown_with_one_dash(letter: str, given: Iterable[str], known: Collection[str]) -> str:
    """What to write in place of an argument that click took for one-letter options: its error has only the letter."""
    names = (each.partition("=")[0] for each in given)
    name = next((each for each in names if each.startswith(letter) and each not in known), letter)
    if f"-{name}" in known and len(name) > len(letter):
        return f"No such option {name}: write -{name}."
    near = difflib.get_close_matches(name, known, n=1) if len(name) > len(letter) else ()
    return f"No such option {name}: did you mean {near[0]}?" if near else f"No such option {name}."


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trimtab", prog_name="trimtab")
def main() -> None:
    """Trimtab, a load-aware scheduler for Kubernetes."""
