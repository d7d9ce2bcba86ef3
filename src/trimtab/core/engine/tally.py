"""What the core counts, for whoever wants to know; the default counts nothing, and none may influence a decision."""

from __future__ import annotations

from trimtab.core.placing.laps import NO_LAPS, Laps


class Tally:
    """Override what you want to hear of. Only `laps` is asked before a decision: it may time every tenth, say."""

    def laps(self) -> Laps:
        return NO_LAPS

    def queued(self, queue: str, event: str) -> None:
        """A pod entered `active`, `backoff`, `unschedulable` or `gated` because of `event`."""

    def attempted(self, profile: str, result: str, laps: Laps) -> None:
        """A decision came to `scheduled`, `unschedulable` or `error`."""

    def preempting(self, victims: int) -> None:
        """A plugin was asked to make room for a pod, at the cost of so many others; 0 when it could not."""

    def bound(self, profile: str, attempts: int, waited: float, flown: float) -> None:
        """The API server accepted a bind, `waited` seconds after the first attempt and `flown` after the last."""

    def bind_failed(self, profile: str, fault: str, flown: float) -> None:
        """It did not, or nobody knows."""

    def orphaned(self) -> None:
        """A pod was bound to a node that had gone in the meantime."""

    def faulted(self, plugin: str) -> None:
        """A plugin raised; the pod was put back and the others went on."""

    def samples_refused(self, reason: str, count: int) -> None:
        """Measurements that were not believed."""

    def source_failed(self, source: str) -> None:
        """A metric source did not answer, or nonsense."""

    def labelled(self, result: str) -> None:
        """The marks of a node were written (`done`), or not (`failed`, `forbidden`)."""

    def all_pressed(self, nodes: int) -> None:
        """Every node that may be marked is: the marks tell them apart no more."""

    def contested(self, node: str) -> None:
        """Somebody else undoes our marks on this node again and again."""
