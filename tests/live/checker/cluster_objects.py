"""The objects of a cluster as the checker sees them: bound pods, by node and by topology domain.

The checker shares no code with the product, and uses only objects as the API server lists them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tests.live.node_accounting import Document, is_terminated


def full_name(thing: Document) -> str:
    """namespace/name, or the name of a cluster-scoped object."""
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def labels(thing: Document) -> Mapping[str, str]:
    """The labels of an object, possibly empty."""
    found: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return found


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of one cluster at one time, after pods were only added."""

    pods: Sequence[Document]
    nodes: Sequence[Document]
    namespaces: Sequence[Document] = ()
    claims: Sequence[Document] = ()
    volumes: Sequence[Document] = ()
    csi_nodes: Sequence[Document] = ()

    @cached_property
    def bound(self) -> list[Document]:
        """Pods on a node that exists; the others are `strays`."""
        return [pod for pod in self._placed if pod["spec"]["nodeName"] in self.nodes_by_name]

    @cached_property
    def on_missing_nodes(self) -> list[Document]:
        """Pods on a node that does not exist."""
        return [pod for pod in self._placed if pod["spec"]["nodeName"] not in self.nodes_by_name]

    @cached_property
    def _placed(self) -> list[Document]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName") and not is_terminated(pod)]

    @cached_property
    def nodes_by_name(self) -> Mapping[str, Document]:
        """Nodes by name."""
        return {node["metadata"]["name"]: node for node in self.nodes}

    @cached_property
    def pods_by_node(self) -> Mapping[str, list[Document]]:
        """Pods by the name of their node."""
        found: dict[str, list[Document]] = defaultdict(list)
        for pod in self.bound:
            found[pod["spec"]["nodeName"]].append(pod)
        return found

    @cached_property
    def labels_of_namespace(self) -> Mapping[str, Mapping[str, str]]:
        """Labels by the name of the namespace."""
        return {each["metadata"]["name"]: labels(each) for each in self.namespaces}

    def node_of(self, pod: Document) -> Document:
        """The node that a bound pod is on."""
        return self.nodes_by_name[pod["spec"]["nodeName"]]

    def domain(self, pod: Document, key: str) -> str | None:
        """The value of this label on the pod's node."""
        return labels(self.node_of(pod)).get(key)
