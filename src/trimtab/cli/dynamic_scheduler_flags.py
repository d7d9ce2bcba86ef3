"""The flags of dynamic-Scheduler's first version, which had thresholds as flags instead of a rule.yaml.

-cpu 60 -mem 80      percent of a node's CPU and memory above which it is under pressure
-cmem 2040           MiB of memory.available, as memory-available.sh pushes it, below which it is
-promjob NAME        the job whose series of node_exporter count
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from trimtab.cli.flags import Flag

GROUP = "Flags of dynamic-Scheduler's first version"
CPU, MEMORY = 60.0, 80.0
PERCENT = click.FloatRange(0, 100)
THRESHOLDS = ("cpu", "mem", "cmem")

FIRST_VERSION_FLAGS = (
    Flag(
        GROUP, "cpu", PERCENT, f"With -prom, without -r: percent of CPU; default {CPU:g} if -mem is given.", ("-cpu",)
    ),
    Flag(GROUP, "mem", PERCENT, f"The same for memory; default {MEMORY:g} if -cpu is given.", ("-mem",)),
    Flag(
        GROUP, "cmem", click.FloatRange(min=0), "MiB of memory.available, as it is pushed; none unless set.", ("-cmem",)
    ),
    Flag(GROUP, "promjob", click.STRING, "With these: the job of node_exporter; any unless set.", ("-promjob",)),
)
REFUSED = {
    "--controllers": "a flag of trimtab run",
    "--record": "a flag of trimtab run",
    "--rule": "use -r FILE",
    "--port": "use -webaddr HOST:PORT, or --secure-port",
    "--address": "use -webaddr HOST:PORT, or --bind-address",
}


def has_thresholds(flags: Mapping[str, Any]) -> bool:
    """Whether the flags take the place of a rule.yaml."""
    return any(flags[name] is not None for name in THRESHOLDS)


def rule_file(flags: Mapping[str, Any]) -> str:
    """The rule.yaml that says the same as these flags; JSON is YAML."""
    job = flags["promjob"]
    own, idle = _matchers(job), _matchers(job, 'mode="idle"')
    cpu = f"(1 - sum by (instance) (increase(node_cpu_seconds_total{idle}[1m]))"
    cpu += f" / sum by (instance) (increase(node_cpu_seconds_total{own}[1m]))) * 100"
    memory = f"(1 - node_memory_MemAvailable_bytes{own} / node_memory_MemTotal_bytes{own}) * 100"
    rules: dict[str, dict[str, object]] = {
        "Node_cpu": {"Promsql": cpu, "Threshold": _or_default(flags["cpu"], CPU)},
        "Node_mem": {"Promsql": memory, "Threshold": _or_default(flags["mem"], MEMORY)},
    }
    if flags["cmem"] is not None:
        pushed = {"Promsql": "k8_node_cgroups_mem_available", "Threshold": flags["cmem"], "Direction": "below"}
        rules["Node_cmem"] = pushed
    return json.dumps({"Rulename": rules}, ensure_ascii=False)


def _or_default(value: float | None, default: float) -> float:
    return default if value is None else value


def _matchers(job: str | None, *others: str) -> str:
    pairs = [*([f"job={json.dumps(job, ensure_ascii=False)}"] if job else []), *others]
    return f"{{{','.join(pairs)}}}" if pairs else ""
