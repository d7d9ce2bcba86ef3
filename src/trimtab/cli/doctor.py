"""`trimtab doctor`: says what is wrong with a cluster and a configuration; the checks are in `apps`, the words drawn here."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trimtab.apps.doctor.finding import Finding
    from trimtab.config.configuration import Configuration

CANNOT_RUN = 2
WIDTH = 118
MARKS = {"problem": "PROBLEM", "warning": "warning", "ok": "ok"}


@click.command("doctor")
@click.option("--config", "file", type=click.Path(), help="As for `trimtab run`; without it what holds without a file.")
@click.option("--kubeconfig", default="", help="Goes before the one that the configuration names.")
@click.option("--labeller", is_flag=True, help="Look at what `trimtab labeller --config` needs, not at `trimtab run`.")
@click.option(
    "--as",
    "account",
    default="",
    metavar="USER",
    help="Whose rights to look at, as system:serviceaccount:trimtab:trimtab; else those of the kubeconfig.",
)
@click.option("--json", "as_json", is_flag=True, help="For scripts; with every node that a finding concerns.")
@click.option("--strict", is_flag=True, help="Warnings count as problems.")
def command(file: str | None, kubeconfig: str, labeller: bool, account: str, as_json: bool, strict: bool) -> None:
    """Find out why measured load is not what it should be: cluster, rights, sources, nodes. Changes nothing.

    Exit code: 0 well, 1 problems, 2 cannot look (a configuration or kubeconfig that cannot be used).
    """
    from trimtab.apps.doctor.finding import Severity, counted

    findings = _examined(_configuration(file, labeller), kubeconfig, account)
    counts = counted(findings)
    click.echo(_as_json(findings) if as_json else "\n".join(_drawn(findings)))
    ill = counts[Severity.PROBLEM] + (counts[Severity.WARNING] if strict else 0)
    sys.exit(1 if ill else 0)


def _configuration(file: str | None, labeller: bool) -> Configuration:
    from trimtab.apps.doctor.configured import as_labeller
    from trimtab.cli.config import load
    from trimtab.config.problem import ConfigError
    from trimtab.config.scheduler import default_configuration

    if labeller and not file:
        raise click.UsageError("--labeller needs --config FILE, a TrimtabConfiguration with sources and labels")
    configuration = load(file) if file else default_configuration()
    if not labeller or not file:
        return configuration
    found = as_labeller(configuration, file)
    if isinstance(found, ConfigError):
        click.echo(str(found), err=True)
        sys.exit(CANNOT_RUN)
    return found


def _examined(configuration: Configuration, kubeconfig: str, account: str) -> tuple[Finding, ...]:
    from trimtab.apps.doctor.examination import Case, run
    from trimtab.config.problem import printable
    from trimtab.kube.credentials import CredentialsError, find

    try:
        credentials = find(kubeconfig or configuration.connection.kubeconfig)
    except CredentialsError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        sys.exit(CANNOT_RUN)
    return run(Case(configuration, account, _progress), credentials)


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{words} …", err=True)


def _as_json(findings: Sequence[Finding]) -> str:
    import msgspec

    from trimtab.apps.doctor.finding import counted

    told = {"counts": counted(findings), "findings": [msgspec.to_builtins(each) for each in findings]}
    return json.dumps(told, indent=2)


def _drawn(findings: Sequence[Finding]) -> Iterator[str]:
    from trimtab.apps.doctor.finding import Severity, counted
    from trimtab.config.problem import printable

    for each in findings:
        head = f"{MARKS[each.severity]:<8} {each.area:<13} "
        text = printable(f"{each.subject}: {each.says}")
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        if each.remedy:
            arrow = " " * len(head) + "→ "
            yield from textwrap.wrap(
                printable(each.remedy), WIDTH, initial_indent=arrow, subsequent_indent=" " * len(arrow)
            )
    counts = counted(findings)
    bad, odd = counts[Severity.PROBLEM], counts[Severity.WARNING]
    yield f"{_many(bad, 'problem')}, {_many(odd, 'warning')}, {counts[Severity.OK]} well"


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
