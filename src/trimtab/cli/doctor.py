"""`trimtab doctor`: says what is wrong with a cluster and a configuration; the checks are in `apps`, the words drawn here."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trimtab.cli.labeller import RULES, SECONDS, GoStyleFlags, labeller_config, load_or_exit

if TYPE_CHECKING:
    from trimtab.apps.doctor.finding import Finding
    from trimtab.config.configuration import Configuration

CANNOT_RUN = 2
LABELLER_FLAGS = ("rules", "seconds", "apply", "lease_namespace")  # flags of the labeller alone
WIDTH = 118
SEVERITY_TEXT = {"problem": "PROBLEM", "warning": "warning", "ok": "ok"}


@click.command("doctor", cls=GoStyleFlags)
@click.option("--config", "file", type=click.Path(), help="As for `trimtab run`; without it what holds without a file.")
@click.option("-kubeconfig", "--kubeconfig", default="", help="Goes before the one that the configuration names.")
@click.option("--labeller", is_flag=True, help="Look at what `trimtab labeller --config` needs, not at `trimtab run`.")
@click.option(
    "-prom", "--prom", "url", default="", help="Look at `trimtab labeller -prom URL -r FILE`, without --config."
)
@click.option(
    "-r", "--rules", "rules", default=RULES, show_default=True, help="Its rules, in dynamic-Scheduler's form."
)
@click.option("-s", "--seconds", default=SECONDS, show_default=True, type=click.IntRange(1, 250), help="As there.")
@click.option("--apply", is_flag=True, help="With -prom: also the rights to write marks, and each mark as a dry run.")
@click.option(
    "--lease-namespace", default="trimtab", show_default=True, help="The labeller's: where its replicas agree."
)
@click.option(
    "--as",
    "account",
    default="",
    metavar="USER",
    help="Whose rights to look at, as system:serviceaccount:trimtab:trimtab; else those of the kubeconfig.",
)
@click.option("--json", "as_json", is_flag=True, help="For scripts; with every node that a finding concerns.")
@click.option("--strict", is_flag=True, help="Warnings count as problems.")
@click.pass_context
def command(
    context: click.Context,
    file: str | None,
    kubeconfig: str,
    labeller: bool,
    url: str,
    rules: str,
    seconds: int,
    apply: bool,
    lease_namespace: str,
    account: str,
    as_json: bool,
    strict: bool,
) -> None:
    """Find out why measured load is not what it should be: cluster, rights, sources, nodes, pods, rules. Changes nothing.

    Exit code: 0 well, 1 problems, 2 cannot look (a configuration or kubeconfig that cannot be used).
    """
    from trimtab.apps.doctor.finding import Severity, count_by_severity

    if labeller and not file and not url:
        raise click.UsageError(
            "--labeller needs --config FILE, a TrimtabConfiguration with sources and labels, or -prom URL"
        )
    named = [flag for flag in LABELLER_FLAGS if context.get_parameter_source(flag) is not ParameterSource.DEFAULT]
    if labeller or url or (named and not file):
        configuration = load_or_exit(labeller_config(file, url, rules, seconds, apply, lease_namespace))
    elif named:
        raise click.UsageError(
            "-r, -s, --apply and --lease-namespace are the labeller's: add --labeller, or leave them out"
        )
    else:
        configuration = _configuration(file)
    findings = _run_checks(configuration, kubeconfig, account)
    counts = count_by_severity(findings)
    click.echo(_as_json(findings) if as_json else "\n".join(_render(findings)))
    ill = counts[Severity.PROBLEM] + (counts[Severity.WARNING] if strict else 0)
    sys.exit(1 if ill else 0)


def _configuration(file: str | None) -> Configuration:
    from trimtab.cli.config import load
    from trimtab.config.kube_scheduler import default_configuration

    return load(file) if file else default_configuration()


def _run_checks(configuration: Configuration, kubeconfig: str, account: str) -> tuple[Finding, ...]:
    from trimtab.apps.doctor.run_checks import DoctorRun, run
    from trimtab.config.diagnostics import printable
    from trimtab.kube.credentials import CredentialsError, find_credentials

    try:
        credentials = find_credentials(kubeconfig or configuration.client_connection.kubeconfig)
    except CredentialsError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        sys.exit(CANNOT_RUN)
    return run(DoctorRun(configuration, account, _progress), credentials)


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{words} …", err=True)


def _as_json(findings: Sequence[Finding]) -> str:
    import msgspec

    from trimtab.apps.doctor.finding import count_by_severity

    told = {"counts": count_by_severity(findings), "findings": [msgspec.to_builtins(each) for each in findings]}
    return json.dumps(told, indent=2)


def _render(findings: Sequence[Finding]) -> Iterator[str]:
    from trimtab.apps.doctor.finding import Severity, count_by_severity
    from trimtab.config.diagnostics import printable

    for each in findings:
        head = f"{SEVERITY_TEXT[each.severity]:<8} {each.area:<13} "
        text = printable(f"{each.subject}: {each.says}")
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        if each.remedy:
            arrow = " " * len(head) + "→ "
            yield from textwrap.wrap(
                printable(each.remedy), WIDTH, initial_indent=arrow, subsequent_indent=" " * len(arrow)
            )
    counts = count_by_severity(findings)
    bad, odd = counts[Severity.PROBLEM], counts[Severity.WARNING]
    yield f"{_plural(bad, 'problem')}, {_plural(odd, 'warning')}, {counts[Severity.OK]} well"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
