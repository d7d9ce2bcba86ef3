"""`trimtab shadow` beside the real kube-scheduler: it agrees with the stock profile, differs where a policy does, and writes
nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live import trimtab_process
from tests.live.metering import load_scenario as stage
from tests.live.metering.metered_cluster import MeteredCluster
from tests.live.metering.pod_usage_feed import PodUsageFeed
from tests.live.reader_account import AGGREGATION, install_reader, requests_of, run_command, start_command
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import WORKLOADS, Rig

pytestmark = pytest.mark.live

SIZES = (500, 1000, 250, 2000, 750, 1500, 300, 1200)  # millicores
STOCK: Document = {"schedulerName": "default-scheduler"}
PACKING: Document = {
    "schedulerName": "packing",
    "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
        }
    ],
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Four nodes of different sizes and the real kube-scheduler."""
    with Rig(controlplane_or_skip(), controllers=(*WORKLOADS, AGGREGATION), kwok=True) as running:
        running.admin.create_many(node(f"node-{index}", cpu=str(8 + 2 * index)) for index in range(4))
        running.start_kube_scheduler()
        yield running


@contextmanager
def shadowing(rig: Rig, name: str, profile: Document, own: Document | None = None, *flags: str) -> Iterator[Path]:
    """Run a shadow with this profile for the block; yields the file of its report, which is complete after the block."""
    config = trimtab_process.write_config(rig, name, own, profiles=[profile])
    reader, out = install_reader(rig), rig.workspace / f"{name}.json"
    arguments = ("--policy", str(config), "--kubeconfig", str(reader), "--out", str(out), *flags)
    before = out.read_bytes() if out.exists() else b""
    process = start_command(rig, f"{name}.log", "shadow", *arguments)
    try:
        trimtab_process.wait_for(
            lambda: (out.exists() and out.read_bytes() != before) or not process.running(), 40, "a report", process
        )
        assert process.running(), process.log_tail()
        yield out
        time.sleep(1.0)  # until its watch has brought the last bind
    finally:
        code = process.terminate()
    assert 0 == code, process.log_tail()


def schedule(rig: Rig, prefix: str, count: int = 16, **more: Any) -> None:
    """Create pods one by one, each when the one before is bound: no two of them are decided on the same state."""
    for index in range(count):
        name = f"{prefix}-{index}"
        rig.admin.create(pod(name, cpu=f"{SIZES[index % len(SIZES)]}m", **more))
        trimtab_process.wait_for(lambda name=name: name in trimtab_process.bound(rig), 20, f"{name} bound")


def delete_pods(rig: Rig) -> None:
    names = [each["metadata"]["name"] for each in trimtab_process.pods(rig)]
    rig.admin.map_concurrently(
        lambda name: rig.admin.raw("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"), names
    )
    trimtab_process.wait_for(lambda: not trimtab_process.pods(rig), 20, "no pods", rig.kwok)


def test_the_stock_profile_agrees_with_kube_scheduler(rig: Rig) -> None:
    """Every pod is decided, before it was bound, on the same node or one of the same score; a pod that fits nowhere is
    pending for both; and the account only gets, lists and watches."""
    with shadowing(rig, "stock", STOCK) as out:
        schedule(rig, "same")
        rig.admin.create(pod("giant", cpu="64"))
        trimtab_process.wait_for(lambda: len(trimtab_process.pods(rig)) == 17, 10, "the giant")
        time.sleep(1.0)
    report = json.loads(out.read_bytes())
    summary = report["summary"]
    assert (16, 16, 0, 0) == (
        summary["decided"],
        summary["same"] + summary["equal"],
        summary["different"],
        summary["pending"],
    ), report["differences"]
    assert report["finished"] and "load" not in summary and 0 == summary["unbound"]
    assert 0o600 == out.stat().st_mode & 0o777
    delete_pods(rig)
    verbs = {each["verb"] for each in requests_of(rig)}
    assert {"get", "list", "watch"} >= verbs >= {"list", "watch"}


