"""What a pod asks for and what a node offers, in exact whole numbers; where the text is parsed is left to `wire`.

CPU is counted in thousandths of a core, everything else in its own unit (bytes, devices, pods). Amounts stop at `CAP`:
a larger wish is no more schedulable than `CAP` itself, and sums of a few of them still fit 64 bits.
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

# What a container that asks for nothing is taken to use when nodes are scored; kube-scheduler's figures.
DEFAULT_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * 1024 * 1024

Nanos = Mapping[str, int]  # exact amounts in billionths: sums are made of these, and rounded up once
Amounts = tuple[tuple[str, int], ...]  # rounded amounts in order of name

DEFAULT_REQUESTS: Nanos = {CPU: DEFAULT_CPU_REQUEST * (NANOS // 1000), MEMORY: DEFAULT_MEMORY_REQUEST * NANOS}


class PodRequests(Struct, frozen=True, gc=False):
    """A pod's requests as the scheduler counts them, shared by all pods of one shape.

    Scores count a little for containers that ask for nothing. They also count a pod that still looks for a node
    (`scored`) without what it asks for as a whole, and one that has its node (`settled`) with that, because
    kube-scheduler does and the scores must agree.

    Whoever guesses what the pod will use goes container by container, and leaves init containers and sidecars out, as
    Trimaran does: CPU limits together with the pod's overhead (`limited_cpu`), CPU requests of containers without a limit
    (`open_cpu`), and the number of those that name neither (`silent`).
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
    """One container's requests, where they stand for the sum: as a plain container, an init one, or a sidecar."""

    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    sidecar: bool = False


def amounts(nanos: Nanos) -> Amounts:
    """Round up to the units that are compared, and stop at the cap."""
    return tuple(sorted((name, _rounded(name, value)) for name, value in nanos.items()))


def _amount(rounded: Amounts, resource: str) -> int:
    for name, amount in rounded:  # asked in every decision: a plain loop is the cheapest
        if name == resource:
            return amount
    return 0


def _rounded(name: str, nanos: int) -> int:
    unit = NANOS // 1000 if name == CPU else NANOS
    return min(max(-(-nanos // unit), 0), MAX_AMOUNT)


def pod_requests(
    containers: Sequence[ContainerRequests],
    inits: Sequence[ContainerRequests] = (),
    pod_level: ContainerRequests | None = None,
    overhead: Nanos | None = None,
) -> PodRequests:
    """Kubernetes' sum: containers and sidecars together, or the hungriest init step, or what the pod itself says."""
    level = pod_level or ContainerRequests()
    extra = overhead or {}

    def requested(unasked: Nanos, whole: Nanos) -> dict[str, int]:
        folded = _aggregate(containers, inits, lambda ask: {**unasked, **ask.requests})
        return _with_pod_level(folded, whole, extra)

    asked, scored = requested({}, level.requests), requested(DEFAULT_REQUESTS, {})
    settled = scored
    if any(map(_supported_at_pod_level, level.requests)):
        missing = {name: nanos for name, nanos in DEFAULT_REQUESTS.items() if name not in asked}
        settled = requested(missing, level.requests)
    limited = _with_pod_level(_aggregate(containers, inits, _limits_of), level.limits, {})
    _add(limited, {name: nanos for name, nanos in extra.items() if limited.get(name)})  # no limit stays no limit
    return PodRequests(
        amounts=amounts(asked),
        nonzero=amounts(scored),
        assigned_nonzero_cpu=_rounded(CPU, settled.get(CPU, 0)),
        assigned_nonzero_memory=_rounded(MEMORY, settled.get(MEMORY, 0)),
        limits=amounts(limited),
        limited_cpu=sum(_cpu(each.limits) for each in containers) + _cpu(extra),
        unlimited_cpu=tuple(
            _cpu(each.requests) for each in containers if CPU in each.requests and CPU not in each.limits
        ),
        containers_without_cpu=sum(CPU not in each.requests and CPU not in each.limits for each in containers),
    )


def _cpu(nanos: Nanos) -> int:
    return _rounded(CPU, nanos.get(CPU, 0))


def _limits_of(ask: ContainerRequests) -> Nanos:
    return ask.limits


def _supported_at_pod_level(name: str) -> bool:
    """Whether the pod as a whole may ask for the resource."""
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
    hungriest: dict[str, int] = {}
    for init in inits:
        own = take(init)
        step = dict(sidecars)
        _add(step, own)
        _max_into(hungriest, step)
        if init.sidecar:
            _add(total, own)
            sidecars = step
    _max_into(total, hungriest)
    return total


def _with_pod_level(total: dict[str, int], level: Nanos, overhead: Nanos) -> dict[str, int]:
    total |= {name: value for name, value in level.items() if _supported_at_pod_level(name)}
    _add(total, overhead)
    return total


def _add(total: dict[str, int], more: Nanos) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _max_into(total: dict[str, int], floor: Nanos) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)
