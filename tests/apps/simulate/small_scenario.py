"""A scenario that takes a fraction of a second, and jobs on it."""

from __future__ import annotations

from pathlib import Path

from trimtab.apps.simulate.jobs import Job, make_jobs
from trimtab.apps.simulate.policies import find_policies
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario

SMALL = """
apiVersion: trimtab.dev/v1alpha1
kind: Scenario
description: Six pods, and a process outside of Kubernetes that heats up a node <b>&amp; more</b>.
duration: 20m
begins: "08:00"
step: 30s
nodes:
- {name: a, cpu: 4, memory: 8Gi, systemUsage: {cpu: {steady: 100m, surge: {level: 85%, begins: 60s, ends: 15m, rise: 30s}}}}
- {name: b, cpu: 4, memory: 8Gi}
- {name: c, cpu: 4, memory: 8Gi, joins: 5m}
workloads:
- name: web
  kind: Deployment
  replicas: 6
  created: 2m
  stagger: 60s
  requests: {cpu: 500m, memory: 512Mi}
  usage: {cpu: {steady: 90%, noise: 20%}, memory: 60%}
- name: late
  kind: Pod
  created: 10m
  requests: {cpu: 250m, memory: 128Mi}
  usage: {cpu: 50%}
metrics: {interval: 30s, noise: 5%}
"""


def small_scenario(seed: int = 1) -> Scenario:
    return parse_scenario(SMALL, "small.yaml", Path(), seed)


def small_jobs(
    policies: tuple[str, ...] = ("stock", "PeakRisk"), seeds: int = 1, *, compaction: bool = False
) -> list[Job]:
    scenarios = {seed: small_scenario(seed) for seed in range(1, seeds + 1)}
    return [*make_jobs(scenarios, find_policies(policies), compaction=compaction)]


def write_small(folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text(SMALL)
    return path
