"""Decides what a `TrimtabConfiguration` document asks for; leaves sources and labels to their own readers."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.own.fields import KIND, VERSION, found
from trimtab.config.own.labelling.labels import read_labels
from trimtab.config.own.settings import (
    LoggingSettings,
    MetricsSettings,
    PrometheusSettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.own.sources import read_sources
from trimtab.config.own.values import HOUR, once, share, span, told, truth
from trimtab.config.spot import Spot, nothing
from trimtab.core.load.pressure_rules import Labelling
from trimtab.core.load.settings import RULES, LoadSettings

DAY = 24 * HOUR
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
Entries = Mapping[str, Spot]


def read_own(root: Spot, further: Mapping[str, type]) -> TrimtabConfiguration:
    """The document's values; what is wrong with them is reported. further: settings of kinds of sources, by their names."""
    entries = found(root, "")
    if not _ours(root, entries):
        return TrimtabConfiguration()
    load = _read_load(_under(entries, "load", root))
    labels = read_labels(entries["labels"]) if "labels" in entries else Labelling()
    rules = labels.rules if labels is not None else None
    sources = read_sources(entries["sources"], further, rules) if "sources" in entries else ()
    for source in sources:
        if (fault := pace_fault(source, load)) is not None:
            entries["sources"].refuse(fault)
    return TrimtabConfiguration(
        sources,
        load,
        labels if "labels" in entries else None,
        _read_logging(_under(entries, "logging", root)),
        MetricsSettings(truth(_under(entries, "metrics", root).get("nodeUsage"), False)),
    )


def check_rules(root: Spot, own: TrimtabConfiguration) -> None:
    """A rule's query needs a Prometheus to be put to: the one it names, or the only one there is."""
    known = [each.name for each in own.sources if isinstance(each, PrometheusSettings)]
    for number, rule in enumerate(own.labels.rules if own.labels is not None else ()):
        if not rule.query or rule.source in known or (not rule.source and len(known) == 1):
            continue
        where = root.child("labels").child("rules").items()[number]
        here = ", ".join(known) or "but there is none, so add one to sources"
        where.refuse(f"the query of {rule.name} needs a Prometheus to be put to: write its source, {here}")


def _ours(root: Spot, entries: Entries) -> bool:
    """Whether it is of the kind and version that are read here; reported if not, and no other field is looked at."""
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.refuse(f"{name} is missing: the document must start with apiVersion: {VERSION} and kind: {KIND}")
    if "kind" in entries:
        entries["kind"].choice([KIND])
    version = entries["apiVersion"].text() if "apiVersion" in entries else VERSION
    if version is not None and version != VERSION:
        entries["apiVersion"].refuse(f"{version[:100]!r} is not read: write {VERSION}")
    return len(root.report.problems) == before


def _under(entries: Entries, name: str, root: Spot) -> Entries:
    return found(entries[name] if name in entries else nothing(root.report, name), name)


def _read_load(entries: Entries) -> LoadSettings:
    usual = LoadSettings()
    fresh = span(entries.get("freshFor"), 1.0, DAY, usual.fresh)
    stale = span(entries.get("staleAfter"), 1.0, DAY, max(usual.stale, fresh))
    if stale < fresh:
        where = entries.get("freshFor") or entries["staleAfter"]
        where.refuse(f"freshFor ({told(fresh)}) must not be longer than staleAfter ({told(stale)})")
        return usual
    return LoadSettings(
        fresh,
        stale,
        span(entries.get("window"), 1.0, HOUR, usual.window),
        share(entries.get("mostMissing"), usual.most_missing),
        _rules(entries.get("estimates"), usual.estimates),
    )


def _rules(spot: Spot | None, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    if spot is None:
        return otherwise
    rules = once(spot, RULES)
    if not rules and not spot.report.problems:
        spot.refuse(f"no rule is left to guess by: name some of {', '.join(RULES)}")
    return rules or otherwise


def pace_fault(source: SourceSettings, load: LoadSettings) -> str | None:
    """What is wrong with how often a source is asked."""
    if source.interval < load.stale:
        return None
    return (
        f"{source.name} is asked every {told(source.interval)}, but a sample counts for nothing after {told(load.stale)}: "
        "ask more often, or raise load.staleAfter"
    )


def _read_logging(entries: Entries) -> LoggingSettings:
    usual = LoggingSettings()
    form = entries["format"].choice(FORMATS) if "format" in entries else None
    level = entries["level"].choice(LEVELS) if "level" in entries else None
    return LoggingSettings(form or usual.format, level or usual.level, truth(entries.get("decisions"), usual.decisions))
