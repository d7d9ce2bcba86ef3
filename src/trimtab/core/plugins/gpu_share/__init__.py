"""GpuShare: places pods on GPUs that they share, device by device, and packs them so that few fragments remain.

In the words of Alibaba's open-gpu-share: a node has `alibabacloud.com/gpu-count` devices; a pod requests a number of
devices by the same name, and by `alibabacloud.com/gpu-milli` so many thousandths of each, 1000 unless set. The filter
counts the devices of a node that have enough left. As shares of one device must not count as devices each, let
NodeResourcesFit ignore the resource group `alibabacloud.com`. Models are node labels, for which pods have node affinity.

Two scores, both as in the simulator of Weng et al. (USENIX ATC 2023):

    BestFit                        the less CPU and GPU is left on the node, the better
    FragmentationGradientDescent   the less the pod adds to what the workload cannot use, the better (`fragmentation`)

Both in whole points; equally good nodes are filled in a fixed order, as that simulator does. The second strategy depends
on that: with finer points, or ties broken at random, it allocated less. It also chooses the device of a share.
Its workload is `typicalPods` or, without these, the pods seen so far.

Reserving a pod records its devices (`devices`). Nothing tells the container which devices these are: that is up to a
device plugin, which must come to the same choice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.node_table import name_hash
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import MAX_SCORE, Ints, Normalise, Reject, Rows, StageStatus
from trimtab.core.framework.resource_amounts import ResourceAmounts
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.model.setting import INT32, check_ranges, setting
from trimtab.core.plugins.gpu_share.devices import (
    GPU_COUNT,
    GPU_MILLI,
    NO_ALLOCATIONS,
    WHOLE,
    GpuAllocations,
    GpuRequest,
    PodKind,
    free_devices,
    gpu_request,
    pod_kind,
    request_of,
    tightest_devices,
)
from trimtab.core.plugins.gpu_share.fragmentation import (
    Descent,
    Workload,
    descend,
    free_cpu,
    most_common,
    workload_of,
)
from trimtab.core.tables import Floats

TOO_FEW_DEVICES, TOO_LITTLE_FREE = -1, 1
BEST_FIT, DESCENT = "BestFit", "FragmentationGradientDescent"
RANDOM = "Random"
LARGEST_CPU, LARGEST_GPU = 128_000.0, 8.0 * WHOLE  # of a node, by which BestFit weighs what is left
TYPICAL_SHARE = 0.95  # of the pods seen: rarer kinds are left out of the workload


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """Requests of CPU and GPUs, the GPU models that it may have, and how many pods are like it."""

    requests: ResourceAmounts = setting(ResourceAmounts(), required="write its CPU and GPUs")
    models: tuple[str, ...] = ()
    weight: int = setting(1, between=(1, INT32))

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def kind(self) -> PodKind:
        return PodKind(self.requests.of(CPU), request_of(self.requests), tuple(sorted(self.models)))


@dataclass(frozen=True, slots=True)
class GpuShare:
    """The state of a node's devices changes only with its pods, so results depend on these."""

    name: ClassVar[str] = "GpuShare"
    requeue_on: ClassVar[Change] = (
        Change.NODE_ADDED | Change.ALLOCATABLE | Change.POD_DELETED | Change.POD_UPDATED | Change.OWN_POD_UPDATED
    )
    depends_on: ClassVar[Change] = Change.PODS | Change.ALLOCATABLE | Change.LABELS
    score_scale: ClassVar[int] = 10_000

    scoring_strategy: str = setting(
        BEST_FIT,
        "BestFit unless set: which nodes are better, also FragmentationGradientDescent",
        choices=(BEST_FIT, DESCENT),
    )
    device_selection: str = setting(
        BEST_FIT,
        "BestFit unless set: which device a share gets, also Random; FragmentationGradientDescent chooses its own",
        choices=(BEST_FIT, RANDOM),
    )
    typical_pods: tuple[TypicalPod, ...] = setting(
        (),
        "the pods seen so far unless set: the workload of FragmentationGradientDescent, each with `requests`, and"
        " optionally `models` and `weight`",
    )

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("scoringStrategy", self.scoring_strategy, (BEST_FIT, DESCENT)),
            ("deviceSelection", self.device_selection, (BEST_FIT, RANDOM)),
        ):
            if value not in choices:
                raise ValueError(f"{name}: {value[:100]!r} is not one of {', '.join(choices)}")

    @property
    def normalise(self) -> Normalise:
        """What is learned changes the scores of all nodes, so they are not cached then."""
        return Normalise.CUSTOM if self._learns else Normalise.NONE

    @property
    def _learns(self) -> bool:
        return self.scoring_strategy == DESCENT and not self.typical_pods

    def signature(self, pod: Pod) -> Hashable:
        return pod.requests

    # --- filter

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        request = gpu_request(pod)
        if not request.gpus:
            return np.zeros(len(view.pod_count[rows]), dtype=np.int64)
        free = free_devices(view, self._allocations(view), rows)
        codes = np.where((free >= request.milli).sum(axis=1) >= request.gpus, 0, TOO_LITTLE_FREE)
        unresolvable = view.allocatable(GPU_COUNT)[rows] < request.gpus
        codes[unresolvable | (request.milli > WHOLE)] = TOO_FEW_DEVICES
        return codes

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        too_few = code == TOO_FEW_DEVICES and gpu_request(pod).milli <= WHOLE
        return (f"Insufficient {GPU_COUNT if too_few else GPU_MILLI}",)

    def _allocations(self, view: View) -> GpuAllocations:
        allocations: GpuAllocations | None = view.plugin_state(self.name)
        return allocations or NO_ALLOCATIONS

    # --- score

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints | None:
        if self.scoring_strategy == BEST_FIT:
            return _in_fixed_order(view, rows, self._best_fit(view, pod, rows))
        decrease = self._descent(view, pod, rows).decrease
        return _in_fixed_order(view, rows, 1.0 / (1.0 + np.exp(-decrease)))

    def normalise_score(self, view: View, pod: Pod, rows: Rows, raw: Ints) -> Ints:
        return raw

    def _best_fit(self, view: View, pod: Pod, rows: Rows) -> Floats:
        """1 where nothing would be left of CPU and GPU, by how much the largest nodes have of each."""
        free = free_devices(view, self._allocations(view), rows).sum(axis=1) - gpu_request(pod).total
        cpu = free_cpu(view, rows) - pod.requests.of(CPU)
        left: Floats = (cpu / LARGEST_CPU + free / LARGEST_GPU) / 2
        return 1.0 - left

    def _descent(self, view: View, pod: Pod, rows: Rows) -> Descent:
        workload, kind = self._workload(view), PodKind(pod.requests.of(CPU), gpu_request(pod))
        free = free_devices(view, self._allocations(view), rows)
        return descend(workload, free, free_cpu(view, rows), workload.accessible(view, rows), kind)

    def _workload(self, view: View) -> Workload:
        if self.typical_pods:
            return workload_of(tuple((each.kind, each.weight) for each in self.typical_pods))
        return workload_of(most_common([*self._allocations(view).seen.items()], TYPICAL_SHARE))

    # --- plugin state

    def reserve(
        self, view: View, state: GpuAllocations | None, pod: Pod, node: str
    ) -> tuple[GpuAllocations | None, StageStatus | Reject]:
        """The pod counts on its node already, but has no devices yet."""
        request, row = gpu_request(pod), view.row(node)
        if not request.gpus or row is None:
            return state, StageStatus.SUCCESS
        allocations = (state or NO_ALLOCATIONS).released(node, pod.uid)
        devices = self._devices(view, allocations, pod, request, row)
        if not devices:
            return state, Reject(f"{node} has too little free on its GPUs", unresolvable=False)
        return allocations.reserved(node, pod.uid, request, devices), StageStatus.SUCCESS

    def _devices(
        self, view: View, allocations: GpuAllocations, pod: Pod, request: GpuRequest, row: int
    ) -> tuple[int, ...]:
        rows = slice(row, row + 1)
        free = free_devices(view, allocations, rows)
        tightest = tightest_devices(free[0].tolist(), request)
        if not tightest or request.gpus > 1 or request.milli >= WHOLE:
            return tightest
        if self.scoring_strategy == DESCENT:
            workload, kind = self._workload(view), PodKind(0, request)  # its CPU is no longer free
            found = descend(workload, free, free_cpu(view, rows), workload.accessible(view, rows), kind)
            return (int(found.device[0]),)
        return (_random_device(free[0], request, pod),) if self.device_selection == RANDOM else tightest

    def unreserve(self, state: GpuAllocations | None, pod: Pod, node: str) -> GpuAllocations | None:
        return state and state.released(node, pod.uid)

    def observe_pod(self, state: GpuAllocations | None, pod: Pod, added: bool) -> GpuAllocations | None:
        if self._learns and added:
            state = (state or NO_ALLOCATIONS).counted(pod_kind(pod))
        return (state or NO_ALLOCATIONS).observed(pod, added) if state or gpu_request(pod).gpus else state

    def explain_note(self, view: View, pod: Pod) -> str:
        unused = self._learns and not self._allocations(view).seen
        return "no pods were seen yet: all nodes with as much free GPU score alike" if unused else ""


def _in_fixed_order(view: View, rows: Rows, share: Floats) -> Ints:
    """Whole points, and below a point a fixed order of the nodes, so that equally good ones are filled one by one."""
    points = np.floor(np.clip(share, 0.0, 1.0) * MAX_SCORE + 1e-9).astype(np.int64)
    order = (view.name_hash[rows] % np.uint64(GpuShare.score_scale)).astype(np.int64)
    ordered: Ints = points * GpuShare.score_scale + order
    return np.minimum(ordered, MAX_SCORE * GpuShare.score_scale)


def _random_device(free: Ints, request: GpuRequest, pod: Pod) -> int:
    fitting = np.flatnonzero(free >= request.milli).tolist()
    chosen: int = fitting[name_hash(f"gpu/{pod.uid}") % len(fitting)]
    return chosen
