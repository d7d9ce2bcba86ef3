"""Parses and dumps a `TrimtabConfiguration`, the document with what kube-scheduler's file has no field for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from trimtab.config.config_node import ConfigNode
from trimtab.config.schema import document_fields, dump_fields, parse_dataclass
from trimtab.config.trimtab.labels import dump_labels, parse_labels
from trimtab.config.trimtab.rescheduling import Installed, dump_rescheduling, parse_rescheduling
from trimtab.config.trimtab.settings import (
    BUILTIN_SOURCES,
    MIN_INTERVAL,
    BuiltinMetric,
    LoggingSettings,
    MetricsSettings,
    PrometheusSettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.trimtab.validation import validate_name
from trimtab.config.yaml import MappingNode, SequenceNode
from trimtab.core.load.pressure_rules import MEMORY_AVAILABLE, LabellingSettings, Rule
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.duration import HOUR, format_duration
from trimtab.core.rescheduling.settings import ReschedulingSettings

GROUP = "trimtab.dev"
VERSION = f"{GROUP}/v1alpha1"
KIND = "TrimtabConfiguration"
_FIELDS = ("apiVersion", "kind", "sources", "load", "labels", "rescheduling", "logging", "metrics")
_LABELS_DOC = "pressure labels, see [labels.md](labels.md); none unless set"
SourceKinds = Mapping[str, type[SourceSettings]]
T = TypeVar("T")


def parse_document(
    root: ConfigNode, source_kinds: SourceKinds, installed: Installed
) -> tuple[TrimtabConfiguration, LoadSettings]:
    """The document's values, and those of the engine's settings that it has; its problems are reported.

    source_kinds and installed: classes besides the built-in ones.
    """
    entries = root.fields(_FIELDS) or {}
    if not _is_supported(root, entries):
        return TrimtabConfiguration(), LoadSettings()
    load = _section(entries, "load", LoadSettings())
    labels = parse_labels(entries["labels"]) if "labels" in entries else LabellingSettings()
    rules = labels.rules if labels is not None else None
    kinds = {**BUILTIN_SOURCES, **source_kinds}
    sources = _parse_sources(entries["sources"], kinds, rules) if "sources" in entries else ()
    for source in sources:
        if (error := validate_interval(source, load)) is not None:
            entries["sources"].error(error)
    logging = _section(entries, "logging", LoggingSettings())
    metrics = _section(entries, "metrics", MetricsSettings())
    rescheduling = parse_rescheduling(entries["rescheduling"], installed) if "rescheduling" in entries else None
    labelling = labels if "labels" in entries else None
    return TrimtabConfiguration(sources, labelling, logging, metrics, rescheduling), load


def _is_supported(root: ConfigNode, entries: Mapping[str, ConfigNode]) -> bool:
    """Whether kind and version are supported; after a problem with them no other field is parsed."""
    before = len(root.report.problems)
    for name in ("apiVersion", "kind"):
        if name not in entries:
            root.error(f"{name} is missing: the document must start with apiVersion: {VERSION} and kind: {KIND}")
    if "kind" in entries:
        entries["kind"].choice([KIND])
    version = entries["apiVersion"].string() if "apiVersion" in entries else VERSION
    if version is not None and version != VERSION:
        entries["apiVersion"].error(f"{version[:100]!r} is not supported: write {VERSION}")
    return len(root.report.problems) == before


def _section(entries: Mapping[str, ConfigNode], name: str, default: T) -> T:
    value = parse_dataclass(entries[name], type(default)) if name in entries else default
    return value if isinstance(value, type(default)) else default


def validate_interval(source: SourceSettings, load: LoadSettings) -> str | None:
    """What is wrong with how often a source is polled, if anything."""
    if source.interval < load.stale:
        return None
    return (
        f"{source.name} is polled every {format_duration(source.interval)}, but a sample is stale after "
        f"{format_duration(load.stale)}: poll it more often, or raise load.staleAfter"
    )


def _parse_sources(node: ConfigNode, kinds: SourceKinds, rules: Iterable[Rule] | None) -> tuple[SourceSettings, ...]:
    """All sources. rules: the pressure rules, unless they are invalid."""
    sources: dict[str, SourceSettings] = {}
    for item in node.items():
        entries = item.fields({"name", *kinds}) or {}
        name = _parse_name(item, entries, sources)
        source = _parse_source(item, entries, name or "", kinds)
        if rules is not None and PrometheusSettings.kind in entries:
            _check_not_empty(entries[PrometheusSettings.kind], name, rules)
        if source is not None and name is not None:
            sources.setdefault(name, source)
    return tuple(sources.values())


def _parse_name(item: ConfigNode, entries: Mapping[str, ConfigNode], earlier: Mapping[str, object]) -> str | None:
    if "name" not in entries:
        item.error("name is missing: write what logs and metrics call the source")
        return None
    name = entries["name"].string()
    if name in earlier:
        entries["name"].error(f"{name!r} is the name of an earlier source: names must be unique")
    elif name is not None and (error := validate_name(name)) is not None:
        entries["name"].error(error)
        return None
    return name


def _parse_source(
    item: ConfigNode, entries: Mapping[str, ConfigNode], name: str, kinds: SourceKinds
) -> SourceSettings | None:
    given = [kind for kind in kinds if kind in entries]
    if len(given) > 1:
        entries[given[1]].error(f"a source is of one kind: make {' and '.join(given)} separate sources")
    elif not given:
        item.error(f"the kind is missing: write one of {', '.join(kinds)} ({{}} for its defaults)")
    sources = [parse_dataclass(entries[kind], kinds[kind], fixed={"name": name}) for kind in given]
    if not sources or not isinstance(sources[0], kinds[given[0]]):
        return None
    interval = sources[0].interval
    if not MIN_INTERVAL <= interval <= HOUR:
        low, high = format_duration(MIN_INTERVAL), format_duration(HOUR)
        entries[given[0]].error(f"interval: {format_duration(interval)} is not between {low} and {high}")
    return sources[0]


def _check_not_empty(node: ConfigNode, name: str | None, rules: Iterable[Rule]) -> None:
    """A Prometheus with an empty list of metrics must have queries, or pressure rules that need it."""
    entries = node.entries() or {} if isinstance(node.yaml, MappingNode) else {}
    lists = [entries[each].yaml for each in ("metrics", "queries") if each in entries]
    if "metrics" not in entries or not all(isinstance(each, SequenceNode) and not each.items for each in lists):
        return
    if not any(rule.source in ("", name) if rule.query else rule.metric == MEMORY_AVAILABLE for rule in rules):
        entries["metrics"].error(
            f"[] leaves nothing to measure: list some of {', '.join(sorted(BuiltinMetric))}, add queries, or remove "
            "the field for the default metrics"
        )


def check_rule_sources(root: ConfigNode, configuration: TrimtabConfiguration) -> None:
    """A rule's query needs a Prometheus: the one that it names, or the only one there is."""
    known = [each.name for each in configuration.sources if isinstance(each, PrometheusSettings)]
    for number, rule in enumerate(configuration.labels.rules if configuration.labels is not None else ()):
        if not rule.query or rule.source in known or (not rule.source and len(known) == 1):
            continue
        node = root.child("labels").child("rules").items()[number]
        choice = f"set source to one of {', '.join(known)}" if known else "add one to sources"
        node.error(f"the query of {rule.name} needs a Prometheus: {choice}")


