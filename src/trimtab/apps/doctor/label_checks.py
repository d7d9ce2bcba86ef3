"""Checks of label rules: which nodes they have samples for, what they would label now, and whether the API server agrees.

Labels are computed by the labeller's own code, without waiting for `for` and `clearFor`. Where labels are written, each is
sent as a dry run, because a ValidatingAdmissionPolicy or a webhook may reject what RBAC allows; only the account that writes
them can try.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from trimtab.apps.doctor.apiserver_checks import TIMEOUT, ApiServer
from trimtab.apps.doctor.coverage import Coverage, describe_gap
from trimtab.apps.doctor.finding import Area, Finding, Severity, ok, problem, shorten, warning
from trimtab.apps.doctor.rbac_checks import account_of
from trimtab.config.configuration import Configuration
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.core.labelling.node_labels import nodes_with_stale, patch_for
from trimtab.core.load.pressure_rules import LEGACY_KEY, LabellingSettings, Rule
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.core.recorder import MetricsRecorder
from trimtab.kube.access_review import SERVICE_ACCOUNT, whoami
from trimtab.kube.transport import Unreachable
from trimtab.wire.decoding import read_status
from trimtab.wire.requests import dry_run_label_request, format_label_change

QUERY_REMEDY = "correct the query: see the findings about its source"
SOURCE_REMEDY = "add it to a source"
COMPARISON_REMEDY = "compare by above or below: with a comparison in the query, calm nodes have no value"
CONFLICT_REMEDY = "label under pressure.trimtab.dev/ instead, or stop using the key elsewhere"
DRY_RUN = "dry run"
NODES_TRIED = 3  # a node that changes or goes meanwhile proves nothing
OK, GONE, CHANGED, BUSY = 200, 404, 409, 429
NO_DRY_RUN = "does not support dry run"  # the server's message for a webhook with side effects
POLICY = "ValidatingAdmissionPolicy"
LEGACY_REMEDY = (
    "set the variable legacy of the ValidatingAdmissionPolicy trimtab-labeller "
    '(deploy/components/labeller/labeller.yaml) to "true", or label under pressure.trimtab.dev/ instead'
)
REJECTED_REMEDY = "allow it; deploy/components/labeller/labeller.yaml has the permissions and the policy"
OWN_ACCOUNT_REMEDY = "run doctor with a kubeconfig of that account, without --as: a policy may reject what RBAC allows"
NOT_HERE = "`trimtab run` labels no nodes; add --labeller, or --controllers scheduler,labeller"
RETRY_REMEDY = "run doctor again"
_QUOTED, _BRACES = re.compile(r"""\"[^\"]*\"|'[^']*'|`[^`]*`"""), re.compile(r"\{[^}]*\}")
_COMPARISON = re.compile(r"(?:==|!=|[<>]=|[<>](?!=))(?!\s*bool\b)")


class RuleEvaluation(NamedTuple):
    """The labeller's state after one evaluation, and the patches that it would send."""

    labeller: NodeLabeller
    cluster: Cluster
    patches: tuple[LabelNode, ...]


def evaluate_rules(settings: LabellingSettings, cluster: Cluster, now: float) -> RuleEvaluation:
    """What the labeller would do if it had read only these samples."""
    rules = tuple(replace(rule, for_seconds=0.0, clear_for_seconds=0.0) for rule in settings.rules)
    labeller = NodeLabeller(replace(settings, rules=rules, apply=False))
    patches: list[LabelNode] = []
    while batch := labeller.tick(cluster, True, MetricsRecorder(), now):  # each node once, a limited number per tick
        patches += [each for each in batch if isinstance(each, LabelNode)]
    return RuleEvaluation(labeller, cluster, tuple(patches))


def check_rules(
    settings: LabellingSettings, evaluation: RuleEvaluation, coverages: Iterable[Coverage], load: LoadSettings
) -> Iterator[Finding]:
    """Each rule by itself, and what all of them together would do."""
    by_resource, view = {each.resource: each for each in coverages}, evaluation.cluster.view
    excluded = evaluation.labeller.excluded(view)
    eligible = [node for node, out in zip(view.nodes, excluded, strict=True) if not out]
    if not eligible:
        remedy = "see labels.exclude; control planes are never labelled"
        yield warning(Area.LABELS, "rules", "every node is excluded, so none is ever labelled", remedy)
        return
    for rule in settings.rules:
        relevant = [by_resource[name] for name in rule.metrics if name in by_resource]
        yield _rule_finding(rule, relevant, eligible, load)
    yield _current_effect(evaluation)
    yield from _label_conflicts(settings, evaluation)


# --- one rule


