"""The cluster as observed so far (kube-scheduler's cache): nodes, pods, their placements, other objects and load.

Upserts and deletes return what changed. A pod's placement as a state machine:

                assume                 bound, seen by a watch or read back
    nowhere ───────────────▶ assumed ──────────────────────────────▶ observed
       ▲                        │                                       │
       │        forget          │ (an unknown outcome changes nothing)  │  finished, or deleted
       └────────────────────────┴───────────────────────────────────────┘

A pod observed on another node than the assumed one moves there: the API server is right.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from trimtab.core.cluster.node_table import EVERY_ROW, NodeTable
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.pod_table import PodTable
from trimtab.core.cluster.topology.topology_counts import TopologyCounts
from trimtab.core.cluster.view import View
from trimtab.core.load.ingest import ingest, ingest_history
from trimtab.core.load.store import LoadStore
from trimtab.core.load.view import LoadView
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod, replacement_of
from trimtab.core.model.readings import Reading
from trimtab.core.model.steps import Steps, finish
from trimtab.core.tables import NO_ROW, Groups

MAX_TOMBSTONES = 20_000  # many times what is deleted while an answer is under way


class PodPlacement(Struct, frozen=True, gc=False):
    """The node whose resources a pod holds, and whether that is only assumed."""

    node: str
    pod: Pod
    assumed: bool


class Cluster:
    """Nodes, pods, placements, the tables computed from them, measured load, and plugin state."""

    def __init__(self) -> None:
        self.node_table = NodeTable()
        self.load_store = LoadStore()
        self.load = LoadView(self.load_store)
        self.pods: dict[str, Pod] = {}
        self.placements: dict[str, PodPlacement] = {}
        self.on_node: Groups[Pod] = Groups()
        self.pod_table = PodTable()
        self.nominated: dict[str, Pod] = {}
        self.reserved: dict[
            str, Pod
        ] = {}  # as nominated: replacements that do not exist yet, by the UID of the pod that leaves
        self.pending_nominations: dict[str, str] = {}  # node by UID ("" for none), not yet confirmed by the API server
        self.observed_nominations: dict[str, str] = {}  # what the API server shows of those pods instead
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
        if held.uid != node.uid:  # deleted and created again while not watched
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

    def _add_node(self, node: Node) -> Change:
        self.node_table.add_node(node)
        row, pods = self.node_table.row[node.name], self.on_node.get(node.name, {})
        self.load_store.add_row(row, node.name)
        for pod in pods.values():
            self.node_table.add_pod(node.name, pod)
        self.pod_table.assign_row(pods, row)
        self.load_store.assign_row([self.pod_table.slot[uid] for uid in pods], row)
        self.topology_counts.clear()
        return Change.NODE_ADDED

    def _remove_node(self, node: Node) -> None:
        row, last = self.node_table.row[node.name], len(self.node_table) - 1
        self.node_table.remove_node(node.name, self.on_node)
        self.pod_table.remove_row(row, last)
        self.load_store.remove_row(row, last, node.name)
        self.topology_counts.clear()
        self._add_tombstone(node.uid)

    def _add_tombstone(self, uid: str) -> None:
        """Ignore later events of this UID."""
        if uid:
            self.tombstones[uid] = None
        if len(self.tombstones) > MAX_TOMBSTONES:
            self.tombstones.popitem(last=False)

    # --- pods

    def is_newer(self, pod: Pod) -> bool:
        """Whether the pod is newer than the one held, and not deleted already."""
        held = self.pods.get(pod.uid)
        return pod.uid not in self.tombstones and (held is None or pod.version > held.version)

    def upsert_pod(self, pod: Pod) -> Change:
        """Take in a pod that `is_newer`."""
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

    # --- placements

    def assume(self, pod: Pod, node: str) -> None:
        self._add_placement(pod, node, assumed=True, change=Change.POD_ADDED)

    def forget(self, uid: str) -> Change:
        """Release an assumed placement; an observed one stays."""
        placement = self.placements.get(uid)
        return self._remove_placement(uid) if placement is not None and placement.assumed else Change.NOTHING

    def _place_observed(self, pod: Pod) -> Change:
        held = self.placements.get(pod.uid)
        if held is None:
            self._add_placement(pod, pod.node, assumed=False, change=Change.POD_ADDED)
            return Change.POD_ADDED
        if held.node == pod.node and held.pod.requests == pod.requests and held.pod.spec.ports == pod.spec.ports:
            self.placements[pod.uid] = PodPlacement(pod.node, pod, assumed=False)
            self.on_node.put(pod.node, pod.uid, pod)
            self._update_placed(held.pod, pod)
            if held.assumed:
                return Change.POD_ADDED
            return Change.POD_UPDATED if held.pod.labels != pod.labels else Change.NOTHING
        resized = held.node == pod.node
        self._remove_placement(pod.uid, resized=resized)
        self._add_placement(pod, pod.node, assumed=False, change=Change.POD_UPDATED, resized=resized)
        return Change.POD_UPDATED | Change.POD_DELETED

    def _add_placement(self, pod: Pod, node: str, *, assumed: bool, change: Change, resized: bool = False) -> None:
        """`resized`: just removed to be added again, so it gets its old slot, and its samples stay valid."""
        placed = pod if pod.node == node else replace(pod, node=node)
        self.placements[pod.uid] = PodPlacement(node, placed, assumed)
        self.on_node.put(node, pod.uid, placed)
        self.node_table.add_pod(node, placed, change)
        row = self.node_table.row.get(node, NO_ROW)
        slot = self.pod_table.add_pod(placed, row)
        self.topology_counts.add_pod(slot)
        if resized:
            self.load_store.resize_pod(slot, placed)
        else:
            self.load_store.add_pod(slot, placed, row)

    def _remove_placement(self, uid: str, *, resized: bool = False) -> Change:
        placement = self.placements.pop(uid)
        self.on_node.remove(placement.node, uid)
        self.node_table.remove_pod(placement.node, placement.pod)
        self.topology_counts.remove_pod(self.pod_table.slot[uid])
        if not resized:
            self.load_store.remove_pod(self.pod_table.slot[uid])
        self.pod_table.remove_pod(uid)
        return Change.POD_DELETED

    def _update_placed(self, old: Pod, new: Pod) -> None:
        """A pod that stays where it is; most updates concern nothing that is counted."""
        slot = self.pod_table.slot[old.uid]
        row = self.pod_table.row.item(slot)
        if self.load_store.update_pod(slot, new) and row != NO_ROW:
            self.node_table.log_change(Change.LOAD, row)
        if old.labels != new.labels and row != NO_ROW:
            self.node_table.log_change(Change.POD_UPDATED, row)
        if old.labels == new.labels and old.terminating == new.terminating and old.spec is new.spec:
            self.pod_table.update_pod(new)
            return
        self.topology_counts.remove_pod(slot)
        self.topology_counts.add_pod(self.pod_table.update_pod(new))

    # --- nominations

    def nominate(self, uid: str, node: str) -> Change:
        """Nominate a node for a pending pod; an empty name clears the nomination. Effective before the API server knows."""
        self.pending_nominations[uid] = node
        self.observed_nominations.setdefault(uid, self.pods[uid].nominated_node)
        pod = self.pods[uid] = replace(self.pods[uid], nominated_node=node)
        return self._update_nomination(pod)

    def with_nomination(self, pod: Pod) -> Pod:
        """The pod with our pending nomination, as long as the API server does not show it."""
        nomination = self.pending_nominations.get(pod.uid)
        if nomination is None:
            return pod
        if pod.nominated_node == nomination or pod.node:
            del self.pending_nominations[pod.uid], self.observed_nominations[pod.uid]
            return pod
        self.observed_nominations[pod.uid] = pod.nominated_node
        return replace(pod, nominated_node=nomination)

    def drop_nominations(self) -> Change:
        """Pending nominations may never be written: go back to what the API server shows."""
        freed = Change.NOTHING
        for uid, node in self.observed_nominations.items():
            pod = self.pods[uid] = replace(self.pods[uid], nominated_node=node)
            freed |= self._update_nomination(pod)
        self.pending_nominations, self.observed_nominations = {}, {}
        return freed

    def reserve(self, leaving: Pod, node: str) -> None:
        """Leave the room of this pod on the node to its replacement, which its owner has not created yet."""
        self.reserved[leaving.uid] = replace(replacement_of(leaving), nominated_node=node)

    def release_reservation(self, uid: str) -> None:
        self.reserved.pop(uid, None)

    def _update_nomination(self, pod: Pod) -> Change:
        before = self.nominated.pop(pod.uid, None)
        if pod.nominated_node and pod.pending:
            self.nominated[pod.uid] = pod
        if before is None or (pod.holds_resources and pod.node == before.nominated_node):
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

    # --- plugin state and load

    def set_plugin_state(self, plugin: str, state: Any) -> None:
        """Replace a plugin's state; it is never changed in place, because forks share it."""
        if state is not self.plugin_state.get(plugin):
            self.plugin_state[plugin] = state
            self.node_table.log_change(Change.PLUGIN_STATE, EVERY_ROW)

    def ingest_samples(self, readings: tuple[Reading, ...], now: float) -> Counter[str]:
        """Returns the number of rejected samples by reason."""
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        return ingest(self.load_store, readings, now, self.node_table)

    def ingest_history(self, readings: tuple[Reading, ...], now: float) -> Counter[str]:
        """The same for samples of the past."""
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        return ingest_history(self.load_store, readings, now, self.node_table)

    def discard_source(self, source: str, now: float) -> None:
        self.node_table.log_change(Change.LOAD, EVERY_ROW)
        self.load_store.discard_source(source, now)

    def age_load(self, now: float) -> None:
        if self.load_store.advance(now):
            self.node_table.log_change(Change.LOAD, EVERY_ROW)

    def fork(self) -> Cluster:
        """An independent copy to plan on."""
        return finish(self.fork_in_steps())

    def fork_in_steps(self) -> Steps[Cluster]:
        """The same in several steps, of a cluster that does not change in between."""
        fork = Cluster()
        fork.node_table, fork.pod_table = self.node_table.copy(), self.pod_table.copy()
        yield
        fork.load_store = yield from self.load_store.copy_in_steps()
        fork.load = self.load.over(fork.load_store)
        yield
        fork.pods, fork.placements = self.pods.copy(), self.placements.copy()
        fork.on_node = self.on_node.copy()
        fork.objects, fork.plugin_state = self.objects.copy(), self.plugin_state.copy()
        fork.topology_counts = TopologyCounts(fork.node_table, fork.pod_table)
        fork.nominated, fork.tombstones = self.nominated.copy(), self.tombstones.copy()
        fork.reserved = self.reserved.copy()
        fork.pending_nominations = self.pending_nominations.copy()
        fork.observed_nominations = self.observed_nominations.copy()
        return fork
