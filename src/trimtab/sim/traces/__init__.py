"""Recorded traces of pods as scenarios; each format is a loader, and a row of `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from trimtab.sim.scenario import Scenario
from trimtab.sim.traces.openb import load_openb
from trimtab.sim.traces.options import TraceOptions
from trimtab.sim.traces.planetlab import load_planetlab
from trimtab.sim.traces.pod_trace import load_pod_trace


class TraceFormat(Struct, frozen=True):
    """How a format is loaded, which of the options it has, and whether the seed makes a difference."""

    load: Callable[[TraceOptions, int], Scenario]
    options: frozenset[str]
    seeded: bool = False


FORMATS: Mapping[str, TraceFormat] = {
    "trace": TraceFormat(
        load_pod_trace,
        frozenset(
            {"nodes", "requests", "usage", "shuffle_usage", "stagger", "labels", "initial_placement", "ready_delay"},
        ),
    ),
    "openb": TraceFormat(load_openb, frozenset({"nodes", "pod_list", "demand"}), seeded=True),
    "planetlab": TraceFormat(load_planetlab, frozenset({"nodes", "requests", "usage", "day"})),
}


def load(name: str, options: TraceOptions, seed: int) -> Scenario:
    """The trace as a scenario of this format; raises ConfigError, or OSError for a folder that cannot be read.

    The newest one is kept, because runs with several seeds share it: a trace may take seconds to load.
    """
    return _load(name, options, seed if FORMATS[name].seeded else 0, _versions(options.folder))


@lru_cache(maxsize=1)
def _load(name: str, options: TraceOptions, seed: int, versions: tuple[tuple[str, int, int], ...]) -> Scenario:
    return FORMATS[name].load(options, seed)


def _versions(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """By which a change of the files is noticed."""
    files = sorted(each for each in folder.rglob("*") if each.is_file()) if folder.is_dir() else []
    return tuple((str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in files)
