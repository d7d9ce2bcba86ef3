"""What a pod asks for and what a node offers, in exact whole numbers; where the text is parsed is left to `wire`.

CPU is counted in thousandths of a core, everything else in its own unit (bytes, devices, pods). Amounts stop at `CAP`:
a larger wish is no more schedulable than `CAP` itself, and sums of a few of them still fit 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"

CAP = (1 << 62) - 1  # two of them still fit 63 bits
NANOS = 1_000_000_000

# What a container that asks for nothing is taken to use when nodes are scored; kube-scheduler's figures.
UNASKED_CPU = 100
UNASKED_MEMORY = 200 * 1024 * 1024

Nanos = Mapping[str, int]  # exact amounts in billionths: sums are made of these, and rounded up once
Amounts = tuple[tuple[str, int], ...]  # rounded amounts in order of name

UNASKED: Nanos = {CPU: UNASKED_CPU * (NANOS // 1000), MEMORY: UNASKED_MEMORY * NANOS}


class Demand(Struct, frozen=True, gc=False):
    """A pod's requests as the scheduler counts them, shared by all pods of one shape.

    Scores count a little for containers that ask for nothing. They also count a pod that still looks for a node
    (`scored`) without what it asks for as a whole, and one that has its node (`settled`) with that, because
    kube-scheduler does and the scores must agree.

    Whoever guesses what the pod will use goes container by container, and leaves init containers and sidecars out, as
    Trimaran does: CPU limits together with the pod's overhead (`bounded_cpu`), CPU requests of containers without a limit
    (`open_cpu`), and the number of those that name neither (`silent`).
    """

    amounts: Amounts = ()
    scored: Amounts = ((CPU, UNASKED_CPU), (MEMORY, UNASKED_MEMORY))
    settled_cpu: int = UNASKED_CPU
    settled_memory: int = UNASKED_MEMORY
    limits: Amounts = ()
    bounded_cpu: int = 0
    open_cpu: tuple[int, ...] = ()
    silent: int = 1

    def of(self, resource: str) -> int:
        return _amount(self.amounts, resource)

    def scored_of(self, resource: str) -> int:
        return _amount(self.scored, resource)

    def limit_of(self, resource: str) -> int:
        """The limit, or the request where that is larger or there is no limit."""
        return max(_amount(self.limits, resource), _amount(self.amounts, resource))


class ContainerAsk(Struct, frozen=True, gc=False):
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
    return min(max(-(-nanos // unit), 0), CAP)


def pod_demand(
    containers: Sequence[ContainerAsk],
    inits: Sequence[ContainerAsk] = (),
    pod_level: ContainerAsk | None = None,
    overhead: Nanos | None = None,
) -> Demand:
    """Kubernetes' sum: containers and sidecars together, or the hungriest init step, or what the pod itself says."""
    level = pod_level or ContainerAsk()
    extra = overhead or {}

    def requested(unasked: Nanos, whole: Nanos) -> dict[str, int]:
        folded = _folded(containers, inits, lambda ask: {**unasked, **ask.requests})
        return _with_pod_level(folded, whole, extra)

    asked, scored = requested({}, level.requests), requested(UNASKED, {})
    settled = scored
    if any(map(_counts_for_pod, level.requests)):
        missing = {name: nanos for name, nanos in UNASKED.items() if name not in asked}
        settled = requested(missing, level.requests)
    limited = _with_pod_level(_folded(containers, inits, _limited), level.limits, {})
    _add(limited, {name: nanos for name, nanos in extra.items() if limited.get(name)})  # no limit stays no limit
    return Demand(
        amounts=amounts(asked),
        scored=amounts(scored),
        settled_cpu=_rounded(CPU, settled.get(CPU, 0)),
        settled_memory=_rounded(MEMORY, settled.get(MEMORY, 0)),
        limits=amounts(limited),
        bounded_cpu=sum(_cpu(each.limits) for each in containers) + _cpu(extra),
        open_cpu=tuple(_cpu(each.requests) for each in containers if CPU in each.requests and CPU not in each.limits),
        silent=sum(CPU not in each.requests and CPU not in each.limits for each in containers),
    )


def _cpu(nanos: Nanos) -> int:
    return _rounded(CPU, nanos.get(CPU, 0))


def _limited(ask: ContainerAsk) -> Nanos:
    return ask.limits


def _counts_for_pod(name: str) -> bool:
    """Whether the pod as a whole may ask for the resource."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _folded(
    containers: Iterable[ContainerAsk], inits: Iterable[ContainerAsk], take: Callable[[ContainerAsk], Nanos]
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
        _raise_to(hungriest, step)
        if init.sidecar:
            _add(total, own)
            sidecars = step
    _raise_to(total, hungriest)
    return total


def _with_pod_level(total: dict[str, int], level: Nanos, overhead: Nanos) -> dict[str, int]:
    total |= {name: value for name, value in level.items() if _counts_for_pod(name)}
    _add(total, overhead)
    return total


def _add(total: dict[str, int], more: Nanos) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: dict[str, int], floor: Nanos) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)
