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

from trimtab.apps.doctor.apiserver_checks import ApiServer, list_nodes
from trimtab.config.configuration import LeaderElection
from trimtab.core.labelling.node_labels import removal_patch
from trimtab.core.model.events import LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.kube.lease import LeaderElector
from trimtab.kube.lease import boot_time as passing_time
from trimtab.kube.transport import Transport, Unreachable
from trimtab.kube.writer import Writer
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.lease import Lease, get_lease_request, read_lease
from trimtab.wire.outcomes import Reply, label_outcome
from trimtab.wire.requests import format_label_change, label_request

TIMEOUT = 10.0
SLACK = 5.0  # beyond the lease's own duration, until it counts as somebody's
RBAC_REMEDY = "see that the API server answers, and apply deploy/labeller.yaml for the rights"
LEASE_REMEDY = "say where its lease is with --lease-namespace, or --after 0s if none will come"
ROUNDS = 3
CONCURRENCY = 20


class CleanupOptions(NamedTuple):
    """What is wished for: whose lease, for how long it must have been silent, which marks, and whether to write."""

    lease: LeaderElection
    after: float
    legacy: bool = False
    apply: bool = False
    identity: str = "unmark"


class CleanupResult(NamedTuple):
    """What there is to say, line by line, and whether all went well."""

    lines: tuple[str, ...]
    ok: bool = True


class Clocks(NamedTuple):
    """What time it is, for what others wrote; and time that passes, for how long they were silent."""

    wall: Callable[[], float] = time.time
    boot_time: Callable[[], float] = passing_time


SYSTEM_CLOCKS = Clocks()


class CleanupError(Exception):
    """Why nothing can be known or done, in a sentence."""


async def clean_up(options: CleanupOptions, server: ApiServer, clocks: Clocks = SYSTEM_CLOCKS) -> CleanupResult:
    """Once through; what cannot be looked at is said, and nothing is done then."""
    try:
        marked = await _nodes_with_labels(options, server)
        if not marked:
            return CleanupResult(("no node carries a mark",))
        if (lives := await _active_holder(options, server.transport, clocks.wall())) is not None:
            return CleanupResult((f"marked: {_nodes(len(marked))}; {lives}",))
        if not options.apply:
            return CleanupResult((*map(_describe, marked), f"would unmark {_nodes(len(marked))}: add --apply"))
        return await _remove_labels(options, server, clocks)
    except (CleanupError, Unreachable) as error:
        return CleanupResult((str(error),), ok=False)


async def _nodes_with_labels(options: CleanupOptions, server: ApiServer) -> list[LabelNode]:
    found = await list_nodes(server)
    if found.nodes is None:
        raise CleanupError(f"nodes: {found.findings[0].says}: {RBAC_REMEDY}")
    wishes = (removal_patch(node, options.legacy) for node in found.nodes)
    return [wish for wish in wishes if wish is not None]


def _describe(instruction: LabelNode) -> str:
    return f"{instruction.node}: {format_label_change(instruction)}"


async def _active_holder(options: CleanupOptions, transport: Transport, now: float) -> str | None:
    """Why a labeller has to be reckoned with; None where there was none for long enough."""
    namespace, name = options.lease.namespace, options.lease.name
    answer = await transport.send(get_lease_request(namespace, name), TIMEOUT)
    if answer.status == 404 and read_status(answer.body).reason == "NotFound":
        if options.after > 0:
            raise CleanupError(
                f"marks, but no lease {namespace}/{name}, so nobody knows whether a labeller lives: {LEASE_REMEDY}"
            )
        return None
    lease = read_lease(answer.body) if answer.status == 200 else Malformed("Lease", "", "", "")
    if not isinstance(lease, Lease):
        problem = f"{answer.status} {read_status(answer.body).message}"
        raise CleanupError(f"lease {namespace}/{name} cannot be read: {problem}: {RBAC_REMEDY}")
    age = _age(lease, now)
    if age is None or abs(age) >= options.after:  # of a clock that far ahead nothing can be known
        return None
    who = f"{lease.holder} renewed its lease" if lease.holder else "a labeller gave its lease up"
    return f"{who} {max(age, 0.0):.0f} s ago: they are left alone for {options.after:.0f} s"


def _age(lease: Lease, now: float) -> float | None:
    """None where it does not say when it was renewed."""
    try:
        return now - datetime.fromisoformat(lease.renew_time).timestamp()
    except (ValueError, TypeError):
        return None


async def _remove_labels(options: CleanupOptions, server: ApiServer, clocks: Clocks) -> CleanupResult:
    elector = LeaderElector(server.transport, options.lease, options.identity, clocks.wall, Random(), clocks.boot_time)
    try:
        async with asyncio.timeout(options.lease.lease_duration + SLACK):
            await elector.acquire()
    except TimeoutError:
        if elector.last_error:
            name = f"{options.lease.namespace}/{options.lease.name}"
            raise CleanupError(f"lease {name} cannot be taken: {elector.last_error}: {RBAC_REMEDY}") from None
        return CleanupResult(("the lease cannot be had: a labeller lives, and its marks are left alone",))
    holding = asyncio.create_task(elector.renew())
    try:
        return await _patch_rounds(options, server, Writer(server.transport, elector.may_write, Random()), clocks.wall)
    finally:
        holding.cancel()
        await elector.release()


async def _patch_rounds(
    options: CleanupOptions, server: ApiServer, writer: Writer, now: Callable[[], float]
) -> CleanupResult:
    """A node that changed in between is refused, and met again in the next round."""
    lines: list[str] = []
    failed: list[str] = []
    for _ in range(ROUNDS):
        wishes = await _nodes_with_labels(options, server)
        room = asyncio.Semaphore(CONCURRENCY)
        outcomes = await asyncio.gather(*(_patch(wish, writer, room, now) for wish in wishes))
        lines += [_describe(wish) for wish, problem in zip(wishes, outcomes, strict=True) if not problem]
        failed = [f"{wish.node}: {problem}" for wish, problem in zip(wishes, outcomes, strict=True) if problem]
        if not failed:
            break
    many = f"unmarked {_nodes(len(lines))}" + (f", not unmarked: {len(failed)}" if failed else "")
    return CleanupResult((*lines, *failed, many), not failed)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


async def _patch(instruction: LabelNode, writer: Writer, slots: asyncio.Semaphore, now: Callable[[], float]) -> str:
    """Why it was not done; empty when it was."""
    async with slots:
        try:
            answer = await writer.send(label_request(instruction), TIMEOUT)
        except Unreachable as error:
            return str(error)
    outcome = label_outcome(instruction, Reply(answer.status, answer.body), now())
    return outcome.message if isinstance(outcome, LabelFailed) else ""
