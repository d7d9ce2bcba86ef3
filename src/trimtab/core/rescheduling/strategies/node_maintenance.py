"""NodeMaintenance: all pods leave nodes that are labelled for maintenance, and none is moved there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.model.selectors import Requirement
from trimtab.core.model.setting import setting
from trimtab.core.rescheduling.strategies.interface import MUST_GO, StrategyContext, Suggestion
from trimtab.core.tables import Bools

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance=true"


def _label_error(text: str) -> str | None:
    return (
        None if _requirement(text).valid else f"{text[:100]} is not a label: write `key=value`, or `key` for any value"
    )


def _requirement(text: str) -> Requirement:
    key, equals, value = text.partition("=")
    return Requirement(key, "In", (value,)) if equals else Requirement(key, "Exists")


@dataclass(frozen=True, slots=True)
class NodeMaintenance:
    """A cordoned node is no target in any case; its pods leave if `drain_cordoned` is set."""

    name: ClassVar[str] = "NodeMaintenance"

    labels: tuple[str, ...] = setting(
        (MAINTENANCE,),
        f"`[{MAINTENANCE}]` unless set: a node with one of these labels is under maintenance; `key` means any value",
        validate_item=_label_error,
    )
    drain_cordoned: bool = setting(False, "false unless set: pods leave cordoned nodes, too")

    def __post_init__(self) -> None:
        for text in self.labels:
            if error := _label_error(text):
                raise ValueError(f"labels: {error}")

    def suggest(self, context: StrategyContext) -> Iterable[Suggestion]:
        view = context.cluster.view
        labelled = self.avoid(context)
        for row in np.flatnonzero(labelled | view.unschedulable if self.drain_cordoned else labelled).tolist():
            reason = "the node is under maintenance" if labelled[row] else "the node is cordoned"
            yield Suggestion(self.name, view.nodes[row].name, reason, worth=MUST_GO)

    def avoid(self, context: StrategyContext) -> Bools:
        """By row: no target."""
        return self._labelled(context.cluster.view)

    def _labelled(self, view: View) -> Bools:
        found = np.zeros(view.count, dtype=np.bool_)
        for text in self.labels:
            found |= view.matching_label(_requirement(text))
        return found
