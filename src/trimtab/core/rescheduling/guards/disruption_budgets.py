"""Guards by disruption budgets: what the API server would answer, and our own count of ready pods on top.

The status of a budget is written by kube-controller-manager. While that is down the API server goes on to allow what the
status said last, so ready pods are counted here, too, without those whose eviction is under way.
"""

from __future__ import annotations

from trimtab.core.model.pod import Pod
from trimtab.core.rescheduling.guards.context import GuardContext


def several_budgets(context: GuardContext, pod: Pod) -> str:
    """The API server answers 500, whatever the budgets allow."""
    budgets = context.budgets(pod)
    names = ", ".join(sorted(each.name for each in budgets))
    return f"{len(budgets)} disruption budgets cover it ({names}): it cannot be evicted" if len(budgets) > 1 else ""


def disruption_budget(context: GuardContext, pod: Pod) -> str:
    for budget in context.budgets(pod):
        if not budget.observed:
            return f"disruption budget {budget.key} was changed, and its status is not up to date"
        if budget.disruptions_allowed <= 0:
            return f"disruption budget {budget.key} allows no eviction"
    return ""


def healthy_pods(context: GuardContext, pod: Pod) -> str:
    for budget in context.budgets(pod):
        if budget.desired_healthy is None:
            continue
        healthy = context.healthy(budget)
        if healthy <= budget.desired_healthy:
            return f"disruption budget {budget.key} needs {budget.desired_healthy} ready pods, of which {healthy} are there"
    return ""
