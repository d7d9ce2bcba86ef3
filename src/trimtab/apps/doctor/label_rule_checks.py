"""Decides what is said of each rule for labels: whom it has data for, whom not and why, and what it would mark now.

Marks are those of the labeller's own code, asked without patience (`for`, `clearFor`) and as one who only observes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from trimtab.apps.doctor.finding import Area, Finding, Severity, ok, shorten, warning
from trimtab.apps.doctor.node_coverage import NodeCoverage, describe_gap
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.core.labelling.node_labels import nodes_with_stale
from trimtab.core.load.pressure_rules import LabellingSettings, Rule
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.core.recorder import MetricsRecorder
from trimtab.wire.requests import format_label_change

CORRECT = "correct the query: see what is said of its source"
MEASURE = "let a source measure it"
UNCOMPARED = "leave the comparison to above or below: with one in the query, nodes that are well have no value"
_QUOTED, _BRACES = re.compile(r"""\"[^\"]*\"|'[^']*'|`[^`]*`"""), re.compile(r"\{[^}]*\}")
_COMPARED = re.compile(r"(?:==|!=|[<>]=|[<>](?!=))(?!\s*bool\b)")
TAKEN = "label under pressure.trimtab.dev/ instead, or let the others give the key up"


class RuleEvaluation(NamedTuple):
    """The labeller's own state after a look without patience, and all that it wished for then."""

    labeller: NodeLabeller
    cluster: Cluster
    instructions: tuple[LabelNode, ...]


def evaluate_rules(settings: LabellingSettings, cluster: Cluster, now: float) -> RuleEvaluation:
    """What the labeller would come to, had it seen nothing but this."""
    at_once = tuple(replace(rule, for_seconds=0.0, clear_for_seconds=0.0) for rule in settings.rules)
    marking = NodeLabeller(replace(settings, rules=at_once, apply=False))
    wishes: list[LabelNode] = []
    while more := marking.tick(cluster, True, MetricsRecorder(), now):  # so many at a time, and each only once
        wishes += [wish for wish in more if isinstance(wish, LabelNode)]
    return RuleEvaluation(marking, cluster, tuple(wishes))


def check_rules(
    settings: LabellingSettings, evaluation: RuleEvaluation, coverages: Iterable[NodeCoverage], load: LoadSettings
) -> Iterator[Finding]:
    """Each rule by itself, and then what all of them together would do."""
    by_resource, view = {each.resource: each for each in coverages}, evaluation.cluster.view
    excluded = evaluation.labeller.excluded(view)
    eligible = [node for node, out in zip(view.nodes, excluded, strict=True) if not out]
    if not eligible:
        remedy = "see labels.exclude; control planes are never marked"
        yield warning(Area.LABELS, "rules", "every node is excluded, so none is ever marked", remedy)
        return
    for rule in settings.rules:
        mine = [by_resource[name] for name in rule.metrics if name in by_resource]
        yield _rule_finding(rule, mine, eligible, load)
    yield _current_effect(evaluation)
    yield from _label_conflicts(settings, evaluation)


# --- one rule


def _rule_finding(rule: Rule, coverages: Sequence[NodeCoverage], nodes: Sequence[Node], load: LoadSettings) -> Finding:
    """Of the nodes that may be marked: whose value there is, and why there is none of the others."""
    what = "its query" if rule.query else rule.metric
    known = frozenset().union(*(each.known for each in coverages))
    missing = tuple(node.name for node in nodes if node.name not in known)
    count = len(nodes) - len(missing)
    if not missing:
        return ok(Area.LABELS, rule.name, f"{what} tells of {_all_nodes(count)}")
    why, remedy = _why_missing(coverages, missing, nodes)
    remedy = remedy or (CORRECT if rule.query else MEASURE)
    if has_comparison(rule.query):
        remedy = UNCOMPARED
    if not count:
        says = f"{what} tells of no node, so the rule marks nobody{why}"
        return Finding(Severity.PROBLEM, Area.LABELS, rule.name, says, remedy, missing)
    enough = 1 - count / len(nodes) <= load.most_missing
    says = f"{what} tells of {count} of {len(nodes)} nodes; others are not marked, and lose their marks{why}"
    return Finding(Severity.WARNING if enough else Severity.PROBLEM, Area.LABELS, rule.name, says, remedy, missing)


