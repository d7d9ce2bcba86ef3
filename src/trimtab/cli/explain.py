"""`trimtab explain pod/NAME` and `node/NAME`: asks the live process why, and draws its answer; reasons are the core's."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import click

from trimtab.config.diagnostics import printable
from trimtab.serve.address import DEFAULT_ADDRESS

TIMEOUT = 10.0
OK = 200
GIB = 1 << 30
UNEXPECTED = "it may be another program, or another version"

Json = dict[str, Any]


@click.command("explain")
@click.argument("what", metavar="pod/NAME|node/NAME")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Why not this node? May be given more than once.")
@click.option(
    "--address",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Where the live process serves (`trimtab run --serve`).",
)
@click.option("--json", "as_json", is_flag=True, help="The answer as it came.")
def command(what: str, namespace: str, nodes: tuple[str, ...], address: str, as_json: bool) -> None:
    """Why this node, why not that one, why nothing happened: from the live process."""
    kind, _, name = what.partition("/")
    if kind not in ("pod", "node") or not name:
        raise click.BadParameter(f"{what!r} is neither pod/NAME nor node/NAME", param_hint="WHAT")
    if kind == "node" and nodes:
        raise click.UsageError("--node asks why a pod is not there: use it with pod/NAME")
    told = fetch(address.removeprefix("http://").rstrip("/"), _path(kind, namespace, name), nodes)
    if "problem" in told:
        click.echo(printable(f"trimtab: {told['problem']}."), err=True)
        sys.exit(1)
    click.echo(json.dumps(told, indent=2) if as_json else render(kind, told, nodes))


def render(kind: str, told: Json, nodes: tuple[str, ...]) -> str:
    """The answer for people; ends the process with 1 where it is not one of ours."""
    try:
        lines = [*(_pod(told, nodes) if kind == "pod" else _node(told))]
        return "\n".join(map(printable, [*filter(None, [told.get("standby")]), *lines]))
    except (KeyError, TypeError, AttributeError, ValueError):
        click.echo(f"trimtab: the process there does not answer as expected: {UNEXPECTED}.", err=True)
        sys.exit(1)


def _path(kind: str, namespace: str, name: str) -> str:
    parts = [*([namespace] if kind == "pod" else []), name]
    return "/".join(["/explain", kind, *(urllib.parse.quote(part, safe="") for part in parts)])


def fetch(address: str, path: str, nodes: tuple[str, ...]) -> Json:
    """The process' answer, or a `problem` in words."""
    query = urllib.parse.urlencode([("node", node) for node in nodes])
    try:
        # Not by urllib: a proxy of the environment would look for the process on a machine of its own.
        with closing(http.client.HTTPConnection(address, timeout=TIMEOUT)) as line:
            line.request("GET", f"{path}?{query}")
            answer = line.getresponse()
            status, content = answer.status, answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        remedy = "start `trimtab run` there, or say with --address where it serves"
        return {"problem": f"nobody answers at {address} ({reason}): {remedy}"}
    return _parse(status, content)


def _parse(status: int, content: bytes) -> Json:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    if isinstance(told, dict) and (status == OK or "problem" in told):
        return told
    return {"problem": f"the process there answers {status}, and nothing that can be read: {UNEXPECTED}"}


def _pod(told: Json, asked: tuple[str, ...]) -> Iterator[str]:
    yield f"pod {told['pod']} {told['state']}"
    yield f"if it were placed now ({told['scheduler']}): {told['verdict']}"
    yield from _past_decisions(told["past"])
    feasible = [line for line in told["lines"] if not line.get("refused_by")]
    yield from _table(feasible)
    yield from _rejections([line for line in told["lines"] if line.get("refused_by")])
    known = {line["node"] for line in told["lines"]}  # those that were asked about are always among them
    yield from (f"  not {name}: no such node is known here" for name in asked if known and name not in known)
    if (hidden := told["nodes"] - len(told["lines"])) > 0:
        yield f"{hidden} more nodes: name one with --node"


def _node(told: Json) -> Iterator[str]:
    yield f"node {told['node']}: {told['state']}, {len(told['pods'])} pods"
    for use in told["uses"]:
        yield f"  {_use(use)}"
    yield from _past_decisions(told["past"])
    for here in told["waiting"]:
        line = here["line"]
        verdict = ", ".join(line["reasons"]) if line.get("refused_by") else f"would do, score {line['total']:g}"
        by = f"{line['refused_by']}: " if line.get("refused_by") else ""
        yield f"  waiting pod {here['pod']}: {by}{verdict}"


def _use(use: Json) -> str:
    def amount(value: float | None) -> str:
        if value is None:
            return "not known"
        return f"{value / 1000:.2f} CPU" if use["resource"] == "cpu" else f"{value / GIB:.2f} GiB"

    trust = {1.0: "fresh", 0.5: "getting old"}.get(use["trust"], "not to be believed")
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
        final = "" if line.get("final") else " (an eviction there could help)"
        yield f"  not {line['node']}: {line['refused_by']}: {', '.join(line['reasons'])}{final}"
