"""Decides which of the user's own queries are no PromQL: Prometheus itself reads them. Who does not answer proves nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from trimtab.config.trimtab.settings import PrometheusSettings, QuerySettings
from trimtab.core.model.readings import Subject
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.client import PrometheusClient
from trimtab.sources.prometheus.query_plan import plan_queries
from trimtab.sources.prometheus.response import VECTOR_DECODERS, InvalidQuery

TIMEOUT = 5.0  # seconds: a start is not to wait longer for this


async def invalid_queries(settings: PrometheusSettings) -> list[tuple[QuerySettings, InvalidQuery]]:
    """Those that cannot be read, each with what Prometheus says of it."""
    asking = PrometheusClient(settings)
    try:
        found = await asyncio.gather(*(_check_query(asking, settings, query) for query in settings.queries))
    finally:
        await asking.close()
    return [(query, mistake) for query, mistake in zip(settings.queries, found, strict=True) if mistake is not None]


async def _check_query(
    asking: PrometheusClient, settings: PrometheusSettings, query: QuerySettings
) -> InvalidQuery | None:
    try:
        (question,) = plan_queries(replace(settings, metrics=(), queries=(query,)))
        async with asyncio.timeout(TIMEOUT):
            form = {"query": question.alternatives[0].promql, "timeout": f"{min(settings.timeout, TIMEOUT):g}"}
            answer = await asking.post("/api/v1/query", form)
        VECTOR_DECODERS[query.of is Subject.PODS].decode(answer, Counter())
    except InvalidQuery as error:
        return error
    except (SourceError, TimeoutError):  # told when it is looked at
        pass
    return None
