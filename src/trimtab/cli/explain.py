"""`trimtab explain pod/NAME` and `node/NAME`: asks the live process, and renders its answer."""

from __future__ import annotations

import json
import sys
import urllib.parse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TypedDict, Unpack

import click

from trimtab.cli.page_client import UNEXPECTED, Caller, Json, Problem, fetch
from trimtab.config.diagnostics import printable
from trimtab.serve.address import DEFAULT_ADDRESS

GIB = 1 << 30


class CallerFlags(TypedDict):
    """The flags that say who asks."""

    token: str
    token_file: str
    kubeconfig: str
    authority: str
    insecure: bool


@click.command("explain")
@click.argument("what", metavar="pod/NAME|node/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Also explain this node; may be repeated.")
@click.option(
    "--address",
    "--server",
    "address",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="The live process: HOST:PORT of its --serve, or https://HOST:PORT of its secure port.",
)
@click.option("--token", default="", help="With https: a bearer token; default: what the kubeconfig has.")
@click.option("--token-file", default="", help="With https: a file with a bearer token.")
@click.option("--kubeconfig", default="", help="With https: whose token or client certificate is used.")
@click.option("--certificate-authority", "authority", default="", help="With https: the CA of its certificate.")
@click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="With https: accept any certificate.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    what: str, namespace: str, nodes: tuple[str, ...], address: str, as_json: bool, **caller: Unpack[CallerFlags]
) -> None:
    """Explain from the live process why a pod is on its node, why not on another, or why it is pending."""
    kind, _, name = what.partition("/")
    if kind not in ("pod", "node") or not name:
        raise click.BadParameter(f"{what!r} is neither pod/NAME nor node/NAME", param_hint="WHAT")
    if kind == "node" and nodes:
        raise click.UsageError("--node is for pods: use it with pod/NAME")
    answer = _fetch(address, f"{_path(kind, namespace, name)}?{_query(nodes)}", Caller(**caller))
    click.echo(json.dumps(answer, indent=2) if as_json else render(kind, answer, nodes))


def _fetch(address: str, target: str, caller: Caller) -> Json:
    """The answer; exits with 1 and a sentence if there is none."""
    try:
        answer = fetch(address, target, caller)
        problem = answer.get("problem")
    except Problem as error:
        answer, problem = {}, str(error)
    if problem:
        click.echo(printable(f"trimtab: {problem}."), err=True)
        sys.exit(1)
    return answer


def render(kind: str, answer: Json, nodes: tuple[str, ...]) -> str:
    """The answer as text; exits with 1 if it is not understood."""
    try:
        lines = [*(_pod(answer, nodes) if kind == "pod" else _node(answer))]
        return "\n".join(map(printable, [*filter(None, [answer.get("standby")]), *lines]))
    except (KeyError, TypeError, AttributeError, ValueError):
        click.echo(f"trimtab: unexpected answer: {UNEXPECTED}.", err=True)
        sys.exit(1)


def _query(nodes: tuple[str, ...]) -> str:
    return urllib.parse.urlencode([("node", node) for node in nodes])


def _path(kind: str, namespace: str, name: str) -> str:
    parts = [*([namespace] if kind == "pod" else []), name]
    return "/".join(["/explain", kind, *(urllib.parse.quote(part, safe="") for part in parts)])


def _pod(answer: Json, nodes: tuple[str, ...]) -> Iterator[str]:
    yield f"pod {answer['pod']} {answer['state']}"
    yield f"if it were scheduled now ({answer['scheduler']}): {answer['verdict']}"
    yield from _past_decisions(answer["past"])
    feasible = [line for line in answer["lines"] if not line.get("refused_by")]
    yield from _table(feasible)
    yield from _rejections([line for line in answer["lines"] if line.get("refused_by")])
    known = {line["node"] for line in answer["lines"]}  # includes the nodes named by --node
    yield from (f"  not {name}: node not found" for name in nodes if known and name not in known)
    if (hidden := answer["nodes"] - len(answer["lines"])) > 0:
        yield f"{hidden} more nodes: select one with --node"


def _node(answer: Json) -> Iterator[str]:
    yield f"node {answer['node']}: {answer['state']}, {len(answer['pods'])} pods"
    for use in answer["uses"]:
        yield f"  {_use(use)}"
    yield from _past_decisions(answer["past"])
    for here in answer["waiting"]:
        line = here["line"]
        verdict = ", ".join(line["reasons"]) if line.get("refused_by") else f"feasible, score {line['total']:g}"
        by = f"{line['refused_by']}: " if line.get("refused_by") else ""
        yield f"  pending pod {here['pod']}: {by}{verdict}"


def _use(use: Json) -> str:
    def amount(value: float | None) -> str:
        if value is None:
            return "unknown"
        return f"{value / 1000:.2f} CPU" if use["resource"] == "cpu" else f"{value / GIB:.2f} GiB"

    trust = {1.0: "fresh", 0.5: "ageing"}.get(use["trust"], "not trusted")
    return (
        f"{use['resource']}: {amount(use['allocatable'])} allocatable, {amount(use['requested'])} requested, "
        f"{amount(use['latest'])} measured ({trust}), {amount(use['expected'])} expected"
    )


def _past_decisions(past: list[Json]) -> Iterator[str]:
    for each in past:
        at = datetime.fromtimestamp(each["at"], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        node = f" → {each['node']}" if each["node"] else ""
        yield f"  decided {at} (attempt {each['attempt']}){node}: {each['words']}"


def _table(lines: list[Json]) -> Iterator[str]:
    plugins = [*dict.fromkeys(plugin for line in lines for plugin in line.get("scores", {}))]
    rows = [["node", "total", *plugins]]
    rows += [
        [line["node"], f"{line['total']:g}", *(f"{line['scores'].get(p, 0):g}" for p in plugins)] for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows if lines else ():
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _rejections(lines: list[Json]) -> Iterator[str]:
    for line in lines:
        final = "" if line.get("final") else " (preemption could help)"
        yield f"  not {line['node']}: {line['refused_by']}: {', '.join(line['reasons'])}{final}"
