"""Label selectors as written in objects; which nodes or pods they match is computed where the labels are kept."""

from __future__ import annotations


from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]


class Requirement(Struct, frozen=True, gc=False):
    """One `key operator values` line of a selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False):
    """Pairs that must be equal and requirements that must hold; empty matches all, absent (None) matches nothing."""

    match_labels: Pairs = ()
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """All requirements on labels and on the node's name must hold; a term with none matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


def pairs(labels: dict[str, str] | None) -> Pairs:
    """Labels as a value that can be hashed."""
    return tuple(sorted(labels.items())) if labels else ()


