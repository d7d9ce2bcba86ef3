"""Every panel about moves has data from a real Prometheus that scrapes a rescheduler which moves pods.

Grades take ten minutes at least, so `make soak` tries their panels; tests/monitoring/test_move_series.py has their series.
"""

from __future__ import annotations

import time

import pytest

from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.test_dashboards import WINDOW, has_data
from tests.live.test_move_faults import NO_ELECTION, EvictionWebhook, rescheduler
from tests.live.test_move_faults import cluster as cluster
from tests.live.test_move_faults import hot as hot
from tests.monitoring.promql import filled, metrics_of, panel_expressions
from tools.controlplane.process import Process
from tools.controlplane.prometheus import Target

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
BUDGETS = {"cluster": {"moves": 20, "within": "10m"}}
OF_GRADES = {"trimtab_moves_graded_total", "trimtab_move_relief", "trimtab_plan_error_percent_points"}


def panels(of_grades: bool) -> dict[str, str]:
    """The expressions about grades of moves, or all others about moves."""
    about = [each for each in panel_expressions() if each[0].startswith("rescheduling: ")]
    return {
        f"{where} {number}": filled(expr, WINDOW)
        for number, (where, expr) in enumerate(about)
        if bool(metrics_of(expr) & OF_GRADES) is of_grades
    }


def without_data(
    cluster: MeteredCluster, process: Process, left: dict[str, str], seconds: float, every: float
) -> dict[str, str]:
    """The expressions that never had data in this time, while Prometheus scrapes the process."""
    target = Target(process.url.removeprefix("http://"), job="trimtab-rescheduler")
    cluster.prometheus.scrape([*cluster.exporters.targets(), target])
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        left = {where: expr for where, expr in left.items() if not has_data(cluster, expr)}
        time.sleep(every)
    return left


def test_every_panel_has_data(cluster: MeteredCluster, hot: int) -> None:
    """Of a rescheduler that has moved pods, was refused one, and taints a hot node."""
    wanted = panels(of_grades=False)
    assert len(wanted) > 20
    settings = {"budgets": BUDGETS, "remedies": {"softTaint": True}}
    with EvictionWebhook(cluster, refused="app-0"), rescheduler(cluster, "dashboard", **settings) as process:
        assert {} == without_data(cluster, process, wanted, 90, 0.5), process.log_tail()


@pytest.mark.soak
@pytest.mark.timeout(1500)
def test_every_panel_of_grades_has_data(cluster: MeteredCluster, hot: int) -> None:
    """Of a rescheduler whose moves are graded as early as can be."""
    wanted = panels(of_grades=True)
    assert len(wanted) > 2
    early = {"gradeAfter": "10m", "gradeAgainAfter": "20m"}
    with rescheduler(cluster, "grades", *NO_ELECTION, budgets=BUDGETS, **early) as process:
        assert {} == without_data(cluster, process, wanted, 1200, 5.0), process.log_tail()
