"""Counts standing pods by row and domain again, pod by pod, and says where the census differs; repairs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trimtab.core.cluster.node_table import NodeTable
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.pod_count import Domains, PodCount
from trimtab.core.cluster.topology.topology_counts import TopologyCounts


def miscounted(census: TopologyCounts, columns: NodeTable, residents: PodTable) -> Iterator[str]:
    """Sentences, one for each count that is not what a fresh one gives."""
    for count in census.counts:
        census.refresh(count)
        if count.weight != count.weigh(0):
            yield f"a count by {count.column} weighs {count.weight}, and should {count.weigh(0)}"
        rows = _rows(count, columns, residents)
        if count.rows.tolist() != rows:
            yield f"a count by {count.column} is {count.rows.tolist()}, counted {rows}"
        for domains in count.domains:
            yield from _by_domain(domains, columns, rows)


def _rows(count: PodCount, columns: NodeTable, residents: PodTable) -> list[float]:
    rows = [0.0] * len(columns)
    for slot in residents.slot.values():
        pod = residents.pods[slot]
        if pod is not None and pod.node in columns.row and not (count.skip_terminating and pod.terminating):
            number = (residents.label_sets if count.column == "label_class" else residents.affinity_terms).id_of(pod)
            rows[columns.row[pod.node]] += count.weight.get(number, 0)
    return rows


def _by_domain(domains: Domains, columns: NodeTable, rows: list[float]) -> Iterator[str]:
    key, eligible = domains.key, domains.eligible
    sums: Counter[str | None] = Counter()
    for row, node in enumerate(columns.nodes):
        if eligible is None or eligible[row]:
            sums[node.labels.get(key.name)] += rows[row]  # type: ignore[assignment]
    for row, node in enumerate(columns.nodes):
        value = node.labels.get(key.name)
        held = domains.at_rows(slice(row, row + 1)).item()
        if value is not None and held != sums[value]:
            yield f"the domain {key.name}={value} holds {held}, counted {sums[value]}"
    inside = sum(number for value, number in sums.items() if value is not None)
    if domains.total != inside:
        yield f"all domains of {key.name} hold {domains.total}, counted {inside}"
