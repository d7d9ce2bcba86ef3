"""Scenario files for these tests, and short ways to parse them."""

from pathlib import Path

from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file import parse_scenario

FILE = "s.yaml"
HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: Scenario\n"
NODES = 'duration: 2h\nbegins: "08:00"\nnodes: [{name: a, cpu: 4, memory: 8Gi}, {name: b, cpu: 4, memory: 8Gi, joins: 1h}]\n'
LINES = 5  # of the header and the nodes

FULL = (
    HEAD
    + """\
name: everything
description: One of each.
duration: 2h
begins: "08:00"
step: 30s
warmUp: 10m
oomKills: false
nodes:
- name: control
  cpu: 4
  memory: 8Gi
  labels: {role: control}
  taints: [{key: role, value: control, effect: NoSchedule}]
  zone: a
  joins: 5m
  systemUsage: {cpu: {steady: 100m, surge: {level: 50%, begins: 10m, ends: "09:00", rise: 30s}}, memory: 1Gi}
- count: 3
  namePrefix: worker-
  cpu: 7500m
  memory: 16Gi
  pods: 50
  zones: [a, b]
  resources: {nvidia.com/gpu: 2}
  images: {registry.example/app: 200Mi}
workloads:
- name: web
  replicas: 8
  created: 1m
  deleted: "09:55"
  stagger: 10s
  requests: {cpu: 500m, memory: 1Gi}
  limits: {memory: 2Gi, cpu: "1"}
  usage:
    cpu: {daily: {low: 20%, high: 120%, peak: "14:00"}, noise: 10%}
    memory: [{steady: 200Mi}, {ramp: {from: 10%, to: 50%, over: 1h, delay: 5m}}]
  pod:
    labels: {app: web, tier: front}
    priority: 10
    schedulerName: other
    nodeSelector: {role: worker}
    tolerations: [{key: role, operator: Exists, tolerationSeconds: 5}]
    affinity:
      nodeAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 1, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
    topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
    containers: [{name: main, image: registry.example/app, command: [run], ports: [{hostPort: 80, containerPort: 80}]}]
  startDelay: [2s, 3s]
  readyDelay: 4s
  gracePeriod: 5s
  maxSurge: 30%
  maxUnavailable: 30%
  rollout:
  - {at: 20m}
  - {at: 30m, requests: {cpu: 600m, memory: 1Gi}}
  scale: [{at: 40m, replicas: 10}]
  autoscaling: {minReplicas: 2, maxReplicas: 20, target: 60%, interval: 30s, tolerance: 20%, scaleDownAfter: 1m}
  disruptionBudget: {minAvailable: 30%}
- name: web
  namespace: other
  kind: StatefulSet
  disruptionBudget: {maxUnavailable: 1}
- {name: batch, kind: Job, replicas: 3, lifetime: 10m, usage: {cpu: {bursty: {low: 0, high: 2, share: 10%}}}}
- {name: agent, kind: DaemonSet, usage: {cpu: {recorded: {values: [100m, 200m], step: 1m, repeat: true}}}}
- {name: one, kind: Pod, usage: {memory: {recorded: {values: [1Gi], begins: 5m}}}}
services:
- {name: web, selector: {app: web}}
metrics:
  interval: 15s
  delay: 5s
  loss: 1%
  gaps: 0.02
  noise: 3%
  outages: [{begins: 10m, ends: 20m, kind: zeros, nodes: [worker-1]}, {begins: 30m, ends: 31m}]
events:
- {at: 15m, action: cordon, node: worker-2}
- {at: "08:30", action: failover, takeover: 20s}
- {at: 40m, action: uncordon, node: worker-2}
clusterAutoscaler:
  node: {cpu: 8, memory: 32Gi}
  maxNodes: 2
  provisionDelay: 1m
  idleBelow: 40%
  idleAfter: 5m
"""
)


def parse_body(body: str, folder: Path = Path(), seed: int = 0) -> Scenario:
    """The scenario of a file with the usual header and nodes."""
    return parse_scenario(HEAD + NODES + body, FILE, folder, seed)


def problems_of(content: str | bytes, folder: Path = Path()) -> list[str]:
    """The problems of a file, one line each; none if it is valid."""
    try:
        parse_scenario(content, FILE, folder)
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def problems_of_body(body: str, folder: Path = Path()) -> list[str]:
    """The same for a file with the usual header and nodes, which have five lines."""
    return problems_of(HEAD + NODES + body, folder)


def expected(marked: str, complaints: list[str]) -> list[str]:
    """The complaints, each with the place of its mark."""
    places = []
    for number, line in enumerate(marked.splitlines(), start=1):
        pieces = line.split("»")
        places += [(number, len("".join(pieces[:count])) + 1) for count in range(1, len(pieces))]
    return [f"{FILE}:{line}:{column}: {each}" for (line, column), each in zip(places, complaints, strict=True)]


def check(marked: str, complaints: list[str]) -> None:
    """The file without its marks has just these problems, at the marks."""
    assert expected(marked, complaints) == problems_of(marked.replace("»", ""))
