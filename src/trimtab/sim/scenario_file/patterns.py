"""Parses usage patterns: a level, one or more patterns by their names, or a list of them, which are added.

cpu: 50%
cpu: {daily: {low: 20%, high: 140%, peak: "14:00"}, noise: 10%}
memory: [{steady: 500Mi}, {ramp: {from: 0%, to: 80%, over: 2h}}]
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from trimtab.config.config_node import ConfigNode
from trimtab.config.diagnostics import did_you_mean
from trimtab.config.yaml import ScalarNode, SequenceNode
from trimtab.core.model.resources import CPU, MEMORY
from trimtab.sim.scenario import IDLE
from trimtab.sim.scenario_file.values import (
    Fields,
    Level,
    Timeline,
    duration,
    positive_duration,
    share,
    time_of_day,
)
from trimtab.sim.usage_patterns import Bursty, Daily, Noisy, Ramp, Recorded, Steady, Surge, Total, UsagePattern

USAGE_FIELDS = {
    CPU: "a level, such as 50% of the request or 250m, or a pattern, see below; 0 unless set",
    MEMORY: "the same, such as 80% or 1Gi; 0 unless set",
}
PATTERN_FIELDS = {
    "steady": "a level: the same at all times",
    "daily": "a wave with a period of one day",
    "bursty": "low, but high in a random share of the time",
    "ramp": "linear from one level to another, counted from the pod's start",
    "surge": "nothing but once, from one time to another",
    "recorded": "given values, one per step",
    "noise": "a random factor for each minute, at most this share above or below 1",
}
DAILY_FIELDS = {
    "low": "the lowest level",
    "high": "the highest level",
    "peak": 'when it is highest, a time of day such as "14:00"',
}
BURSTY_FIELDS = {
    "low": "the level without a burst",
    "high": "the level of a burst",
    "share": "the share of the time with a burst",
    "slot": "5m unless set: how long each burst lasts",
}
RAMP_FIELDS = {
    "from": "0 unless set: the first level",
    "to": "the last level",
    "over": "how long it takes from one to the other",
    "delay": "0s unless set: how long the first level lasts before",
}
SURGE_FIELDS = {
    "level": "the highest level",
    "begins": "when it begins to rise",
    "ends": "when it is back at zero",
    "rise": "1s unless set: how long it rises, and falls",
}
RECORDED_FIELDS = {
    "values": "a list of levels",
    "file": "instead of values: a CSV file, relative to the scenario, whose first line names the columns",
    "column": "`cpu` or `memory` unless set, by the resource: the file's column with the levels",
    "step": "5m unless set: the time between two values",
    "begins": "when the first value applies; the pod's start unless set",
    "repeat": "false unless set: start again at the end, instead of staying at the last value",
}
MAX_VALUES = 1_000_000


class PatternContext(Struct, frozen=True):
    """What levels are relative to, and when the scenario takes place."""

    level: Level
    timeline: Timeline


def parse_usage(
    node: ConfigNode, wholes: Mapping[str, int | None], of: str, timeline: Timeline
) -> tuple[UsagePattern, UsagePattern]:
    """CPU and memory; `wholes` and `of` are what a percentage is relative to, as amounts and in words."""
    fields = Fields(node, USAGE_FIELDS)
    contexts = [PatternContext(Level(name, wholes[name], of.format(name)), timeline) for name in (CPU, MEMORY)]
    cpu, memory = (fields.get(each.level.resource, pattern_parser(each), IDLE) for each in contexts)
    return cpu, memory


def pattern_parser(context: PatternContext) -> Callable[[ConfigNode], UsagePattern | None]:
    return lambda node: parse_pattern(node, context)


def parse_pattern(node: ConfigNode, context: PatternContext) -> UsagePattern | None:
    if isinstance(node.yaml, ScalarNode):
        return _steady(node, context)
    if isinstance(node.yaml, SequenceNode):
        return _total([found for item in node.items() if (found := parse_pattern(item, context)) is not None])
    fields = Fields(node, PATTERN_FIELDS)
    parts = [found for kind, parse in _KINDS.items() if (found := fields.find(kind, _with(parse, context))) is not None]
    if node.yaml.entries.keys() <= {"noise"}:
        node.error(f"names no pattern: write one of {', '.join(_KINDS)}")
    noise = fields.get("noise", share, 0.0)
    pattern = _total(parts)
    return Noisy(pattern, noise) if noise and pattern is not None else pattern


def _with(
    parse: Callable[[ConfigNode, PatternContext], UsagePattern | None], context: PatternContext
) -> Callable[[ConfigNode], UsagePattern | None]:
    return lambda node: parse(node, context)


def _total(parts: list[UsagePattern]) -> UsagePattern | None:
    if len(parts) > 1:
        return Total(tuple(parts))
    return parts[0] if parts else None


def _steady(node: ConfigNode, context: PatternContext) -> UsagePattern | None:
    level = context.level(node)
    return None if level is None else Steady(level)


def _daily(node: ConfigNode, context: PatternContext) -> UsagePattern:
    fields = Fields(node, DAILY_FIELDS)
    low = fields.require("low", context.level, 0.0, "write a level such as 20%")
    high = fields.require("high", context.level, 0.0, "write a level such as 120%")
    peak = fields.require("peak", time_of_day, 0.0, 'write a time of day such as "14:00"')
    _check_levels(fields, low, high)
    return Daily(low, high, peak)


def _bursty(node: ConfigNode, context: PatternContext) -> UsagePattern:
    fields = Fields(node, BURSTY_FIELDS)
    low = fields.require("low", context.level, 0.0, "write a level such as 20%")
    high = fields.require("high", context.level, 0.0, "write a level such as 200%")
    part = fields.require("share", share, 0.0, "write a percentage such as 10%")
    _check_levels(fields, low, high)
    return Bursty(low, high, part, fields.get("slot", positive_duration, 300.0))


def _check_levels(fields: Fields, low: float, high: float) -> None:
    if "low" in fields and "high" in fields and low > high > 0:
        fields.at("low").error("is above high: exchange the two")


def _ramp(node: ConfigNode, context: PatternContext) -> UsagePattern:
    fields = Fields(node, RAMP_FIELDS)
    last = fields.require("to", context.level, 0.0, "write a level such as 90%")
    over = fields.require("over", positive_duration, 1.0, "write a duration such as 2h")
    return Ramp(fields.get("from", context.level, 0.0), last, over, fields.get("delay", duration, 0.0))


def _surge(node: ConfigNode, context: PatternContext) -> UsagePattern:
    fields = Fields(node, SURGE_FIELDS)
    level = fields.require("level", context.level, 0.0, "write a level such as 70%")
    begins, ends = parse_period(fields, context.timeline)
    return Surge(level, begins, ends, fields.get("rise", positive_duration, 1.0))


def parse_period(fields: Fields, timeline: Timeline) -> tuple[float, float]:
    """`begins` and `ends` of a mapping that needs both."""
    remedy = 'write a time of day such as "09:30", or a duration after the beginning such as 10m'
    begins = fields.require("begins", timeline.moment, timeline.begins, remedy)
    ends = fields.require("ends", timeline.moment, timeline.ends, remedy)
    if ends <= begins and "begins" in fields and "ends" in fields:
        fields.at("ends").error("is not after begins: times must be in order")
    return begins, ends


def _recorded(node: ConfigNode, context: PatternContext) -> UsagePattern | None:
    fields = Fields(node, RECORDED_FIELDS)
    if fields.is_mapping and ("values" in fields) == ("file" in fields):
        node.error("needs either values or file")
    found = [*_inline_values(fields, context), *_file_values(fields, context)]
    step = fields.get("step", positive_duration, 300.0)
    begins = fields.find("begins", context.timeline.moment)
    repeat = fields.get("repeat", ConfigNode.boolean, False)
    return Recorded(np.array(found, dtype=np.float32), step, begins, repeat) if found else None


def _inline_values(fields: Fields, context: PatternContext) -> list[float]:
    items = fields.items("values")
    if "values" in fields and isinstance(fields.at("values").yaml, SequenceNode) and not items:
        fields.at("values").error("must not be empty")
    return [level for item in items if (level := context.level(item)) is not None]


def _file_values(fields: Fields, context: PatternContext) -> list[float]:
    """The column of a CSV file. Its problems are reported with its own name and lines."""
    name = fields.find("file", ConfigNode.string)
    column = fields.get("column", ConfigNode.string, context.level.resource)
    if "column" in fields and "file" not in fields:
        fields.at("column").error("needs a file")
    if name is None:
        return []
    node, report = fields.at("file"), fields.node.report
    try:
        assert report.read_file is not None
        path, content = report.read_file(name)
        rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        return list(_column(rows, column, ConfigNode(node.yaml, type(report)(path, report.problems), column), context))
    except OSError as error:
        node.error(f"{name} cannot be read ({error.strerror or 'not found'}): the path is relative to the scenario")
    except (UnicodeDecodeError, csv.Error, ValueError):
        node.error(f"{name} is not a CSV file: save it as UTF-8 text with commas")
    return []


def _column(rows: Iterator[list[str]], name: str, node: ConfigNode, context: PatternContext) -> Iterator[float]:
    header = [each.strip() for each in next(rows, [])]
    if name not in header:
        node.error(f"has no column {name[:60]}{did_you_mean(name, header)}: it has {', '.join(header)[:200]}", (1, 1))
        return
    index = header.index(name)
    for line, row in enumerate(rows, start=2):
        if line > MAX_VALUES:
            node.error(f"more than {MAX_VALUES} lines", (line, 1))
            return
        if row:
            text = row[index].strip() if index < len(row) else ""
            column = sum(len(each) + 1 for each in row[:index]) + 1
            cell = ConfigNode(ScalarNode(text, (line, column)), node.report, name)
            level = context.level(cell) if text else None
            if not text:
                cell.error("is empty: write a level, such as 250m or 80%")
            if level is not None:
                yield level


_KINDS: Mapping[str, Callable[[ConfigNode, PatternContext], UsagePattern | None]] = {
    "steady": _steady,
    "daily": _daily,
    "bursty": _bursty,
    "ramp": _ramp,
    "surge": _surge,
    "recorded": _recorded,
}
