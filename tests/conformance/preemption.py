"""Puts recorded preemptions to the whole default profile and gives the answers in the recording's shape; judges nothing.

A case says who would be displaced on each node that was looked at, why others do not help, and which nodes may be chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance import whole
from tests.conformance.corpus import Case, cluster_of, nominated, read_pod
from tests.conformance.single import refusal
from trimtab.core.cluster.view import View
from trimtab.core.model.pod import Pod
from trimtab.core.placing.charged import PASSES
from trimtab.core.placing.choose import charges, fresh, promised_room
from trimtab.core.placing.contract import Stuck
from trimtab.core.placing.preempt import FITS, NO_VICTIMS, DryRun, chosen, dry_run, victims
from trimtab.core.placing.profile import Profile, plugin_name
from trimtab.core.plugins.default_preemption import ineligible

NOBODY = "No preemption victims found for incoming pod"


def answer(profile: Profile, case: Case) -> dict[str, Any]:
    told = whole.one_pod(profile, case)
    pod, view = read_pod(case["pod"]), cluster_of(case).view
    stuck = _stuck(profile, case, view, pod)
    if "totalScore" in told and case["preemptionMode"] == "auto":
        return told
    told = {point: told[point] for point in ("preFilter", "filter") if point in told}
    words = ineligible(view, pod, stuck)
    if words:
        return {**told, "preemption": {"eligible": False, "eligibleReason": words}}
    return {**told, "preemption": {"eligible": True, **_shown(view, pod, stuck, dry_run(view, pod, stuck), case)}}


def _stuck(profile: Profile, case: Case, view: View, pod: Pod) -> Stuck:
    answers, promised = fresh(view, pod, profile), promised_room(view, pod, nominated(case))
    found = charges(view, pod, answers, promised)
    codes = np.where(found.outside, -1, np.where(found.by == PASSES, 0, found.codes))
    if case["preemptionMode"] == "force":
        codes = np.ones_like(codes)
    return Stuck(tuple(profile.filters[index] for index in sorted(answers.codes)), codes, promised)


def _shown(view: View, pod: Pod, stuck: Stuck, run: DryRun, case: Case) -> dict[str, Any]:
    names = [view.nodes[row].name for row in run.rows.tolist()]
    if not names:
        return {}
    candidates = {
        name: {
            "victims": [each.key for each in victims(view, run, place)],
            "pdbViolations": int(run.violations[place]),
        }
        for place, name in enumerate(names)
        if len(run.of(place))
    }
    statuses = {
        name: _status(view, pod, stuck, run, place) for place, name in enumerate(names) if run.by[place] != FITS
    }
    best = chosen(view, pod, run)
    told: dict[str, Any] = {"potentialNodes": sorted(names), "candidates": candidates, "nodeStatuses": statuses}
    if best is not None:
        recorded = case["expected"]["preemption"].get("selectedAnyOf", [])
        told["selectedAnyOf"] = recorded if names[best] in recorded else [names[best]]
    return {point: value for point, value in told.items() if value}


def _status(view: View, pod: Pod, stuck: Stuck, run: DryRun, place: int) -> dict[str, Any]:
    if run.by[place] == NO_VICTIMS:
        return refusal(True, (NOBODY,))
    plugin, code = stuck.filters[run.by[place]], int(run.codes[place])
    return {**refusal(code < 0, plugin.reasons(view, pod, code)), "plugin": plugin_name(plugin)}
