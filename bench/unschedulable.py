"""CPU time per pod deletion while ten thousand unschedulable pods wait, none of which it helps."""

from __future__ import annotations

import time

from msgspec.structs import replace

from bench.decisions import PROFILE, nodes, plain_pods
from trimtab.core.engine import Engine
from trimtab.core.model.events import LeaseAcquired, NodeUpserted, PodDeleted, PodUpserted, Synced, Tick, Turn
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY, PodRequests
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings

NODES, UNSCHEDULABLE, TEMPLATES, DELETIONS = 5_000, 10_000, 20, 1_000


def requests(cpu: int) -> PodRequests:
    amounts = ((CPU, cpu), (MEMORY, 1 << 28))
    return PodRequests(amounts, nonzero=amounts, assigned_nonzero_cpu=cpu, assigned_nonzero_memory=1 << 28)


def full_engine() -> Engine:
    """Nodes with one small pod each, and pods of twenty templates that fit on none of them."""
    engine = Engine(Settings((PROFILE,)))
    for each in nodes(NODES):
        engine.handle(NodeUpserted(each, 0.0))
    for kind in engine.state.settings.kinds:
        engine.handle(Synced(kind, 0.0))
    engine.handle(LeaseAcquired(1, 0.0))
    (small,) = plain_pods(1, 1)
    for number in range(NODES):
        placed = replace(
            small, uid=f"small-{number}", name=f"small-{number}", node=f"node-{number}", requests=requests(10)
        )
        engine.handle(PodUpserted(placed, 0.0))
    for number in range(UNSCHEDULABLE):
        engine.handle(PodUpserted(_large(small, number), 0.0))
    while engine.has_work():
        engine.handle(Turn(100, 1.0))
    engine.handle(Tick(20.0))
    return engine


def _large(like: Pod, number: int) -> Pod:
    wants = requests(10_000_000 + number % TEMPLATES)
    return replace(like, uid=f"large-{number}", name=f"large-{number}", requests=wants, scheduler_name=PROFILE.name)


def deletions() -> list[tuple[str, ...]]:
    """CPU microseconds per deletion, and how many pods were requeued."""
    engine = full_engine()
    started = time.process_time()
    for number in range(DELETIONS):
        engine.handle(PodDeleted(f"small-{number}", 21.0))
    micros = (time.process_time() - started) / DELETIONS * 1e6
    requeued = UNSCHEDULABLE - sum(1 for _ in engine.controller(Scheduling).queue.unschedulable())
    return [(f"{UNSCHEDULABLE:,} of {TEMPLATES} templates", f"{micros:,.0f}", f"{requeued:,}")]
