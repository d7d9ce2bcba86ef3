"""Decides what is odd about a configuration by itself, and which sources are to be looked at for it; asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trimtab.apps.doctor.finding import Area, Finding, ok, problem, warning
from trimtab.apps.doctor.plugin_checks import Sources
from trimtab.apps.doctor.source_checks import MetricKey, expected_metrics
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import Info
from trimtab.config.trimtab.labeller import combined_configuration
from trimtab.config.trimtab.settings import SourceSettings
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import SourceError


def sources_to_probe(configuration: Configuration) -> tuple[SourceSettings, ...]:
    """The sources, each with the queries of the label rules added."""
    document = configuration.trimtab
    if document.labels is None or not configuration.settings.profiles or not document.sources:
        return document.sources
    return combined_configuration(configuration, "").trimtab.sources


def check_config(configuration: Configuration) -> Iterator[Finding]:
    """Notes on the file, what two sources both measure, and rules that nobody measures for."""
    for note in configuration.notes:
        place = f"{note.file}:{note.line}" if note.line else note.file
        if isinstance(note, Info):
            yield ok(Area.CONFIGURATION, note.path or place, note.message)
        else:
            yield warning(Area.CONFIGURATION, note.path or place, note.message, f"see {place}")
    yield from _duplicate_metrics(configuration.trimtab.sources)
    own, names = configuration.trimtab, ", ".join(profile.name for profile in configuration.settings.profiles)
    if own.labels is not None and not own.sources:
        remedy = "add a source, or remove labels"
        yield problem(Area.LABELS, "rules", "there is no source, so nobody is under pressure", remedy)
    measured = ", ".join(source.name for source in own.sources) or "nothing, requests stand in"
    for_whom = f"schedules for {names}" if names else "marks nodes"
    yield ok(Area.CONFIGURATION, "file", f"can be used; {for_whom}; measures by {measured}")


def _duplicate_metrics(sources: Iterable[SourceSettings]) -> Iterator[Finding]:
    doubled: dict[tuple[str, ...], list[str]] = {}
    for (resource, subject), names in _sources_by_key(sources).items():
        if len(names) > 1:
            doubled.setdefault(names, []).append(f"{resource} of {subject}")
    for names, what in doubled.items():
        says = f"{', '.join(what)} come from {' and '.join(names)}: of each node the newer sample counts"
        yield warning(Area.CONFIGURATION, "sources", says, "let one source measure each: set metrics on the other")


def _sources_by_key(sources: Iterable[SourceSettings]) -> Mapping[MetricKey, tuple[str, ...]]:
    found: dict[MetricKey, tuple[str, ...]] = {}
    for source in sources:
        try:
            asked = expected_metrics(source)
        except SourceError:  # told when it is looked at
            continue
        for each in sorted(asked):
            found[each] = (*found.get(each, ()), source.name)
    return found


def sources_by_metric(sources: Iterable[SourceSettings]) -> Sources:
    """Who is meant to tell what of nodes."""
    return {name: who for (name, subject), who in _sources_by_key(sources).items() if subject is Subject.NODES}
