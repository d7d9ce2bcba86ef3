"""Which specs are weak: each is run again with the plugin that it is about disabled in Trimtab.

A spec that still passes says nothing about that plugin; one that passes now and then does so by chance. Specs of the API
alone are run with no scheduler at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tools.controlplane.rig import Rig
from tools.e2e.cluster import cluster, start_trimtab
from tools.e2e.suite import Result, SuiteError, run_specs

Show = Callable[[str, Sequence[Result]], None]
NO_SCHEDULER = "no scheduler"
# By a part of the spec's name that no other spec has.
PLUGINS: Mapping[str, str] = {
    "LimitRange with defaults": NO_SCHEDULER,
    "delete a LimitRange by collection": NO_SCHEDULER,
    "PriorityClass endpoints": NO_SCHEDULER,
    "pods of a replication controller across zones": "PodTopologySpread",
    "pods of a service across zones": "PodTopologySpread",
    "PodTopologySpread Filtering": "PodTopologySpread",
    "PodTopologySpread Scoring": "PodTopologySpread",
    "PodTopologySpread Preemption": "PodTopologySpread",
    "non-empty schedulingGates": "SchedulingGates",
    "local ephemeral storage": "NodeResourcesFit",
    "pod overhead is accounted for": "NodeResourcesFit",
    "validates resource limits": "NodeResourcesFit",
    "NodeAffinity is respected if not matching": "NodeAffinity",
    "NodeSelector is respected if matching": "NodeAffinity",
    "NodeSelector is respected if not matching": "NodeAffinity",
    "required NodeAffinity setting": "NodeAffinity",
    "taints-tolerations is respected if matching": "TaintToleration",
    "taints-tolerations is respected if not matching": "TaintToleration",
    "nodes pod can tolerate": "TaintToleration",
    "there exists conflict between pods": "NodePorts",
    "there is no conflict between pods": "NodePorts",
    "PVC has node-affinity": "VolumeBinding",
    "runs ReplicaSets to verify preemption": "DefaultPreemption",
    "basic preemption works": "DefaultPreemption",
    "preemption by critical pod": "DefaultPreemption",
    "pod disruption condition": "DefaultPreemption",
    "async preemption": "DefaultPreemption",
    "match the PodAntiAffinity terms": "InterPodAffinity",
}
# Longer than any spec takes that passes. The suite itself waits five minutes for each pod.
MINUTES = 3


def run_mutants(workspace: Path, focus: str, times: int, show: Show) -> None:
    """Run each spec that matches without its plugin, on one cluster per plugin, and show its results as they come."""
    parts = [part for part in PLUGINS if re.search(focus, part)]
    for plugin, group in groupby(sorted(parts, key=PLUGINS.__getitem__), key=PLUGINS.__getitem__):
        with cluster(workspace / plugin.replace(" ", "-")) as rig:
            _run_mutant(rig, plugin, [*group], times, show)


def _run_mutant(rig: Rig, plugin: str, parts: Sequence[str], times: int, show: Show) -> None:
    scheduler = None if plugin == NO_SCHEDULER else start_trimtab(rig, [plugin])
    try:
        for index, part in enumerate(parts):
            show(plugin, [_run_one(rig, f"spec-{index}-{number}", part) for number in range(times)])
    finally:
        if scheduler:
            scheduler.kill()


def _run_one(rig: Rig, name: str, part: str) -> Result:
    results = run_specs(rig, name, re.escape(part), MINUTES)
    if len(results) != 1:
        raise SuiteError(f"{part!r} matches {len(results)} specs: correct PLUGINS in tools/e2e/mutants.py")
    return results[0]
