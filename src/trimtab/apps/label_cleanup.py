"""`trimtab unmark`: removes pressure labels and taints that a dead labeller left on nodes.

    labels? ──(none)──▶ done
       └──▶ lease: renewed within `after`? ──(yes)──▶ a labeller runs, or may come back: nothing is done
                │     └──(no lease)──▶ it may be elsewhere: nothing is done, unless `after` is 0
                └──(no)──▶ (apply) acquire the lease ──(another holds it)──▶ a labeller runs after all
                                  └──▶ list again, patch each node, three rounds ──▶ release the lease

The time in the lease comes from another clock, so it can only say that nothing is to be done. That no labeller runs is
proved by acquiring its lease: a live one keeps renewing it, and while it is ours no labeller writes. Whoever left labels had
a lease: where there is none, it is the wrong namespace, or somebody has cleaned up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum, auto
from random import Random
from typing import NamedTuple

from trimtab.apps.doctor.apiserver_checks import ApiServer, list_nodes
from trimtab.config.configuration import LeaderElection
from trimtab.core.labelling.node_labels import removal_patch
from trimtab.core.model.events import LabelFailed
from trimtab.core.model.instructions import LabelNode
from trimtab.kube.lease import LeaderElector, boot_time
from trimtab.kube.transport import Transport, Unreachable
from trimtab.kube.writer import Writer
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.lease import Lease, get_lease_request, read_lease, seconds_since_renewal
from trimtab.wire.outcomes import Reply, label_outcome
from trimtab.wire.requests import format_label_change, label_request

TIMEOUT = 10.0
SLACK = 5.0  # seconds beyond the lease duration in which to acquire it
RBAC_REMEDY = (
    "check that the API server answers, and apply deploy/components/labeller/labeller.yaml for the permissions"
)
LEASE_REMEDY = "set --lease-namespace or --lease-name, or --after 0s if no labeller will come back"
ROUNDS = 3
CONCURRENCY = 20


class CleanupOptions(NamedTuple):
    """Whose lease, for how long it must not have been renewed, which labels, and whether to write."""

    lease: LeaderElection
    after: float
    legacy: bool = False
    apply: bool = False
    identity: str = "unmark"


class Outcome(Enum):
    """What came of it; NOTHING also if the labels were only listed, HELD if a labeller runs or may come back."""

    NOTHING = auto()
    REMOVED = auto()
    HELD = auto()
    FAILED = auto()


class CleanupResult(NamedTuple):
    """The lines to print, and what was done."""

    lines: tuple[str, ...]
    outcome: Outcome = Outcome.NOTHING

    @property
    def ok(self) -> bool:
        """Whether nothing failed: a labeller that runs is no failure, because the clean-up runs regularly beside it."""
        return self.outcome is not Outcome.FAILED


class Clocks(NamedTuple):
    """The wall clock, to compare with other clients' times, and the boot clock, to measure durations."""

    wall: Callable[[], float] = time.time
    boot: Callable[[], float] = boot_time


SYSTEM_CLOCKS = Clocks()


class CleanupError(Exception):
    """Why nothing was done, in a sentence."""


async def clean_up(options: CleanupOptions, server: ApiServer, clocks: Clocks = SYSTEM_CLOCKS) -> CleanupResult:
    """Run once; on an error nothing is changed."""
    try:
        labelled = await _nodes_with_labels(options, server)
        if not labelled:
            return CleanupResult(("no node has a pressure label",))
        if (active := await _active_holder(options, server.transport, clocks.wall())) is not None:
            return CleanupResult((f"labelled: {_nodes(len(labelled))}; {active}",), Outcome.HELD)
        if not options.apply:
            return CleanupResult((*map(_describe, labelled), f"would clean up {_nodes(len(labelled))}: add --apply"))
        return await _remove_labels(options, server, clocks)
    except (CleanupError, Unreachable) as error:
        return CleanupResult((str(error),), Outcome.FAILED)


