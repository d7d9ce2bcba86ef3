"""Decides whether the API server would take the labeller's marks: each is sent as the labeller sends it, as a dry run.

Rights alone do not tell: a ValidatingAdmissionPolicy or a webhook may refuse what RBAC allows. Only the account that writes
can try, and nothing is sent where marks are not written; who may patch at all is left to `rights`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimtab.apps.doctor.apiserver_checks import TIMEOUT, ApiServer
from trimtab.apps.doctor.finding import Area, Finding, ok, problem, shorten, warning
from trimtab.apps.doctor.rbac_checks import LABELLER_ACCOUNT, SERVICE_ACCOUNT, whoami
from trimtab.config.configuration import Configuration
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.labelling.node_labeller import NodeLabeller
from trimtab.core.labelling.node_labels import patch_for
from trimtab.core.load.pressure_rules import LEGACY_KEY, LabellingSettings, Rule
from trimtab.core.model.instructions import LabelNode
from trimtab.core.model.node import Node
from trimtab.kube.transport import Unreachable
from trimtab.wire.decoding import read_status
from trimtab.wire.requests import dry_run_label_request, format_label_change

SUBJECT = "marks"
NODES_TRIED = 3  # one that changes or goes meanwhile says nothing of the others
OK, GONE, CHANGED, BUSY = 200, 404, 409, 429
NO_DRY_RUN = "does not support dry run"  # what the server says for a webhook that might act on it
POLICY = "ValidatingAdmissionPolicy"
LEGACY_REMEDY = (
    'set the variable legacy of the ValidatingAdmissionPolicy trimtab-labeller (deploy/labeller.yaml) to "true", or label '
    "under pressure.trimtab.dev/ instead"
)
REJECTED_REMEDY = "let whoever refuses it allow it; deploy/labeller.yaml has the rights and the policy that are meant"
AS_ITSELF = "run doctor with a kubeconfig of that account, without --as: a policy may refuse what the rights allow"
AS_LABELLER = f"a policy may judge {LABELLER_ACCOUNT} otherwise: run doctor with a kubeconfig of that account, too"
NOT_HERE = "`trimtab run` marks nobody; add --labeller for what `trimtab labeller` needs"
RETRY_REMEDY = "look again"


class DryRunResult(NamedTuple):
    """A mark and what was said to it: whether it is taken, None where nobody knows, and the words."""

    instruction: LabelNode
    accepted: bool | None
    message: str = ""


async def check_dry_runs(
    server: ApiServer, configuration: Configuration, nodes: Sequence[Node], account: str
) -> tuple[Finding, ...]:
    """One finding where all is taken, and one for each reason why not; none where no mark is ever written."""
    labels = configuration.trimtab.labels
    if labels is None or not labels.apply or not nodes:
        return ()
    if configuration.settings.labels is None:
        return (ok(Area.LABELS, SUBJECT, "not tried", NOT_HERE),)
    if account:
        says = f"cannot be tried for {account}, whose rights alone can be asked about"
        return (warning(Area.LABELS, SUBJECT, says, AS_ITSELF),)
    wishes = _candidate_patches(labels, nodes)
    answers = await asyncio.gather(*(_dry_run(server, each) for each in wishes))
    who = await whoami(server) if any(each.accepted for each in answers) else ""
    return tuple(_findings(answers, who))


def _candidate_patches(labels: LabellingSettings, nodes: Sequence[Node]) -> list[list[LabelNode]]:
    """For each label and taint that rules give: the labeller's own wish, for a few nodes that could be asked about it."""
    distinct = {(rule.label, rule.taint): rule for rule in labels.rules}
    cluster = Cluster()
    for node in nodes:
        cluster.upsert_node(node)
    found = [[*_patches_for_rule(rule, labels, cluster)][:NODES_TRIED] for rule in distinct.values()]
    return [each for each in found if each]


def _patches_for_rule(rule: Rule, labels: LabellingSettings, cluster: Cluster) -> Iterator[LabelNode]:
    """Nodes that do not carry its mark yet are given it; where all do, it is taken from them."""
    view, marking = cluster.view, NodeLabeller(labels)
    given = [mark.value_for(rule) for mark in marking.managed]
    present = [mark.current(view) for mark in marking.managed]
    out = marking.excluded(view)
    for mark, number in zip(marking.managed, given, strict=True):
        out |= mark.owned_by_others(view) if number else False
    rows = [row for row in range(view.count) if not out[row]]
    carried = {row: [int(column[row]) for column in present] for row in rows}
    bare = [row for row in rows if all(not n or n != c for n, c in zip(given, carried[row], strict=True))]
    for row in bare or rows:
        wanted = [(number if bare else 0) if number else has for number, has in zip(given, carried[row], strict=True)]
        wish = patch_for(view.nodes[row], marking.managed, zip(wanted, carried[row], strict=True))
        if wish is not None:
            yield wish


async def _dry_run(server: ApiServer, instructions: Sequence[LabelNode]) -> DryRunResult:
    """The first answer that says something of the mark, rather than of the node."""
    answer = DryRunResult(instructions[0], None)
    for wish in instructions:
        try:
            response = await server.transport.send(dry_run_label_request(wish), TIMEOUT)
        except Unreachable as error:
            return DryRunResult(wish, None, str(error))
        words = f"{response.status} {read_status(response.body).message}"
        if response.status == OK:
            return DryRunResult(wish, True)
        if response.status not in (GONE, CHANGED):
            unknown = response.status == BUSY or response.status >= 500 or NO_DRY_RUN in words
            return DryRunResult(wish, None if unknown else False, words)
        answer = DryRunResult(wish, None, words)
    return answer


def _findings(answers: Sequence[DryRunResult], who: str) -> Iterator[Finding]:
    by_words: dict[tuple[bool | None, str], list[LabelNode]] = {}
    for each in answers:
        by_words.setdefault((each.accepted, each.message), []).append(each.instruction)
    for (taken, words), wishes in by_words.items():
        what = shorten([f"{format_label_change(wish)} on {wish.node}" for wish in wishes])
        if taken:
            hint = "" if who.startswith(SERVICE_ACCOUNT) else AS_LABELLER
            yield ok(Area.LABELS, SUBJECT, f"the API server takes {what} from {who} (tried as a dry run)", hint)
        elif taken is None:
            yield warning(Area.LABELS, SUBJECT, f"{what} cannot be tried: {words}", RETRY_REMEDY)
        else:
            legacy = any(key == LEGACY_KEY for wish in wishes for key, _ in wish.labels)
            remedy = LEGACY_REMEDY if legacy and POLICY in words else REJECTED_REMEDY
            yield problem(Area.LABELS, SUBJECT, f"the API server refuses {what}: {words}", remedy)
