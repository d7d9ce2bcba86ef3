"""The second scenario of the demo: a day on a small cluster."""

from __future__ import annotations

from functools import partial
from random import Random

from msgspec.structs import replace

from trimtab.core.model.taints import NO_SCHEDULE, UNSCHEDULABLE_TAINT, Taint
from trimtab.sim.demo.scene import SCHEDULER, Scenario, Scene, node
from trimtab.sim.workloads import HOUR, MIB, UsagePattern, Workload, constant, daily_wave, noisy, ramp
from trimtab.sim.world import World

START = 8 * HOUR
ROLE = "node-role.kubernetes.io/control-plane"

# Of the twelve pods: millicores, MiB.
POD_REQUESTS = (
    (500, 500),
    (1000, 1024),
    (1000, 1536),
    (2000, 2048),
    (250, 256),
    (1500, 2048),
    (500, 1024),
    (2000, 4096),
    (3000, 3072),
    (750, 512),
    (1000, 1024),
    (250, 128),
)
GAP = 10.0  # seconds between two pods


def workload(number: int, cpu: int, memory_mib: int, rng: Random) -> Workload:
    """In turn: steady, busy by day, working off a backlog since the morning, busy by night."""
    patterns: tuple[UsagePattern, ...] = (
        constant(0.5),
        daily_wave(0.2, 1.4, peak=14 * HOUR),
        ramp(1.2, 0.3, begins=START, ends=20 * HOUR),
        daily_wave(0.1, 1.1, peak=26 * HOUR),
    )
    cpu_usage = noisy(patterns[number % len(patterns)], rng, by=0.1)
    memory_usage = noisy(ramp(0.4, 0.8, begins=START, ends=24 * HOUR), rng, by=0.03)
    return Workload(f"pod-{number}", cpu, memory_mib * MIB, cpu_usage, memory_usage)


def _create_pod(world: World, number: int, cpu: int, memory_mib: int) -> None:
    world.create_pod(workload(number, cpu, memory_mib, world.script_rng), SCHEDULER)


def _twelve_pods(world: World) -> None:
    control_plane = node("control-plane", 8, 16, Taint(ROLE, "", NO_SCHEDULE))
    world.put_node(replace(control_plane, labels={**control_plane.labels, ROLE: ""}))
    for number in (1, 2, 3):
        world.put_node(node(f"worker-{number}", 8, 16))
    for number, (cpu, memory_mib) in enumerate(POD_REQUESTS, start=1):
        delay = GAP * number + world.script_rng.uniform(-2, 2)
        world.clock.call_later(delay, partial(_create_pod, world, number, cpu, memory_mib))


def _too_large(world: World) -> None:
    world.clock.call_later(GAP, partial(_create_pod, world, 13, 12_000, 8 * 1024))


def _larger_node(world: World) -> None:
    world.clock.call_later(GAP, partial(world.put_node, node("worker-4", 16, 32)))


def _cordon(world: World) -> None:
    """Like `kubectl cordon` and the node controller: set the field and its taint."""
    worker = world.nodes["worker-2"]
    cordon = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)
    world.put_node(replace(worker, unschedulable=True, taints=(*worker.taints, cordon)))
    world.clock.call_later(GAP, partial(_create_pod, world, 14, 1000, 1024))


def _pod_at(number: int, at: float, world: World) -> None:
    world.clock.call_later(at - world.clock.now, partial(_create_pod, world, number, 1000, 1024))


SCENES = (
    Scene(
        "Twelve pods",
        "One control-plane node with a taint and three workers, each with 8 CPU and 16 GiB. Twelve pods arrive, one "
        "every ten seconds. None tolerates the taint, so all of them go to the workers.",
        START + 150,
        2.5,
        _twelve_pods,
    ),
    Scene(
        "A pod too large for any node",
        "It requests 12 CPU, and the largest node has 8. The message is kube-scheduler's, and the pod is not tried again "
        "until something changes that could help.",
        START + 180,
        2.5,
        _too_large,
    ),
    Scene(
        "A larger node joins",
        "worker-4 has 16 CPU and 32 GiB. The pending pod is requeued and tried again at once.",
        START + 210,
        2.5,
        _larger_node,
    ),
    Scene(
        "A node is cordoned",
        "worker-2 takes no new pods from now on. Its running pods stay.",
        START + 240,
        2.5,
        _cordon,
    ),
    Scene(
        "Until two in the afternoon",
        "For six hours no request changes, but usage does: some pods are busy by day. At two, pod-15 arrives.",
        14 * HOUR + 60,
        900.0,
        partial(_pod_at, 15, 14 * HOUR),
        idle=True,
    ),
    Scene(
        "Until two at night",
        "The same requests, but other pods are busy now. pod-16 requests the same as pod-15; measured usage decides where "
        "it goes.",
        26 * HOUR + 60,
        1800.0,
        partial(_pod_at, 16, 26 * HOUR),
        idle=True,
    ),
)
DAY_SCENARIO = Scenario(START, SCENES)
