"""Decides what a labeller runs with, from a TrimtabConfiguration or from a rule.yaml and flags; touches no file itself.

A labeller places no pods, so there are no profiles; it has a lease of its own, and asks sources only what its rules need.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.trimtab.rule_file import parse_rule_file
from trimtab.config.trimtab.settings import (
    BuiltinMetric,
    PrometheusSettings,
    QuerySettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.core.load.pressure_rules import AVAILABLE, Labelling, Rule
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.settings import Settings

LEASE = LeaderElection(name="trimtab-labeller")
METRICS_OF_RULES = {
    CPU: (BuiltinMetric.NODE_CPU,),
    MEMORY: (BuiltinMetric.NODE_MEMORY,),
    AVAILABLE: (BuiltinMetric.MEMORY_AVAILABLE, BuiltinMetric.NODE_MEMORY),
}
SOURCE_NAME = "prometheus"
TIMEOUT = 10.0


def labeller_configuration(configuration: Configuration, file: str) -> Configuration:
    """What a configuration file says about labels; raises ConfigError where it cannot be done."""
    own = configuration.trimtab
    if own.labels is None:
        raise _error(file, "labels", "is missing: write rules there, see docs/labels.md")
    if not own.sources:
        raise _error(file, "sources", "are missing: without measurements nobody is under pressure")
    leader = replace(LEASE, enabled=own.labels.apply)
    return _build(own.labels, own.sources, own.load, leader, configuration)


def from_rule_file(content: str | bytes, file: str, url: str, interval: float, apply: bool) -> Configuration:
    """What a rule.yaml and the flags beside it say; the address has been looked at already."""
    labelling = Labelling(parse_rule_file(content, file), apply)
    source = PrometheusSettings(SOURCE_NAME, url, interval, min(TIMEOUT, interval))
    empty = Configuration(Settings(()))
    return _build(labelling, (source,), LoadSettings(), replace(LEASE, enabled=apply), empty)


def _build(
    labelling: Labelling,
    sources: tuple[SourceSettings, ...],
    load: LoadSettings,
    leader: LeaderElection,
    before: Configuration,
) -> Configuration:
    asked = tuple(_for_rules(source, labelling.rules) for source in sources)
    own = TrimtabConfiguration(asked, load, labelling, before.trimtab.logging, before.trimtab.metrics)
    return Configuration(Settings((), load=load, labels=labelling), leader, before.client_connection, before.notes, own)


def _for_rules(source: SourceSettings, rules: tuple[Rule, ...]) -> SourceSettings:
    """The source with the queries of the rules that are put to it, and without what no rule looks at."""
    if not isinstance(source, PrometheusSettings):
        return source
    metrics = {rule.metric for rule in rules}
    needed = {metric for name in metrics for metric in METRICS_OF_RULES.get(name, ())}
    kept = [metric for metric in source.metrics if metric in needed]
    if BuiltinMetric.MEMORY_AVAILABLE in needed and BuiltinMetric.MEMORY_AVAILABLE not in kept:
        kept.append(BuiltinMetric.MEMORY_AVAILABLE)
    queries = [query for query in source.queries if query.name in metrics]
    queries += [
        QuerySettings(rule.metric, rule.query) for rule in rules if rule.query and rule.source in ("", source.name)
    ]
    return replace(source, metrics=tuple(kept), queries=tuple(queries))


def _error(file: str, path: str, message: str) -> ConfigError:
    return ConfigError([Problem(file, 0, 0, path, message)])
