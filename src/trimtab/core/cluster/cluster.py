"""The cluster as delivered so far: takes facts in, keeps columns true, and says what changed; decides nothing.

A pod's place, as a state machine (who counts against a node's room, and on whose word):

                assume                 bound, by watch or read back
    nowhere ───────────────▶ assumed ──────────────────────────────▶ held
       ▲                        │                                      │
       │        forget          │ (an unknown outcome changes nothing) │  ended, or gone
       └────────────────────────┴──────────────────────────────────────┘

A pod seen on another node than the assumed one is moved there: the API server's word goes over ours.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.node_table import EVERY_ROW, NodeTable
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.pod_table import NO_ROW, PodTable
from trimtab.core.cluster.topology.topology_counts import TopologyCounts
from trimtab.core.cluster.view import View
from trimtab.core.load.view import LoadView
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.readings import Reading

MAX_TOMBSTONES = 50_000


class PodPlacement(Struct, frozen=True, gc=False):
    """Where a pod counts, and whether that is only our assumption."""

    node: str
    pod: Pod
    assumed: bool


class Cluster:
    """Nodes, pods, who stands where, the columns that sum it up, measured load, and plugins' own memory."""

    def __init__(self) -> None:
        self.node_table = NodeTable()
        self.load = LoadView()
        self.pods: dict[str, Pod] = {}
        self.placements: dict[str, PodPlacement] = {}
        self.on_node: dict[str, dict[str, Pod]] = {}
        self.pod_table = PodTable()
        self.nominated: dict[str, Pod] = {}
        self.pending_nominations: dict[
            str, str
        ] = {}  # nodes by UID, "" for none, that the API server has not shown yet
        self.observed_nominations: dict[str, str] = {}  # and what it shows instead
        self.objects = Objects()
        self.topology_counts = TopologyCounts(self.node_table, self.pod_table)
        self.plugin_state: dict[str, Any] = {}
        self.tombstones: OrderedDict[str, None] = OrderedDict()

    @property
    def view(self) -> View:
        return View(
            self.node_table,
            self.load,
            self.plugin_state,
            self.objects,
            self.on_node,
            self.pod_table,
            self.topology_counts,
        )

    # --- nodes

    def upsert_node(self, node: Node) -> Change:
        row = self.node_table.row.get(node.name)
        if node.uid in self.tombstones:
            return Change.NOTHING
        if row is None:
            return self._add_node(node)
        held = self.node_table.nodes[row]
        if node.version and node.version <= held.version:
            return Change.NOTHING
        if held.uid != node.uid:  # deleted and made anew between two looks
            self._remove_node(held)
            return Change.NODE_DELETED | self._add_node(node)
        changed = self.node_table.update_node(node)
        if changed & (Change.LABELS | Change.TAINTS):
            self.topology_counts.clear()
        return changed

    def delete_node(self, name: str, uid: str = "", version: int = 0) -> Change:
        row = self.node_table.row.get(name)
        if row is None:
            self._add_tombstone(uid)
            return Change.NOTHING
        held = self.node_table.nodes[row]
        if (uid and uid != held.uid) or (version and version < held.version):
            return Change.NOTHING
        self._remove_node(held)
        return Change.NODE_DELETED

    def _remove_node(self, node: Node) -> None:
        row, last = self.node_table.row[node.name], len(self.node_table) - 1
        self.node_table.remove_node(node.name, self.on_node)
        self.pod_table.remove_row(row, last)
        self.load.remove_row(row, last, node.name)
        self.topology_counts.clear()
        self._add_tombstone(node.uid)

    def _add_tombstone(self, uid: str) -> None:
        """Nothing of this UID is believed again."""
        if uid:
            self.tombstones[uid] = None
        if len(self.tombstones) > MAX_TOMBSTONES:
            self.tombstones.popitem(last=False)

    def _add_node(self, node: Node) -> Change:
        self.node_table.add_node(node)
        self.load.add_row(self.node_table.row[node.name], node.name)
        standing = self.on_node.get(node.name, {})
        for pod in standing.values():
            self.node_table.add_pod(node.name, pod)
        self.pod_table.assign_row(standing, self.node_table.row[node.name])
        self.load.assign_row([self.pod_table.slot[uid] for uid in standing], self.node_table.row[node.name])
        self.topology_counts.clear()
        return Change.NODE_ADDED

    # --- pods

    def is_newer(self, pod: Pod) -> bool:
        """Whether the pod is newer than what is held and was not buried."""
        held = self.pods.get(pod.uid)
        return pod.uid not in self.tombstones and (held is None or pod.version > held.version)

    def with_nomination(self, pod: Pod) -> Pod:
        """The pod with the nomination that we asked for, as long as the API server does not show it."""
        promise = self.pending_nominations.get(pod.uid)
        if promise is None:
            return pod
        if pod.nominated_node == promise or pod.node:
            del self.pending_nominations[pod.uid], self.observed_nominations[pod.uid]
            return pod
        self.observed_nominations[pod.uid] = pod.nominated_node
        return replace(pod, nominated_node=promise)

    def nominate(self, uid: str, node: str) -> Change:
        """Promise the node to a pod that waits; an empty name takes the promise back. Others see it at once."""
        self.pending_nominations[uid] = node
        self.observed_nominations.setdefault(uid, self.pods[uid].nominated_node)
        pod = self.pods[uid] = replace(self.pods[uid], nominated_node=node)
        return self._update_nomination(pod)

    def drop_nominations(self) -> Change:
        """What we promised and nobody has seen may never be written down: what the API server shows is all that counts."""
        freed = Change.NOTHING
        for uid, nominated in self.observed_nominations.items():
            pod = self.pods[uid] = replace(self.pods[uid], nominated_node=nominated)
            freed |= self._update_nomination(pod)
        self.pending_nominations, self.observed_nominations = {}, {}
        return freed

    def upsert_pod(self, pod: Pod) -> Change:
        """Take in a pod that `is_news`."""
        self.pods[pod.uid] = pod
        freed = self._update_nomination(pod)
        if pod.holds_resources:
            return freed | self._place_observed(pod)
        if pod.uid in self.placements and (pod.finished or not self.placements[pod.uid].assumed):
            return freed | self._remove_placement(pod.uid)
        return freed

    def delete_pod(self, uid: str) -> Change:
        self._add_tombstone(uid)
        self.pods.pop(uid, None)
        self.pending_nominations.pop(uid, None)
        self.observed_nominations.pop(uid, None)
        freed = Change.NOTHING if self.nominated.pop(uid, None) is None else Change.NOMINATED
        return freed | self._remove_placement(uid) if uid in self.placements else freed

    def assume(self, pod: Pod, node: str) -> None:
        self._add_placement(pod, node, assumed=True, change=Change.POD_ADDED)

    def forget(self, uid: str) -> Change:
        """Give an assumed place back; a held one is not ours to give."""
        place = self.placements.get(uid)
        return self._remove_placement(uid) if place is not None and place.assumed else Change.NOTHING

    def assumed_on(self, uid: str) -> str | None:
        place = self.placements.get(uid)
        return place.node if place is not None and place.assumed else None

    def _place_observed(self, pod: Pod) -> Change:
        place = self.placements.get(pod.uid)
        if place is None:
            self._add_placement(pod, pod.node, assumed=False, change=Change.POD_ADDED)
            return Change.POD_ADDED
        if place.node == pod.node and place.pod.requests == pod.requests and place.pod.spec.ports == pod.spec.ports:
            self.placements[pod.uid] = PodPlacement(pod.node, pod, assumed=False)
            self.on_node[pod.node][pod.uid] = pod
            self._update_placed(place.pod, pod)
            if place.assumed:
                return Change.POD_ADDED
            return Change.POD_UPDATED if place.pod.labels != pod.labels else Change.NOTHING
        stays = place.node == pod.node
        self._remove_placement(pod.uid, stays=stays)
        self._add_placement(pod, pod.node, assumed=False, change=Change.POD_UPDATED, stays=stays)
        return Change.POD_UPDATED | Change.POD_DELETED

    def _add_placement(self, pod: Pod, node: str, *, assumed: bool, change: Change, stays: bool = False) -> None:
        """`stays` says that it was just vacated to be taken again: it has its old slot, and is measured on."""
        standing = pod if pod.node == node else replace(pod, node=node)
        self.placements[pod.uid] = PodPlacement(node, standing, assumed)
        self.on_node.setdefault(node, {})[pod.uid] = standing
        self.node_table.add_pod(node, standing, change)
        row = self.node_table.row.get(node, NO_ROW)
        slot = self.pod_table.add_pod(standing, row)
        self.topology_counts.add_pod(slot)
        if stays:
            self.load.resize_pod(slot, standing)
        else:
            self.load.add_pod(slot, standing, row)

    def _update_placed(self, old: Pod, new: Pod) -> None:
        """A pod that stays where it is; most news of it are about nothing that is counted."""
        slot = self.pod_table.slot[old.uid]
        if self.load.update_pod(slot, new) and self.pod_table.row.item(slot) != NO_ROW:
            self.node_table.log_change(Change.LOAD, self.pod_table.row.item(slot))
        if old.labels != new.labels and self.pod_table.row.item(slot) != NO_ROW:
            self.node_table.log_change(Change.POD_UPDATED, self.pod_table.row.item(slot))
        if old.labels == new.labels and old.terminating == new.terminating and old.spec is new.spec:
            self.pod_table.update_pod(new)
            return
        self.topology_counts.remove_pod(self.pod_table.slot[old.uid])
        self.topology_counts.add_pod(self.pod_table.update_pod(new))

    def _remove_placement(self, uid: str, *, stays: bool = False) -> Change:
        place = self.placements.pop(uid)
        residents = self.on_node[place.node]
        del residents[uid]
        if not residents:
            del self.on_node[place.node]
        self.node_table.remove_pod(place.node, place.pod)
        self.topology_counts.remove_pod(self.pod_table.slot[uid])
        if not stays:
            self.load.remove_pod(self.pod_table.slot[uid])
        self.pod_table.remove_pod(uid)
        return Change.POD_DELETED

    def _update_nomination(self, pod: Pod) -> Change:
        before = self.nominated.pop(pod.uid, None)
        if pod.nominated_node and not pod.node and not pod.finished and not pod.terminating:
            self.nominated[pod.uid] = pod
        if before is None or (pod.holds_resources and pod.node == before.nominated_node):  # kept is not given up
            return Change.NOTHING
        given_up = pod.uid not in self.nominated or before.nominated_node != pod.nominated_node
        return Change.NOMINATED if given_up else Change.NOTHING

    # --- other objects

    def upsert_object(self, obj: Object) -> Change:
        return self._log_for_all_rows(Change.NOTHING if obj.uid in self.tombstones else self.objects.upsert(obj))

    def delete_object(self, kind: str, key: str, uid: str = "", version: int = 0) -> Change:
        self._add_tombstone(uid)
        return self._log_for_all_rows(self.objects.delete(kind, key, uid, version))

    def _log_for_all_rows(self, change: Change) -> Change:
        if change:
            self.node_table.log_change(change, EVERY_ROW)
        return change

    # --- plugins' memory and load

    def set_plugin_state(self, plugin: str, state: Any) -> None:
        """A plugin's own memory has a new value; it is never changed in place, for forks share it."""
        if state is not self.plugin_state.get(plugin):
            self.plugin_state[plugin] = state
            self.node_table.log_change(Change.PLUGIN_STATE, EVERY_ROW)

    def ingest_samples(self, readings: tuple[Reading, ...], now: float) -> Counter[str]:
        """Take measurements in; returns how many were not believed, by reason."""
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        return self.load.ingest(readings, now, self.node_table)

    def ingest_history(self, readings: tuple[Reading, ...], now: float) -> Counter[str]:
        """Take in what a source remembers of earlier."""
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        return self.load.ingest_history(readings, now, self.node_table)

    def source_failed(self, source: str, now: float) -> None:
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        self.load.source_failed(source, now)

    def age_load(self, now: float) -> None:
        """Time has passed for the measurements."""
        if self.load.advance(now):
            self.node_table.log_change(Change.LOAD, EVERY_ROW)

    def fork(self) -> Cluster:
        """A plain copy to plan on: nothing done to it is seen by the original."""
        twin = Cluster()
        twin.node_table, twin.load = self.node_table.copy(), self.load.copy()
        twin.pods, twin.placements = self.pods.copy(), self.placements.copy()
        twin.on_node = {node: pods.copy() for node, pods in self.on_node.items()}
        twin.objects, twin.pod_table = self.objects.copy(), self.pod_table.copy()
        twin.topology_counts = TopologyCounts(twin.node_table, twin.pod_table)
        twin.pending_nominations, twin.observed_nominations = (
            self.pending_nominations.copy(),
            self.observed_nominations.copy(),
        )
        twin.nominated, twin.plugin_state, twin.tombstones = (
            self.nominated.copy(),
            self.plugin_state.copy(),
            self.tombstones.copy(),
        )
        return twin
