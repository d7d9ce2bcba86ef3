"""Decides what a `TrimtabConfiguration` document asks for; leaves sources and labels to their own readers."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.config.config_node import ConfigNode, missing
from trimtab.config.trimtab.fields import KIND, VERSION, known_fields
from trimtab.config.trimtab.labels import parse_labels
from trimtab.config.trimtab.settings import (
    LoggingSettings,
    MetricsSettings,
    PrometheusSettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.trimtab.sources import parse_sources
from trimtab.config.trimtab.values import (
    HOUR,
    format_duration,
    parse_boolean,
    parse_duration,
    parse_ratio,
    parse_unique,
)
from trimtab.core.load.pressure_rules import Labelling
from trimtab.core.load.settings import RULES, LoadSettings

DAY = 24 * HOUR
FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
Entries = Mapping[str, ConfigNode]


def parse_document(root: ConfigNode, source_kinds: Mapping[str, type]) -> TrimtabConfiguration:
    """The document's values; what is wrong with them is reported. further: settings of kinds of sources, by their names."""
    entries = known_fields(root, "")
    if not _is_supported(root, entries):
        return TrimtabConfiguration()
    load = _parse_load(_section(entries, "load", root))
    labels = parse_labels(entries["labels"]) if "labels" in entries else Labelling()
    rules = labels.rules if labels is not None else None
    sources = parse_sources(entries["sources"], source_kinds, rules) if "sources" in entries else ()
    for source in sources:
        if (fault := validate_interval(source, load)) is not None:
            entries["sources"].error(fault)
    return TrimtabConfiguration(
        sources,
        load,
        labels if "labels" in entries else None,
        _parse_logging(_section(entries, "logging", root)),
        MetricsSettings(parse_boolean(_section(entries, "metrics", root).get("nodeUsage"), False)),
    )


def check_rule_sources(root: ConfigNode, own: TrimtabConfiguration) -> None:
    """A rule's query needs a Prometheus to be put to: the one it names, or the only one there is."""
    known = [each.name for each in own.sources if isinstance(each, PrometheusSettings)]
    for number, rule in enumerate(own.labels.rules if own.labels is not None else ()):
        if not rule.query or rule.source in known or (not rule.source and len(known) == 1):
            continue
        where = root.child("labels").child("rules").items()[number]
        here = ", ".join(known) or "but there is none, so add one to sources"
        where.error(f"the query of {rule.name} needs a Prometheus to be put to: write its source, {here}")


def _is_supported(root: ConfigNode, entries: Entries) -> bool:
    """Whether it is of the kind and version that are read here; reported if not, and no other field is looked at."""
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.error(f"{name} is missing: the document must start with apiVersion: {VERSION} and kind: {KIND}")
    if "kind" in entries:
        entries["kind"].choice([KIND])
    version = entries["apiVersion"].string() if "apiVersion" in entries else VERSION
    if version is not None and version != VERSION:
        entries["apiVersion"].error(f"{version[:100]!r} is not read: write {VERSION}")
    return len(root.report.problems) == before


def _section(entries: Entries, name: str, root: ConfigNode) -> Entries:
    return known_fields(entries[name] if name in entries else missing(root.report, name), name)


def _parse_load(entries: Entries) -> LoadSettings:
    usual = LoadSettings()
    fresh = parse_duration(entries.get("freshFor"), 1.0, DAY, usual.fresh)
    stale = parse_duration(entries.get("staleAfter"), 1.0, DAY, max(usual.stale, fresh))
    if stale < fresh:
        where = entries.get("freshFor") or entries["staleAfter"]
        where.error(
            f"freshFor ({format_duration(fresh)}) must not be longer than staleAfter ({format_duration(stale)})"
        )
        return usual
    return LoadSettings(
        fresh,
        stale,
        parse_duration(entries.get("window"), 1.0, HOUR, usual.window),
        parse_ratio(entries.get("mostMissing"), usual.most_missing),
        _rules(entries.get("estimates"), usual.estimates),
    )


def _rules(node: ConfigNode | None, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    if node is None:
        return otherwise
    rules = parse_unique(node, RULES)
    if not rules and not node.report.problems:
        node.error(f"no rule is left to guess by: name some of {', '.join(RULES)}")
    return rules or otherwise


def validate_interval(source: SourceSettings, load: LoadSettings) -> str | None:
    """What is wrong with how often a source is asked."""
    if source.interval < load.stale:
        return None
    return (
        f"{source.name} is asked every {format_duration(source.interval)}, "
        f"but a sample counts for nothing after {format_duration(load.stale)}: "
        "ask more often, or raise load.staleAfter"
    )


def _parse_logging(entries: Entries) -> LoggingSettings:
    usual = LoggingSettings()
    form = entries["format"].choice(FORMATS) if "format" in entries else None
    level = entries["level"].choice(LEVELS) if "level" in entries else None
    return LoggingSettings(
        form or usual.format, level or usual.level, parse_boolean(entries.get("decisions"), usual.decisions)
    )
