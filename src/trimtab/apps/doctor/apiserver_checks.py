"""Checks that the API server is reachable, accepts our credentials and has a correct clock; lists nodes and pods."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

from msgspec import Struct

from trimtab.apps.doctor.finding import Area, Finding, ok, problem, shorten, warning
from trimtab.config.registry import NODE_ANNOTATIONS
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.decoding import Malformed, decode_part, read_status
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import NODES, PODS, Request, list_request
from trimtab.wire.watch import Reader, decode_list

T = TypeVar("T", Node, Pod)
TIMEOUT = 10.0
PAGE_SIZE = 500
MAX_PAGE_BYTES = 256 << 20
SKEW_WARNING, SKEW_PROBLEM = 5.0, 60.0  # seconds; beyond the second, samples are rejected as being in the future
ADDRESS_REMEDY = "check its address, and whether it runs"


class ApiServer(NamedTuple):
    """The API server and its URL."""

    transport: Transport
    url: str


class Reachability(NamedTuple):
    """Whether it can be used, and what was found."""

    findings: tuple[Finding, ...]
    ok: bool


class NodeListing(NamedTuple):
    """All nodes, or None if they cannot be listed, and why."""

    nodes: tuple[Node, ...] | None
    findings: tuple[Finding, ...] = ()


class _Version(Struct, frozen=True, rename={"git": "gitVersion"}):
    git: str = ""


async def check_apiserver(server: ApiServer, now: Callable[[], float]) -> Reachability:
    """Its version and its clock."""
    began = now()
    try:
        answer = await server.transport.send(Request("GET", "/version"), TIMEOUT)
    except Unreachable as error:
        return Reachability(
            (problem(Area.SERVER, server.url, f"cannot be reached: {error}", ADDRESS_REMEDY),), ok=False
        )
    if answer.status == 401:
        message = read_status(answer.body).message
        remedy = "renew the token or certificate of the kubeconfig"
        return Reachability(
            (problem(Area.SERVER, server.url, f"rejects our credentials: {message}", remedy),), ok=False
        )
    version = decode_part(answer.body, _Version, "", [])
    if answer.status != 200 or version is None or not version.git:
        return Reachability((_unexpected_response(server, answer),), ok=False)
    return Reachability(
        (ok(Area.SERVER, server.url, f"answers, {version.git}"), *_clock_skew(answer, began, now())), ok=True
    )


def _unexpected_response(server: ApiServer, answer: Response) -> Finding:
    message = read_status(answer.body).message[:100]
    return problem(
        Area.SERVER,
        server.url,
        f"does not answer like an API server: status {answer.status}, {message!r}",
        ADDRESS_REMEDY,
    )


def _clock_skew(answer: Response, began: float, ended: float) -> tuple[Finding, ...]:
    """The difference of its clock and ours, beyond the latency and the full seconds of the Date header."""
    stamp = next((value for name, value in answer.headers.items() if name.lower() == "date"), "")
    try:
        theirs = parsedate_to_datetime(stamp).timestamp()
    except ValueError:
        return ()
    ahead = max(theirs - ended, 0.0) - max(began - 1.0 - theirs, 0.0)
    if abs(ahead) <= SKEW_WARNING:
        return ()
    message = f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"
    finding = problem if abs(ahead) > SKEW_PROBLEM else warning
    return (finding(Area.SERVER, "clock", message, "synchronise both clocks by NTP: samples are judged by their age"),)


async def list_nodes(server: ApiServer) -> NodeListing:
    """All nodes; those that cannot be decoded are reported and left out."""
    found = await _list_all(server, NODES, NodeReader(NODE_ANNOTATIONS))
    if isinstance(found, str):
        remedy = "allow listing nodes, to find those without samples"
        return NodeListing(None, (problem(Area.NODES, "all", found, remedy),))
    return _node_findings(found)


async def list_running_pods(server: ApiServer) -> tuple[Pod, ...] | str:
    """All running pods, or why they cannot be listed; those that cannot be decoded are left out."""
    found = await _list_all(server, PODS, PodReader(), "status.phase=Running")
    return found if isinstance(found, str) else tuple(each for each in found if isinstance(each, Pod))


async def _list_all(server: ApiServer, path: str, reader: Reader[T], fields: str = "") -> list[T | Malformed] | str:
    found: list[T | Malformed] = []
    more = ""
    while True:
        request = list_request(path, limit=PAGE_SIZE, continue_token=more, fields=fields)
        try:
            answer = await server.transport.send(request, 3 * TIMEOUT, MAX_PAGE_BYTES)
        except Unreachable as error:
            return f"cannot be listed: {error}"
        page = decode_list(answer.body, reader) if answer.status == 200 else None
        if page is None or isinstance(page, Malformed):
            return f"cannot be listed: {answer.status} {read_status(answer.body).message}"
        found += page.items
        if not (more := page.continue_token):
            return found


def _node_findings(found: list[Node | Malformed]) -> NodeListing:
    nodes = tuple(each for each in found if isinstance(each, Node))
    undecodable = [f"{each.key} ({each.error})" for each in found if isinstance(each, Malformed)]
    if not found:
        return NodeListing(
            nodes, (warning(Area.NODES, "all", "there are none", "add nodes, or check that it is the right cluster"),)
        )
    if not undecodable:
        return NodeListing(nodes)
    message = f"{len(undecodable)} cannot be decoded and get no pods: {shorten(undecodable)}"
    return NodeListing(nodes, (warning(Area.NODES, "all", message, "correct the field"),))
