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

from trimtab.core.cluster.columns import EVERY_ROW, Columns
from trimtab.core.cluster.objects import Objects
from trimtab.core.cluster.residents import NOWHERE, Residents
from trimtab.core.cluster.topology.census import Census
from trimtab.core.cluster.view import View
from trimtab.core.load.columns import LoadColumns
from trimtab.core.model.change import Change
from trimtab.core.model.node import Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import Pod
from trimtab.core.model.sample import Reading

TOMBSTONES = 50_000


class Place(Struct, frozen=True, gc=False):
    """Where a pod counts, and whether that is only our assumption."""

    node: str
    pod: Pod
    assumed: bool


class Cluster:
    """Nodes, pods, who stands where, the columns that sum it up, measured load, and plugins' own memory."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.load = LoadColumns()
        self.pods: dict[str, Pod] = {}
        self.places: dict[str, Place] = {}
        self.on_node: dict[str, dict[str, Pod]] = {}
        self.residents = Residents()
        self.nominated: dict[str, Pod] = {}
        self.promises: dict[str, str] = {}  # nodes by UID, "" for none, that the API server has not shown yet
        self.shown: dict[str, str] = {}  # and what it shows instead
        self.objects = Objects()
        self.census = Census(self.columns, self.residents)
        self.memory: dict[str, Any] = {}
        self.buried: OrderedDict[str, None] = OrderedDict()

    @property
    def view(self) -> View:
        return View(self.columns, self.load, self.memory, self.objects, self.on_node, self.residents, self.census)

    # --- nodes

    def see_node(self, node: Node) -> Change:
        row = self.columns.row.get(node.name)
        if node.uid in self.buried:
            return Change.NOTHING
        if row is None:
            return self._add_node(node)
        held = self.columns.nodes[row]
        if node.version and node.version <= held.version:
            return Change.NOTHING
        if held.uid != node.uid:  # deleted and made anew between two looks
            self._remove_node(held)
            return Change.NODE_GONE | self._add_node(node)
        changed = self.columns.change_node(node)
        if changed & (Change.LABELS | Change.TAINTS):
            self.census.clear()
        return changed

    def lose_node(self, name: str, uid: str = "", version: int = 0) -> Change:
        row = self.columns.row.get(name)
        if row is None:
            self._bury(uid)
            return Change.NOTHING
        held = self.columns.nodes[row]
        if (uid and uid != held.uid) or (version and version < held.version):
            return Change.NOTHING
        self._remove_node(held)
        return Change.NODE_GONE

    def _remove_node(self, node: Node) -> None:
        row, last = self.columns.row[node.name], len(self.columns) - 1
        self.columns.remove_node(node.name, self.on_node)
        self.residents.close_row(row, last)
        self.load.close_row(row, last, node.name)
        self.census.clear()
        self._bury(node.uid)

    def _bury(self, uid: str) -> None:
        """Nothing of this UID is believed again."""
        if uid:
            self.buried[uid] = None
        if len(self.buried) > TOMBSTONES:
            self.buried.popitem(last=False)

    def _add_node(self, node: Node) -> Change:
        self.columns.add_node(node)
        self.load.open_row(self.columns.row[node.name], node.name)
        standing = self.on_node.get(node.name, {})
        for pod in standing.values():
            self.columns.add_pod(node.name, pod)
        self.residents.seat(standing, self.columns.row[node.name])
        self.load.seated([self.residents.slot[uid] for uid in standing], self.columns.row[node.name])
        self.census.clear()
        return Change.NODE_ADDED

    # --- pods

    def is_news(self, pod: Pod) -> bool:
        """Whether the pod is newer than what is held and was not buried."""
        held = self.pods.get(pod.uid)
        return pod.uid not in self.buried and (held is None or pod.version > held.version)

    def as_promised(self, pod: Pod) -> Pod:
        """The pod with the nomination that we asked for, as long as the API server does not show it."""
        promise = self.promises.get(pod.uid)
        if promise is None:
            return pod
        if pod.nominated == promise or pod.node:
            del self.promises[pod.uid], self.shown[pod.uid]
            return pod
        self.shown[pod.uid] = pod.nominated
        return replace(pod, nominated=promise)

    def nominate(self, uid: str, node: str) -> Change:
        """Promise the node to a pod that waits; an empty name takes the promise back. Others see it at once."""
        self.promises[uid] = node
        self.shown.setdefault(uid, self.pods[uid].nominated)
        pod = self.pods[uid] = replace(self.pods[uid], nominated=node)
        return self._note_nomination(pod)

    def disown(self) -> Change:
        """What we promised and nobody has seen may never be written down: what the API server shows is all that counts."""
        freed = Change.NOTHING
        for uid, nominated in self.shown.items():
            pod = self.pods[uid] = replace(self.pods[uid], nominated=nominated)
            freed |= self._note_nomination(pod)
        self.promises, self.shown = {}, {}
        return freed

    def see_pod(self, pod: Pod) -> Change:
        """Take in a pod that `is_news`."""
        self.pods[pod.uid] = pod
        freed = self._note_nomination(pod)
        if pod.occupies:
            return freed | self._settle(pod)
        if pod.uid in self.places and (pod.finished or not self.places[pod.uid].assumed):
            return freed | self._vacate(pod.uid)
        return freed

    def lose_pod(self, uid: str) -> Change:
        self._bury(uid)
        self.pods.pop(uid, None)
        self.promises.pop(uid, None)
        self.shown.pop(uid, None)
        freed = Change.NOTHING if self.nominated.pop(uid, None) is None else Change.NOMINATED
        return freed | self._vacate(uid) if uid in self.places else freed

    def assume(self, pod: Pod, node: str) -> None:
        self._take(pod, node, assumed=True, change=Change.POD_CAME)

    def forget(self, uid: str) -> Change:
        """Give an assumed place back; a held one is not ours to give."""
        place = self.places.get(uid)
        return self._vacate(uid) if place is not None and place.assumed else Change.NOTHING

    def assumed_on(self, uid: str) -> str | None:
        place = self.places.get(uid)
        return place.node if place is not None and place.assumed else None

    def _settle(self, pod: Pod) -> Change:
        place = self.places.get(pod.uid)
        if place is None:
            self._take(pod, pod.node, assumed=False, change=Change.POD_CAME)
            return Change.POD_CAME
        if place.node == pod.node and place.pod.demand == pod.demand and place.pod.spec.ports == pod.spec.ports:
            self.places[pod.uid] = Place(pod.node, pod, assumed=False)
            self.on_node[pod.node][pod.uid] = pod
            self._alter(place.pod, pod)
            if place.assumed:
                return Change.POD_CAME
            return Change.POD_ALTERED if place.pod.labels != pod.labels else Change.NOTHING
        stays = place.node == pod.node
        self._vacate(pod.uid, stays=stays)
        self._take(pod, pod.node, assumed=False, change=Change.POD_ALTERED, stays=stays)
        return Change.POD_ALTERED | Change.POD_LEFT

    def _take(self, pod: Pod, node: str, *, assumed: bool, change: Change, stays: bool = False) -> None:
        """`stays` says that it was just vacated to be taken again: it has its old slot, and is measured on."""
        standing = pod if pod.node == node else replace(pod, node=node)
        self.places[pod.uid] = Place(node, standing, assumed)
        self.on_node.setdefault(node, {})[pod.uid] = standing
        self.columns.add_pod(node, standing, change)
        row = self.columns.row.get(node, NOWHERE)
        slot = self.residents.add(standing, row)
        self.census.came(slot)
        if stays:
            self.load.resized(slot, standing)
        else:
            self.load.came(slot, standing, row)

    def _alter(self, old: Pod, new: Pod) -> None:
        """A pod that stays where it is; most news of it are about nothing that is counted."""
        slot = self.residents.slot[old.uid]
        if self.load.altered(slot, new) and self.residents.row.item(slot) != NOWHERE:
            self.columns.note(Change.LOAD, self.residents.row.item(slot))
        if old.labels != new.labels and self.residents.row.item(slot) != NOWHERE:
            self.columns.note(Change.POD_ALTERED, self.residents.row.item(slot))
        if old.labels == new.labels and old.deleting == new.deleting and old.spec is new.spec:
            self.residents.change(new)
            return
        self.census.leaves(self.residents.slot[old.uid])
        self.census.came(self.residents.change(new))

    def _vacate(self, uid: str, *, stays: bool = False) -> Change:
        place = self.places.pop(uid)
        residents = self.on_node[place.node]
        del residents[uid]
        if not residents:
            del self.on_node[place.node]
        self.columns.remove_pod(place.node, place.pod)
        self.census.leaves(self.residents.slot[uid])
        if not stays:
            self.load.left(self.residents.slot[uid])
        self.residents.remove(uid)
        return Change.POD_LEFT

    def _note_nomination(self, pod: Pod) -> Change:
        before = self.nominated.pop(pod.uid, None)
        if pod.nominated and not pod.node and not pod.finished and not pod.deleting:
            self.nominated[pod.uid] = pod
        if before is None or (pod.occupies and pod.node == before.nominated):  # kept is not given up
            return Change.NOTHING
        given_up = pod.uid not in self.nominated or before.nominated != pod.nominated
        return Change.NOMINATED if given_up else Change.NOTHING

    # --- other objects

    def see_object(self, seen: Object) -> Change:
        return self._noted(Change.NOTHING if seen.uid in self.buried else self.objects.see(seen))

    def lose_object(self, kind: str, key: str, uid: str = "", version: int = 0) -> Change:
        self._bury(uid)
        return self._noted(self.objects.lose(kind, key, uid, version))

    def _noted(self, change: Change) -> Change:
        if change:
            self.columns.note(change, EVERY_ROW)
        return change

    # --- plugins' memory and load

    def remember(self, plugin: str, memory: Any) -> None:
        """A plugin's own memory has a new value; it is never changed in place, for forks share it."""
        if memory is not self.memory.get(plugin):
            self.memory[plugin] = memory
            self.columns.note(Change.MEMORY, EVERY_ROW)

    def read_load(self, readings: tuple[Reading, ...], at: float) -> Counter[str]:
        """Take measurements in; returns how many were not believed, by reason."""
        self.columns.note(Change.LOAD, EVERY_ROW)
        return self.load.read(readings, at, self.columns)

    def recall_load(self, readings: tuple[Reading, ...], at: float) -> Counter[str]:
        """Take in what a source remembers of earlier."""
        self.columns.note(Change.LOAD, EVERY_ROW)
        return self.load.recall(readings, at, self.columns)

    def lose_source(self, source: str, at: float) -> None:
        self.columns.note(Change.LOAD, EVERY_ROW)
        self.load.fail(source, at)

    def age(self, at: float) -> None:
        """Time has passed for the measurements."""
        if self.load.age(at):
            self.columns.note(Change.LOAD, EVERY_ROW)

    def fork(self) -> Cluster:
        """A plain copy to plan on: nothing done to it is seen by the original."""
        twin = Cluster()
        twin.columns, twin.load = self.columns.copy(), self.load.copy()
        twin.pods, twin.places = self.pods.copy(), self.places.copy()
        twin.on_node = {node: pods.copy() for node, pods in self.on_node.items()}
        twin.objects, twin.residents = self.objects.copy(), self.residents.copy()
        twin.census = Census(twin.columns, twin.residents)
        twin.promises, twin.shown = self.promises.copy(), self.shown.copy()
        twin.nominated, twin.memory, twin.buried = self.nominated.copy(), self.memory.copy(), self.buried.copy()
        return twin
