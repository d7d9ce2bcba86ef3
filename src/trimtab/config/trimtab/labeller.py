"""What a labeller runs with, from a TrimtabConfiguration, or from the rule.yaml and flags of the labeller before it.

    PromJob: {Name: any}            # ignored, as it always was
    Rulename:
      Node_mem: {Promsql: "(1 - MemAvailable/MemTotal)*100", Threshold: 70}

Every rule of a rule.yaml puts `status=presure` on nodes above its threshold. Direction (above, below), Clear, For and
ClearFor may be added against flapping labels. A labeller schedules no pods, so its configuration has no profiles; it has a
lease of its own, and its sources run only what the rules need.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import isfinite

from trimtab.config.config_node import ConfigNode, Report
from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.manifests import locate
from trimtab.config.schema import parse_dataclass
from trimtab.config.trimtab.labels import default_clear
from trimtab.config.trimtab.promql import query_error
from trimtab.config.trimtab.settings import (
    BuiltinMetric,
    PrometheusSettings,
    QuerySettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.core.load.pressure_rules import (
    LEGACY_KEY,
    LEGACY_VALUE,
    MEMORY_AVAILABLE,
    RULE_QUERY_PREFIX,
    Denominator,
    Direction,
    LabellingSettings,
    Rule,
)
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.duration import DAY
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.model.setting import setting
from trimtab.core.settings import Settings

LEASE = LeaderElection(name="trimtab-labeller")
METRICS_OF_RULES = {
    CPU: (BuiltinMetric.NODE_CPU,),
    MEMORY: (BuiltinMetric.NODE_MEMORY,),
    MEMORY_AVAILABLE: (BuiltinMetric.MEMORY_AVAILABLE, BuiltinMetric.NODE_MEMORY),
}
SOURCE_NAME = "prometheus"
TIMEOUT = 10.0
MAX_NAME_LENGTH = 63


def labeller_configuration(configuration: Configuration, file: str) -> Configuration:
    """What a configuration file says about labels; raises ConfigError if that is not enough to run a labeller."""
    document = configuration.trimtab
    if document.labels is None:
        raise _error(file, "labels", "is missing: write rules there, see docs/labels.md")
    if not document.sources:
        raise _error(file, "sources", "is missing: without measurements no node is ever under pressure")
    leader = replace(LEASE, enabled=document.labels.apply)
    return _build(document.labels, document.sources, configuration.settings.load, leader, configuration)


def combined_configuration(configuration: Configuration, file: str) -> Configuration:
    """The scheduler's configuration, with sources that also run what the label rules need; raises ConfigError."""
    rules = labeller_configuration(configuration, file)
    pairs = zip(configuration.trimtab.sources, rules.trimtab.sources, strict=True)
    document = replace(configuration.trimtab, sources=tuple(_merge(*pair) for pair in pairs))
    return replace(configuration, trimtab=document)


def _merge(one: SourceSettings, other: SourceSettings) -> SourceSettings:
    if not isinstance(one, PrometheusSettings) or not isinstance(other, PrometheusSettings):
        return one
    metrics, queries = (*one.metrics, *other.metrics), (*one.queries, *other.queries)
    return replace(one, metrics=tuple(dict.fromkeys(metrics)), queries=tuple(dict.fromkeys(queries)))


def from_rule_file(content: str | bytes, file: str, url: str, interval: float, apply: bool) -> Configuration:
    """What a rule.yaml and the flags next to it say; the URL has been validated."""
    labelling = LabellingSettings(parse_rule_file(content, file), apply)
    source = PrometheusSettings(SOURCE_NAME, url, interval, min(TIMEOUT, interval))
    empty = Configuration(Settings(()))
    return _build(labelling, (source,), LoadSettings(), replace(LEASE, enabled=apply), empty)


def convert_rule_file(content: str | bytes, file: str, url: str, interval: float, key: str = "") -> Configuration:
    """A rule.yaml as a TrimtabConfiguration that only observes; rules get names that it allows."""
    rules: list[Rule] = []
    for rule in parse_rule_file(content, file, key):
        name = _plain_name(rule.name, [each.name for each in rules])
        rules.append(replace(rule, name=name, metric=f"{RULE_QUERY_PREFIX}{name}"))
    source = PrometheusSettings(SOURCE_NAME, url, interval, min(TIMEOUT, interval), metrics=())
    document = TrimtabConfiguration((source,), LabellingSettings(tuple(rules)))
    return Configuration(Settings(()), trimtab=document)


