"""The metrics pages of node-exporter, cAdvisor and kubelet for a simulated machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.live.metering.machine import UPTIME, Machine, MachineReading

Sample = tuple[str, Mapping[str, str], float]


def node_exporter(machine: Machine, reading: MachineReading) -> Iterator[Sample]:
    """node-exporter: CPU by mode, memory, pressure and load."""
    yield from _cpu(machine, reading)
    free = machine.memory - reading.memory
    yield "node_memory_MemTotal_bytes", {}, machine.memory
    yield "node_memory_MemAvailable_bytes", {}, free
    for part, share in (("MemFree", 0.5), ("Buffers", 0.1), ("Cached", 0.4)):
        yield f"node_memory_{part}_bytes", {}, free * share
    yield "node_pressure_cpu_waiting_seconds_total", {}, reading.cpu_waited
    for resource, waited in (("memory", reading.memory_waited), ("io", reading.io_waited)):
        yield f"node_pressure_{resource}_waiting_seconds_total", {}, waited
        yield f"node_pressure_{resource}_stalled_seconds_total", {}, waited / 2
    yield "node_load1", {}, machine.load.cpu * machine.cores
    yield "node_uname_info", {"nodename": machine.name, "sysname": "Linux"}, 1.0


def _cpu(machine: Machine, reading: MachineReading) -> Iterator[Sample]:
    idle = (reading.at - machine.started + UPTIME) * machine.cores - reading.busy
    modes = (("idle", idle), ("user", reading.busy * 0.75), ("system", reading.busy * 0.25), ("iowait", 0.0))
    for core in range(machine.cores):
        for mode, seconds in modes:
            yield "node_cpu_seconds_total", {"cpu": str(core), "mode": mode}, seconds / machine.cores


def cadvisor(machine: Machine, reading: MachineReading) -> Iterator[Sample]:
    """cAdvisor: the root cgroup, each container, and the sum of each pod."""
    yield "machine_cpu_cores", {}, machine.cores
    yield "machine_memory_bytes", {}, machine.memory
    yield from _usage({"id": "/", "namespace": "", "pod": "", "container": ""}, reading.busy, reading.memory)
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for (namespace, pod, container), cpu, memory in reading.pods:
        before = sums.get((namespace, pod), (0.0, 0.0))
        sums[namespace, pod] = before[0] + cpu, before[1] + memory
        again = machine.restarts[namespace, pod, container]
        yield from _usage(_names(namespace, pod, container, again), cpu, memory)
    for (namespace, pod), (cpu, memory) in sums.items():
        yield from _usage(_names(namespace, pod, ""), cpu, memory)


def _names(namespace: str, pod: str, container: str, again: int = 0) -> dict[str, str]:
    group = f"/kubepods/{namespace}/{pod}" + (f"/{container}" if container else "") + (f"-{again}" if again else "")
    return {"id": group, "namespace": namespace, "pod": pod, "container": container}


def _usage(labels: Mapping[str, str], cpu: float, memory: float) -> Iterator[Sample]:
    yield "container_cpu_usage_seconds_total", {**labels, "cpu": "total"}, cpu
    yield "container_memory_working_set_bytes", labels, memory
    yield "container_memory_usage_bytes", labels, memory * 1.25


def kubelet(machine: Machine, reading: MachineReading) -> Iterator[Sample]:
    """The kubelet's /metrics/resource, which metrics-server also reads."""
    yield "node_cpu_usage_seconds_total", {}, reading.busy
    yield "node_memory_working_set_bytes", {}, reading.memory
    for (namespace, pod, container), cpu, memory in reading.pods:
        labels = {"namespace": namespace, "pod": pod, "container": container}
        yield "container_cpu_usage_seconds_total", labels, cpu
        yield "container_memory_working_set_bytes", labels, memory


PAGES = {"node": node_exporter, "cadvisor": cadvisor, "resource": kubelet}
# Like the real ones: cAdvisor adds timestamps, so a container that has ended remains for the lookback of a query.
STAMPED = frozenset({"cadvisor", "resource"})
# Milliseconds: when a series begins to carry timestamps, Prometheus ends the one without at the time of the scrape.
AFTER = 10


def lines(
    page: str, machine: Machine, reading: MachineReading, lies: Mapping[str, str], stamped: bool
) -> Iterator[str]:
    """The page in the text format; a lie stands for every value of its metric, or leaves the metric out if empty."""
    stamp = f" {reading.at * 1000 + AFTER:.0f}" if stamped or page in STAMPED else ""
    for name, labels, value in PAGES[page](machine, reading):
        if lies.get(name) == "":
            continue
        written = ",".join(f'{key}="{text}"' for key, text in labels.items())
        yield f"{name}{{{written}}} {lies.get(name, repr(float(value)))}{stamp}\n"
