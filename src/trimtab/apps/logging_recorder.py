"""The recorder of a live process: counts for /metrics, and logs what an operator should see at once.

At level debug decisions are explained as `trimtab explain` would: scores by plugin, how the pod waited, and what the stock
profile would choose. That takes many times as long as a decision, so it gets a share of the time; a line names the pods whose
decisions are not explained.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trimtab.apps.logs import decision_log
from trimtab.core.framework.explain import Explanation, NodeRow
from trimtab.core.model.ledger import Grade, MoveRecord
from trimtab.core.recorder import StageReport
from trimtab.serve.metrics import PrometheusRecorder

log = logging.getLogger(__name__)

STAGE_RESULTS = {
    "rejected": (logging.WARNING, "node rejected after it was chosen"),
    "warned": (logging.WARNING, "warning before binding"),
    "noted": (logging.DEBUG, "prediction before binding"),
}
NODES_LOGGED = 5  # of the feasible and of the rejected ones
PODS_LOGGED = 50  # of those that were not explained
EXPLAINING_SHARE = 0.1  # of the time, in the long run
EXPLAINING_BURST = 0.5  # seconds at once after a pause


class ExplainingBudget:
    """The seconds that may be spent on explanations; each explanation is paid for when it is done."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds, self._at = EXPLAINING_BURST, clock()

    def begin(self) -> bool:
        """Start an explanation, if there is time for one."""
        now = self._clock()
        self._seconds = min(EXPLAINING_BURST, self._seconds + EXPLAINING_SHARE * (now - self._at))
        self._at = now
        return self._seconds > 0

    def end(self) -> None:
        """Pay for the time since the last `begin`."""
        self._seconds -= self._clock() - self._at


class LoggingRecorder(PrometheusRecorder):
    """Logs on top of counting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._budget = ExplainingBudget(clock)
        self._not_explained: list[str] = []

    def all_under_pressure(self, nodes: int) -> None:
        super().all_under_pressure(nodes)
        log.warning("all eligible nodes are under pressure, their labels no longer tell them apart: nodes=%d", nodes)

    def label_contested(self, node: str) -> None:
        super().label_contested(node)
        hint = "another client keeps reverting it, perhaps another labeller with rules and a lease of its own"
        log.warning("label contested: node=%s hint=%s", node, hint)

    def stage_reported(self, report: StageReport) -> None:
        """As a warning, or at level debug; each figure is a field of its own."""
        super().stage_reported(report)
        level, text = STAGE_RESULTS[report.result]
        if not decision_log.isEnabledFor(level):
            return
        pairs = {"pod": report.pod, "node": report.node, "plugin": report.plugin, "stage": report.stage}
        pairs |= {"reason": report.message} if report.message else {}
        names = [f"{name}=%s" for name in pairs] + [f"{name}=%.1f" for name, _ in report.figures]
        values = (*pairs.values(), *(figure for _, figure in report.figures))
        decision_log.log(level, f"{text}: {' '.join(names)}", *values)

    def move_changed(self, record: MoveRecord) -> None:
        super().move_changed(record)
        log.info(
            "move changed: pod=%s source=%s target=%s node=%s state=%s strategy=%s reason=%s why=%s",
            *(record.key, record.source, record.target or "any node", record.node),
            *(record.state.value, record.strategy, record.reason, record.message),
        )

    def move_graded(self, record: MoveRecord, grade: Grade) -> None:
        super().move_graded(record, grade)
        log.info(
            "move graded: pod=%s source=%s node=%s strategy=%s after=%.0f promised=%.3f measured=%.3f helped=%s",
            *(record.key, record.source, record.node, record.strategy),
            *(grade.after, grade.promised, grade.measured, grade.helped),
        )

    def wants_explanations(self) -> bool:
        return decision_log.isEnabledFor(logging.DEBUG)

    def explains(self, pod: str) -> bool:
        if self._budget.begin():
            return True
        self._not_explained.append(pod)
        return False

    def explained(self, explanation: Explanation, stock: str) -> None:
        pod = explanation.pod
        decision_log.debug("explained: pod=%s verdict=%s stock=%s", pod, explanation.verdict, stock)
        feasible = [row for row in explanation.rows if not row.rejected_by]
        for row in feasible[:NODES_LOGGED]:
            decision_log.debug("scored: pod=%s node=%s total=%g scores=%s", pod, row.node, row.total, _scores(row))
        for row in [row for row in explanation.rows if row.rejected_by][:NODES_LOGGED]:
            by, reasons = row.rejected_by, ", ".join(row.reasons)
            decision_log.debug("rejected: pod=%s node=%s plugin=%s reasons=%s", pod, row.node, by, reasons)
        self._budget.end()

    def waited(self, pod: str, seconds: float, attempts: int, steps: str) -> None:
        self._log_not_explained()
        decision_log.debug("waited: pod=%s seconds=%.3f attempts=%d steps=%s", pod, seconds, attempts, steps)

    def _log_not_explained(self) -> None:
        """Once per turn: `waited` is called for its decisions at its end."""
        if self._not_explained:
            pods, self._not_explained = self._not_explained, []
            names = ", ".join(pods[:PODS_LOGGED]) + (" ..." if len(pods) > PODS_LOGGED else "")
            reason = f"explanations may take {EXPLAINING_SHARE:.0%} of the time"
            decision_log.debug("not explained: number=%d reason=%s pods=%s", len(pods), reason, names)


def _scores(row: NodeRow) -> str:
    """Raw score, normalised score and weight of each plugin, and what they amount to."""
    return ", ".join(
        f"{plugin} raw {each.raw:g} normalised {each.normalised:g} x {each.weight} = {each.points:g}"
        for plugin, each in row.plugins.items()
    )
