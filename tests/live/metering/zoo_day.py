"""A day of the shipped scenario `zoo` within a minute and a half, for the simulator and for a live cluster.

Both sides read the same usage patterns, at the same moments. The workloads arrive through the day instead of all at midnight,
and each Deployment grows for ten seconds: where thirty pods arrive at once, a tenth of a second decides how they are spread,
in the simulator as well. The nightly Job is a Deployment here, because kwok ends the pods of a Job as soon as they run.

    scenario = zoo_day()
    LiveDay(rig, exporters, scenario, names).live_through()       # names: of the simulated pods, by workload
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tests.live import trimtab_process
from tests.live.metering.exporters import Exporters
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig
from trimtab.core.model.duration import DAY, HOUR
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.randomness import Floats, key_of
from trimtab.sim.scenario import MetricsPipeline, OwnerKind, PodTemplate, Scale, Scenario, Workload
from trimtab.sim.shipped import shipped
from trimtab.sim.usage_patterns import UsagePattern

SECONDS = 90.0  # of a day
LEAD = 8.0  # before midnight, to measure the idle nodes
FACTOR = DAY / SECONDS
SEED = 1
GROWTH = 10  # seconds until a Deployment has all of its pods
ARRIVALS = {"agent": 0, "shop": 1, "database": 3, "search": 5, "reports": 8, "worker": 11, "idle": 14, "nightly": 17}


class Compressed(Struct, frozen=True):
    """A pattern whose day has 90 seconds."""

    pattern: UsagePattern

    def amounts(self, times: Floats, started: float, key: int) -> Floats:
        return self.pattern.amounts(times * FACTOR, started * FACTOR, key)


def zoo_day() -> Scenario:
    """The scenario in compressed time, measured every second."""
    zoo = shipped("zoo")
    return replace(
        zoo,
        begins=-LEAD,
        duration=LEAD + SECONDS,
        step=1.0,
        warm_up=LEAD,
        nodes=tuple(
            replace(
                each, joins=-LEAD, system_cpu=Compressed(each.system_cpu), system_memory=Compressed(each.system_memory)
            )
            for each in zoo.nodes
        ),
        workloads=tuple(map(_workload, zoo.workloads)),
        objects=(),
        metrics=MetricsPipeline(interval=1.0, delay=1.0),
        oom_kills=False,
    )


def _workload(workload: Workload) -> Workload:
    """Pods start within a second, as kwok's do; they report usage from the next full second on."""
    template = replace(
        workload.template,
        cpu=Compressed(workload.template.cpu),
        memory=Compressed(workload.template.memory),
        start_delay=(0.4, 0.4) if workload.kind is OwnerKind.STATEFUL_SET else (1.0, 1.0),
        lifetime=None,
    )
    kind = OwnerKind.DEPLOYMENT if workload.kind is OwnerKind.JOB else workload.kind
    created = float(round(ARRIVALS[workload.name] * HOUR / FACTOR))
    changed = replace(workload, template=template, kind=kind, created=created, stagger=0.0, rollouts=(), budget=None)
    return _growing(changed) if kind is OwnerKind.DEPLOYMENT else changed


def _growing(workload: Workload) -> Workload:
    """A tenth of its pods at first, and more every second."""
    part = max(workload.replicas // GROWTH, 1)
    sizes = [*range(part, workload.replicas, part), workload.replicas]
    scales = tuple(Scale(workload.created + number, size) for number, size in enumerate(sizes))
    return replace(workload, replicas=sizes[0], scales=scales[1:])


class LiveDay:
    """Creates the workloads at their times, and reports every second what the running pods use."""

    def __init__(self, rig: Rig, exporters: Exporters, scenario: Scenario, names: Mapping[str, Sequence[str]]) -> None:
        self.rig, self.exporters, self.scenario = rig, exporters, scenario
        self.midnight = 0.0
        self._free = {workload: [*keys] for workload, keys in names.items()}
        self._pods: dict[str, tuple[PodTemplate, int, float]] = {}  # template, key of what is random, and the start
        self._templates = {each.name: each.template for each in scenario.workloads}

    def live_through(self) -> None:
        self.midnight = time.time() + LEAD
        due = self._actions()
        for second in range(-int(LEAD), int(SECONDS)):
            time.sleep(max(self.midnight + second - time.time(), 0.0))
            while due and due[0][0] <= second:
                due.pop(0)[1]()
            self._report(float(second))
        time.sleep(max(self.midnight + SECONDS + 1 - time.time(), 0.0))

    def _actions(self) -> list[tuple[float, Callable[[], object]]]:
        """What is done when: each workload is created, and scaled."""
        admin, found = self.rig.admin, list[tuple[float, Callable[[], object]]]()
        for each in self.scenario.workloads:
            found.append((each.created, partial(admin.create, document(each))))
            path = f"/apis/apps/v1/namespaces/default/deployments/{each.name}"
            for scale in each.scales:
                found.append((scale.at, partial(admin.patch, path, {"spec": {"replicas": scale.replicas}})))
        return sorted(found, key=itemgetter(0))

    def _report(self, second: float) -> None:
        """What everything uses in the middle of this second."""
        middle = np.array([second + 0.5])
        for each in self.scenario.nodes:
            name, size = each.node.name, dict(each.node.capacity)
            cpu, memory = (
                float(pattern.amounts(middle, -LEAD, key_of(SEED, "system", name, index))[0])
                for index, pattern in enumerate((each.system_cpu, each.system_memory))
            )
            self.exporters.set(name, cpu=cpu / size[CPU], memory=memory / size[MEMORY])
        for pod in self.rig.admin.list("/api/v1/namespaces/default/pods"):
            if pod["status"].get("phase") == "Running":
                self._report_pod(pod, second, middle)

    def _report_pod(self, pod: Document, second: float, middle: Floats) -> None:
        name, workload = pod["metadata"]["name"], pod["metadata"]["labels"]["app"]
        if name not in self._pods:
            key = key_of(SEED, "usage", self._free[workload].pop(0))
            self._pods[name] = self._templates[workload], key, second
        template, key, started = self._pods[name]
        cpu = template.cpu.amounts(middle, started, key)[0]
        memory = template.memory.amounts(middle, started, key + 2 & (1 << 64) - 1)[0]
        self.exporters.run(pod["spec"]["nodeName"], "default", name, cpu=cpu / 1000, memory=memory)


def document(workload: Workload) -> Document:
    """The workload as a manifest."""
    requests = workload.template.requests
    amounts = {"cpu": f"{requests.of(CPU)}m", "memory": str(requests.of(MEMORY))}
    container = {"name": "main", "image": "app", "resources": {"requests": amounts}}
    labels = dict(workload.template.labels)
    spec: Document = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"schedulerName": trimtab_process.SCHEDULER, "containers": [container]},
        },
    }
    if workload.kind is not OwnerKind.DAEMON_SET:
        spec["replicas"] = workload.replicas
    if workload.kind is OwnerKind.STATEFUL_SET:
        spec["serviceName"] = workload.name
    meta = {"name": workload.name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": str(workload.kind), "metadata": meta, "spec": spec}
