"""Decides which node a series speaks of; leaves whether its number is believed to others.

Exporters say it in many ways: by a label with the node's name, by `instance` as name, as name and port, as address and
port. Only what equals a name or an address of a node that is known counts, never what resembles one. Where labels point at
different nodes, or one address at two nodes, there is no telling, and the series counts for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from trimtab.config.own.settings import AUTO
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


class Nobody(Enum):
    """Why a series counts for no node."""

    UNMATCHED = "unmatched"
    AMBIGUOUS = "ambiguous"


class Identity:
    """The nodes as they are now, by everything that may stand for them."""

    def __init__(self, nodes: Iterable[Node], label: str = AUTO) -> None:
        self._labels = NODE_LABELS if label == AUTO else (label,)
        self._known: dict[str, str | Nobody] = {}
        for node in nodes:
            for text in (node.name, *node.addresses):
                if text and self._known.setdefault(text, node.name) != node.name:
                    self._known[text] = Nobody.AMBIGUOUS

    def node_of(self, labels: Mapping[str, str]) -> str | Nobody:
        """The name of the node."""
        found: str | Nobody | None = None
        for label in self._labels:
            text = labels.get(label)
            node = None if text is None else self._named(text)
            if node is None or node == found:
                continue
            if found is not None or node is Nobody.AMBIGUOUS:
                return Nobody.AMBIGUOUS
            found = node
        return found or Nobody.UNMATCHED

    def _named(self, text: str) -> str | Nobody | None:
        return self._known.get(text) or self._known.get(host_of(text))


def host_of(text: str) -> str:
    """`text` without the port behind it, if there is one: 10.0.0.1:9100, name:9100, [fd00::1]:9100."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        return text
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1]
    return text if ":" in host else host
