"""The alerts about moves: too many, failing, none at all, and what keeps the rescheduler from moving pods safely."""

from __future__ import annotations

from tools.monitoring.alert import INFO, RESCHEDULER, WARNING, Alert

FAILED = 'sum by (job) (increase(trimtab_moves_total{state=~"failed|refused"}[1h]))'
DONE = 'sum by (job) (increase(trimtab_moves_total{state="done"}[1h]))'
# Refusals while moves are forbidden on purpose are no candidates.
CANDIDATES = 'sum by (job) (increase(trimtab_move_refusals_total{guard!~"window|stopped"}[6h]))'
CHARGED = 'sum by (job) (increase(trimtab_moves_total{state="charged"}[6h]))'
AUTO_SINCE = 'max by (job) (trimtab_rescheduling_mode{mode="auto"} offset 6h) == 1'

RESCHEDULING = (
    Alert(
        name="TrimtabReschedulerDown",
        severity=WARNING,
        signal=f"max by (job, namespace) (up{{{RESCHEDULER}}})",
        condition="{} == 0",
        since="10m",
        summary="No rescheduler can be scraped: pods are not moved, and moves under way are not finished.",
        description="All targets of the job {{ $labels.job }} are down.",
    ),
    Alert(
        name="TrimtabEvictionRateHigh",
        severity=WARNING,
        signal="60 * sum(rate(trimtab_evictions_total[5m]))",
        condition="{} > 5",
        since="10m",
        summary="Many pods are moved.",
        description="{{ $value | humanize }} pods are evicted per minute.",
    ),
    Alert(
        name="TrimtabMoveBudgetSpent",
        severity=WARNING,
        signal='min by (job) (trimtab_move_budget_left{scope="cluster"})',
        condition="{} < 1",
        since="15m",
        summary="The budget of moves of the whole cluster is spent: pods are moved too often.",
        description="{{ $labels.job }} has no moves left in its budget for the cluster.",
    ),
    Alert(
        name="TrimtabMovesFailing",
        severity=WARNING,
        signal=FAILED,
        condition=f"({{}} > 2) and ({{}} > ({DONE} or 0 * {{}}))",
        since="0m",
        summary="Most moves fail.",
        description="{{ $value | humanize }} moves of {{ $labels.job }} failed within an hour, more than succeeded.",
    ),
    Alert(
        name="TrimtabStrategyPaused",
        severity=WARNING,
        signal="max by (job, strategy) (trimtab_strategy_paused)",
        condition="{} == 1",
        since="0m",
        summary="A strategy has paused itself, because its moves did not help.",
        description="{{ $labels.strategy }} of {{ $labels.job }} suggests no moves until its pause ends.",
    ),
    Alert(
        name="TrimtabMovesPaused",
        severity=INFO,
        signal="max by (job) (trimtab_moves_paused)",
        condition="{} == 1",
        since="6h",
        summary="Somebody paused all moves, six hours ago or earlier.",
        description="{{ $labels.job }} moves nothing until it is resumed.",
    ),
    Alert(
        name="TrimtabLedgerUnreadable",
        severity=WARNING,
        signal="max by (job) (trimtab_ledger_unreadable)",
        condition="{} == 1",
        since="5m",
        summary="The ledger of moves cannot be read or written: nothing is moved.",
        description="{{ $labels.job }} has had no ledger for five minutes.",
    ),
    Alert(
        name="TrimtabNothingMoved",
        severity=INFO,
        signal=CANDIDATES,
        condition=f"({{}} > 0) and on (job) ({AUTO_SINCE}) and on (job) (({CHARGED} or 0 * {{}}) == 0)",
        since="30m",
        summary="Nodes should have been relieved, and no pod was moved for six hours.",
        description="{{ $labels.job }} refused {{ $value | humanize }} moves within six hours, and made none.",
    ),
    Alert(
        name="TrimtabCapacityNeeded",
        severity=WARNING,
        signal="max by (job) (trimtab_nodes_without_relief)",
        condition="{} > 0",
        since="10m",
        summary="A node stays hot, and no other node can take its pods: capacity is missing.",
        description="{{ $value }} nodes stay hot, and {{ $labels.job }} can move none of their pods.",
    ),
    Alert(
        name="TrimtabSurgeNotTakenBack",
        severity=WARNING,
        signal='max by (job, state) (trimtab_oldest_move_age_seconds{state=~"leaving|undoing"})',
        condition="{} > 1800",
        since="5m",
        summary="A workload keeps the replica that was added for a move.",
        description="A move has been {{ $labels.state }}, its oldest {{ $value | humanizeDuration }} old.",
    ),
)
