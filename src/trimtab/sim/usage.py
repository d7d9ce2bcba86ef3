"""What pods want of their nodes and what they get, step by step, as columns.

Every step the patterns of all running pods are read. Where the pods of a node want more CPU than it has, they share it in
proportion to their requests, as cgroups do, and nobody gets more than it wants. Memory cannot be shared: whoever uses more
than its limit is killed, and where a node runs out of memory, pods are killed until it fits: those furthest above their
requests first.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.core.tables import Bools, Floats, Index
from trimtab.sim.randomness import Keys, key_of
from trimtab.sim.scenario import PodTemplate, SimulatedNode

RESOURCES = (CPU, MEMORY)
BLOCK = 64  # steps for which patterns are read at once
MIN_WEIGHT = 2.0  # millicores: the kernel's smallest share
FIRST_SIZE = 64

Matrix = NDArray[np.float64]  # by resource, and node or pod


class StepUsage(Struct, frozen=True, eq=False):
    """One step that has just ended. By resource and node: capacity, requests, demand, use; by resource and pod: demand, use.

    `present` are the nodes that exist and work. Pods are those that ran: UID, namespace/name and the node's row.
    """

    at: float
    seconds: float
    nodes: tuple[str, ...]
    present: Bools
    capacity: Matrix
    requested: Matrix
    demand: Matrix
    used: Matrix
    pods: tuple[str, ...]
    pod_keys: tuple[str, ...]
    pod_rows: Index
    pod_seeds: Keys  # of what is random in each pod
    pod_demand: Matrix
    pod_used: Matrix
    out_of_memory: tuple[str, ...] = ()  # the pods that are killed for it

    @property
    def utilisation(self) -> Matrix:
        """Demand relative to capacity, of the nodes that are present."""
        share: Matrix = (self.demand / np.maximum(self.capacity, 1.0))[:, self.present]
        return share


class _Running(Struct):
    """A running pod: its template, when it started, the key of what is random in it, and the row of its node."""

    template: PodTemplate
    started: float
    key: int
    row: int


class UsageTable:
    """Nodes by row and running pods by slot; a row stays when its node leaves."""

    def __init__(self, seed: int, begins: float, step: float, oom_kills: bool = True) -> None:
        self.seed, self.begins, self.step_seconds, self.oom_kills = seed, begins, step, oom_kills
        self.rows: dict[str, int] = {}
        self.names: tuple[str, ...] = ()
        self._system: list[SimulatedNode] = []
        self.present: Bools = np.zeros(0, dtype=np.bool_)
        self.capacity: Matrix = np.zeros((2, 0))
        self.requested: Matrix = np.zeros((2, 0))
        self._running: dict[str, _Running] = {}
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._uids, self._keys = (np.full(FIRST_SIZE, "", dtype=np.object_) for _ in range(2))
        self._block = np.zeros((2, FIRST_SIZE, BLOCK), dtype=np.float32)
        self._row: Index = np.full(FIRST_SIZE, -1, dtype=np.intp)
        self._seeds: Keys = np.zeros(FIRST_SIZE, dtype=np.uint64)
        self._weight, self._request, self._limit, self._started = (np.zeros(FIRST_SIZE) for _ in range(4))
        self._factor = np.ones(FIRST_SIZE)  # on the CPU of the pattern
        self._system_block = np.zeros((2, 0, BLOCK))
        self._block_number = 0
        self._times = self._middles()
        self.latest: StepUsage | None = None

    # --- nodes

    def put_node(self, simulated: SimulatedNode, *, present: bool) -> None:
        """Add the node, or change its capacity or presence; without a capacity it has what is allocatable."""
        name = simulated.node.name
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self.names)
            self.names += (name,)
            self._system.append(simulated)
            self.present = np.append(self.present, False)
            self.capacity, self.requested = (np.pad(each, ((0, 0), (0, 1))) for each in (self.capacity, self.requested))
            self._system_block = np.pad(self._system_block, ((0, 0), (0, 1), (0, 0)))
        self._system[row] = simulated
        self.present[row] = present
        capacity = dict(simulated.node.allocatable) | dict(simulated.node.capacity)
        self.capacity[:, row] = [float(capacity.get(resource, 0)) for resource in RESOURCES]
        self._read_system(row)

    def _read_system(self, row: int) -> None:
        patterns = self._system[row].system_cpu, self._system[row].system_memory
        for index, pattern in enumerate(patterns):
            key = key_of(self.seed, "system", self.names[row], index)
            self._system_block[index, row] = pattern.amounts(self._times, self.begins, key)

    def request(self, node: str, template: PodTemplate, sign: int) -> None:
        """Add or subtract the requests of a pod that was bound to the node, or left it."""
        row = self.rows.get(node)
        if row is not None:
            self.requested[:, row] += [sign * template.requests.of(resource) for resource in RESOURCES]

    # --- pods

    def start(self, pod: Pod, template: PodTemplate, now: float, key: int) -> None:
        """The pod's containers run from now on."""
        uid, node = pod.uid, pod.node
        if uid in self._slots or node not in self.rows:
            return
        slot = self._free.pop() if self._free else len(self._slots)
        if slot >= len(self._uids):
            self._grow()
        running = _Running(template, now, key, self.rows[node])
        self._slots[uid], self._running[uid], self._uids[slot] = slot, running, uid
        self._keys[slot] = pod.key
        self._row[slot], self._started[slot], self._seeds[slot] = running.row, now, key
        self._weight[slot] = max(template.requests.of(CPU), MIN_WEIGHT)
        self._request[slot] = template.requests.of(MEMORY)
        self._limit[slot] = _limit(template, MEMORY) or np.inf
        self._factor[slot] = 1.0
        self._read_pod(slot, running)

    def stop(self, uid: str) -> None:
        slot = self._slots.pop(uid, None)
        if slot is not None:
            del self._running[uid]
            self._uids[slot], self._row[slot], self._block[:, slot] = "", -1, 0.0
            self._free.append(slot)

    def scale(self, uid: str, factor: float) -> None:
        """From now on the pod wants its pattern's CPU times the factor, because others share its work."""
        if uid in self._slots:
            self._factor[self._slots[uid]] = factor

    def runs(self, uid: str) -> bool:
        return uid in self._slots

    def started(self, uid: str) -> float | None:
        """When the pod's containers were started; None if they do not run."""
        running = self._running.get(uid)
        return running.started if running is not None else None

    def _grow(self) -> None:
        more = len(self._uids)
        self._uids, self._keys = (np.pad(each, (0, more), constant_values="") for each in (self._uids, self._keys))
        self._block = np.pad(self._block, ((0, 0), (0, more), (0, 0)))
        self._row, self._seeds = np.pad(self._row, (0, more), constant_values=-1), np.pad(self._seeds, (0, more))
        self._weight, self._request, self._limit, self._started = (
            np.pad(each, (0, more)) for each in (self._weight, self._request, self._limit, self._started)
        )
        self._factor = np.pad(self._factor, (0, more), constant_values=1.0)

    def _read_pod(self, slot: int, running: _Running) -> None:
        template, times = running.template, self._times
        cpu = template.cpu.amounts(times, running.started, running.key)
        limit = _limit(template, CPU)
        self._block[0, slot] = np.minimum(cpu, limit) if limit else cpu
        self._block[1, slot] = template.memory.amounts(times, running.started, running.key + 2 & (1 << 64) - 1)

    def _middles(self) -> Floats:
        """The middle of each step of the current block."""
        first = self._block_number * BLOCK
        return np.asarray(self.begins + (np.arange(first, first + BLOCK) + 0.5) * self.step_seconds, dtype=np.float64)

    def _read_block(self, number: int) -> None:
        self._block_number = number
        self._times = self._middles()
        for row in range(len(self.names)):
            self._read_system(row)
        for uid, slot in self._slots.items():
            self._read_pod(slot, self._running[uid])

    # --- steps

    def step(self, number: int) -> StepUsage:
        """The step of this number, counted from 0, now that it has ended."""
        if number // BLOCK != self._block_number:
            self._read_block(number // BLOCK)
        column, at = number % BLOCK, self.begins + (number + 1) * self.step_seconds
        slots = np.flatnonzero((self._row >= 0) & (self._started < at))
        slots = slots[self.present[self._row[slots]]] if len(slots) else slots
        rows, wanted = self._row[slots], self._block[:, slots, column].astype(np.float64)
        wanted[0] *= self._factor[slots]
        system = self._system_block[:, :, column] * self.present
        demand = system + np.stack([np.bincount(rows, each, minlength=len(self.names)) for each in wanted])
        used = self._share_cpu(slots, rows, wanted, system, demand)
        self.latest = StepUsage(
            at=at,
            seconds=self.step_seconds,
            nodes=self.names,
            present=self.present.copy(),
            capacity=self.capacity.copy(),
            requested=self.requested.copy(),
            demand=demand,
            used=np.minimum(demand, self.capacity),
            pods=tuple(self._uids[slots].tolist()),
            pod_keys=tuple(self._keys[slots].tolist()),
            pod_rows=rows,
            pod_seeds=self._seeds[slots],
            pod_demand=wanted,
            pod_used=used,
            out_of_memory=self._out_of_memory(slots, rows, wanted[1], demand[1]) if self.oom_kills else (),
        )
        return self.latest

    def _share_cpu(self, slots: Index, rows: Index, wanted: Matrix, system: Matrix, demand: Matrix) -> Matrix:
        used = wanted.copy()
        for row in np.flatnonzero(demand[0] > self.capacity[0]).tolist():
            here = np.flatnonzero(rows == row)
            room = max(self.capacity[0, row] - system[0, row], 0.0)
            used[0, here] = fair_shares(wanted[0, here], self._weight[slots[here]], room)
        return used

    def _out_of_memory(self, slots: Index, rows: Index, wanted: Floats, demand: Floats) -> tuple[str, ...]:
        over_limit = wanted > self._limit[slots]
        killed = [self._uids[slot] for slot in slots[over_limit].tolist()]
        for row in np.flatnonzero((demand > self.capacity[1]) & self.present).tolist():
            here = np.flatnonzero((rows == row) & ~over_limit)
            missing = demand[row] - self.capacity[1, row] - wanted[(rows == row) & over_limit].sum()
            excess = wanted[here] / np.maximum(self._request[slots[here]], 1.0)
            for index in here[np.argsort(-excess, kind="stable")].tolist():
                if missing <= 0:
                    break
                killed.append(self._uids[slots[index]])
                missing -= wanted[index]
        return tuple(killed)


def _limit(template: PodTemplate, resource: str) -> int:
    """The pod's limit; 0 for none."""
    return next((amount for name, amount in template.requests.limits if name == resource), 0)


def fair_shares(wanted: Floats, weights: Floats, room: float) -> Floats:
    """Divide `room` by weight, where nobody gets more than it wants and what it leaves goes to the others."""
    order = np.argsort(wanted / weights, kind="stable")
    want, weight = wanted[order], weights[order]
    # With the first i satisfied in full, the others get this much for each unit of weight.
    left = room - np.concatenate(([0.0], np.cumsum(want)[:-1]))
    level = left / np.cumsum(weight[::-1])[::-1]
    unsatisfied = np.flatnonzero(want > level * weight)
    shares = want.copy()
    if len(unsatisfied):
        first = unsatisfied[0]
        shares[first:] = max(level[first], 0.0) * weight[first:]
    result = np.empty_like(shares)
    result[order] = shares
    return result