def _rule_finding(rule: Rule, coverages: Sequence[Coverage], nodes: Sequence[Node], load: LoadSettings) -> Finding:
    """Which of the eligible nodes have a value, and why the others have none."""
    metric = "its query" if rule.query else rule.metric
    known = frozenset().union(*(each.known for each in coverages))
    missing = tuple(node.name for node in nodes if node.name not in known)
    count = len(nodes) - len(missing)
    if not missing:
        everyone = "the one eligible node" if count == 1 else f"all {count} eligible nodes"
        return ok(Area.LABELS, rule.name, f"{metric} is known for {everyone}")
    reasons, remedy = _why_missing(coverages, missing, nodes)
    remedy = remedy or (QUERY_REMEDY if rule.query else SOURCE_REMEDY)
    if has_comparison(rule.query):
        remedy = COMPARISON_REMEDY
    if not count:
        message = f"{metric} is known for no node, so the rule labels none{reasons}"
        return Finding(Severity.PROBLEM, Area.LABELS, rule.name, message, remedy, missing)
    enough = 1 - count / len(nodes) <= load.most_missing
    message = f"{metric} is known for {count} of {len(nodes)} nodes; others are not labelled, and lose labels{reasons}"
    return Finding(Severity.WARNING if enough else Severity.PROBLEM, Area.LABELS, rule.name, message, remedy, missing)


def has_comparison(query: str) -> bool:
    """Whether the query filters series by a comparison, as far as can be seen without parsing PromQL."""
    return _COMPARISON.search(_BRACES.sub("", _QUOTED.sub("", query))) is not None


def _why_missing(coverages: Sequence[Coverage], missing: Sequence[str], nodes: Sequence[Node]) -> tuple[str, str]:
    """The reasons, the most frequent first, and its remedy; empty if no source was queried."""
    if not coverages:
        return "", ""
    reasons: dict[str, list[str]] = {}
    for name in missing:
        reason = coverages[0].missing.get(name)
        reasons.setdefault(reason.reason if reason is not None else "", []).append(name)
    ranked = sorted(reasons.items(), key=lambda each: -len(each[1]))
    described = [describe_gap(reason, names, coverages[0], nodes) for reason, names in ranked if reason]
    return "".join(f"; {message}" for message, _ in described), described[0][1] if described else ""


# --- all rules together


def _current_effect(evaluation: RuleEvaluation) -> Finding:
    labeller, patches = evaluation.labeller, evaluation.patches
    added, removed = [each for each in patches if _adds(each)], [each for each in patches if not _adds(each)]
    nodes = tuple(patch.node for patch in patches)
    unchanged = [name for name in labeller.labelled_nodes() if name not in nodes]
    parts = []
    if added:
        parts.append(f"would label {len(added)}, if it lasts: {shorten([_describe(each) for each in added])}")
    if removed:
        parts.append(f"would remove labels from {len(removed)}: {shorten([_describe(each) for each in removed])}")
    if unchanged:
        parts.append(f"{len(unchanged)} already labelled: {shorten(unchanged)}")
    message = "; ".join(parts) or "would label no node, and none is labelled"
    if labeller.all_labelled:
        remedy = "raise the thresholds: labels on every node do not tell them apart"
        message = f"all eligible nodes are under pressure; {message}"
        return Finding(Severity.WARNING, Area.LABELS, "now", message, remedy, nodes)
    return Finding(Severity.OK, Area.LABELS, "now", message, nodes=nodes)


def _adds(patch: LabelNode) -> bool:
    return bool(patch.add_taints) or any(value is not None for _, value in patch.labels)


def _describe(patch: LabelNode) -> str:
    return f"{patch.node} ({format_label_change(patch)}; {patch.reason})"


def _label_conflicts(settings: LabellingSettings, evaluation: RuleEvaluation) -> Iterator[Finding]:
    """Keys that others use, and labels that no rule gives any more."""
    view, managed = evaluation.cluster.view, evaluation.labeller.managed
    for label in managed:
        names = tuple(node.name for node, used in zip(view.nodes, label.owned_by_others(view), strict=True) if used)
        if names:
            message = f"used by others on {len(names)} nodes, which are never labelled: {shorten(names)}"
            yield Finding(Severity.WARNING, Area.LABELS, label.key, message, CONFLICT_REMEDY, names)
    stale = nodes_with_stale(view.nodes, managed)
    if settings.apply and stale:
        message = (
            f"{len(stale)} nodes have labels under our prefix that no rule gives, and would lose them: {shorten(stale)}"
        )
        remedy = "add their rules here if they are still wanted: one labeller sets all of them"
        yield Finding(Severity.WARNING, Area.LABELS, "leftovers", message, remedy, stale)


