"""What a pod requests and what a node offers, in exact integers.

CPU is in millicores, everything else in its own unit (bytes, devices, pods). Amounts are capped at `MAX_AMOUNT`: a larger
request is no more schedulable, and sums of a few of them still fit 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

MAX_AMOUNT = (1 << 62) - 1  # two of them still fit 63 bits
NANOS = 1_000_000_000
MIB, GIB = 1 << 20, 1 << 30

# kube-scheduler's defaults for containers without requests, used only in scores (NonZeroRequested).
DEFAULT_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * MIB

Nanos = Mapping[str, int]  # exact amounts in billionths: these are summed, and rounded up once
Amounts = tuple[tuple[str, int], ...]  # rounded amounts, sorted by name

DEFAULT_REQUESTS: Nanos = {CPU: DEFAULT_CPU_REQUEST * (NANOS // 1000), MEMORY: DEFAULT_MEMORY_REQUEST * NANOS}


class PodRequests(Struct, frozen=True, gc=False):
    """A pod's requests as the scheduler counts them, shared by all pods with equal ones.

    Scores use NonZeroRequested, with defaults for containers without requests. As in kube-scheduler, a pending pod counts
    without its pod-level requests (`nonzero`), and a pod with a node counts with them (`assigned_nonzero_…`).

    Usage is estimated per container, without init containers and sidecars, as in Trimaran: the sum of CPU limits and the
    pod's overhead (`limited_cpu`), the CPU requests of containers without a limit (`unlimited_cpu`), and the number of
    containers with neither (`containers_without_cpu`).
    """

    amounts: Amounts = ()
    nonzero: Amounts = ((CPU, DEFAULT_CPU_REQUEST), (MEMORY, DEFAULT_MEMORY_REQUEST))
    assigned_nonzero_cpu: int = DEFAULT_CPU_REQUEST
    assigned_nonzero_memory: int = DEFAULT_MEMORY_REQUEST
    limits: Amounts = ()
    limited_cpu: int = 0
    unlimited_cpu: tuple[int, ...] = ()
    containers_without_cpu: int = 1

    def of(self, resource: str) -> int:
        return _amount(self.amounts, resource)

    def nonzero_of(self, resource: str) -> int:
        return _amount(self.nonzero, resource)

    def limit_of(self, resource: str) -> int:
        """The limit, or the request where that is larger or there is no limit."""
        return max(_amount(self.limits, resource), _amount(self.amounts, resource))


class ContainerRequests(Struct, frozen=True, gc=False):
    """The requests and limits of one container, or of the pod as a pod_level."""

    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    sidecar: bool = False


def amounts(nanos: Nanos) -> Amounts:
    """Round up to the units that are compared, and cap."""
    rounded = {name: -(-value // NANOS) for name, value in nanos.items()}
    if CPU in nanos:
        rounded[CPU] = _rounded(CPU, nanos[CPU])
    if rounded and (min(rounded.values()) < 0 or max(rounded.values()) > MAX_AMOUNT):
        rounded = {name: _rounded(name, value) for name, value in nanos.items()}
    return tuple([(name, rounded[name]) for name in sorted(rounded)])  # twice as fast as sorting pairs


def _amount(rounded: Amounts, resource: str) -> int:
    for name, amount in rounded:  # hot path: a plain loop is the fastest
        if name == resource:
            return amount
    return 0


def _rounded(name: str, nanos: int) -> int:
    unit = NANOS // 1000 if name == CPU else NANOS
    rounded = -(-nanos // unit)
    return 0 if rounded < 0 else rounded if rounded < MAX_AMOUNT else MAX_AMOUNT


def pod_requests(
    containers: Sequence[ContainerRequests],
    inits: Sequence[ContainerRequests] = (),
    pod_level: ContainerRequests | None = None,
    overhead: Nanos | None = None,
) -> PodRequests:
    """As in Kubernetes: the sum of containers and sidecars, or the largest init step, or the pod-level requests."""
    level = pod_level or ContainerRequests()
    extra = overhead or {}

    def total(defaults: Nanos, level_requests: Nanos) -> dict[str, int]:
        folded = _aggregate(containers, inits, lambda container: {**defaults, **container.requests})
        return _with_pod_level(folded, level_requests, extra)

    requested, nonzero = total({}, level.requests), total(DEFAULT_REQUESTS, {})
    assigned = nonzero
    if any(map(_supported_at_pod_level, level.requests)):
        missing = {name: nanos for name, nanos in DEFAULT_REQUESTS.items() if name not in requested}
        assigned = total(missing, level.requests)
    limits = _with_pod_level(_aggregate(containers, inits, _limits_of), level.limits, {})
    _add(limits, {name: nanos for name, nanos in extra.items() if limits.get(name)})  # overhead alone is no limit
    return PodRequests(
        amounts=amounts(requested),
        nonzero=amounts(nonzero),
        assigned_nonzero_cpu=_rounded(CPU, assigned.get(CPU, 0)),
        assigned_nonzero_memory=_rounded(MEMORY, assigned.get(MEMORY, 0)),
        limits=amounts(limits),
        limited_cpu=sum(_cpu(each.limits) for each in containers) + _cpu(extra),
        unlimited_cpu=tuple(
            _cpu(each.requests) for each in containers if CPU in each.requests and CPU not in each.limits
        ),
        containers_without_cpu=sum(CPU not in each.requests and CPU not in each.limits for each in containers),
    )


def _cpu(nanos: Nanos) -> int:
    return _rounded(CPU, nanos.get(CPU, 0))


def _limits_of(container: ContainerRequests) -> Nanos:
    return container.limits


def _supported_at_pod_level(name: str) -> bool:
    """Whether pod-level requests may name the resource."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _aggregate(
    containers: Iterable[ContainerRequests],
    inits: Iterable[ContainerRequests],
    take: Callable[[ContainerRequests], Nanos],
) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in containers:
        _add(total, take(each))
    sidecars: dict[str, int] = {}
    largest_init: dict[str, int] = {}
    for init in inits:
        own = take(init)
        step = {name: sidecars.get(name, 0) + value for name, value in own.items()}  # the others were counted before
        _max_into(largest_init, step)
        if init.sidecar:
            _add(total, own)
            sidecars |= step
    _max_into(total, largest_init)
    return total


def _with_pod_level(total: dict[str, int], level: Nanos, overhead: Nanos) -> dict[str, int]:
    total |= {name: value for name, value in level.items() if _supported_at_pod_level(name)}
    _add(total, overhead)
    return total


def _add(total: dict[str, int], more: Nanos) -> None:
    if not total:
        total.update(more)
        return
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _max_into(total: dict[str, int], floor: Nanos) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)
