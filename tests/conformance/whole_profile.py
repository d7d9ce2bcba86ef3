"""Runs recorded cases through the whole default profile and returns the results in the recorded format.

DefaultProfile evaluates one pod on every node; DefaultProfileSequence schedules one pod after another and breaks ties by the
smallest name.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.corpus import Case, cluster_of, nominated, read_pod
from tests.conformance.single_plugin import SUCCESS, rejection
from trimtab.config.registry import DEFAULT_BINDER, DEFAULT_PLUGINS, IN_TREE
from trimtab.core.framework.choose import choose, evaluate
from trimtab.core.framework.explain import NodeRow, node_rows
from trimtab.core.framework.profile import Profile
from trimtab.core.model.schedule_result import Placement

# No recorded case has resource claims, and these cases end before preemption and binding.
LEFT_OUT = frozenset({"DynamicResources", "DefaultPreemption", DEFAULT_BINDER})


def missing() -> list[str]:
    """Plugins of the recorded profile that are not built yet."""
    return [name for name in DEFAULT_PLUGINS if name not in LEFT_OUT and name not in IN_TREE]


def answer(profile: Profile, case: Case) -> dict[str, Any]:
    return sequence(profile, case) if "pendingPods" in case else one_pod(profile, case)


def one_pod(profile: Profile, case: Case) -> dict[str, Any]:
    """The table of one decision: which plugin rejects which node, and the scores of the others."""
    pod, view = read_pod(case["pod"]), cluster_of(case).view
    answers = evaluate(view, pod, profile)
    if answers.pre_filter_rejection is not None:
        return {
            "preFilter": rejection(
                answers.pre_filter_rejection[1].unresolvable, (answers.pre_filter_rejection[1].reason,)
            )
        }
    only = [set(each.node_names) for each in answers.node_subsets.values()]
    names = {"nodeNames": sorted(set.intersection(*only))} if only else {}
    lines = [
        line for line in node_rows(view, pod, answers, nominated(case)) if not only or line.node in names["nodeNames"]
    ]
    told: dict[str, Any] = {
        "preFilter": {**SUCCESS, **names},
        "filter": {line.node: _verdict(line) for line in lines},
    }
    feasible = [line for line in lines if not line.rejected_by]
    if feasible:
        told["preScore"] = SUCCESS
        told["weightedScore"] = {line.node: line.scores for line in feasible}
        told["totalScore"] = {line.node: line.total for line in feasible}
    return told


def _verdict(line: NodeRow) -> dict[str, Any]:
    return (
        {**rejection(line.unresolvable, line.reasons), "plugin": line.rejected_by} if line.rejected_by else {**SUCCESS}
    )


def sequence(profile: Profile, case: Case) -> dict[str, Any]:
    cluster, placements = cluster_of(case), []
    for pod in map(read_pod, case["pendingPods"]):
        verdict = choose(cluster.view, pod, profile)
        told = {"pod": pod.key, "node": "", "totalScore": 0, "feasibleNodes": 0, "nodesWithTopScore": 0}
        if isinstance(verdict, Placement):
            lines = node_rows(cluster.view, pod, evaluate(cluster.view, pod, profile))
            best = sum(not line.rejected_by and line.total == verdict.total for line in lines)
            told |= {"node": verdict.node, "totalScore": verdict.total}
            told |= {"feasibleNodes": verdict.feasible, "nodesWithTopScore": best}
            cluster.assume(pod, verdict.node)
        placements.append(told)
    return {"placements": placements}
