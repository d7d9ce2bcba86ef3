"""Decides whether the API server can be worked with: reached, known to us, its clock near ours, its nodes and pods readable.

Who asks for rights, and what sources say of nodes, is left to others.
"""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar

from msgspec import Struct

from trimtab.apps.doctor.finding import Area, Finding, problem, some, warning, well
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.kube.transport import Response, Transport, Unreachable
from trimtab.wire.fault import Malformed, read_part
from trimtab.wire.node import NodeReader
from trimtab.wire.pod import PodReader
from trimtab.wire.request import NODES, PODS, Request, list_request
from trimtab.wire.status import read_status
from trimtab.wire.watch import Reader, read_list

T = TypeVar("T", Node, Pod)
PATIENCE = 10.0
PAGE = 500
LARGEST_PAGE = 256 << 20
NEAR, FAR = 5.0, 60.0  # seconds: from the second on samples are refused as of the future
ADDRESS = "check the address, and that it runs"


class Named(NamedTuple):
    """The API server in words, and how to speak to it."""

    transport: Transport
    place: str


class Reached(NamedTuple):
    """What came of knocking; None for nodes where they cannot be listed."""

    findings: tuple[Finding, ...]
    well: bool


class Nodes(NamedTuple):
    """All nodes, or None and why they cannot be known."""

    nodes: tuple[Node, ...] | None
    findings: tuple[Finding, ...] = ()


class _Version(Struct, frozen=True, rename={"git": "gitVersion"}):
    git: str = ""


async def knock(server: Named, now: Callable[[], float]) -> Reached:
    """Its version and its clock; what is wrong is said, and whether anything else is worth asking."""
    began = now()
    try:
        answer = await server.transport.send(Request("GET", "/version"), PATIENCE)
    except Unreachable as error:
        return Reached((problem(Area.SERVER, server.place, f"cannot be reached: {error}", ADDRESS),), well=False)
    if answer.status == 401:
        said = read_status(answer.body).message
        remedy = "renew the token or certificate of the kubeconfig"
        return Reached((problem(Area.SERVER, server.place, f"does not know us: {said}", remedy),), well=False)
    version = read_part(answer.body, _Version, "", [])
    if answer.status != 200 or version is None or not version.git:
        return Reached((_stranger(server, answer),), well=False)
    return Reached(
        (well(Area.SERVER, server.place, f"answers, {version.git}"), *_clock(answer, began, now())), well=True
    )


def _stranger(server: Named, answer: Response) -> Finding:
    said = read_status(answer.body).message[:100]
    return problem(Area.SERVER, server.place, f"does not answer like one: status {answer.status}, {said!r}", ADDRESS)


def _clock(answer: Response, began: float, ended: float) -> tuple[Finding, ...]:
    """How far its clock is from ours, beyond what the way there and the full seconds of the header explain."""
    stamp = next((value for name, value in answer.headers.items() if name.lower() == "date"), "")
    try:
        theirs = parsedate_to_datetime(stamp).timestamp()
    except ValueError:
        return ()
    ahead = max(theirs - ended, 0.0) - max(began - 1.0 - theirs, 0.0)
    if abs(ahead) <= NEAR:
        return ()
    says = f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} ours"
    told = problem if abs(ahead) > FAR else warning
    return (told(Area.SERVER, "clock", says, "let NTP set both clocks: samples are judged by their age"),)


async def listed(server: Named) -> Nodes:
    """All nodes, page by page; those that cannot be read are told and left out."""
    found = await _paged(server, NODES, NodeReader())
    if isinstance(found, str):
        remedy = "allow to list nodes: without them nobody can tell whose measurements are missing"
        return Nodes(None, (problem(Area.NODES, "all", found, remedy),))
    return _told(found)


async def running(server: Named) -> tuple[Pod, ...] | str:
    """All pods that run, or why they cannot be known; those that cannot be read are left out."""
    found = await _paged(server, PODS, PodReader(), "status.phase=Running")
    return found if isinstance(found, str) else tuple(each for each in found if isinstance(each, Pod))


async def _paged(server: Named, path: str, reader: Reader[T], fields: str = "") -> list[T | Malformed] | str:
    found: list[T | Malformed] = []
    more = ""
    while True:
        request = list_request(path, limit=PAGE, continue_token=more, fields=fields)
        try:
            answer = await server.transport.send(request, 3 * PATIENCE, LARGEST_PAGE)
        except Unreachable as error:
            return f"cannot be listed: {error}"
        page = read_list(answer.body, reader) if answer.status == 200 else None
        if page is None or isinstance(page, Malformed):
            return f"cannot be listed: {answer.status} {read_status(answer.body).message}"
        found += page.items
        if not (more := page.continue_token):
            return found


def _told(found: list[Node | Malformed]) -> Nodes:
    nodes = tuple(each for each in found if isinstance(each, Node))
    unread = [f"{each.key} ({each.problem})" for each in found if isinstance(each, Malformed)]
    if not found:
        return Nodes(nodes, (warning(Area.NODES, "all", "there are none", "add nodes, or check which cluster it is"),))
    if not unread:
        return Nodes(nodes)
    says = f"{len(unread)} cannot be read and take no pods: {some(unread)}"
    return Nodes(nodes, (warning(Area.NODES, "all", says, "correct the field that is named"),))
