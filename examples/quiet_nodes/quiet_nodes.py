"""QuietNodes: rejects nodes under maintenance and prefers nodes with few pods."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from trimtab.plugin import Change, Ints, Normalise, Pod, Requirement, Rows, View, filter_codes


@dataclass(frozen=True, slots=True)
class QuietNodes:
    """A node with the label `key: "true"` is under maintenance."""

    name: ClassVar[str] = "QuietNodes"
    requeue_on: ClassVar[Change] = Change.NODE_ADDED | Change.LABELS
    depends_on: ClassVar[Change] = Change.LABELS | Change.PODS
    normalise: ClassVar[Normalise] = Normalise.LOWER

    key: str = "maintenance"

    def signature(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, view: View, pod: Pod, rows: Rows) -> Ints:
        maintained = view.matching_label(Requirement(self.key, "In", ("true",)))
        return filter_codes(~maintained[rows], -1)

    def reasons(self, view: View, pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) were under maintenance",)

    def score(self, view: View, pod: Pod, rows: Rows) -> Ints:
        return view.pod_count[rows].copy()  # the view's arrays are the live ones: never return them
