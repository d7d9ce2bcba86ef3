"""`trimtab doctor`: checks a cluster and a configuration, and prints problems with remedies."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

from trimtab.cli.dynamic_scheduler_flags import FIRST_VERSION_FLAGS, THRESHOLDS
from trimtab.cli.flags import add_flags
from trimtab.cli.labeller import RULES, SECONDS, GoStyleFlags, labeller_config
from trimtab.cli.page_client import Caller, PageError, fetch
from trimtab.cli.process_flags import process_options
from trimtab.cli.run import config_file_for, controllers_option, default_for

if TYPE_CHECKING:
    from trimtab.apps.doctor.finding import Finding
    from trimtab.config.configuration import Configuration
    from trimtab.kube.credentials import Credentials

CANNOT_RUN = 2
LABELLER_FLAGS = ("rules", "seconds", "apply", "lease_namespace", *THRESHOLDS, "promjob")
WIDTH = 118
SEVERITY_TEXT = {"problem": "PROBLEM", "warning": "warning", "ok": "ok"}


@click.command("doctor", cls=GoStyleFlags)
@click.option("--config", "file", type=click.Path(), help="The file of `trimtab run`; default: its defaults.")
@controllers_option
@click.option("-kubeconfig", "--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option("--labeller", is_flag=True, help="Check what `trimtab labeller --config` needs, not `trimtab run`.")
@click.option(
    "-prom", "--prom", "url", default="", help="Check `trimtab labeller -prom URL -r FILE`, without --config."
)
@click.option(
    "-r",
    "--rules",
    "rules",
    default="",
    help=f"With -prom: the rules, in dynamic-Scheduler's format; default {RULES}.",
)
@click.option(
    "-s",
    "--seconds",
    default=SECONDS,
    show_default=True,
    type=click.IntRange(1, 250),
    help="With -prom: polling interval.",
)
@click.option(
    "--apply", is_flag=True, help="With -prom: also check the right to patch nodes, by dry runs of each label."
)
@click.option("--lease-namespace", default="trimtab", show_default=True, help="Namespace of the labeller's lease.")
@click.option(
    "--as",
    "account",
    default="",
    metavar="USER",
    help="Check the permissions of this user, for example system:serviceaccount:trimtab:trimtab; "
    "default: the kubeconfig's.",
)
@add_flags(FIRST_VERSION_FLAGS)
@click.option(
    "--compare", is_flag=True, help="Only compare what the live process at --address knows with the API server."
)
@process_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all nodes that a finding concerns.")
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings, too.")
@click.pass_context
def command(
    context: click.Context,
    /,
    file: str | None,
    controllers: tuple[str, ...],
    kubeconfig: str,
    labeller: bool,
    url: str,
    rules: str,
    seconds: int,
    apply: bool,
    lease_namespace: str,
    account: str,
    compare: bool,
    address: str,
    token: str,
    token_file: str,
    authority: str,
    insecure: bool,
    as_json: bool,
    strict: bool,
    **thresholds: Any,
) -> None:
    """Check cluster, permissions, sources, nodes, pods and label rules. Changes nothing.

    Exit code: 0 no problems, 1 problems, 2 invalid configuration or kubeconfig.
    """
    from trimtab.apps.doctor.finding import Severity, count_by_severity
    from trimtab.cli.config import load_or_exit

    if labeller and not file and not url:
        raise click.UsageError(
            "--labeller needs --config FILE, a TrimtabConfiguration with sources and labels, or -prom URL"
        )
    named = [flag for flag in LABELLER_FLAGS if context.get_parameter_source(flag) is not ParameterSource.DEFAULT]
    if labeller or url or (named and not file):
        configuration = load_or_exit(labeller_config(file, url, rules, seconds, apply, lease_namespace, thresholds))
    elif named:
        raise click.UsageError(
            "-r, -s, --apply, --lease-namespace, -cpu, -mem, -cmem and -promjob are flags of the labeller: "
            "add --labeller, or remove them"
        )
    else:
        configuration = load_or_exit(config_file_for(controllers, file)) if file else default_for(controllers)
    if compare:
        findings = _compare(configuration, address, Caller(token, token_file, kubeconfig, authority, insecure))
    else:
        findings = _run_checks(configuration, kubeconfig, account)
    counts = count_by_severity(findings)
    click.echo(_as_json(findings) if as_json else "\n".join(_render(findings)))
    failures = counts[Severity.PROBLEM] + (counts[Severity.WARNING] if strict else 0)
    sys.exit(1 if failures else 0)


def _run_checks(configuration: Configuration, kubeconfig: str, account: str) -> tuple[Finding, ...]:
    from trimtab.apps.doctor.run_checks import DoctorRun, run

    return run(DoctorRun(configuration, account, _progress), _credentials(configuration, kubeconfig))


def _compare(configuration: Configuration, address: str, caller: Caller) -> tuple[Finding, ...]:
    from trimtab.apps.doctor.cache_checks import UnexpectedAnswer, compare_cache
    from trimtab.apps.doctor.run_checks import run_on_server

    try:
        return run_on_server(
            lambda server: compare_cache(server, lambda: fetch(address, "/debug/cache", caller)),
            _credentials(configuration, caller.kubeconfig),
        )
    except (PageError, UnexpectedAnswer) as error:
        _exit(str(error))


def _credentials(configuration: Configuration, kubeconfig: str) -> Credentials:
    from trimtab.kube.credentials import CredentialsError, find_credentials

    try:
        return find_credentials(kubeconfig or configuration.client_connection.kubeconfig)
    except CredentialsError as error:
        _exit(str(error))


def _exit(problem: str) -> NoReturn:
    from trimtab.config.diagnostics import printable

    click.echo(printable(f"trimtab: {problem}."), err=True)
    sys.exit(CANNOT_RUN)


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{message} …", err=True)


def _as_json(findings: Sequence[Finding]) -> str:
    import msgspec

    from trimtab.apps.doctor.finding import count_by_severity

    document = {"counts": count_by_severity(findings), "findings": [msgspec.to_builtins(each) for each in findings]}
    return json.dumps(document, indent=2)


def _render(findings: Sequence[Finding]) -> Iterator[str]:
    from trimtab.apps.doctor.finding import Severity, count_by_severity
    from trimtab.config.diagnostics import printable

    for each in findings:
        head = f"{SEVERITY_TEXT[each.severity]:<8} {each.area:<13} "
        text = printable(f"{each.subject}: {each.message}")
        yield from textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        if each.remedy:
            arrow = " " * len(head) + "→ "
            yield from textwrap.wrap(
                printable(each.remedy), WIDTH, initial_indent=arrow, subsequent_indent=" " * len(arrow)
            )
    counts = count_by_severity(findings)
    problems, warnings = counts[Severity.PROBLEM], counts[Severity.WARNING]
    yield f"{_plural(problems, 'problem')}, {_plural(warnings, 'warning')}, {counts[Severity.OK]} ok"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
