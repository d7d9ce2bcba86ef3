"""Decides what a labeller runs with, from a TrimtabConfiguration or from a rule.yaml and flags; touches no file itself.

A labeller places no pods, so there are no profiles; it has a lease of its own, and asks sources only what its rules need.
"""

from __future__ import annotations

from dataclasses import replace

from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.own.labelling.rule_file import read_rules
from trimtab.config.own.settings import (
    Metric,
    PrometheusSettings,
    QuerySettings,
    SourceSettings,
    TrimtabConfiguration,
)
from trimtab.config.problem import ConfigError, Problem
from trimtab.core.load.pressure_rules import AVAILABLE, Labelling, Rule
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.settings import Settings

LEASE = LeaderElection(name="trimtab-labeller")
NEEDED = {
    CPU: (Metric.NODE_CPU,),
    MEMORY: (Metric.NODE_MEMORY,),
    AVAILABLE: (Metric.MEMORY_AVAILABLE, Metric.NODE_MEMORY),
}
SOURCE = "prometheus"
PATIENCE = 10.0


def from_document(configuration: Configuration, file: str) -> Configuration:
    """What a configuration file says about labels; raises ConfigError where it cannot be done."""
    own = configuration.own
    if own.labels is None:
        raise _refused(file, "labels", "is missing: write rules there, see docs/labels.md")
    if not own.sources:
        raise _refused(file, "sources", "are missing: without measurements nobody is under pressure")
    leader = replace(LEASE, enabled=own.labels.apply)
    return _made(own.labels, own.sources, own.load, leader, configuration)


def from_rules(content: str | bytes, file: str, url: str, interval: float, apply: bool) -> Configuration:
    """What a rule.yaml and the flags beside it say; the address has been looked at already."""
    labelling = Labelling(read_rules(content, file), apply)
    source = PrometheusSettings(SOURCE, url, interval, min(PATIENCE, interval))
    empty = Configuration(Settings(()))
    return _made(labelling, (source,), LoadSettings(), replace(LEASE, enabled=apply), empty)


def _made(
    labelling: Labelling,
    sources: tuple[SourceSettings, ...],
    load: LoadSettings,
    leader: LeaderElection,
    before: Configuration,
) -> Configuration:
    asked = tuple(_asking(source, labelling.rules) for source in sources)
    own = TrimtabConfiguration(asked, load, labelling, before.own.logging, before.own.metrics)
    return Configuration(Settings((), load=load, labels=labelling), leader, before.connection, before.notes, own)


def _asking(source: SourceSettings, rules: tuple[Rule, ...]) -> SourceSettings:
    """The source with the queries of the rules that are put to it, and without what no rule looks at."""
    if not isinstance(source, PrometheusSettings):
        return source
    metrics = {rule.metric for rule in rules}
    needed = {metric for name in metrics for metric in NEEDED.get(name, ())}
    kept = [metric for metric in source.metrics if metric in needed]
    if Metric.MEMORY_AVAILABLE in needed and Metric.MEMORY_AVAILABLE not in kept:
        kept.append(Metric.MEMORY_AVAILABLE)
    queries = [query for query in source.queries if query.name in metrics]
    queries += [
        QuerySettings(rule.metric, rule.query) for rule in rules if rule.query and rule.source in ("", source.name)
    ]
    return replace(source, metrics=tuple(kept), queries=tuple(queries))


def _refused(file: str, path: str, message: str) -> ConfigError:
    return ConfigError([Problem(file, 0, 0, path, message)])