def _plain_name(name: str, taken: Collection[str]) -> str:
    """The name with '-' for characters that a TrimtabConfiguration rejects, and a number if it is taken."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "rule"
    numbered = (plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if each not in taken)


def _build(
    labelling: LabellingSettings,
    sources: tuple[SourceSettings, ...],
    load: LoadSettings,
    leader: LeaderElection,
    base: Configuration,
) -> Configuration:
    reduced = tuple(_for_rules(source, labelling.rules) for source in sources)
    document = TrimtabConfiguration(reduced, labelling, base.trimtab.logging, base.trimtab.metrics)
    settings = Settings((), load=load, labels=labelling)
    return Configuration(settings, leader, base.client_connection, base.notes, document)


def _for_rules(source: SourceSettings, rules: tuple[Rule, ...]) -> SourceSettings:
    """The source with the queries of the rules that use it, and without what no rule needs."""
    if not isinstance(source, PrometheusSettings):
        return source
    names = {rule.metric for rule in rules}
    needed = {metric for name in names for metric in METRICS_OF_RULES.get(name, ())}
    metrics = [metric for metric in source.metrics if metric in needed]
    if BuiltinMetric.MEMORY_AVAILABLE in needed and BuiltinMetric.MEMORY_AVAILABLE not in metrics:
        metrics.append(BuiltinMetric.MEMORY_AVAILABLE)
    queries = [query for query in source.queries if query.name in names]
    queries += [
        QuerySettings(rule.metric, rule.query) for rule in rules if rule.query and rule.source in ("", source.name)
    ]
    return replace(source, metrics=tuple(metrics), queries=tuple(queries))


def _error(file: str, path: str, message: str) -> ConfigError:
    return ConfigError([Problem(file, 0, 0, path, message)])


def _number_error(value: str | float) -> str | None:
    """A number may also be written as a string, as the format always had it."""
    try:
        finite = isfinite(float(value)) and str(value).strip().isascii()
    except ValueError:
        finite = False
    return None if finite else f"{str(value)[:40]!r} is not a number"


@dataclass(frozen=True, slots=True)
class RuleFileEntry:
    """A rule of a rule.yaml."""

    query: str = setting("", name="Promsql", required="write the query", validate=query_error)
    threshold: str | float = setting(
        "", name="Threshold", required="write the limit of the query's value", validate=_number_error
    )
    direction: Direction = setting(Direction.ABOVE, name="Direction")
    clear: str | float | None = setting(None, name="Clear", validate=_number_error)
    hold: float = setting(0.0, name="For", seconds=(0, DAY))
    clear_for: float = setting(60.0, name="ClearFor", seconds=(0, DAY))

    def rule(self, name: str) -> Rule:
        """The rule that this describes; raises ValueError."""
        threshold = float(self.threshold)
        clear = default_clear(threshold, self.direction) if self.clear is None else float(self.clear)
        return Rule(
            *(name, f"{RULE_QUERY_PREFIX}{name}", threshold, clear, self.direction, Denominator.NONE),
            *(0.0, self.hold, self.clear_for, (LEGACY_KEY, LEGACY_VALUE)),
            query=self.query,
        )


def parse_rule_file(content: str | bytes, file: str, key: str = "") -> tuple[Rule, ...]:
    """The rules of a rule.yaml, or of a ConfigMap that holds one under `key`; raises ConfigError with all its problems."""
    located = locate(content, file, key)
    if located.kind:
        raise _error(
            located.file, "", f"this is a {located.kind}, not a rule.yaml: pass it with --config instead of -r"
        )
    report = Report(located.file)
    first, *rest = (ConfigNode(each, report) for each in located.documents)
    for node in rest:
        node.error("a second document is not supported: put all rules under one Rulename")
    entries = first.fields(["PromJob", "Rulename"]) or {}
    listed = (entries["Rulename"].entries() or {}) if "Rulename" in entries else {}
    rules = [_parse_rule(name, node) for name, node in listed.items()]
    if not rules and not report.problems:
        first.error("has no rules: write at least one under Rulename, with Promsql and Threshold")
    report.finish()
    return tuple(rule for rule in rules if rule is not None)


def _parse_rule(name: str, node: ConfigNode) -> Rule | None:
    before = len(node.report.problems)
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        node.error(f"{name[:40]!r} is not a valid rule name: use up to {MAX_NAME_LENGTH} printable characters")
    entry = parse_dataclass(node, RuleFileEntry)
    if not isinstance(entry, RuleFileEntry) or len(node.report.problems) > before:
        return None
    try:
        return entry.rule(name)
    except ValueError as error:
        node.error(str(error))
    return None
