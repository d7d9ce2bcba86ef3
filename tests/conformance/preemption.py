"""Runs recorded preemptions through the default profile and returns the results in the recorded format.

A case has the victims on each evaluated node, why other nodes do not help, and which nodes may be chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance import whole_profile
from tests.conformance.corpus import Case, cluster_of, nominated, read_pod
from tests.conformance.single_plugin import rejection
from trimtab.core.cluster.view import View
from trimtab.core.framework.choose import evaluate, final_rejections, nominated_by_node
from trimtab.core.framework.interface import FilterStatus
from trimtab.core.framework.profile import Profile, plugin_name
from trimtab.core.framework.rejections import PASSES
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.default_preemption import (
    FITS,
    NO_VICTIMS,
    DryRun,
    dry_run,
    ineligible_reason,
    pick_one_node,
    victims,
)

NO_VICTIMS_MESSAGE = "No preemption victims found for incoming pod"


def answer(profile: Profile, case: Case) -> dict[str, Any]:
    result = whole_profile.one_pod(profile, case)
    pod, view = read_pod(case["pod"]), cluster_of(case).view
    status = _filter_status(profile, case, view, pod)
    if "totalScore" in result and case["preemptionMode"] == "auto":
        return result
    result = {point: result[point] for point in ("preFilter", "filter") if point in result}
    reason = ineligible_reason(view, pod, status)
    if reason:
        return {**result, "preemption": {"eligible": False, "eligibleReason": reason}}
    return {
        **result,
        "preemption": {"eligible": True, **_preemption(view, pod, status, dry_run(view, pod, status), case)},
    }


def _filter_status(profile: Profile, case: Case, view: View, pod: Pod) -> FilterStatus:
    evaluation, by_node = evaluate(view, pod, profile), nominated_by_node(view, pod, nominated(case))
    rejections = final_rejections(view, pod, evaluation, by_node)
    codes = np.where(rejections.excluded, -1, np.where(rejections.rejected_by == PASSES, 0, rejections.codes))
    if case["preemptionMode"] == "force":
        codes = np.ones_like(codes)
    return FilterStatus(tuple(profile.filters[index] for index in sorted(evaluation.codes)), codes, by_node)


def _preemption(view: View, pod: Pod, status: FilterStatus, run: DryRun, case: Case) -> dict[str, Any]:
    names = [view.nodes[row].name for row in run.rows.tolist()]
    if not names:
        return {}
    candidates = {
        name: {
            "victims": [each.key for each in victims(view, run, index)],
            "pdbViolations": int(run.pdb_violations[index]),
        }
        for index, name in enumerate(names)
        if len(run.victims_of(index))
    }
    statuses = {
        name: _status(view, pod, status, run, index)
        for index, name in enumerate(names)
        if run.rejected_by[index] != FITS
    }
    best = pick_one_node(view, pod, run)
    result: dict[str, Any] = {"potentialNodes": sorted(names), "candidates": candidates, "nodeStatuses": statuses}
    if best is not None:
        recorded = case["expected"]["preemption"].get("selectedAnyOf", [])
        result["selectedAnyOf"] = recorded if names[best] in recorded else [names[best]]
    return {point: value for point, value in result.items() if value}


def _status(view: View, pod: Pod, status: FilterStatus, run: DryRun, place: int) -> dict[str, Any]:
    if run.rejected_by[place] == NO_VICTIMS:
        return rejection(True, (NO_VICTIMS_MESSAGE,))
    plugin, code = status.filters[run.rejected_by[place]], int(run.codes[place])
    return {**rejection(code < 0, plugin.reasons(view, pod, code)), "plugin": plugin_name(plugin)}
