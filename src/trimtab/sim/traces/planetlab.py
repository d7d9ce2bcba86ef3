"""Reads a day of PlanetLab, the CPU usage of virtual machines that CloudSim made known, with CloudSim's hosts and sizes.

A day is a file `DAY.csv` (`vm, cpu_pct`: percentages with spaces in between), or a folder `DAY` as it is published, with a
file of one percentage per line for each machine. One MIPS of CloudSim is one millicore here, and between two samples usage
stays the same. Memory is not recorded: a machine uses all of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path

import numpy as np

from trimtab.config.config_node import Report
from trimtab.core.model.resources import MIB
from trimtab.sim.scenario import Scenario
from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.recording import RecordedPod, RecordedTrace, to_scenario, vary
from trimtab.sim.traces.tables import Row, UsageArray, fail, find_file, read_lines, read_rows

STEP = 300.0
STEPS = 288
HOSTS = 800
HOST_MIPS = (1860, 2660)  # per core, of hosts with even and with odd numbers
HOST_CORES, HOST_MEMORY = 2, 4096 * MIB
SIZES = ((2500, 870 * MIB), (2000, 1740 * MIB), (1000, 1740 * MIB), (500, 613 * MIB))  # in equal blocks, by position


def load_planetlab(options: TraceOptions, seed: int) -> Scenario:
    """One day on CloudSim's hosts; raises ConfigError."""
    day = options.day or _first_day(options.folder)
    folder = options.folder / day
    machines = list(_published(folder) if folder.is_dir() else _table(find_file(options.folder, [f"{day}.csv"])))
    if not machines:
        fail(str(folder), "has no machines: the trace may be cut short")
    block = ceil(len(machines) / len(SIZES))
    pods = tuple(_pod(name, cpu, *SIZES[number // block]) for number, (name, cpu) in enumerate(machines))
    nodes = tuple(
        (f"host-{number}", HOST_CORES * HOST_MIPS[number % 2], HOST_MEMORY) for number in range(options.nodes or HOSTS)
    )
    recording = RecordedTrace(f"planetlab-{day}", nodes, pods, STEPS, STEP)
    return to_scenario(vary(recording, options), labels=False)


def _first_day(folder: Path) -> str:
    if not folder.is_dir():
        fail(str(folder), "there is no such folder: a path in a scenario is relative to its file")
    days = sorted(each.name.split(".")[0] for each in folder.iterdir() if each.name[:8].isdigit())
    if not days:
        fail(str(folder), "there is no day, such as 20110303, in this folder")
    return days[0]


def _pod(name: str, percent: UsageArray, mips: int, memory: int) -> RecordedPod:
    size = mips, memory
    used = np.full(len(percent), memory, dtype=np.float32)
    return RecordedPod(name, "", size, size, 0, percent * np.float32(mips / 100), used)


def _table(path: Path) -> Iterator[tuple[str, UsageArray]]:
    seen: set[str] = set()
    for row in read_rows(path, ["vm", "cpu_pct"]):
        name = row.name("vm")
        if name in seen:
            row.error("vm", f"{name} is there twice")
        seen.add(name)
        yield name, _day(row, "cpu_pct")


def _published(folder: Path) -> Iterator[tuple[str, UsageArray]]:
    """A file for each machine, in the order of their names."""
    for number, path in enumerate(sorted(each for each in folder.iterdir() if each.is_file())):
        report = Report(str(path))
        text = " ".join(cells[0] for _, cells in read_lines(path))
        percent = _day(Row(1, [text], {"cpu_pct": 0}, report), "cpu_pct")
        report.finish()
        yield f"vm-{number:04}", percent


def _day(row: Row, column: str) -> UsageArray:
    percent = row.series(column)
    if percent is None:
        return np.zeros(STEPS, dtype=np.float32)
    if len(percent) != STEPS:
        row.error(column, f"has {len(percent)} values instead of {STEPS}: the trace may be cut short")
    return percent
