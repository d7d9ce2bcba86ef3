"""Hypothesis strategies for metrics of nodes and pods: fresh and old, valid and invalid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from trimtab.core.model.readings import Reading, Statistic, Subject, Unit

START = 10_000.0
SOURCES = ("meter", "other")
RESOURCES = ("cpu", "memory", "pressure")
# Shares of capacity, of which the last ones are not to be trusted.
SHARES = (0.0, 0.001, 0.2, 0.399, 0.4, 0.75, 1.0, 1.2, 7.0, -0.1, math.nan, math.inf)
AGES = (0.0, 5.0, 30.0, 130.0, 290.0, 400.0, -50.0, -1000.0)
SPANS = (0.0, 60.0, 300.0)
WHOLE = {"cpu": 4000.0, "memory": 8.0 * 1024**3, "pressure": 1.0}


def moment(step: int) -> float:
    """When a step happens: so far apart that samples grow old within a dozen of them."""
    return START + 40.0 * step


@st.composite
def readings(draw: Any, nodes: Sequence[str], pods: Sequence[str], at: float) -> tuple[Reading, ...]:
    """One scrape: some metrics of some nodes and pods."""
    return tuple(draw(st.lists(_reading(nodes, pods, at), max_size=4)))


@st.composite
def _reading(draw: Any, nodes: Sequence[str], pods: Sequence[str], at: float) -> Reading:
    subject = draw(st.sampled_from((Subject.NODES, Subject.NODES, Subject.PODS)))
    resource = draw(st.sampled_from(RESOURCES))
    known = nodes if subject is Subject.NODES else [f"default/{name}" for name in pods]
    names = draw(st.lists(st.sampled_from((*known, "unknown")), unique=True))
    shares = draw(st.lists(st.sampled_from(SHARES), min_size=len(names), max_size=len(names)))
    unit = _unit(resource, draw(st.booleans()) and subject is Subject.NODES)
    return Reading(
        source=draw(st.sampled_from(SOURCES)),
        resource=resource,
        names=tuple(names),
        values=tuple(each if unit is Unit.FRACTION else each * WHOLE[resource] for each in shares),
        measured=tuple(at - draw(st.sampled_from(AGES)) for _ in names),
        subject=subject,
        unit=unit,
        statistic=draw(st.sampled_from(tuple(Statistic))) if subject is Subject.NODES else Statistic.LATEST,
        window=draw(st.sampled_from(SPANS)),
    )


def _unit(resource: str, as_shares: bool) -> Unit:
    if resource not in ("cpu", "memory"):
        return Unit.RAW
    return Unit.FRACTION if as_shares else Unit.ABSOLUTE
