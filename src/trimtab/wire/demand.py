"""Decides what each container of a pod counts for, in the middle of a resize too; leaves the summing to the model.

While a running container is resized, three figures are about: what the spec wishes, what the node has set aside, and
what the container really has. Room is kept for the largest of them, except for a wish that the node has called
infeasible. Limits know no "set aside". Plain init containers cannot be resized.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from trimtab.core.model.resources import ContainerAsk, Demand, pod_demand
from trimtab.wire.fault import Quantities, read_amounts, read_part
from trimtab.wire.shapes import Body, Containers, ContainerShape, ContainerStatusShape


class ResourcesShape(Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


Amounts = dict[str, int]


def demand(body: Body, faults: list[str]) -> Demand:
    """The pod's demand as the scheduler counts it."""
    told = (*(body.container_statuses or ()), *(body.init_container_statuses or ()))
    statuses = {each.name: each for each in told}
    containers = _asks("spec.containers", body.containers, statuses, body.resize_infeasible, faults)
    inits = _asks("spec.initContainers", body.init_containers, statuses, body.resize_infeasible, faults)
    overhead = read_part(body.overhead, Quantities, "spec.overhead", faults)
    requests, limits = _resources(body.resources, "spec.resources", faults) or ({}, {})
    return pod_demand(
        containers, inits, ContainerAsk(requests, limits), read_amounts(overhead, "spec.overhead", faults)
    )


def _asks(
    path: str,
    containers: Containers,
    statuses: dict[str | None, ContainerStatusShape],
    infeasible: bool,
    faults: list[str],
) -> list[ContainerAsk]:
    asks = []
    for index, each in enumerate(containers or ()):
        resizable = path == "spec.containers" or each.sidecar
        status = statuses.get(each.name) if resizable else None
        asks.append(_ask(each, status, infeasible, f"{path}[{index}]", faults))
    return asks


def _ask(
    container: ContainerShape, status: ContainerStatusShape | None, infeasible: bool, path: str, faults: list[str]
) -> ContainerAsk:
    requests, limits = _resources(container.resources, f"{path}.resources", faults) or ({}, {})
    actual = _resources(status.resources, f"{path} in status.resources", faults) if status else None
    if status and actual:
        where = f"{path} in status.allocatedResources"
        quantities = read_part(status.allocated_resources, Quantities, where, faults)
        allocated = read_amounts(quantities, where, faults)
        requests = _largest(*(() if infeasible else (requests,)), actual[0], allocated)
        limits = _largest(*(() if infeasible else (limits,)), actual[1])
    return ContainerAsk(requests, limits, container.sidecar)


def _resources(raw: Raw, path: str, faults: list[str]) -> tuple[Amounts, Amounts] | None:
    """Requests and limits, or None where there is no such field: an empty one is an answer too."""
    shape = read_part(raw, ResourcesShape, path, faults)
    if shape is None:
        return None
    return (
        read_amounts(shape.requests, f"{path}.requests", faults),
        read_amounts(shape.limits, f"{path}.limits", faults),
    )


def _largest(*several: Amounts) -> Amounts:
    largest: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            largest[name] = max(amount, largest.get(name, 0))
    return largest
