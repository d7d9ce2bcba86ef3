"""One measurement of a node or pod, with its own time; how far it is trusted is left to `load`."""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True, gc=False):
    """What `node` really used of `resource` at `measured`, in the units of requests; `pod` names a pod's share."""

    node: str
    resource: str
    value: float
    measured: float
    pod: str = ""
