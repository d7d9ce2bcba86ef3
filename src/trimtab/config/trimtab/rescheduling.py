"""Parses and dumps the field `rescheduling` of a `TrimtabConfiguration`.

    rescheduling:
      limits: {cpu: 75, memory: 90}          # percent here, shares in memory; see limits.py
      eagerness: calm                        # the name of what a move must gain
      forecast: seasonal                     # the name of a forecaster
      strategies:                            # names, or names with arguments
      - ResourceOptimization
      - {name: ResourceOptimization, args: {}}

All other fields are parsed by their declarations in `core/rescheduling/settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from trimtab.config.config_node import ConfigNode
from trimtab.config.diagnostics import did_you_mean
from trimtab.config.plugin_args import dump_arguments, parse_plugin
from trimtab.config.schema import check_fields, construct, dump_fields, fields_of, parse_fields
from trimtab.config.trimtab.limits import Limits, dump_limits, parse_limits
from trimtab.config.yaml import MappingNode
from trimtab.core.model.duration import DAY, format_duration
from trimtab.core.rescheduling.calendar import UTC_NAME, Window
from trimtab.core.rescheduling.forecast import FORECASTERS, Forecaster
from trimtab.core.rescheduling.move_budgets import DEFAULT_BUDGETS, Budget, Budgets, Scope
from trimtab.core.rescheduling.settings import EAGERNESS, ReschedulingSettings
from trimtab.core.rescheduling.strategies.interface import RivalStrategy, Strategy
from trimtab.core.rescheduling.strategies.registry import RIVALS, STRATEGIES

CAPACITIES = "capacities"  # a part of the field `limits`
MAX_BUDGET, MIN_WINDOW = 1000, 60.0
Known = Mapping[str, type[Strategy] | type[RivalStrategy]]


class Installed(NamedTuple):
    """Strategies and forecasters besides the built-in ones, by name."""

    strategies: Mapping[str, type[Strategy]] = {}
    forecasters: Mapping[str, type[Forecaster]] = {}


BUILTIN_ONLY = Installed()


def parse_rescheduling(node: ConfigNode, installed: Installed) -> ReschedulingSettings | None:
    """The settings; None after a problem."""
    parsers: dict[str, Callable[[ConfigNode], object]] = {
        **_PARSERS,
        "strategies": partial(_parse_strategies, known={**STRATEGIES, **RIVALS, **installed.strategies}),
        "forecaster": partial(_parse_forecaster, known={**FORECASTERS, **installed.forecasters}),
    }
    before = len(node.report.problems)
    own = {each.key: each.name for each in fields_of(ReschedulingSettings) if each.name in parsers}
    others = [each for each in fields_of(ReschedulingSettings) if each.key not in own and each.name != CAPACITIES]
    parsed = parse_fields(node, others, extra=own)
    if parsed is None:
        return None
    check_fields(ReschedulingSettings, parsed)
    given = {own[key]: parsers[own[key]](entry) for key, entry in parsed.entries.items() if key in own}
    if len(node.report.problems) > before:
        return None
    if isinstance(limits := given.get("limits"), Limits):
        given |= {"limits": limits.shares, CAPACITIES: limits.capacities}
    settings = construct(ReschedulingSettings, {**parsed.values, **given}, node, quiet=False)
    return settings if isinstance(settings, ReschedulingSettings) else None


def why_only_simulated(settings: ReschedulingSettings | None) -> str:
    """Why nothing but a simulation may run these settings; empty if it is otherwise."""
    rivals = settings.rivals if settings is not None else ()
    return f"{rivals[0].name} is run for comparison in trimtab simulate only" if rivals else ""


def _parse_eagerness(node: ConfigNode) -> float | None:
    word = node.choice(EAGERNESS)
    return None if word is None else EAGERNESS[word]


def _parse_strategies(node: ConfigNode, known: Known) -> tuple[Strategy | RivalStrategy, ...]:
    before, found = len(node.report.problems), dict[str, Strategy | RivalStrategy]()
    items = node.items()
    for item in items:
        strategy = _parse_strategy(item, known)
        if strategy is not None and strategy.name in found:
            item.error(f"{strategy.name} is listed twice: remove one of the two")
        elif strategy is not None:
            found[strategy.name] = strategy
            _check_mixture(item, found)
    if not items and len(node.report.problems) == before:
        node.error(f"must not be empty: list some of {_names(known)}, or remove the field")
    return tuple(found.values())


def _check_mixture(item: ConfigNode, found: Iterable[str]) -> None:
    """A rival is run as it is, so nothing else may decide beside it."""
    rivals = [name for name in found if name in RIVALS]
    others = [name for name in found if name not in RIVALS]
    if rivals and others:
        item.error(f"{rivals[0]} decides by itself, and {others[0]} would not be asked: list one of them alone")


def _names(known: Known) -> str:
    return ", ".join(name for name in known if name not in RIVALS)


def _parse_strategy(item: ConfigNode, known: Known) -> Strategy | RivalStrategy | None:
    """From its name, or from a mapping with `name` and `args`."""
    if not isinstance(item.yaml, MappingNode):
        return _build(item, None, known)
    entries = item.fields(("name", "args")) or {}
    if "name" not in entries:
        item.error(f"name is missing: write one of {_names(known)}")
        return None
    return _build(entries["name"], entries.get("args"), known)


def _build(node: ConfigNode, args: ConfigNode | None, known: Known) -> Strategy | RivalStrategy | None:
    name = node.string()
    if name is not None and name not in known:
        near = did_you_mean(name, known)
        node.error(f"unknown strategy {name[:100]!r}{near}: write one of {_names(known)}")
    kind = known.get(name or "")
    return parse_plugin(kind.name, kind, args) if kind is not None else None


def _parse_forecaster(node: ConfigNode, known: Mapping[str, type[Forecaster]]) -> object:
    name = node.choice(known)
    return None if name is None else construct(known[name], {}, node, quiet=False)


def _parse_windows(node: ConfigNode) -> tuple[Window, ...]:
    return tuple(found for item in node.items() if (found := _parse_window(item)) is not None)


def _parse_window(node: ConfigNode) -> Window | None:
    entries = node.fields(("schedule", "duration", "timeZone", "allow")) or {}
    missing = [name for name in ("schedule", "duration") if name not in entries]
    if missing:
        node.error(f"{missing[0]} is missing: write when it begins, such as 0 22 * * 1-5, and its duration, such as 8h")
        return None
    schedule, duration = entries["schedule"].string(), entries["duration"].duration()
    zone = entries["timeZone"].string() if "timeZone" in entries else UTC_NAME
    allowed = entries["allow"].boolean() if "allow" in entries else True
    if schedule is None or duration is None or zone is None or allowed is None:
        return None
    try:
        return Window(schedule, duration, zone, allowed)
    except ValueError as error:
        node.error(str(error))
        return None


def _parse_budgets(node: ConfigNode) -> Budgets:
    """By scope; what is left out keeps its default."""
    budgets = dict(DEFAULT_BUDGETS)
    for name, entry in (node.fields([str(scope) for scope in Scope]) or {}).items():
        scope = Scope(name)
        fields = entry.fields(("moves", "within")) or {}
        moves = fields["moves"].integer() if "moves" in fields else budgets[scope].moves
        within = fields["within"].duration() if "within" in fields else budgets[scope].within
        if moves is not None and not 0 <= moves <= MAX_BUDGET:
            fields["moves"].error(f"{moves} is not between 0 and {MAX_BUDGET}: write how many moves a {name} may have")
        elif within is not None and not MIN_WINDOW <= within <= DAY:
            fields["within"].error(f"{format_duration(within)} is not between 1m and 24h")
        elif moves is not None and within is not None:
            budgets[scope] = Budget(moves, within)
    return budgets


_PARSERS: Mapping[str, Callable[[ConfigNode], object]] = {
    "limits": parse_limits,
    "required_gain": _parse_eagerness,
    "windows": _parse_windows,
    "budgets": _parse_budgets,
}


def dump_rescheduling(settings: ReschedulingSettings) -> dict[str, object]:
    """Plain data that `parse_rescheduling` turns into the same value, in the order of the fields."""
    own = {
        "limits": dump_limits(settings),
        "eagerness": min(EAGERNESS, key=lambda name: abs(EAGERNESS[name] - settings.required_gain)),
        "strategies": [_dump_strategy(each) for each in settings.strategies],
        "forecast": settings.forecaster.name,
        "windows": [_dump_window(each) for each in settings.windows],
        "budgets": {
            str(scope): {"moves": each.moves, "within": format_duration(each.within)}
            for scope, each in settings.budgets.items()
        },
    }
    plain = {**dump_fields(settings, skip={*_PARSERS, "strategies", "forecaster", CAPACITIES}), **own}
    return {each.key: plain[each.key] for each in fields_of(ReschedulingSettings) if each.key in plain}


def _dump_window(window: Window) -> dict[str, object]:
    plain = {"schedule": window.cron, "duration": format_duration(window.duration), "timeZone": window.zone}
    return {**plain, "allow": window.allowed}


def _dump_strategy(strategy: Strategy | RivalStrategy) -> object:
    args = dump_arguments(strategy)
    return {"name": strategy.name, "args": args} if args else strategy.name