def dump_section(sources: Iterable[SourceSettings], rescheduling: ReschedulingSettings) -> dict[str, object]:
    """A document with the rescheduler's settings, and sources if there are any; all others keep their defaults."""
    plain: dict[str, object] = {"apiVersion": VERSION, "kind": KIND}
    if dumped := _dump_sources(sources):
        plain["sources"] = dumped
    return {**plain, "rescheduling": dump_rescheduling(rescheduling)}


def _dump_sources(sources: Iterable[SourceSettings]) -> list[object]:
    return [{"name": each.name, each.kind: dump_fields(each, skip={"name"})} for each in sources]


def dump_document(configuration: TrimtabConfiguration, load: LoadSettings) -> dict[str, object]:
    """The document with every default filled in."""
    plain: dict[str, object] = {
        "apiVersion": VERSION,
        "kind": KIND,
        "sources": _dump_sources(configuration.sources),
        "load": dump_fields(load),
        "logging": dump_fields(configuration.logging),
        "metrics": dump_fields(configuration.metrics),
    }
    if configuration.labels is not None:
        plain["labels"] = dump_labels(configuration.labels)
    if configuration.rescheduling is not None:
        plain["rescheduling"] = dump_rescheduling(configuration.rescheduling)
    return plain


def documented_fields(source_kinds: SourceKinds) -> Iterator[tuple[str, str]]:
    """Every field of the document with what it does, as docs/configuration.md lists them."""
    sections = {f"sources[].{name}.": kind for name, kind in source_kinds.items()}
    yield from (("apiVersion", f"must be {VERSION}"), ("kind", f"must be {KIND}"))
    yield "sources[].name", "what logs and metrics call the source; must be unique"
    for path, kind in {
        **sections,
        "load.": LoadSettings,
        "rescheduling.": ReschedulingSettings,
        "logging.": LoggingSettings,
        "metrics.": MetricsSettings,
    }.items():
        if path == "rescheduling.":
            yield "labels", _LABELS_DOC
        yield from ((field, setting.doc) for field, setting in document_fields(kind, path))
