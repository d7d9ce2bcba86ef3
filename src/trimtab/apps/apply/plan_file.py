"""Reads the file of `trimtab plan -o`, strictly: whoever edits it by hand must not make it mean something else.

Every problem is a sentence with the file, the field and the remedy; nothing is guessed, because pods would be moved by it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from trimtab.apps.config_file import os_error_text, read_bounded
from trimtab.apps.plan.document import API_VERSION, KIND, PlanDocument, PlannedMove
from trimtab.core.model.duration import format_duration
from trimtab.core.model.plan import Move, Plan

AGAIN = "make it again with `trimtab plan -o FILE`"
MAX_AHEAD = 60.0  # seconds that the clock of the plan's maker may be ahead of ours


class CannotApply(Exception):
    """Why nothing is moved, and what to do."""


class _Kind(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


def read_plan_file(file: str) -> PlanDocument:
    """Raises CannotApply."""
    try:
        content = read_bounded(Path(file))
    except OSError as error:
        raise CannotApply(f"{file}: {os_error_text(error)}") from None
    return decode_plan(content, file)


def decode_plan(content: bytes, file: str) -> PlanDocument:
    """Raises CannotApply; `file` is for messages."""
    _check_kind(content, file)
    try:
        document = msgspec.json.decode(content, type=PlanDocument)
    except (ValueError, RecursionError) as error:
        raise CannotApply(f"{file}: {_with_field(error)}: {AGAIN}") from None
    if problem := _problem(document):
        raise CannotApply(f"{file}: {problem}")
    return document


def _check_kind(content: bytes, file: str) -> None:
    try:
        found = msgspec.json.decode(content, type=_Kind)
    except (ValueError, RecursionError) as error:
        raise CannotApply(f"{file} is no plan, or not all of one ({_with_field(error)}): {AGAIN}") from None
    if found.kind != KIND or not found.api_version.startswith("trimtab.dev/"):
        what = f"{found.api_version or 'no apiVersion'} {found.kind or 'without kind'}"
        raise CannotApply(f"{file} is no plan of Trimtab, but {what}: {AGAIN}")
    if found.api_version != API_VERSION:
        raise CannotApply(
            f"{file}: apiVersion is {found.api_version}, and this version of trimtab applies {API_VERSION}: use the version "
            f"that made it, or {AGAIN}"
        )


def _with_field(error: Exception) -> str:
    """The field first: msgspec has it at the end."""
    message, _, where = str(error).partition(" - at `$")
    field = where.rstrip("`").removeprefix(".")
    return f"{field}: {message}" if field else message


def _problem(document: PlanDocument) -> str:
    metadata = document.metadata
    if metadata.hashed:
        return "metadata.hashed: its names are pseudonyms, which no cluster has: plan without --hash-names"
    if not metadata.cluster:
        return f"metadata.cluster is missing: let the namespace kube-system be read, and {AGAIN}"
    seen: set[str] = set()
    for number, move in enumerate(document.moves):
        if problem := _move_problem(move):
            return f"moves[{number}].{problem}: {AGAIN}"
        if {move.uid, move.pod} & seen:
            return f"moves[{number}].uid: {move.pod} is moved twice: {AGAIN}"
        seen |= {move.uid, move.pod}
    return ""


def _move_problem(move: PlannedMove) -> str:
    namespace, _, name = move.pod.partition("/")
    if not namespace or not name or "/" in name:
        return f"pod: {move.pod!r} is not NAMESPACE/NAME"
    if not move.uid:
        return "uid: is empty"
    if not move.source:
        return "source: is empty"
    if not move.target:
        return "target: is empty; moves of a rival have none, and are not carried out"
    return f"target: {move.target} is the source, too" if move.target == move.source else ""


def age_problem(document: PlanDocument, now: float, max_age: float) -> str:
    """Why its age forbids to carry it out; times are in seconds, `now` since 1970."""
    at = document.metadata.at.timestamp()
    if at > now + MAX_AHEAD:
        return (
            f"the plan is of {_clock(at)}, which is in the future: set the clock of the machine that made it, or ours"
        )
    if now - at > max_age:
        return (
            f"the plan is of {_clock(at)}, {format_duration(round(now - at))} ago, and --max-age is "
            f"{format_duration(max_age)}: plan again, because load changes"
        )
    return ""


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def plan_of(document: PlanDocument) -> Plan:
    moves = tuple(
        Move(
            *(each.uid, each.pod, each.source, each.target, each.strategy, each.reason),
            *(each.gain, each.cost, each.cost_reason, each.could_choose, each.promised, each.relief),
        )
        for each in document.moves
    )
    penalty = document.penalty
    return Plan(document.metadata.at.timestamp(), moves, (), penalty.before, penalty.after)
