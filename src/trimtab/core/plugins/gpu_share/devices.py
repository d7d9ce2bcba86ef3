"""Which pod has which GPU devices of its node: what a pod asks for, and the allocations as an immutable value.

A device has 1000 thousandths, which pods share or take as a whole. The allocations are a plugin state: pods that were
reserved here have the devices chosen for them. The API does not say which devices a pod has that was found on its node,
after a restart for instance: such pods are packed, largest first, onto the devices that the others leave, in whatever
order they are observed. What is more than the devices hold counts on none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import Ints, Rows
from trimtab.core.framework.resource_amounts import ResourceAmounts
from trimtab.core.model.pod import Pod, PodSpec
from trimtab.core.model.resources import CPU, PodRequests

GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MILLI = "alibabacloud.com/gpu-milli"
MODEL_LABEL = "alibabacloud.com/gpu-card-model"
WHOLE = 1000  # thousandths of a device
MAX_DEVICES = 64  # of a node that are used; more than any machine has
NO_LINE = -1


class GpuRequest(NamedTuple):
    """So many devices, and so many thousandths of each; 0 of 0 for a pod without GPUs."""

    gpus: int = 0
    milli: int = 0

    @property
    def total(self) -> int:
        return self.gpus * self.milli

    @property
    def bounded(self) -> GpuRequest:
        """As much of it as a node can have."""
        return GpuRequest(min(self.gpus, MAX_DEVICES), min(self.milli, WHOLE))


def gpu_request(pod: Pod) -> GpuRequest:
    return request_of(pod.requests)


def request_of(amounts: PodRequests | ResourceAmounts) -> GpuRequest:
    """Whole devices unless it says how much of each; one device unless it says how many."""
    count, milli = amounts.of(GPU_COUNT), amounts.of(GPU_MILLI)
    return GpuRequest(count or 1, milli or WHOLE) if count or milli else GpuRequest()


class PodKind(NamedTuple):
    """What counts about a pod in a workload: its CPU, its GPUs, and the models that it may have (empty for any)."""

    cpu: int
    request: GpuRequest
    models: tuple[str, ...] = ()


def pod_kind(pod: Pod) -> PodKind:
    return PodKind(pod.requests.of(CPU), gpu_request(pod), _models(pod.spec))


def _models(spec: PodSpec) -> tuple[str, ...]:
    """The models that its node selector, or else its only required node affinity term, allows."""
    for key, value in spec.node_selector or ():
        if key == MODEL_LABEL:
            return (value,)
    terms = (spec.affinity.node_affinity.required or ()) if spec.affinity is not None else ()
    allowed = [each for term in terms for each in term.match_expressions if each.key == MODEL_LABEL]
    return tuple(sorted(allowed[0].values)) if len(terms) == 1 and allowed and allowed[0].operator == "In" else ()


class Share(NamedTuple):
    """What a pod has of its node's devices; `devices` is empty while that is unknown."""

    uid: str
    request: GpuRequest
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class GpuAllocations:
    """By node name: its line in `used`, and the shares of its pods. `used` has a column per device.

    `seen` counts the pods observed so far by kind, where that is of interest.
    """

    lines: Mapping[str, int]
    shares: Mapping[str, tuple[Share, ...]]
    used: Ints
    seen: Mapping[PodKind, int] = field(default_factory=dict)

    def of(self, node: str) -> tuple[Share, ...]:
        return self.shares.get(node, ())

    def with_shares(self, node: str, shares: tuple[Share, ...]) -> GpuAllocations:
        """The same with other shares on this node."""
        if not shares:
            return self._without_node(node)
        by_device, (height, width) = used_by_device(shares), self.used.shape
        lines = self.lines if node in self.lines else {**self.lines, node: len(self.lines)}
        new_height = height if len(lines) <= height else 2 * len(lines)
        used = np.zeros((new_height, max(len(by_device), width)), dtype=np.int64)
        used[:height, :width] = self.used
        used[lines[node]] = 0
        used[lines[node], : len(by_device)] = by_device
        return replace(self, lines=lines, shares={**self.shares, node: shares}, used=used)

    def _without_node(self, node: str) -> GpuAllocations:
        """The last line moves to where the node was."""
        hole, last, used = self.lines.get(node), len(self.lines) - 1, self.used.copy()
        if hole is None:
            return self
        used[hole], used[last] = self.used[last], 0
        lines = {name: hole if line == last else line for name, line in self.lines.items() if name != node}
        shares = {name: here for name, here in self.shares.items() if name != node}
        return replace(self, lines=lines, shares=shares, used=used)

    def observed(self, pod: Pod, added: bool) -> GpuAllocations:
        """A pod has come to its node, or left it; one that was reserved keeps its devices."""
        here, request = self.of(pod.node), gpu_request(pod).bounded
        known = next((each for each in here if each.uid == pod.uid), None)
        if added and request.gpus and (known is None or known.request != request):
            return self.with_shares(pod.node, (*_without(here, pod.uid), Share(pod.uid, request)))
        return self if added or known is None else self.with_shares(pod.node, _without(here, pod.uid))

    def counted(self, kind: PodKind) -> GpuAllocations:
        """One more pod of this kind was seen."""
        return replace(self, seen={**self.seen, kind: self.seen.get(kind, 0) + 1})

    def reserved(self, node: str, uid: str, request: GpuRequest, devices: tuple[int, ...]) -> GpuAllocations:
        """The pod gets these devices; those of the other pods do not change any more."""
        others = pinned(_without(self.of(node), uid))
        return self.with_shares(node, (*others, Share(uid, request, devices)))

    def released(self, node: str, uid: str) -> GpuAllocations:
        here = self.of(node)
        return self.with_shares(node, others) if len(others := _without(here, uid)) < len(here) else self


