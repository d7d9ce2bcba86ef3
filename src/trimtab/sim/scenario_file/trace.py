"""Parses the trace of a scenario file and loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimtab.config.config_node import ConfigNode
from trimtab.config.diagnostics import ConfigError
from trimtab.core.model.setting import INT32, camel_case
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file.values import Fields, Parse, duration, factor, integer_from, object_name
from trimtab.sim.traces import FORMATS, load
from trimtab.sim.traces.options import TraceOptions

TRACE_FIELDS = {
    "format": f"`trace` unless set; {' or '.join(name for name in FORMATS if name != 'trace')}, see below",
    "folder": "where its files are, relative to the scenario",
    "nodes": "only the first so many nodes; all unless set, of planetlab 800",
    "requests": "a factor for all requests, such as 85%",
    "usage": "a factor for all usage, such as 110%; memory stays within its limit",
    "shuffleUsage": "a number: gives each app the usage of another one of similar lifetime, in an order that it decides",
    "stagger": "pods of one app that arrived together arrive within this time instead",
    "labels": "false unless set: pods have the label `app`, and each app a Service, so that they are spread by default",
    "initialPlacement": "false unless set: pods begin on the nodes where they were recorded",
    "readyDelay": "0s unless set: how long after their start pods become ready, such as 5m",
    "podList": "of openb, default unless set: which list of pods",
    "demand": "of openb, 130% unless set: pods arrive until they ask for this much of all GPUs",
    "day": "of planetlab, the first unless set: which day, such as 20110303",
}


def load_trace(node: ConfigNode, folder: Path, seed: int) -> Scenario | None:
    """The trace as a scenario; None after a problem."""
    before = len(node.report.problems)
    fields = Fields(node, TRACE_FIELDS)
    name = fields.get("format", lambda each: each.choice(FORMATS), "trace")
    known = len(node.report.problems) == before
    given = {option: fields.find(camel_case(option), parse) for option, parse in _OPTIONS.items()}
    for option in given:
        if known and camel_case(option) in fields and option not in FORMATS[name].options:
            fields.at(camel_case(option)).error(f"the format {name} has no such option: remove it")
    where = fields.require("folder", ConfigNode.string, "", "write the folder of its files")
    if len(node.report.problems) > before:
        return None
    if not (folder / where).is_dir():
        fields.at("folder").error(
            f"{folder / where}: there is no such folder: a path is relative to the scenario's file"
        )
        return None
    options = TraceOptions(folder / where, **{each: value for each, value in given.items() if value is not None})
    try:
        return load(name, options, seed)
    except ConfigError as error:
        node.report.problems.extend(error.problems)
    except OSError as error:
        fields.at("folder").error(f"cannot be read ({error.strerror})")
    return None


def _positive_factor(node: ConfigNode) -> float | None:
    value = factor(node)
    if value == 0:
        node.error("must be above 0")
        return None
    return value


def _day(node: ConfigNode) -> str | None:
    """Digits, with or without quotes."""
    value = getattr(node.yaml, "value", None)
    return object_name(node) if isinstance(value, str) else str(node.integer(0, INT32) or "")


_OPTIONS: dict[str, Parse[Any]] = {
    "nodes": integer_from(1, 100_000),
    "requests": _positive_factor,
    "usage": factor,
    "shuffle_usage": integer_from(0, INT32),
    "stagger": duration,
    "labels": ConfigNode.boolean,
    "initial_placement": ConfigNode.boolean,
    "ready_delay": duration,
    "pod_list": object_name,
    "demand": _positive_factor,
    "day": _day,
}
