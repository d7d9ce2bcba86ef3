"""Nodes that match a node selector: its terms are ORed, the requirements of one term are ANDed.

As in kube-scheduler, the cost follows the nodes that are left: a term ends when no node matches it any more, and the terms
end when every node has matched one. Many nodes are compared by label columns, the last few node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from trimtab.core.cluster.labels import value_matches
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import PodSpec
from trimtab.core.model.selectors import NodeSelectorTerm, Pairs, Requirement
from trimtab.core.tables import Bools, Index, Selection

NAME_FIELD = "metadata.name"
FEW_ROWS = 8  # up to so many, a dictionary lookup for each is cheaper than a column
ALL_ROWS = slice(None)


def matching_any(view: View, terms: Iterable[NodeSelectorTerm], rows: Selection = ALL_ROWS) -> Bools:
    """Which of the rows match one of the terms."""
    left = _numbers(view, rows)
    found = np.zeros(view.count, dtype=np.bool_)
    for term in terms:
        if not len(left):
            break
        matched = _rows_of_term(view, term, left)
        if len(matched):
            found[matched] = True
            left = left[~found[left]]
    return found[rows]


def matching(view: View, term: NodeSelectorTerm, rows: Selection = ALL_ROWS) -> Bools:
    """Which of the rows match one term."""
    return _mask(view, _rows_of_term(view, term, _numbers(view, rows)), rows)


def required_nodes(view: View, spec: PodSpec, rows: Selection = ALL_ROWS) -> Bools:
    """Which of the rows the pod's nodeSelector and required node affinity allow."""
    left = _rows_with_labels(view, spec.node_selector or (), _numbers(view, rows))
    if len(left) and spec.affinity is not None and spec.affinity.node_affinity.required is not None:
        left = left[matching_any(view, spec.affinity.node_affinity.required, left)]
    return _mask(view, left, rows)


def _numbers(view: View, rows: Selection) -> Index:
    return np.arange(view.count)[rows] if isinstance(rows, slice) else rows


def _mask(view: View, matched: Index, rows: Selection) -> Bools:
    mask = np.zeros(view.count, dtype=np.bool_)
    mask[matched] = True
    return mask[rows]


def _rows_with_labels(view: View, pairs: Pairs, rows: Index) -> Index:
    """Those of the rows that have all of these labels."""
    for number, (key, value) in enumerate(pairs):
        if len(rows) <= FEW_ROWS:
            nodes = view.nodes
            return _kept(row for row in rows.tolist() if _has_labels(nodes[row].labels, islice(pairs, number, None)))
        rows = rows[view.matching_label(Requirement(key, "In", (value,)), rows)]
    return rows


def _rows_of_term(view: View, term: NodeSelectorTerm, rows: Index) -> Index:
    """Those of the rows that match the term; none match an empty or invalid one."""
    if not (term.match_expressions or term.match_fields):
        return rows[:0]
    for requirement in term.match_fields:
        rows = _rows_of_field(view, requirement, rows)
    for number, requirement in enumerate(term.match_expressions):
        if len(rows) <= FEW_ROWS:
            lines, nodes = term.match_expressions, view.nodes
            rows = _kept(row for row in rows.tolist() if _matches(nodes[row].labels, islice(lines, number, None)))
            break
        rows = rows[view.matching_label(requirement, rows)]
    return rows if len(rows) and _valid(term) else rows[:0]  # most terms that match no node need not be valid


def _kept(rows: Iterable[int]) -> Index:
    return np.fromiter(rows, dtype=np.intp)


def _has_labels(labels: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> bool:
    return all(labels.get(key) == value for key, value in pairs)


def _matches(labels: Mapping[str, str], lines: Iterable[Requirement]) -> bool:
    return all(value_matches(line, labels.get(line.key)) for line in lines)


def _valid(term: NodeSelectorTerm) -> bool:
    return all(line.valid for line in term.match_expressions) and all(map(_valid_field, term.match_fields))


def _valid_field(requirement: Requirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _rows_of_field(view: View, requirement: Requirement, rows: Index) -> Index:
    """Only metadata.name is supported; any other field counts as empty."""
    if not _valid_field(requirement):
        return rows[:0]
    value = requirement.values[0]
    if requirement.key == NAME_FIELD:
        row = view.row(value)
        found: Bools = rows == (-1 if row is None else row)
    else:
        found = np.full(len(rows), value == "")
    return rows[found if requirement.operator == "In" else ~found]
