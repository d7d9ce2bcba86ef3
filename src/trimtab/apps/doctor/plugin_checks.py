"""Decides which plugins lack what they look at; whose measurements are known `coverage` says.

What a plugin looks at is found out by asking it about a pretended node and noting which measurements it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from trimtab.apps.doctor.finding import Area, Finding, ok, problem
from trimtab.apps.doctor.node_coverage import NodeCoverage
from trimtab.config.configuration import Configuration
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS, Filter, Score
from trimtab.core.framework.profile import Profile
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading
from trimtab.core.model.resources import CPU, MEMORY, PodRequests

Sources = Mapping[str, tuple[str, ...]]  # by what they measure of nodes
_RESOURCES = ((CPU, 1000), (MEMORY, 1 << 30), ("pods", 110))
_FALLBACK = "pods are placed by requests"


class RecordingLoad:
    """Measured load that notes which measurements it is asked for."""

    def __init__(self, load: Any, asked: dict[str, None]) -> None:
        self._load, self._asked = load, asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._load, name)
        if not callable(found):
            return found

        def noted(*arguments: Any) -> Any:
            if arguments and isinstance(arguments[0], str):
                self._asked[arguments[0]] = None
            return found(*arguments)

        return noted


def metrics_read(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The measurements that each plugin of a profile looks at, of those that look at any."""
    blind = {name for name, reads in profile.depends_on.items() if reads & int(Change.LOAD)}
    plugins: dict[str, list[object]] = {name: [] for name in blind}
    for name, plugin in (
        *((_name(each), each) for each in profile.filters),
        *((s.name, s.plugin) for s in profile.scores),
    ):
        if name in plugins:
            plugins[name].append(plugin)
    return {name: _metrics_of(those) for name, those in sorted(plugins.items())}


def _name(plugin: object) -> str:
    return str(getattr(plugin, "name", ""))


def _metrics_of(plugins: Iterable[object]) -> tuple[str, ...]:
    asked: dict[str, None] = {}
    cluster = _sample_cluster()
    cluster.load = RecordingLoad(cluster.load, asked)  # type: ignore[assignment]
    view, pod = cluster.view, Pod("u", "n", "p", requests=PodRequests(_RESOURCES[:2], _RESOURCES[:2]))
    for plugin in plugins:
        with suppress(Exception):  # whoever cannot answer here is asked for real soon enough
            if isinstance(plugin, Filter):
                plugin.filter(view, pod, ALL_ROWS)
            if isinstance(plugin, Score):
                plugin.score(view, pod, ALL_ROWS)
    return tuple(sorted(asked)) or (CPU, MEMORY)


def _sample_cluster() -> Cluster:
    """A node that is measured: plugins go by requests where nothing is."""
    cluster = Cluster()
    cluster.upsert_node(Node("n", allocatable=_RESOURCES, capacity=_RESOURCES))
    readings = [Reading("s", name, ("n",), (amount / 2,), (1.0,)) for name, amount in _RESOURCES[:2]]
    cluster.ingest_samples(tuple(readings), 1.0)
    return cluster


def check_plugins(
    configuration: Configuration, sources: Sources, coverages: Iterable[NodeCoverage]
) -> Iterator[Finding]:
    """Profile, plugin, measurement, source. Where there is no source at all, a note on the configuration says so."""
    known = {each.resource: len(each.known) for each in coverages}
    for profile in configuration.settings.profiles if configuration.trimtab.sources else ():
        lacking: dict[str, list[str]] = {}
        wanted = metrics_read(profile)
        for name, resources in wanted.items():
            for resource in (each for each in resources if not known.get(each)):
                lacking.setdefault(resource, []).append(name)
        for resource, names in lacking.items():
            yield _missing_metric(profile.name, names, resource, sources.get(resource, ()))
        if wanted and not lacking:
            yield ok(Area.PLUGIN, profile.name, f"measured is all that is looked at by {', '.join(wanted)}")


def _missing_metric(profile: str, plugins: list[str], resource: str, sources: tuple[str, ...]) -> Finding:
    who = f"{', '.join(plugins)} of profile {profile}"
    if sources:
        says = f"{who} looks at {resource} of nodes; {', '.join(sources)} should tell it, and tells it of none: {_FALLBACK}"
        return problem(Area.PLUGIN, f"{profile} {resource}", says, "mend the source: see what is said of it")
    says = f"{who} looks at {resource} of nodes, and no source measures it: {_FALLBACK}"
    return problem(
        Area.PLUGIN, f"{profile} {resource}", says, "let a source measure it (metrics or queries), or disable"
    )
