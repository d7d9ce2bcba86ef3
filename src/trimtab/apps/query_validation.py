"""Decides whether a configuration asks what nobody can read, before it is in force; leaves asking to the sources."""

from __future__ import annotations

import asyncio
from pathlib import Path

from trimtab.apps.included_files import read_bounded
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.core.load.pressure_rules import RULE_QUERY_PREFIX
from trimtab.sources.prometheus.source import invalid_queries

MAX_QUERY_CHARS = 200


async def validate_queries(configuration: Configuration, file: Path) -> None:
    """ConfigError with a problem for each query that its Prometheus cannot read; one that does not answer is passed over."""
    asked = [each for each in configuration.trimtab.sources if isinstance(each, PrometheusSettings) and each.queries]
    found = await asyncio.gather(*map(invalid_queries, asked))
    problems = [
        _diagnostic(file, source, query, error.problem)
        for source, mistakes in zip(asked, found, strict=True)
        for query, error in mistakes
    ]
    if problems:
        raise ConfigError(problems)


def _diagnostic(file: Path, source: PrometheusSettings, query: QuerySettings, says: str) -> Problem:
    called = query.name.removeprefix(RULE_QUERY_PREFIX)
    field = f"query {called!r} of source {source.name!r}" if called == query.name else f"query of rule {called!r}"
    return Problem(
        str(file), *_position(file, query.query), field, f"{query.query[:MAX_QUERY_CHARS]!r}: {says}: correct the query"
    )


def _position(file: Path, query: str) -> tuple[int, int]:
    """Line and column where the file has the query; 0 where that cannot be told, for YAML may fold and escape it."""
    try:
        before, found, after = read_bounded(file).decode(errors="replace").partition(query.splitlines()[0])
    except OSError:
        return 0, 0
    if not found or found in after:
        return 0, 0
    return before.count("\n") + 1, len(before) - before.rfind("\n")
