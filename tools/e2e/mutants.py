"""Which specs are weak: each is run again with the plugin that it is about disabled in Trimtab.

A spec that still passes says nothing about that plugin. Specs of the API alone are run with no scheduler at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path

from tools.controlplane.rig import Rig
from tools.e2e.cluster import cluster, start_trimtab
from tools.e2e.suite import Result, run_specs

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


def plugin_of(spec: str) -> str:
    """The plugin that a spec is about; empty for one that the table does not know."""
    return next((plugin for part, plugin in PLUGINS.items() if part in spec), "")


def run_mutants(workspace: Path, specs: Iterable[str], show: Callable[[str, Result], None]) -> None:
    """Run each spec without its plugin, on one cluster per plugin, and show each result as it comes."""
    known = sorted((plugin_of(spec), spec) for spec in specs if plugin_of(spec))
    for plugin, pairs in groupby(known, key=lambda pair: pair[0]):
        with cluster(workspace / plugin.replace(" ", "-")) as rig:
            _run_mutant(rig, plugin, [spec for _, spec in pairs], show)


def _run_mutant(rig: Rig, plugin: str, specs: Iterable[str], show: Callable[[str, Result], None]) -> None:
    scheduler = None if plugin == NO_SCHEDULER else start_trimtab(rig, [plugin])
    try:
        for index, spec in enumerate(specs):
            for result in run_specs(rig, f"spec-{index}", focus_on(spec), MINUTES):
                show(plugin, result)
    finally:
        if scheduler:
            scheduler.kill()


def focus_on(spec: str) -> str:
    """A pattern for this spec alone: its part of the table, since the suite's names also have labels inside."""
    return next(re.escape(part) for part in PLUGINS if part in spec)