def test_another_policy_differs(rig: Rig) -> None:
    """Packing chooses the fullest node where kube-scheduler spreads; the first profile decides on pods of any scheduler."""
    with shadowing(rig, "packing", PACKING) as out:
        schedule(rig, "other")
    report = json.loads(out.read_bytes())
    summary = report["summary"]
    assert 16 == summary["decided"] and 8 <= summary["different"], summary
    assert {"default-scheduler"} == {each["scheduler"] for each in report["differences"]}
    assert all(each["real"] != each["shadow"] != "" for each in report["differences"])
    delete_pods(rig)


def test_a_shadow_goes_on_after_a_crash(rig: Rig) -> None:
    """What was counted until the last report is still there after a kill, and the policy must be the same."""
    config = trimtab_process.write_config(rig, "again", profiles=[PACKING])
    reader, out = install_reader(rig), rig.workspace / "again.json"
    arguments = ("--policy", str(config), "--kubeconfig", str(reader), "--out", str(out), "--json")
    with shadowing(rig, "again", PACKING):
        schedule(rig, "first", 4)
    first = json.loads(out.read_bytes())["summary"]
    process = start_command(rig, "again.log", "shadow", *arguments)
    trimtab_process.wait_for(lambda: not json.loads(out.read_bytes())["finished"], 40, "it goes on", process)
    process.kill()
    assert first["decided"] == json.loads(out.read_bytes())["summary"]["decided"] == 4
    with shadowing(rig, "again", PACKING):
        schedule(rig, "second", 4)
    assert 8 == json.loads(out.read_bytes())["summary"]["decided"]
    other = trimtab_process.write_config(rig, "another", profiles=[STOCK])
    refused = run_command(rig, "shadow", "--policy", str(other), "--kubeconfig", str(reader), "--out", str(out))
    assert 2 == refused.returncode
    assert "it is the report of another policy" in refused.stderr and "Traceback" not in refused.stderr
    delete_pods(rig)


def test_the_report_so_far(rig: Rig) -> None:
    """SIGUSR1 prints the table, and the shadow goes on until the end of --for."""
    config = trimtab_process.write_config(rig, "asked", profiles=[STOCK])
    reader, log = install_reader(rig), rig.workspace / "asked.log"
    process = start_command(
        rig, "asked.log", "shadow", "--policy", str(config), "--kubeconfig", str(reader), "--for", "25s"
    )
    time.sleep(12.0)  # before it listens to the signal, the signal would end it
    schedule(rig, "asked", 2)
    os.kill(process.pid, signal.SIGUSR1)
    trimtab_process.wait_for(lambda: "pods decided" in log.read_text(), 10, "a table", process)
    assert process.running()
    trimtab_process.wait_for(lambda: not process.running(), 30, "the end of --for", process)
    assert 2 == log.read_text().count("pods decided") and "load: not measured" in log.read_text()
    delete_pods(rig)


def test_measured_load() -> None:
    """kube-scheduler fills a node that is hot already; a policy that reads the load would not have, and the report says by
    how much. Cumulative, so that the policy sees its own placements and does not fill another one instead."""
    asked = MeteredCluster(controlplane_or_skip(), 4, controllers=(*WORKLOADS, AGGREGATION))
    with asked as cluster, PodUsageFeed(cluster.rig, cluster.exporters, share=1.0):
        for name in cluster.exporters.names:
            cluster.exporters.set(name, cpu=0.1, memory=0.2)
        cluster.exporters.set("node-1", cpu=0.7, memory=0.7)
        cluster.rig.start_kube_scheduler()
        own = stage.prometheus_config(cluster)
        with shadowing(cluster.rig, "measured", stage.profile("LowestLoad"), own, "--cumulative") as out:
            time.sleep(8.0)  # the first samples
            schedule(cluster.rig, "load", 8, memory="1Gi")
            time.sleep(40.0)  # what the pods use is measured, twice
        report = json.loads(out.read_bytes())
    summary = report["summary"]
    assert 8 == summary["decided"] and 0 < summary["different"], summary
    assert "node-1" not in {each["shadow"] for each in report["differences"]}
    cpu = summary["load"]["cpu"]
    assert "node-1" == cpu["real"]["peakNode"] and cpu["shadow"]["peak"] < cpu["real"]["peak"], cpu
    assert cpu["shadow"]["spread"] < cpu["real"]["spread"]
    assert cpu["shadow"]["hotNodeMinutes"]["80"] <= cpu["real"]["hotNodeMinutes"]["80"]
