"""Decides which of the user's own queries are no PromQL: Prometheus itself reads them. Who does not answer proves nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from trimtab.config.own.settings import PrometheusSettings, QuerySettings
from trimtab.core.model.sample import Subject
from trimtab.sources.contract import SourceError
from trimtab.sources.prometheus.answers import VECTORS, BadQuery
from trimtab.sources.prometheus.asking import Asking
from trimtab.sources.prometheus.questions import questions

WITHIN = 5.0  # seconds: a start is not to wait longer for this


async def mistaken(settings: PrometheusSettings) -> list[tuple[QuerySettings, BadQuery]]:
    """Those that cannot be read, each with what Prometheus says of it."""
    asking = Asking(settings)
    try:
        found = await asyncio.gather(*(_mistake(asking, settings, query) for query in settings.queries))
    finally:
        await asking.close()
    return [(query, mistake) for query, mistake in zip(settings.queries, found, strict=True) if mistake is not None]


async def _mistake(asking: Asking, settings: PrometheusSettings, query: QuerySettings) -> BadQuery | None:
    try:
        (question,) = questions(replace(settings, metrics=(), queries=(query,)))
        async with asyncio.timeout(WITHIN):
            form = {"query": question.ways[0].text, "timeout": f"{min(settings.timeout, WITHIN):g}"}
            answer = await asking.ask("/api/v1/query", form)
        VECTORS[query.of is Subject.PODS].read(answer, Counter())
    except BadQuery as error:
        return error
    except (SourceError, TimeoutError):  # told when it is looked at
        pass
    return None
