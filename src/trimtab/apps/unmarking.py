"""Decides whether marks on nodes were left behind, by the labeller's lease, and takes them off; knows no rule and no load.

    marks? ──(none)──▶ done
       └──▶ lease: renewed within `after`? ──(yes)──▶ a labeller lives, or may come back: left alone
                │     └──(there is none)──▶ it may be elsewhere: left alone, unless `after` is 0
                └──(no)──▶ (apply) take the lease ──(another holds it)──▶ a labeller lives after all
                                  └──▶ list again, patch each node, three rounds ──▶ give the lease back

The time in the lease is that of another clock, so it only says that nothing is to be done. That nobody leads is proved by
taking the lease: whoever renews it keeps it, and while it is ours no labeller writes. Whoever left marks had a lease: where
there is none, we look in the wrong place, or somebody has cleared up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import NamedTuple

from trimtab.apps.doctor.server import Named, listed
from trimtab.config.configuration import LeaderElection
from trimtab.core.labelling.node_labels import cleared
from trimtab.core.model.event import LabelFailed
from trimtab.core.model.instruction import LabelNode
from trimtab.kube.lease import Elector, passing_time
from trimtab.kube.transport import Transport, Unreachable
from trimtab.kube.writing import Writer
from trimtab.wire.fault import Malformed
from trimtab.wire.lease import Lease, lease_get, read_lease
from trimtab.wire.objects.marking import described, label_outcome, label_request
from trimtab.wire.status import read_status

PATIENCE = 10.0
SLACK = 5.0  # beyond the lease's own duration, until it counts as somebody's
RIGHTS = "see that the API server answers, and apply deploy/labeller.yaml for the rights"
ELSEWHERE = "say where its lease is with --lease-namespace, or --after 0s if none will come"
ROUNDS = 3
AT_ONCE = 20


class Asked(NamedTuple):
    """What is wished for: whose lease, for how long it must have been silent, which marks, and whether to write."""

    lease: LeaderElection
    after: float
    legacy: bool = False
    apply: bool = False
    identity: str = "unmark"


class Result(NamedTuple):
    """What there is to say, line by line, and whether all went well."""

    lines: tuple[str, ...]
    well: bool = True


class Clocks(NamedTuple):
    """What time it is, for what others wrote; and time that passes, for how long they were silent."""

    wall: Callable[[], float] = time.time
    passing: Callable[[], float] = passing_time


REAL = Clocks()


class Trouble(Exception):
    """Why nothing can be known or done, in a sentence."""


async def unmark(asked: Asked, server: Named, clocks: Clocks = REAL) -> Result:
    """Once through; what cannot be looked at is said, and nothing is done then."""
    try:
        marked = await _marked(asked, server)
        if not marked:
            return Result(("no node carries a mark",))
        if (lives := await _heartbeat(asked, server.transport, clocks.wall())) is not None:
            return Result((f"marked: {_nodes(len(marked))}; {lives}",))
        if not asked.apply:
            return Result((*map(_told, marked), f"would unmark {_nodes(len(marked))}: add --apply"))
        return await _take_off(asked, server, clocks)
    except (Trouble, Unreachable) as error:
        return Result((str(error),), well=False)


async def _marked(asked: Asked, server: Named) -> list[LabelNode]:
    found = await listed(server)
    if found.nodes is None:
        raise Trouble(f"nodes: {found.findings[0].says}: {RIGHTS}")
    wishes = (cleared(node, asked.legacy) for node in found.nodes)
    return [wish for wish in wishes if wish is not None]


def _told(wish: LabelNode) -> str:
    return f"{wish.node}: {described(wish)}"


async def _heartbeat(asked: Asked, transport: Transport, now: float) -> str | None:
    """Why a labeller has to be reckoned with; None where there was none for long enough."""
    namespace, name = asked.lease.namespace, asked.lease.name
    answer = await transport.send(lease_get(namespace, name), PATIENCE)
    if answer.status == 404 and read_status(answer.body).reason == "NotFound":
        if asked.after > 0:
            raise Trouble(
                f"marks, but no lease {namespace}/{name}, so nobody knows whether a labeller lives: {ELSEWHERE}"
            )
        return None
    lease = read_lease(answer.body) if answer.status == 200 else Malformed("Lease", "", "", "")
    if not isinstance(lease, Lease):
        problem = f"{answer.status} {read_status(answer.body).message}"
        raise Trouble(f"lease {namespace}/{name} cannot be read: {problem}: {RIGHTS}")
    age = _age(lease, now)
    if age is None or abs(age) >= asked.after:  # of a clock that far ahead nothing can be known
        return None
    who = f"{lease.holder} renewed its lease" if lease.holder else "a labeller gave its lease up"
    return f"{who} {max(age, 0.0):.0f} s ago: they are left alone for {asked.after:.0f} s"


def _age(lease: Lease, now: float) -> float | None:
    """None where it does not say when it was renewed."""
    try:
        return now - datetime.fromisoformat(lease.renewed).timestamp()
    except (ValueError, TypeError):
        return None


async def _take_off(asked: Asked, server: Named, clocks: Clocks) -> Result:
    elector = Elector(server.transport, asked.lease, asked.identity, clocks.wall, Random(), clocks.passing)
    try:
        async with asyncio.timeout(asked.lease.lease_duration + SLACK):
            await elector.acquire()
    except TimeoutError:
        if elector.problem:
            name = f"{asked.lease.namespace}/{asked.lease.name}"
            raise Trouble(f"lease {name} cannot be taken: {elector.problem}: {RIGHTS}") from None
        return Result(("the lease cannot be had: a labeller lives, and its marks are left alone",))
    holding = asyncio.create_task(elector.hold())
    try:
        return await _rounds(asked, server, Writer(server.transport, elector.may_write, Random()), clocks.wall)
    finally:
        holding.cancel()
        await elector.release()


async def _rounds(asked: Asked, server: Named, writer: Writer, now: Callable[[], float]) -> Result:
    """A node that changed in between is refused, and met again in the next round."""
    lines: list[str] = []
    failed: list[str] = []
    for _ in range(ROUNDS):
        wishes = await _marked(asked, server)
        room = asyncio.Semaphore(AT_ONCE)
        outcomes = await asyncio.gather(*(_patched(wish, writer, room, now) for wish in wishes))
        lines += [_told(wish) for wish, problem in zip(wishes, outcomes, strict=True) if not problem]
        failed = [f"{wish.node}: {problem}" for wish, problem in zip(wishes, outcomes, strict=True) if problem]
        if not failed:
            break
    many = f"unmarked {_nodes(len(lines))}" + (f", not unmarked: {len(failed)}" if failed else "")
    return Result((*lines, *failed, many), not failed)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


async def _patched(wish: LabelNode, writer: Writer, room: asyncio.Semaphore, now: Callable[[], float]) -> str:
    """Why it was not done; empty when it was."""
    async with room:
        try:
            answer = await writer.send(label_request(wish), PATIENCE)
        except Unreachable as error:
            return str(error)
    outcome = label_outcome(wish, answer.status, answer.body, now())
    return outcome.message if isinstance(outcome, LabelFailed) else ""
