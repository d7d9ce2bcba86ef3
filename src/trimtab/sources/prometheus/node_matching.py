"""Decides which node a series speaks of; leaves whether its number is believed to others.

Exporters say it in many ways: by a label with the node's name, by `instance` as name, as name and port, as address and
port. Only what equals a name or an address of a node that is known counts, never what resembles one. Where labels point at
different nodes, or one address at two nodes, there is no telling, and the series counts for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from trimtab.config.trimtab.settings import AUTO
from trimtab.core.model.node import Node

# What exporters and common relabelling rules call it; `exported_…` is what Prometheus makes of a label in the way.
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
    """Why a series counts for no node."""

    UNMATCHED = "unmatched"
    AMBIGUOUS = "ambiguous"


class NodeMatcher:
    """The nodes as they are now, by everything that may stand for them."""

    def __init__(self, nodes: Iterable[Node], label: str = AUTO) -> None:
        self._labels = NODE_LABELS if label == AUTO else (label,)
        self._by_address: dict[str, str | MatchFailure] = {}
        for node in nodes:
            for text in (node.name, *node.addresses):
                if text and self._by_address.setdefault(text, node.name) != node.name:
                    self._by_address[text] = MatchFailure.AMBIGUOUS

    def match(self, labels: Mapping[str, str]) -> str | MatchFailure:
        """The name of the node."""
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
    """`text` without the port behind it, if there is one: 10.0.0.1:9100, name:9100, [fd00::1]:9100."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        return text
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1]
    return text if ":" in host else host
