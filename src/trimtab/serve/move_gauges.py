"""Gauges of the rescheduler that are read when /metrics is scraped: moves under way, budgets, standings and grades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from trimtab.core.model.ledger import UNDER_WAY, MoveRecord
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.move_budgets import budgets_left
from trimtab.core.rescheduling.remedies import PLANS_WITHOUT_RELIEF
from trimtab.core.rescheduling.settings import Mode
from trimtab.core.rescheduling.strategy_record import standing


def move_gauges(controller: Rescheduling) -> Iterator[Metric]:
    """Without a rescheduler, or before its first move, most of them have no values."""
    execution, now, settings = controller.execution, controller.history.now, controller.settings
    records = tuple(execution.records.values())
    ages: dict[str, list[float]] = {} if settings is None else {state.value: [] for state in sorted(UNDER_WAY)}
    for each in records:
        if each.under_way:
            ages.setdefault(each.state.value, []).append(now - each.at)
    numbers = {state: len(found) for state, found in ages.items()}
    yield _gauge("trimtab_moves_under_way", "Moves that have not ended, by state.", "state", numbers)
    documentation = "Time since the oldest move in a state was charged, by state; 0 where there is none."
    yield _gauge(
        "trimtab_oldest_move_age_seconds",
        documentation,
        "state",
        {state: max(found, default=0.0) for state, found in ages.items()},
    )
    unreadable = GaugeMetricFamily("trimtab_ledger_unreadable", "1 while the ledger cannot be read or written, else 0.")
    unreadable.add_metric((), int(bool(execution.ledger_problem)))
    yield unreadable
    modes = {} if settings is None else {mode.value: int(settings.mode is mode) for mode in Mode}
    yield _gauge("trimtab_rescheduling_mode", "1 for the mode of the rescheduler, else 0.", "mode", modes)
    paused = GaugeMetricFamily("trimtab_moves_paused", "1 while the kill switch holds all moves, else 0.")
    paused.add_metric((), int(bool(execution.pause)))
    yield paused
    lacking = sum(plans >= PLANS_WITHOUT_RELIEF for plans in controller.remedies.without_relief.values())
    documentation = "Nodes that have been hot for several plans in a row while none of their pods could be moved."
    capacity = GaugeMetricFamily("trimtab_nodes_without_relief", documentation)
    capacity.add_metric((), lacking)
    yield capacity
    left = {} if settings is None else budgets_left(settings.budgets, records, now)
    least = {scope.value: number for scope, (number, _) in left.items()}
    documentation = "Moves that are left of the budget of each scope, where it has the fewest."
    yield _gauge("trimtab_move_budget_left", documentation, "scope", least)
    names = [] if settings is None else [each.name for each in settings.suggesting]
    standings = {name: standing(records, name, now) for name in names}
    documentation = "1 while a strategy is paused because its moves keep missing, else 0."
    paused_ones = {name: int(bool(each.paused)) for name, each in standings.items()}
    yield _gauge("trimtab_strategy_paused", documentation, "strategy", paused_ones)
    documentation = "How many times the usual gain a strategy's moves must have."
    margins = {name: each.margin for name, each in standings.items()}
    yield _gauge("trimtab_strategy_margin", documentation, "strategy", margins)
    yield _relief(records)


def _relief(records: Sequence[MoveRecord]) -> Metric:
    """Relief may be negative, so it is no counter."""
    family = GaugeMetricFamily(
        "trimtab_move_relief",
        "Mean relief of graded moves in the ledger by snapshot, as promised and as last measured, in units of the penalty.",
        labels=("strategy", "kind"),
    )
    by_strategy: dict[str, list[MoveRecord]] = {}
    for each in records:
        if each.grades:
            by_strategy.setdefault(each.strategy, []).append(each)
    for strategy, graded in by_strategy.items():
        last = [each.grades[-1] for each in graded]
        family.add_metric((strategy, "promised"), sum(each.promised for each in last) / len(last))
        family.add_metric((strategy, "measured"), sum(each.measured for each in last) / len(last))
    return family


def _gauge(name: str, documentation: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family
