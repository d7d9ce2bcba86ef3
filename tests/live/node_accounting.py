"""Pod requests and node allocatable, implemented for the checkers alone, so that no mistake is shared with the product.

Exact fractions throughout: requests are rounded up once at the end, allocatable is rounded down.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

Document = Mapping[str, Any]
Resources = Mapping[str, int]
Amounts = dict[str, Fraction]
Port = tuple[str, str, int]

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
QUANTITY = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
NOTHING = Fraction(0)
ANY_ADDRESS = ("", "0.0.0.0")
ENDED = ("Succeeded", "Failed")


def parse_quantity(text: str | int | float) -> Fraction:
    """A Kubernetes quantity, exactly."""
    match = QUANTITY.fullmatch(str(text))
    if not match:
        raise ValueError(f"not a quantity: {text!r}")
    sign, whole, part, exponent, suffix = match.groups()
    value = Fraction(int(f"{whole}{part}" or "0"), 10 ** len(part))
    if suffix in BINARY:
        value *= 1024 ** BINARY[suffix]
    else:
        value *= Fraction(10) ** (int(exponent) if exponent else DECIMAL[suffix or ""])
    return -value if sign == "-" else value


def pod_requests(pod: Document) -> Resources:
    """The pod's requests: cpu in millicores, the rest in whole units, and one of `pods`."""
    spec = pod["spec"]
    # Pod-level requests override the sums of the containers.
    total = add({**_of_containers(spec), **_requests(spec)}, _amounts(spec.get("overhead")))
    return {**{name: math.ceil(_scaled(name, value)) for name, value in total.items()}, "pods": 1}


def requested_resources(pod: Document) -> set[str]:
    """The resources with a request above zero."""
    return {name for name, value in pod_requests(pod).items() if value > 0}


def node_allocatable(node: Document) -> Resources:
    """The node's allocatable."""
    allocatable = _amounts(node.get("status", {}).get("allocatable"))
    return {name: math.floor(_scaled(name, value)) for name, value in allocatable.items()}


def _scaled(name: str, value: Fraction) -> Fraction:
    return value * 1000 if name == "cpu" else value


def _amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_quantity(text) for name, text in (quantities or {}).items()}


def _requests(part: Document) -> Amounts:
    return _amounts(part.get("resources", {}).get("requests"))


def add(one: Amounts, other: Amounts) -> Amounts:
    """The sum by resource."""
    return {name: one.get(name, NOTHING) + other.get(name, NOTHING) for name in {**one, **other}}


def maximum(one: Amounts, other: Amounts) -> Amounts:
    """The maximum by resource."""
    return {name: max(one.get(name, NOTHING), other.get(name, NOTHING)) for name in {**one, **other}}


def _of_containers(spec: Document) -> Amounts:
    """The maximum of the main containers with all sidecars, and of each init container with the sidecars before it."""
    lasting: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers", ()):
        together = add(lasting, _requests(container))
        peak = maximum(peak, together)
        if container.get("restartPolicy") == "Always":
            lasting = together
    for container in spec["containers"]:
        lasting = add(lasting, _requests(container))
    return maximum(peak, lasting)


def pod_host_ports(pod: Document) -> Iterator[Port]:
    """The host ports that the pod uses while it runs: (address, protocol, number)."""
    lasting = [each for each in pod["spec"].get("initContainers", ()) if each.get("restartPolicy") == "Always"]
    for container in (*lasting, *pod["spec"]["containers"]):
        for port in container.get("ports", ()):
            if port.get("hostPort"):
                yield port.get("hostIP", ""), port.get("protocol", "TCP"), port["hostPort"]


def ports_conflict(one: Port, other: Port) -> bool:
    """Whether two pods on one node cannot both use these ports."""
    same_address = one[0] == other[0] or one[0] in ANY_ADDRESS or other[0] in ANY_ADDRESS
    return same_address and one[1:] == other[1:]


def insufficient(pod: Document, others: Iterable[Document], room: Resources) -> list[str]:
    """Why the pod does not fit with the others: one line per insufficient resource and per conflicting port."""
    present = list(others)
    sums: Counter[str] = Counter()
    for each in (pod, *present):
        sums.update(pod_requests(each))
    over = sorted(name for name in requested_resources(pod) if sums[name] > room.get(name, 0))
    found = [f"{name} {sums[name]} of {room.get(name, 0)}" for name in over]
    held = [port for each in present for port in pod_host_ports(each)]
    return found + [
        f"host port {mine[2]}/{mine[1]}"
        for mine in pod_host_ports(pod)
        if any(ports_conflict(mine, its) for its in held)
    ]


def is_terminated(pod: Document) -> bool:
    """Whether the pod's phase says that it has released its resources."""
    return pod.get("status", {}).get("phase") in ENDED
