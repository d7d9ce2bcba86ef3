"""Decides how a PodGroup is read, of either API group; leaves what a gang may do to the plugin."""

from __future__ import annotations

from msgspec import Struct

from trimtab.core.model.objects import PodGroup
from trimtab.core.model.resources import PodRequests, amounts
from trimtab.wire.decode_errors import Quantities, parse_amounts
from trimtab.wire.objects.object_reader import MetaShape, ObjectReader, identity_fields


class PodGroupSpec(Struct, frozen=True, rename="camel"):
    min_member: int | None = None
    min_resources: Quantities | None = None
    schedule_timeout_seconds: int | None = None


class PodGroupShape(Struct, frozen=True):
    metadata: MetaShape
    spec: PodGroupSpec | None = None


def pod_groups() -> ObjectReader[PodGroupShape, PodGroup]:
    return ObjectReader("PodGroup", PodGroupShape, _pod_group)


def _pod_group(shape: PodGroupShape) -> PodGroup:
    """Its own definition asks for one member at least; where an older definition does not, one is what is meant."""
    spec, created = shape.spec or PodGroupSpec(), shape.metadata.creation_timestamp
    return PodGroup(
        **identity_fields(shape.metadata),
        min_member=max(spec.min_member or 1, 1),
        min_resources=None if spec.min_resources is None else _demand(spec.min_resources),
        timeout=spec.schedule_timeout_seconds,
        created=created.timestamp() if created else 0.0,
    )


def _demand(quantities: Quantities) -> PodRequests:
    faults: list[str] = []
    found = parse_amounts(quantities, "spec.minResources", faults)
    if faults:
        raise ValueError(faults[0])
    return PodRequests(amounts=amounts(found))