NO_ALLOCATIONS = GpuAllocations({}, {}, np.zeros((0, 0), dtype=np.int64))


def _without(shares: tuple[Share, ...], uid: str) -> tuple[Share, ...]:
    return tuple(each for each in shares if each.uid != uid)


def pinned(shares: Sequence[Share]) -> tuple[Share, ...]:
    """The shares with devices for all of them: those without go where they fit best, largest first."""
    used: list[int] = []
    for share in shares:
        _use(used, share)
    unknown = sorted((each for each in shares if not each.devices), key=lambda each: (-each.request.milli, each.uid))
    packed = {}
    for share in unknown:
        free = [WHOLE - each for each in used] + [WHOLE] * share.request.gpus
        placed = packed[share.uid] = share._replace(devices=tightest_devices(free, share.request))
        _use(used, placed)
    return tuple(packed.get(each.uid, each) for each in shares)


def used_by_device(shares: Sequence[Share]) -> list[int]:
    """Thousandths in use of each device, as far as there is one."""
    used: list[int] = []
    for share in pinned(shares):
        _use(used, share)
    return used[:MAX_DEVICES]


def _use(used: list[int], share: Share) -> None:
    for device in share.devices[:MAX_DEVICES]:
        used += [0] * (device + 1 - len(used))
        used[device] += share.request.milli


def tightest_devices(free: Sequence[int], request: GpuRequest) -> tuple[int, ...]:
    """The devices with the least free that still fit, the first of equals; empty if there are too few."""
    fitting = [device for device, milli in enumerate(free) if milli >= request.milli]
    chosen = sorted(fitting, key=lambda device: (free[device], device))[: request.gpus]
    return tuple(sorted(chosen)) if len(chosen) == request.gpus else ()


def free_devices(view: View, allocations: GpuAllocations, rows: Rows) -> Ints:
    """Free thousandths of the devices of these nodes, a line each; 0 where a node has no such device."""
    if view.delta is not None:
        return _free(view, _with_delta(view, allocations), rows)
    return _free(view, allocations, rows)


def _free(view: View, allocations: GpuAllocations, rows: Rows) -> Ints:
    counts = np.minimum(view.allocatable(GPU_COUNT)[rows], MAX_DEVICES)
    width = int(counts.max(initial=0))
    free: Ints = np.where(np.arange(width) < counts[:, None], WHOLE, 0)
    lines = _lines(view, allocations, rows)
    shared = min(width, allocations.used.shape[1])
    if (known := lines != NO_LINE).any():
        free[known, :shared] = np.maximum(free[known, :shared] - allocations.used[lines[known], :shared], 0)
    return free


def _lines(view: View, allocations: GpuAllocations, rows: Rows) -> Ints:
    """The line of each of these rows."""
    selected = range(*rows.indices(view.count)) if isinstance(rows, slice) else rows.tolist()
    nodes, line_of = view.nodes, allocations.lines
    return np.fromiter((line_of.get(nodes[row].name, NO_LINE) for row in selected), np.int64, len(selected))


def _with_delta(view: View, allocations: GpuAllocations) -> GpuAllocations:
    """With the pods that an overlay adds and removes."""
    delta = view.delta
    assert delta is not None
    removed = [(pod.node, pod, -1) for slot in delta.slots.tolist() if (pod := view.pod_table.pods[slot]) is not None]
    untracked = [(view.nodes[row].name, pod, sign) for row, pod, sign in delta.untracked]
    changed: dict[str, tuple[Share, ...]] = {}
    for node, pod, sign in (*removed, *untracked):
        request = gpu_request(pod).bounded
        if request.gpus:
            others = _without(changed.get(node, allocations.of(node)), pod.uid)
            changed[node] = (*others, Share(pod.uid, request)) if sign > 0 else others
    for node, shares in changed.items():
        allocations = allocations.with_shares(node, shares)
    return allocations