def has_comparison(query: str) -> bool:
    """Whether it leaves series out by a comparison, as far as can be seen without reading it as Prometheus does."""
    return _COMPARED.search(_BRACES.sub("", _QUOTED.sub("", query))) is not None


def _all_nodes(count: int) -> str:
    return "the one node that may be marked" if count == 1 else f"all {count} nodes that may be marked"


def _why_missing(coverages: Sequence[NodeCoverage], missing: Sequence[str], nodes: Sequence[Node]) -> tuple[str, str]:
    """The reasons, those of most nodes first, and what mends that one; nothing where nobody was asked."""
    if not coverages:
        return "", ""
    reasons: dict[str, list[str]] = {}
    for name in missing:
        loss = coverages[0].missing.get(name)
        reasons.setdefault(loss.reason if loss is not None else "", []).append(name)
    ranked = sorted(reasons.items(), key=lambda each: -len(each[1]))
    phrases = [describe_gap(reason, names, coverages[0], nodes) for reason, names in ranked if reason]
    return "".join(f"; {words}" for words, _ in phrases), phrases[0][1] if phrases else ""


# --- all of them together


def _current_effect(evaluation: RuleEvaluation) -> Finding:
    marking, gone = evaluation.labeller, [wish for wish in evaluation.instructions if not _adds(wish)]
    come = [wish for wish in evaluation.instructions if _adds(wish)]
    parts = []
    if come:
        parts.append(f"would mark {len(come)}, once that lasts: {shorten([_describe(each) for each in come])}")
    if gone:
        parts.append(f"would take marks off {len(gone)}: {shorten([_describe(each) for each in gone])}")
    altered = {wish.node for wish in evaluation.instructions}
    if stay := [name for name in marking.labelled_nodes() if name not in altered]:
        parts.append(f"{len(stay)} marked already: {shorten(stay)}")
    nodes = tuple(wish.node for wish in evaluation.instructions)
    says = "; ".join(parts) or "would mark no node, and none is marked"
    if marking.all_labelled:
        remedy = "raise thresholds: marks on every node tell them apart no more"
        return Finding(Severity.WARNING, Area.LABELS, "now", f"every node would be marked; {says}", remedy, nodes)
    return Finding(Severity.OK, Area.LABELS, "now", says, nodes=nodes)


def _adds(instruction: LabelNode) -> bool:
    return bool(instruction.add_taints) or any(value is not None for _, value in instruction.labels)


def _describe(instruction: LabelNode) -> str:
    return f"{instruction.node} ({format_label_change(instruction)}; {instruction.reason})"


def _label_conflicts(settings: LabellingSettings, evaluation: RuleEvaluation) -> Iterator[Finding]:
    """Keys that somebody else uses, and marks that no rule gives any more."""
    view = evaluation.cluster.view
    for mark in evaluation.labeller.managed:
        names = tuple(node.name for node, taken in zip(view.nodes, mark.owned_by_others(view), strict=True) if taken)
        if names:
            says = f"in somebody else's use on {len(names)} nodes, which are never marked: {shorten(names)}"
            yield Finding(Severity.WARNING, Area.LABELS, mark.key, says, TAKEN, names)
    stray = nodes_with_stale(view.nodes, evaluation.labeller.managed)
    if settings.apply and stray:
        says = f"{len(stray)} nodes carry marks under our prefix that no rule gives, which would go: {shorten(stray)}"
        remedy = "write their rules here, too, if they are still wanted: one labeller gives all of them"
        yield Finding(Severity.WARNING, Area.LABELS, "leftovers", says, remedy, stray)
