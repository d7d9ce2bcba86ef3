"""The reschedulers of `make bench-move`: how each is configured and started, in the time scale of the run.

All of them have five minutes between rounds, as is the default of each, and CPU as a rate over two minutes from the same
Prometheus. The descheduler's own Prometheus support evicts at most one pod of each overutilized node in a round.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from bench.move.cluster import SCRAPE_SECONDS, MoveCluster
from bench.move.timescale import TimeScale
from tools.controlplane.client import Document
from tools.controlplane.process import Process, free_port, wait_ready
from tools.controlplane.prometheus import Prometheus
from tools.descheduler.build import CA_FILE_VARIABLE, build_descheduler
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.duration import MINUTE
from trimtab.core.rescheduling.settings import ReschedulingSettings

ROOT = Path(__file__).resolve().parents[2]
INTERVAL, RATE_WINDOW = 5 * MINUTE, 2 * MINUTE
SECRET = {"namespace": "kube-system", "name": "prometheus"}
ADMINISTRATORS = "system:masters"

Start = Callable[[MoveCluster, Prometheus, str], Process]
"""From the cluster, its metrics and a name for files to the running process."""


@dataclass(frozen=True)
class Turn:
    """One row of the table; without `start` nobody moves pods."""

    key: str
    title: str
    start: Start | None = None


def descheduler_with(low: int, high: int) -> Start:
    """LowNodeUtilization with these thresholds, in percent."""
    return lambda cluster, prometheus, name: start_descheduler(cluster, prometheus, name, low, high)


def start_descheduler(cluster: MoveCluster, prometheus: Prometheus, name: str, low: int, high: int) -> Process:
    """The real descheduler with this policy."""
    rig, policy = cluster.rig, cluster.rig.workspace / f"{name}.json"
    policy.write_text(json.dumps(descheduler_policy(prometheus.url, cluster.scale, low, high)))
    # It insists on a token for Prometheus, which asks for none.
    rig.apply(
        [{"apiVersion": "v1", "kind": "Secret", "metadata": SECRET, "stringData": {"prometheusAuthToken": "none"}}]
    )
    flags = {
        "policy-config-file": policy,
        "kubeconfig": rig.client_kubeconfig("descheduler", ADMINISTRATORS),
        "descheduling-interval": cluster.scale.duration(INTERVAL),
        "bind-address": "127.0.0.1",
        "secure-port": (port := free_port()),
        "tls-cert-file": rig.credentials.server_cert,
        "tls-private-key-file": rig.credentials.server_key,
        "v": 3,
    }
    command = [str(build_descheduler()), *(f"--{flag}={value}" for flag, value in flags.items())]
    environment = {CA_FILE_VARIABLE: str(rig.credentials.ca_file)}
    process = Process(command, rig.workspace / f"{name}.log", environment, f"https://127.0.0.1:{port}")
    return wait_ready(process, lambda: bool(rig.scrape(process, "/healthz")))


def descheduler_policy(url: str, scale: TimeScale, low: int, high: int) -> Document:
    """LowNodeUtilization by CPU usage, and the evictor with its defaults."""
    idle = f'avg by (instance) (rate(node_cpu_seconds_total{{mode="idle"}}[{scale.duration(RATE_WINDOW)}]))'
    args = {
        "thresholds": {"MetricResource": low},
        "targetThresholds": {"MetricResource": high},
        # A rate over few scrapes may leave the range that the descheduler accepts, and then its round fails.
        "metricsUtilization": {"source": "Prometheus", "prometheus": {"query": f"clamp(1 - {idle}, 0, 1)"}},
    }
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "metricsProviders": [
            {"source": "Prometheus", "prometheus": {"url": url, "authToken": {"secretReference": SECRET}}}
        ],
        "profiles": [
            {
                "name": "bench",
                "pluginConfig": [{"name": "DefaultEvictor"}, {"name": "LowNodeUtilization", "args": args}],
                "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
            }
        ],
    }


def trimtab_with(**settings: object) -> Start:
    """Trimtab's rescheduler with these settings of the section `rescheduling`."""
    return lambda cluster, prometheus, name: start_trimtab(cluster, prometheus, name, settings)


def start_trimtab(cluster: MoveCluster, prometheus: Prometheus, name: str, settings: Document) -> Process:
    """The rescheduler alone, in a process of its own; kube-scheduler places the pods."""
    rig, url = cluster.rig, f"http://127.0.0.1:{free_port()}"
    rig.ensure_namespace("trimtab")
    config = rig.workspace / f"{name}.json"
    config.write_text(json.dumps(trimtab_document(prometheus.url, cluster.scale, settings)))
    flags = {
        "config": config,
        "controllers": "rescheduler",
        "kubeconfig": rig.client_kubeconfig("trimtab", ADMINISTRATORS),
        "serve": url.removeprefix("http://"),
    }
    command = [sys.executable, "-m", "bench.move.compressed_trimtab", str(cluster.scale.speed), "run"]
    command += [f"--{flag}={value}" for flag, value in flags.items()]
    paths = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = Process(command, rig.workspace / f"{name}.log", paths, url)
    return wait_ready(process, lambda: _is_ready(url))


def trimtab_document(url: str, scale: TimeScale, settings: Document | None = None) -> Document:
    """Trimtab with its defaults, each time divided by the speed, and these settings of the rescheduler."""
    load, moves = LoadSettings(), ReschedulingSettings(interval=INTERVAL)
    trusted = {"freshFor": load.fresh, "staleAfter": load.stale, "window": load.window}
    times = {"interval": moves.interval, "cooldown": moves.cooldown, "minPodAge": moves.min_pod_age}
    times |= {"settleTime": moves.settle_time, "maxMetricsAge": moves.max_metrics_age}
    budgets = {
        str(scope): {"moves": each.moves, "within": scale.duration(each.within)}
        for scope, each in moves.budgets.items()
    }
    polled = dict.fromkeys(("interval", "timeout"), scale.duration(SCRAPE_SECONDS))
    source = {"url": url, **polled, "rateWindow": scale.duration(RATE_WINDOW)}
    rescheduling = {"mode": "auto", **_durations(scale, times), "budgets": budgets, **(settings or {})}
    return {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "TrimtabConfiguration",
        "sources": [{"name": "main", "prometheus": source}],
        "load": _durations(scale, trusted),
        "rescheduling": rescheduling,
        "logging": {"format": "json"},
    }


def _durations(scale: TimeScale, times: Mapping[str, float]) -> dict[str, str]:
    return {name: scale.duration(seconds) for name, seconds in times.items()}


def _is_ready(url: str) -> bool:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


TURNS = (
    Turn("none", "nobody"),
    Turn("descheduler", "descheduler, 20/50", descheduler_with(20, 50)),
    Turn("descheduler-tuned", "descheduler, 50/80", descheduler_with(50, 80)),
    Turn("trimtab", "Trimtab", trimtab_with()),
    Turn("trimtab-eager", "Trimtab, eager", trimtab_with(eagerness="eager")),
    Turn("trimtab-eviction", "Trimtab, eviction", trimtab_with(method="eviction")),
)