# --- dry runs


class DryRunResult(NamedTuple):
    """A patch and the server's answer: accepted, rejected, or None if it does not say."""

    patch: LabelNode
    accepted: bool | None
    message: str = ""


async def check_dry_runs(
    server: ApiServer, configuration: Configuration, nodes: Sequence[Node], account: str
) -> tuple[Finding, ...]:
    """One finding if all patches are accepted, else one per reason; none where no labels are written."""
    labels = configuration.trimtab.labels
    if labels is None or not labels.apply or not nodes:
        return ()
    if configuration.settings.labels is None:
        return (ok(Area.LABELS, DRY_RUN, "not tried", NOT_HERE),)
    if account:
        message = f"not possible for {account}: only its permissions can be checked"
        return (warning(Area.LABELS, DRY_RUN, message, OWN_ACCOUNT_REMEDY),)
    results = await asyncio.gather(*(_dry_run(server, each) for each in _candidate_patches(labels, nodes)))
    user = await whoami(server.transport) if any(each.accepted for each in results) else ""
    return tuple(_dry_run_findings(results, user, account_of(configuration)))


def _candidate_patches(labels: LabellingSettings, nodes: Sequence[Node]) -> list[list[LabelNode]]:
    """For each label and taint of the rules: the labeller's own patch, for a few nodes to try it on."""
    distinct = {(rule.label, rule.taint): rule for rule in labels.rules}
    cluster = Cluster()
    for node in nodes:
        cluster.upsert_node(node)
    found = [[*_patches_for_rule(rule, labels, cluster)][:NODES_TRIED] for rule in distinct.values()]
    return [each for each in found if each]


def _patches_for_rule(rule: Rule, labels: LabellingSettings, cluster: Cluster) -> Iterator[LabelNode]:
    """Adds the rule's label to nodes without it; where all have it, removes it."""
    view, labeller = cluster.view, NodeLabeller(labels)
    values = [label.value_for(rule) for label in labeller.managed]
    columns = [label.current(view) for label in labeller.managed]
    excluded = labeller.excluded(view)
    for label, value in zip(labeller.managed, values, strict=True):
        excluded |= label.owned_by_others(view) if value else False
    rows = [row for row in range(view.count) if not excluded[row]]
    current = {row: [int(column[row]) for column in columns] for row in rows}
    bare = [row for row in rows if all(not v or v != c for v, c in zip(values, current[row], strict=True))]
    for row in bare or rows:
        desired = [(value if bare else 0) if value else has for value, has in zip(values, current[row], strict=True)]
        patch = patch_for(view.nodes[row], labeller.managed, zip(desired, current[row], strict=True))
        if patch is not None:
            yield patch


async def _dry_run(server: ApiServer, patches: Sequence[LabelNode]) -> DryRunResult:
    """The first answer that is about the label, not about the node."""
    result = DryRunResult(patches[0], None)
    for patch in patches:
        try:
            response = await server.transport.send(dry_run_label_request(patch), TIMEOUT)
        except Unreachable as error:
            return DryRunResult(patch, None, str(error))
        message = f"{response.status} {read_status(response.body).message}"
        if response.status == OK:
            return DryRunResult(patch, True)
        if response.status not in (GONE, CHANGED):
            unknown = response.status == BUSY or response.status >= 500 or NO_DRY_RUN in message
            return DryRunResult(patch, None if unknown else False, message)
        result = DryRunResult(patch, None, message)
    return result


def _dry_run_findings(results: Sequence[DryRunResult], user: str, account: str) -> Iterator[Finding]:
    by_answer: dict[tuple[bool | None, str], list[LabelNode]] = {}
    for each in results:
        by_answer.setdefault((each.accepted, each.message), []).append(each.patch)
    for (accepted, message), patches in by_answer.items():
        changes = shorten([f"{format_label_change(patch)} on {patch.node}" for patch in patches])
        if accepted:
            hint = f"a policy may treat {account} differently: run doctor with its kubeconfig, too"
            hint = "" if user.startswith(SERVICE_ACCOUNT) else hint
            yield ok(Area.LABELS, DRY_RUN, f"the API server accepts {changes} from {user}", hint)
        elif accepted is None:
            yield warning(Area.LABELS, DRY_RUN, f"{changes} cannot be tried: {message}", RETRY_REMEDY)
        else:
            legacy = any(key == LEGACY_KEY for patch in patches for key, _ in patch.labels)
            remedy = LEGACY_REMEDY if legacy and POLICY in message else REJECTED_REMEDY
            yield problem(Area.LABELS, DRY_RUN, f"the API server rejects {changes}: {message}", remedy)
