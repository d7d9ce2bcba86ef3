"""Metrics hooks of the core: `MetricsRecorder` counts nothing by default, and no recorder may influence a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trimtab.core.framework.evaluation import NO_TIMER, PluginTimer
from trimtab.core.framework.explain import Explanation
from trimtab.core.framework.interface import Figures
from trimtab.core.model.ledger import Grade, MoveRecord
from trimtab.core.model.plan import Plan


class StageReport(NamedTuple):
    """What a Reserve, Permit or PreBind plugin said of a pod on its node; `result` is rejected, warned or noted."""

    stage: str
    plugin: str
    pod: str
    node: str
    result: str
    message: str = ""
    figures: Figures = ()


class MetricsRecorder:
    """Override the hooks that you need. Only `timer` is called before a decision: it may time every tenth, say."""

    def timer(self) -> PluginTimer:
        return NO_TIMER

    def wants_explanations(self) -> bool:
        """Whether `explains` and `waited` are to be called."""
        return False

    def explains(self, pod: str) -> bool:
        """Whether the decision about this pod is to be explained; that costs many times a decision."""
        return True

    def explained(self, explanation: Explanation, stock: str) -> None:
        """What a decision that is being made depends on, and what the stock profile would choose."""

    def waited(self, pod: str, seconds: float, attempts: int, steps: str) -> None:
        """How a pod waited until the decision just made."""

    def queued(self, queue: str, event: str) -> None:
        """A pod entered the `active`, `backoff`, `unschedulable` or `gated` queue; `event`: why, in kube-scheduler's word."""

    def attempted(self, profile: str, result: str, timer: PluginTimer) -> None:
        """A scheduling attempt ended as `scheduled`, `unschedulable` or `error`."""

    def unschedulable(self, profile: str, plugins: Sequence[str]) -> None:
        """An attempt found no node; these plugins rejected some."""

    def preemption_attempted(self) -> None:
        """A PostFilter plugin was called."""

    def preempted(self, victims: int) -> None:
        """So many pods have to leave for another pod; those that were leaving already are not counted again."""

    def bound(self, profile: str, attempts: int, since_first_attempt: float, bind_seconds: float) -> None:
        """The API server accepted a binding."""

    def bind_failed(self, profile: str, failure: str, bind_seconds: float) -> None:
        """A binding failed, or its outcome is unknown."""

    def bound_to_missing_node(self) -> None:
        """A pod was bound to a node that had been deleted in the meantime."""

    def stage_reported(self, report: StageReport) -> None:
        """A plugin rejected a pod after its node was chosen, warned of it, or has figures to log."""

    def plugin_failed(self, error: str) -> None:
        """A plugin raised an exception; its pod was requeued."""

    def samples_rejected(self, reason: str, count: int) -> None:
        """Samples that failed validation."""

    def source_failed(self, source: str) -> None:
        """A metrics source did not answer, or its answer could not be read."""

    def node_patched(self, result: str) -> None:
        """A node's labels and taints were written (`done`), or not (`failed`, `forbidden`)."""

    def all_under_pressure(self, nodes: int) -> None:
        """Every eligible node is labelled, so the labels no longer tell nodes apart."""

    def label_contested(self, node: str) -> None:
        """Another client keeps reverting our labels on this node."""

    def remedy_used(self, rung: str, count: int) -> None:
        """A rung of the remedy ladder was used so many times."""

    def move_changed(self, record: MoveRecord) -> None:
        """A move was charged, or has come further."""

    def move_graded(self, record: MoveRecord, grade: Grade) -> None:
        """What a move was worth some time later."""

    def planned(self, plan: Plan) -> None:
        """A plan was made, perhaps without moves."""
