"""Matches Prometheus series to nodes by their labels.

Exporters identify a node in many ways: by a label with its name, or by `instance` as name, name and port, or address and
port. A label value must equal the name or an address of a known node. A series whose labels point at different nodes, or at
an address that two nodes have, is ambiguous and matches none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from trimtab.config.trimtab.settings import AUTO
from trimtab.core.model.node import Node

# As set by exporters and common relabelling rules; Prometheus renames a conflicting label to `exported_…`.
NODE_LABELS = (
    "node",
    "kubernetes_node",
    "nodename",
    "node_name",
    "kubernetes_io_hostname",
    "hostname",
    "exported_node",
    "exported_instance",
    "instance",
)


class MatchFailure(Enum):
    """Why a series belongs to no node."""

    UNMATCHED = "unmatched"
    AMBIGUOUS = "ambiguous"


class NodeMatcher:
    """The current nodes by their names and addresses."""

    def __init__(self, nodes: Iterable[Node], label: str = AUTO) -> None:
        self._labels = NODE_LABELS if label == AUTO else (label,)
        self._by_address: dict[str, str | MatchFailure] = {}
        for node in nodes:
            for text in (node.name, *node.addresses):
                if text and self._by_address.setdefault(text, node.name) != node.name:
                    self._by_address[text] = MatchFailure.AMBIGUOUS

    def match(self, labels: Mapping[str, str]) -> str | MatchFailure:
        """The name of the node that the series belongs to."""
        found: str | MatchFailure | None = None
        for label in self._labels:
            text = labels.get(label)
            node = None if text is None else self._lookup(text)
            if node is None or node == found:
                continue
            if found is not None or node is MatchFailure.AMBIGUOUS:
                return MatchFailure.AMBIGUOUS
            found = node
        return found or MatchFailure.UNMATCHED

    def _lookup(self, text: str) -> str | MatchFailure | None:
        return self._by_address.get(text) or self._by_address.get(strip_port(text))


def strip_port(text: str) -> str:
    """`text` without a trailing port: 10.0.0.1:9100, name:9100, [fd00::1]:9100."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        return text
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1]
    return text if ":" in host else host
