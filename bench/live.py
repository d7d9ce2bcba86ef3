"""`make bench-live`: Trimtab and kube-scheduler one after the other, each on a new cluster with the same backlog.

Pods per second of wall time, and CPU microseconds per pod and process from the kernel's accounting, which is less sensitive
to other load on the machine. Both write one Event per pod. The backlog is created first; completion is polled rarely and with
cheap requests, because listing all pending pods costs the API server more than the binds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.workloads import WORKLOADS, resident, worker
from tools.controlplane.process import cpu_seconds
from tools.controlplane.rig import Rig

POLL = 0.2
NEW = "labelSelector=batch%3Dnew&limit=1"
WAITING = f"/api/v1/pods?fieldSelector=spec.nodeName%3D&{NEW}"
BOUND = f"/api/v1/pods?fieldSelector=spec.nodeName%21%3D&{NEW}"
EVENTS = "/apis/events.k8s.io/v1/events?limit=1"
TIMEOUT = 900.0
QUIET_SECONDS = 3.0


@dataclass(frozen=True)
class Result:
    """The run of one scheduler."""

    name: str
    pods: int
    seconds: float  # until the last pod was bound
    events_stored_seconds: float  # until the last Event was stored, too
    scheduler: float
    apiserver: float
    etcd: float
    events: int

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    def cpu(self, seconds: float) -> str:
        return f"{seconds / self.pods * 1e6:,.0f}"


Start = Callable[[Rig], int]
Config = dict[str, object]
NO_RATE_LIMIT: Config = {"clientConnection": {"qps": 5000, "burst": 5000}}


@contextmanager
def cluster(workload: str, nodes: int, there: int, pending: int, console: Console) -> Iterator[Rig]:
    """A control plane without controllers and kubelets, so that only the scheduler under test writes."""
    with Rig(audited=False) as rig:
        with console.status(f"creating {nodes} nodes and {there + pending} pods"):
            rig.admin.create_many(worker(i) for i in range(nodes))
            rig.admin.create_many(resident(i, nodes) for i in range(there))
            rig.admin.create_many(WORKLOADS[workload](i) for i in range(pending))
        yield rig


def start_kube_scheduler(config: Config) -> Start:
    return lambda rig: rig.start_kube_scheduler(config).pid


def start_trimtab(rig: Rig) -> int:
    config = rig.workspace / "trimtab.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"kubeconfig": str(rig.admin_kubeconfig)},
                "profiles": [{"schedulerName": "default-scheduler"}],
            }
        )
    )
    log = (rig.workspace / "trimtab.log").open("w")
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(config), "--serve", "127.0.0.1:0"]
    return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ).pid


def any_at(rig: Rig, path: str) -> bool:
    """Whether a list with limit=1 returns any object; takes about 4 ms of the server's CPU."""
    return bool(rig.admin.get(path)["items"])


def wait_until(met: Callable[[], bool], pause: float = POLL) -> float:
    """Wait for the condition, and return the time."""
    deadline = time.monotonic() + TIMEOUT
    while not met():
        if time.monotonic() > deadline:
            raise TimeoutError("the scheduler did not finish")
        time.sleep(pause)
    return time.monotonic()


def events_stored(rig: Rig) -> int:
    listed = rig.admin.get(EVENTS)
    return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))


def wait_for_events(rig: Rig) -> tuple[int, float]:
    """Wait until no more Events are stored; their number, and when the last one was seen."""
    count, seen = events_stored(rig), time.monotonic()
    while time.monotonic() - seen < QUIET_SECONDS:
        time.sleep(POLL)
        if (now := events_stored(rig)) != count:
            count, seen = now, time.monotonic()
    return count, seen


def measure(name: str, start: Start, workload: str, sizes: argparse.Namespace, console: Console) -> Result:
    with cluster(workload, sizes.nodes, sizes.there, sizes.pending, console) as rig:
        servers = (rig.apiserver.pid, rig.etcd.pid)
        with console.status(f"{name}: {sizes.pending} {workload} pods on {sizes.nodes} nodes"):
            pid = start(rig)
            try:
                begun = wait_until(lambda: any_at(rig, BOUND), 0.05)
                before = [cpu_seconds(each) for each in (pid, *servers)]
                ended = wait_until(lambda: not any_at(rig, WAITING))
                events, written = wait_for_events(rig)
                own, api, etcd = (cpu_seconds(each) - was for each, was in zip((pid, *servers), before, strict=True))
            finally:
                os.kill(pid, signal.SIGTERM)
        return Result(name, sizes.pending, ended - begun, max(written, ended) - begun, own, api, etcd, events)


def show(console: Console, workload: str, results: list[Result]) -> None:
    """The table, then Trimtab, the last row, relative to each of the others."""
    heads = ("scheduler", "pods/s", "with Events", "own CPU", "apiserver", "etcd", "Events")
    title = f"{workload}: pods/s, pods/s until the last Event is stored, CPU µs per pod"
    table = Table(title=title, title_justify="left")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index == 0 else "right")
    for each in results:
        cpu = (each.cpu(each.scheduler), each.cpu(each.apiserver), each.cpu(each.etcd))
        table.add_row(
            each.name, f"{each.rate:,.0f}", f"{each.pods / each.events_stored_seconds:,.0f}", *cpu, f"{each.events:,}"
        )
    console.print(table)
    ours = results[-1]
    for each in results[:-1]:
        console.print(
            f"Trimtab vs {each.name}: {ours.rate / each.rate:.2f}x pods/s, "
            f"{each.events_stored_seconds / ours.events_stored_seconds:.2f}x until the last Event, "
            f"{ours.scheduler / each.scheduler:.2f}x CPU per pod"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-live", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--there", type=int, default=5000, help="pods bound before the run")
    parser.add_argument("--pending", type=int, default=5000, help="pods to be scheduled")
    parser.add_argument("--only", choices=("stock", "every", "trimtab"), action="append", help="run just these")
    parser.add_argument("--workload", choices=tuple(WORKLOADS), action="append", help="just these; by default all")
    sizes = parser.parse_args()
    console = Console()
    schedulers: dict[str, tuple[str, Start]] = {
        "stock": ("kube-scheduler, stock", start_kube_scheduler(NO_RATE_LIMIT)),
        "every": (
            "kube-scheduler, every node",
            start_kube_scheduler({**NO_RATE_LIMIT, "percentageOfNodesToScore": 100}),
        ),
        "trimtab": ("Trimtab", start_trimtab),
    }
    chosen = sizes.only or ["stock", "trimtab"]
    for workload in sizes.workload or WORKLOADS:
        runs = [measure(*schedulers[each], workload, sizes, console) for each in schedulers if each in chosen]
        show(console, workload, runs)


if __name__ == "__main__":
    main()
