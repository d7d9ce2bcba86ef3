"""Decides how a PodDisruptionBudget is read; leaves what it forbids to whoever would evict."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from trimtab.core.model.objects import PodDisruptionBudget
from trimtab.wire.affinity import SelectorShape
from trimtab.wire.objects.object_reader import MetaShape, ObjectReader, identity_fields, interned_selector


class BudgetSpec(Struct, frozen=True):
    selector: SelectorShape | None = None


class BudgetStatus(Struct, frozen=True, rename="camel"):
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, Any] | None = None


class BudgetShape(Struct, frozen=True):
    metadata: MetaShape
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


def budgets() -> ObjectReader[BudgetShape, PodDisruptionBudget]:
    return ObjectReader("PodDisruptionBudget", BudgetShape, _budget)


def _budget(shape: BudgetShape) -> PodDisruptionBudget:
    """As long as the disruption controller has said nothing of it, it allows nothing."""
    status = shape.status or BudgetStatus()
    return PodDisruptionBudget(
        **identity_fields(shape.metadata),
        selector=interned_selector(shape.spec.selector if shape.spec else None),
        disruptions_allowed=status.disruptions_allowed or 0,
        disrupted_pods=tuple(sorted(status.disrupted_pods or ())),
    )
