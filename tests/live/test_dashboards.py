"""Every expression of every panel and alert has data from a real Prometheus that scrapes a real Trimtab, or is proved.

Four nodes with metrics, the scheduler with the labeller in one process, two sources of which one is dead, and every kind of
pod: scheduled, too big, gated, preempting, warned of. Pods arrive all the time, so that rates have something to show.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from itertools import count

import pytest
import yaml

from tests.live import trimtab_process
from tests.live.metering.load_scenario import QUICK, ready_process
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.test_preemption import priority
from tests.monitoring.alert_cases import CASES
from tests.monitoring.promql import DOCUMENT, FOREIGN, METRIC, OF_MOVES, filled, metrics_of, panel_expressions
from tests.monitoring.test_alerts import RULES
from tests.serve.exposition import Exposition
from tools.controlplane.objects import pod
from tools.controlplane.process import Process, free_port
from tools.controlplane.prometheus import Target
from tools.monitoring.alert import CRITICAL
from tools.monitoring.alerts import ALERTS

pytestmark = pytest.mark.live

WINDOW = "10s"  # of rates, at a scrape per second
SECONDS = 40.0
ROLES = ("components/labeller/labeller.yaml", "rbac-labeller.yaml", "rbac-serving.yaml")
TARGET_LABELS = {"__name__", "job", "instance"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MeteredCluster]:
    """node-1 is under memory pressure, node-2 is full, and node-3 sends nonsense; our rules are evaluated every second."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        del group["interval"]
    with MeteredCluster(controlplane_or_skip(), nodes=4, prometheus={"rules": rules}, audited=False) as running:
        trimtab_process.install(running.rig, *trimtab_process.ROLES, *ROLES)
        running.rig.admin.create(priority("urgent", 1000))
        for name, memory in {"node-0": 0.2, "node-1": 0.88, "node-2": 0.3, "node-3": 0.4}.items():
            running.exporters.set(name, cpu=memory / 2, memory=memory)
        running.exporters.override("node-3", "node_memory_MemAvailable_bytes", "NaN")
        yield running


@pytest.fixture(scope="module")
def trimtab(cluster: MeteredCluster) -> Iterator[Process]:
    """The leader, scraped with a standby as the job trimtab."""
    dead = {"url": f"http://127.0.0.1:{free_port()}", "interval": "1s", "timeout": "1s"}
    rule = {"name": "memory", "metric": "memory", "above": "80%", "clear": "60%", "for": "1s", "clearFor": "1s"}
    own = {
        "sources": [
            {"name": "prom", "prometheus": {"url": cluster.prometheus.url, **QUICK}},
            {"name": "dead", "prometheus": dead},
        ],
        "labels": {"mode": "apply", "rules": [rule]},
        "metrics": {"nodeUsage": True},
    }
    limit = {"name": "Rescheduler", "args": {"cpuThreshold": 60}}
    plugins = {"multiPoint": {"enabled": [{"name": "Rescheduler"}]}}
    careful = {"schedulerName": "careful", "plugins": plugins, "pluginConfig": [limit]}
    profiles = [{"schedulerName": trimtab_process.SCHEDULER}, careful]
    config = trimtab_process.write_config(cluster.rig, own=own, profiles=profiles)
    flags = ("--controllers", "scheduler,labeller")
    with (
        ready_process(trimtab_process.launch(cluster.rig, config, "leader", *flags)) as leader,
        ready_process(trimtab_process.launch(cluster.rig, config, "standby", *flags)) as standby,
    ):
        targets = [Target(each.url.removeprefix("http://"), job="trimtab") for each in (leader, standby)]
        cluster.prometheus.scrape([*cluster.exporters.targets(), *targets])
        cluster.prometheus.wait_for('up{job="trimtab"}', lambda up: [1.0, 1.0] == list(up.values()))
        yield leader


@pytest.fixture(scope="module")
def arrivals(cluster: MeteredCluster, trimtab: Process) -> Iterator[None]:
    """Pods for every outcome at the start; `next` creates some more that fit."""
    here = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}, "scheduler": trimtab_process.SCHEDULER}
    cluster.rig.admin.create(pod("tenant", cpu="7500m", nodeName="node-2"))
    cluster.rig.admin.create(pod("gated", scheduler="trimtab", schedulingGates=[{"name": "example.com/later"}]))
    cluster.rig.admin.create(pod("heavy", cpu="5600m", scheduler="careful"))  # brings any node above the threshold
    cluster.rig.admin.create(pod("big", cpu="900", scheduler="trimtab"))
    cluster.rig.admin.create(pod("urgent", cpu="4", priorityClassName="urgent", **here))

    def arriving() -> Iterator[None]:
        for number in count():
            cluster.rig.admin.create_many(pod(f"web-{number}-{n}", scheduler="trimtab") for n in range(3))
            yield

    return arriving()


