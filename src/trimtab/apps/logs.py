"""Log formatting, as text or JSON, one line per record and without secrets; and the lines about decisions and tasks.

All modules log `"message: key=%s other=%s", value, value`: in text that is the line, in JSON the pairs become fields.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from trimtab.apps.log_writer import LogWriter
from trimtab.config.trimtab.settings import LoggingSettings
from trimtab.core.model.plan import Plan
from trimtab.core.model.schedule_result import Decision, Placement

log = logging.getLogger(__name__)
decision_log = logging.getLogger("trimtab.decisions")

_PAIR = re.compile(r"(\w+)=%(?:\.\d+)?[sdfgr]")
_SECRETS = (  # none may look at the same characters from many beginnings: lines hold what others have written
    re.compile(r"(?i)(authorization\W{1,4}(?:bearer|basic)\s+)\S+"),
    re.compile(r"(?i)((?:bearer|basic)\s+)[\w.~+/=-]{8,}"),
    re.compile(r"()(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
    re.compile(r"(?i)((?:client-key-data|client-certificate-data|token|password)\W{1,4})[\w.~+/=-]{8,}"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def redact(text: str) -> str:
    """The text without tokens, passwords and keys."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1[hidden]", text)
    return text


def escape_control(text: str) -> str:
    """Escape control characters, which would break or recolour a line."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


class TextFormatter(logging.Formatter):
    """2026-01-31T08:00:00.123Z INFO trimtab.apps.process serving: address=…"""

    def format(self, record: logging.LogRecord) -> str:
        lines = [f"{_timestamp(record)} {record.levelname} {record.name} {escape_control(record.getMessage())}"]
        if record.exc_info and record.exc_info[0] is not None:
            lines.append(self.formatException(record.exc_info))
        return redact("\n".join(lines))


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, and the message's pairs as fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        fields |= {name: _json_value(value) for name, value in _pairs(record) if name not in fields}
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(fields, default=str)


def configure(settings: LoggingSettings) -> None:
    """Send all log lines to stderr, without ever waiting for it."""
    lines = LogWriter()
    lines.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    logging.basicConfig(handlers=[lines], force=True)
    apply_levels(settings)


def apply_levels(settings: LoggingSettings) -> None:
    """From now on log what these settings say; the format stays as it was configured."""
    logging.getLogger().setLevel(settings.level.upper())
    decision_log.setLevel(logging.NOTSET if settings.decisions else logging.WARNING)


def log_decision(decision: Decision) -> None:
    """One line per decision: the pod, its node or the reason, the attempt and the number of nodes."""
    if not decision_log.isEnabledFor(logging.INFO):
        return
    verdict = decision.verdict
    if isinstance(verdict, Placement):
        decision_log.info(
            "scheduled: pod=%s node=%s profile=%s attempt=%d feasible=%d nodes=%d score=%g",
            *(decision.pod, verdict.node, decision.profile, decision.attempt),
            *(verdict.feasible, verdict.nodes, verdict.total),
        )
    else:
        decision_log.info(
            "unable to schedule: pod=%s profile=%s attempt=%d nodes=%d reason=%s",
            *(decision.pod, decision.profile, decision.attempt, verdict.nodes, verdict.message()),
        )


def log_plan(plan: Plan) -> None:
    """One line per move, and one for the plan as a whole, unless nothing was suggested."""
    for move in plan.moves:
        decision_log.info(
            "move planned: pod=%s source=%s target=%s strategy=%s gain=%.1f cost=%.1f reason=%s",
            *(move.pod, move.source, move.goes_to, move.strategy, move.gain, move.cost, move.reason),
        )
    if plan.moves or plan.refusals:
        guards = Counter(each.guard for each in plan.refusals)
        decision_log.info(
            "plan made: moves=%d refused=%d guards=%s penalty=%.1f after=%.1f",
            *(len(plan.moves), len(plan.refusals), ", ".join(f"{name} {count}" for name, count in guards.items())),
            *(plan.penalty_before, plan.penalty_after),
        )


def log_task_exit(task: asyncio.Task[Any]) -> None:
    """Log why a task ended that should not have: each cause with its traceback. One that returned has lost the lease."""
    name = getattr(task.get_coro(), "__qualname__", "?")
    error = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
    if error is None:
        log.error("task exited: task=%s error=%s", name, "leadership lost")
        return
    for cause in _causes(error):
        log.error("task exited: task=%s error=%s", name, f"{type(cause).__name__}: {cause}", exc_info=cause)


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _pairs(record: logging.LogRecord) -> list[tuple[str, Any]]:
    names = _PAIR.findall(record.msg) if isinstance(record.msg, str) else []
    values = record.args if isinstance(record.args, tuple) else ()
    return list(zip(names, values, strict=True)) if len(names) == len(values) else []


def _json_value(value: Any) -> Any:
    return value if isinstance(value, (int, float, bool)) or value is None else redact(str(value))
