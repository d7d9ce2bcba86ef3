"""Counts standing pods by row and domain again, pod by pod, and says where the census differs; repairs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimtab.core.cluster.columns import Columns
from trimtab.core.cluster.residents import Residents
from trimtab.core.cluster.topology.census import Census
from trimtab.core.cluster.topology.counts import Count, Domains


def miscounted(census: Census, columns: Columns, residents: Residents) -> Iterator[str]:
    """Sentences, one for each count that is not what a fresh one gives."""
    for count in census.counts:
        census.current(count)
        if count.weight != count.weigh(0):
            yield f"a count by {count.column} weighs {count.weight}, and should {count.weigh(0)}"
        rows = _rows(count, columns, residents)
        if count.rows.tolist() != rows:
            yield f"a count by {count.column} is {count.rows.tolist()}, counted {rows}"
        for domains in count.domains:
            yield from _by_domain(domains, columns, rows)


def _rows(count: Count, columns: Columns, residents: Residents) -> list[float]:
    rows = [0.0] * len(columns)
    for slot in residents.slot.values():
        pod = residents.pods[slot]
        if pod is not None and pod.node in columns.row and not (count.live and pod.deleting):
            number = (residents.classes if count.column == "label_class" else residents.carriers).number(pod)
            rows[columns.row[pod.node]] += count.weight.get(number, 0)
    return rows


def _by_domain(domains: Domains, columns: Columns, rows: list[float]) -> Iterator[str]:
    key, eligible = domains.key, domains.eligible
    sums: Counter[str | None] = Counter()
    for row, node in enumerate(columns.nodes):
        if eligible is None or eligible[row]:
            sums[node.labels.get(key.name)] += rows[row]  # type: ignore[assignment]
    for row, node in enumerate(columns.nodes):
        value = node.labels.get(key.name)
        held = domains.at(slice(row, row + 1)).item()
        if value is not None and held != sums[value]:
            yield f"the domain {key.name}={value} holds {held}, counted {sums[value]}"
    inside = sum(number for value, number in sums.items() if value is not None)
    if domains.inside != inside:
        yield f"all domains of {key.name} hold {domains.inside}, counted {inside}"
