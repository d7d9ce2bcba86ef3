"""Decides what each container of a pod counts for, in the middle of a resize too; leaves the summing to the model.

While a running container is resized, three figures are about: what the spec wishes, what the node has set aside, and
what the container really has. Room is kept for the largest of them, except for a wish that the node has called
infeasible. Limits know no "set aside". Plain init containers cannot be resized.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from trimtab.core.model.resources import ContainerRequests, PodRequests, pod_requests
from trimtab.wire.decode_errors import Quantities, decode_part, parse_amounts
from trimtab.wire.pod_json import Containers, ContainerShape, ContainerStatusShape, SpecKey


class ResourcesShape(Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


Amounts = dict[str, int]


def read_pod_requests(body: SpecKey, errors: list[str]) -> PodRequests:
    """The pod's demand as the scheduler counts it."""
    told = (*(body.container_statuses or ()), *(body.init_container_statuses or ()))
    statuses = {each.name: each for each in told}
    containers = _container_requests("spec.containers", body.containers, statuses, body.resize_infeasible, errors)
    inits = _container_requests("spec.initContainers", body.init_containers, statuses, body.resize_infeasible, errors)
    overhead = decode_part(body.overhead, Quantities, "spec.overhead", errors)
    requests, limits = _resources(body.resources, "spec.resources", errors) or ({}, {})
    return pod_requests(
        containers, inits, ContainerRequests(requests, limits), parse_amounts(overhead, "spec.overhead", errors)
    )


def _container_requests(
    path: str,
    containers: Containers,
    statuses: dict[str | None, ContainerStatusShape],
    infeasible: bool,
    errors: list[str],
) -> list[ContainerRequests]:
    asks = []
    for index, each in enumerate(containers or ()):
        resizable = path == "spec.containers" or each.sidecar
        status = statuses.get(each.name) if resizable else None
        asks.append(_one_container(each, status, infeasible, f"{path}[{index}]", errors))
    return asks


def _one_container(
    container: ContainerShape, status: ContainerStatusShape | None, infeasible: bool, path: str, errors: list[str]
) -> ContainerRequests:
    requests, limits = _resources(container.resources, f"{path}.resources", errors) or ({}, {})
    actual = _resources(status.resources, f"{path} in status.resources", errors) if status else None
    if status and actual:
        where = f"{path} in status.allocatedResources"
        quantities = decode_part(status.allocated_resources, Quantities, where, errors)
        allocated = parse_amounts(quantities, where, errors)
        requests = _largest(*(() if infeasible else (requests,)), actual[0], allocated)
        limits = _largest(*(() if infeasible else (limits,)), actual[1])
    return ContainerRequests(requests, limits, container.sidecar)


def _resources(raw: Raw, path: str, errors: list[str]) -> tuple[Amounts, Amounts] | None:
    """Requests and limits, or None where there is no such field: an empty one is an answer too."""
    shape = decode_part(raw, ResourcesShape, path, errors)
    if shape is None:
        return None
    return (
        parse_amounts(shape.requests, f"{path}.requests", errors),
        parse_amounts(shape.limits, f"{path}.limits", errors),
    )


def _largest(*several: Amounts) -> Amounts:
    largest: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            largest[name] = max(amount, largest.get(name, 0))
    return largest
