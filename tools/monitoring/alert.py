"""An alert: a signal, which has a value on a healthy system as a rule, and a condition on it, both in PromQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

RUNBOOKS = "docs/runbooks"  # replace it by where your copy of the pages is
SCHEDULER = 'job=~"(.+-)?trimtab"'
LABELLER = 'job=~"(.+-)?trimtab-labeller"'
RESCHEDULER = 'job=~"(.+-)?trimtab-rescheduler"'
ANY = 'job=~"(.+-)?trimtab(-labeller|-rescheduler)?"'
READY = 'kube_pod_status_ready{condition="true"} == 1'  # of kube-state-metrics
# A standby's queue holds all pending pods as active, for it tries none; without leader election there is no such series.
NOT_STANDBY = "unless on (job, instance) (leader_election_master_status == 0)"

CRITICAL, WARNING, INFO = "critical", "warning", "info"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`condition` has `{}` for the signal; `since` is how long it must hold; only `description` has templates."""

    name: str
    severity: str
    signal: str
    condition: str
    since: str
    summary: str
    description: str

    @property
    def expr(self) -> str:
        return self.condition.replace("{}", self.signal)

    def rule(self, page: str, runbooks: str) -> dict[str, Any]:
        """The rule as Prometheus reads it."""
        annotations = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{runbooks}/{page}.md#{self.name.lower()}",
        }
        waiting = {} if self.since == "0m" else {"for": self.since}
        labels = {"severity": self.severity}
        return {"alert": self.name, "expr": self.expr, **waiting, "labels": labels, "annotations": annotations}
