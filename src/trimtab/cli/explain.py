"""`trimtab explain pod/NAME` and `node/NAME`: asks the live process, and renders its answer."""

from __future__ import annotations

import json
import sys
import urllib.parse
from typing import Unpack

import click

from trimtab.cli.explain_text import ShowTime, node_lines, pod_lines, utc_time
from trimtab.cli.page_client import UNEXPECTED, BadInput, Caller, Json, PageError, fetch
from trimtab.cli.process_flags import CallerFlags, process_options
from trimtab.config.diagnostics import printable


@click.command("explain")
@click.argument("what", metavar="pod/NAME|node/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Also explain this node; may be repeated.")
@process_options
@click.option("--kubeconfig", default="", help="With https: whose token or client certificate is used.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="text unless set.")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
def command(
    what: str,
    namespace: str,
    nodes: tuple[str, ...],
    address: str,
    output: str,
    as_json: bool,
    kubeconfig: str,
    **caller: Unpack[CallerFlags],
) -> None:
    """Explain from the live process why a pod is on its node, why not on another, or why it is pending.

    For a node: its resources and pods, and, with a rescheduler, why pods should leave it or stay.
    """
    kind, _, name = what.partition("/")
    if kind not in ("pod", "node") or not name:
        raise click.BadParameter(f"{what!r} is neither pod/NAME nor node/NAME", param_hint="WHAT")
    if kind == "node" and nodes:
        raise click.UsageError("--node is for pods: use it with pod/NAME")
    answer = _fetch(address, f"{_path(kind, namespace, name)}?{_query(nodes)}", Caller(kubeconfig=kubeconfig, **caller))
    click.echo(json.dumps(answer, indent=2) if as_json or output == "json" else render(kind, answer, nodes))


def _fetch(address: str, target: str, caller: Caller) -> Json:
    """The answer; exits with a sentence if there is none, and with 2 instead of 1 if that is because of a flag."""
    code = 1
    try:
        answer = fetch(address, target, caller)
        problem = answer.get("problem")
    except PageError as error:
        answer, problem, code = {}, str(error), 2 if isinstance(error, BadInput) else 1
    if problem:
        click.echo(printable(f"trimtab: {problem}."), err=True)
        sys.exit(code)
    return answer


def render(kind: str, answer: Json, nodes: tuple[str, ...], show: ShowTime = utc_time) -> str:
    """The answer as text; exits with 1 if it is not understood."""
    try:
        lines = [*(pod_lines(answer, nodes, show) if kind == "pod" else node_lines(answer, show))]
        return "\n".join(map(printable, [*filter(None, [answer.get("standby")]), *lines]))
    except (KeyError, TypeError, AttributeError, ValueError):
        click.echo(f"trimtab: unexpected answer: {UNEXPECTED}.", err=True)
        sys.exit(1)


def _query(nodes: tuple[str, ...]) -> str:
    return urllib.parse.urlencode([("node", node) for node in nodes])


def _path(kind: str, namespace: str, name: str) -> str:
    parts = [*([namespace] if kind == "pod" else []), name]
    return "/".join(["/explain", kind, *(urllib.parse.quote(part, safe="") for part in parts)])