async def _nodes_with_labels(options: CleanupOptions, server: ApiServer) -> list[LabelNode]:
    found = await list_nodes(server)
    if found.nodes is None:
        raise CleanupError(f"nodes: {found.findings[0].message}: {RBAC_REMEDY}")
    instructions = (removal_patch(node, options.legacy) for node in found.nodes)
    return [instruction for instruction in instructions if instruction is not None]


def _describe(instruction: LabelNode) -> str:
    return f"{instruction.node}: {format_label_change(instruction)}"


async def _active_holder(options: CleanupOptions, transport: Transport, now: float) -> str | None:
    """Who renewed the lease recently; None if nobody did."""
    namespace, name = options.lease.namespace, options.lease.name
    answer = await transport.send(get_lease_request(namespace, name), TIMEOUT)
    if answer.status == 404 and read_status(answer.body).reason == "NotFound":
        if options.after > 0:
            raise CleanupError(
                f"nodes are labelled, but no lease {namespace}/{name} shows whether a labeller runs: {LEASE_REMEDY}"
            )
        return None
    lease = read_lease(answer.body) if answer.status == 200 else Malformed("Lease", "", "", "")
    if not isinstance(lease, Lease):
        error = f"{answer.status} {read_status(answer.body).message}"
        raise CleanupError(f"lease {namespace}/{name} cannot be read: {error}: {RBAC_REMEDY}")
    age = seconds_since_renewal(lease, now)
    if age is None or abs(age) >= options.after:  # a clock that far ahead proves nothing
        return None
    who = f"{lease.holder} renewed its lease" if lease.holder else "a labeller released its lease"
    return f"{who} {max(age, 0.0):.0f} s ago: labels stay for {options.after:.0f} s"


async def _remove_labels(options: CleanupOptions, server: ApiServer, clocks: Clocks) -> CleanupResult:
    jitter = Random()  # noqa: S311 (no secret)
    elector = LeaderElector(server.transport, options.lease, options.identity, clocks.wall, jitter, clocks.boot)
    try:
        async with asyncio.timeout(options.lease.lease_duration + SLACK):
            await elector.acquire()
    except TimeoutError:
        if elector.last_error:
            name = f"{options.lease.namespace}/{options.lease.name}"
            raise CleanupError(f"lease {name} cannot be acquired: {elector.last_error}: {RBAC_REMEDY}") from None
        return CleanupResult(("the lease is held: a labeller runs, and its labels stay",), Outcome.HELD)
    holding = asyncio.create_task(elector.renew())
    try:
        return await _patch_rounds(options, server, Writer(server.transport, elector.may_write, jitter), clocks.wall)
    finally:
        holding.cancel()
        await elector.release()


async def _patch_rounds(
    options: CleanupOptions, server: ApiServer, writer: Writer, now: Callable[[], float]
) -> CleanupResult:
    """A node that changed meanwhile is rejected, and patched in the next round."""
    lines: list[str] = []
    failed: list[str] = []
    for _ in range(ROUNDS):
        instructions = await _nodes_with_labels(options, server)
        slots = asyncio.Semaphore(CONCURRENCY)
        outcomes = await asyncio.gather(*(_patch(instruction, writer, slots, now) for instruction in instructions))
        lines += [
            _describe(instruction) for instruction, error in zip(instructions, outcomes, strict=True) if not error
        ]
        failed = [
            f"{instruction.node}: {error}" for instruction, error in zip(instructions, outcomes, strict=True) if error
        ]
        if not failed:
            break
    total = f"cleaned up {_nodes(len(lines))}" + (f", failed: {len(failed)}" if failed else "")
    return CleanupResult((*lines, *failed, total), Outcome.FAILED if failed else Outcome.REMOVED)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


async def _patch(instruction: LabelNode, writer: Writer, slots: asyncio.Semaphore, now: Callable[[], float]) -> str:
    """The error; empty on success."""
    async with slots:
        try:
            answer = await writer.send(label_request(instruction), TIMEOUT)
        except Unreachable as error:
            return str(error)
    outcome = label_outcome(instruction, Reply(answer.status, answer.body), now())
    return outcome.message if isinstance(outcome, LabelFailed) else ""