def has_data(cluster: MeteredCluster, expr: str) -> bool:
    """Whether some series has a number."""
    return any(not math.isnan(float(each["value"][1])) for each in cluster.prometheus.query(expr))


def without_data(cluster: MeteredCluster, expressions: dict[str, str], arrivals: Iterator[None]) -> dict[str, str]:
    """Those that still have no data when time is up, while pods arrive."""
    left, deadline = dict(expressions), time.monotonic() + SECONDS
    while left and time.monotonic() < deadline:
        next(arrivals)
        left = {where: expr for where, expr in left.items() if not has_data(cluster, expr)}
        time.sleep(0.5)
    return left


def test_every_panel_has_data(cluster: MeteredCluster, arrivals: Iterator[None]) -> None:
    """What happens rarely starts at 0, or happens here; only moves do not: see tests/monitoring/test_move_series.py."""
    panels = [(where, expr) for where, expr in panel_expressions() if not where.startswith("rescheduling: ")]
    asked = {f"{where} {n}": filled(expr, WINDOW) for n, (where, expr) in enumerate(panels)}
    assert {} == without_data(cluster, asked, arrivals)


def test_the_queue_of_a_standby_does_not_count(cluster: MeteredCluster, arrivals: Iterator[None]) -> None:
    """There the pod that is too big is active for ever; the panel shows what the leader has."""
    asked = next(filled(expr) for where, expr in panel_expressions() if where.endswith("Pending pods by queue"))
    everywhere = 'scheduler_pending_pods{queue="active"}'
    cluster.prometheus.wait_for(everywhere, lambda found: [0.0, 1.0] == sorted(found.values()))
    cluster.prometheus.wait_for(asked, lambda found: (0.0, 1.0) == (found["active"], found["gated"]), label="queue")


def test_every_alert_has_data_or_is_proved(cluster: MeteredCluster, arrivals: Iterator[None]) -> None:
    """A signal may be without data on a healthy system only if promtool makes its alert fire on metrics that exist here."""
    next(arrivals)
    proved = {case.alert: " ".join(case.series) for case in CASES if case.says}
    silent = {alert.name: alert.signal for alert in ALERTS if not has_data(cluster, alert.signal)}
    for name, signal in silent.items():
        for metric in metrics_of(signal):
            assert metric in proved[name], (name, metric)
            known = FOREIGN.fullmatch(metric) or OF_MOVES.fullmatch(metric)
            assert known or cluster.prometheus.query(f'{{__name__=~"{metric}(_bucket)?"}}'), name


def test_the_right_alerts_are_pending(cluster: MeteredCluster, trimtab: Process) -> None:
    """Prometheus evaluates the rules on what is wrong here: a dead source, a node without samples, one node far hotter."""
    wrong = {"TrimtabSourceDown", "TrimtabLoadDataUntrusted", "TrimtabNodeLoadImbalance"}
    pending = cluster.prometheus.wait_for("ALERTS", lambda found: wrong <= found.keys(), label="alertname")
    assert set() == {alert.name for alert in ALERTS if alert.severity == CRITICAL} & pending.keys()


def test_documented_metrics_are_served(trimtab: Process) -> None:
    """Every metric in the tables of docs/metrics.md, but for those of --record, which is off."""
    served = Exposition(trimtab_process.page(trimtab, "/metrics")[1]).families
    tables = DOCUMENT.read_text().partition("## Metrics of kube-scheduler that are missing")[0]
    names = {name for cell in re.findall(r"^\| (`[^|]+) \|", tables, re.MULTILINE) for name in METRIC.findall(cell)}
    assert len(names) > 40
    assert {"trimtab_recorded_records_total", "trimtab_recorded_bytes_total"} == names - served.keys()


def test_promtool_s_series_are_real_ones(cluster: MeteredCluster, trimtab: Process) -> None:
    """The series of the alerts' unit tests have the labels of the real ones: an invented label would prove nothing."""
    tested = [name for case in CASES for name in case.series]
    wrong = {}
    for name, labels in {each.partition("{")[::2] for each in tested}:
        invented = set(yaml.safe_load("{" + labels.replace("=", ": "))) - {"namespace", "pod"} - TARGET_LABELS
        real = [set(each["metric"]) for each in cluster.prometheus.query(name)]
        elsewhere = FOREIGN.fullmatch(name) or OF_MOVES.fullmatch(name)
        if not elsewhere and not any(invented <= found for found in real):
            wrong[name] = (invented, real[:1])
    assert {} == wrong
