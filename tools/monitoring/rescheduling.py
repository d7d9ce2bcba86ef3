"""The dashboard of moves: what was planned, done and refused, what it was worth, and what is left of the budgets."""

from __future__ import annotations

from typing import Any

from tools.monitoring.panels import (
    BLUE,
    COUNT,
    GREEN,
    PER_MINUTE,
    RATIO,
    RED,
    SECONDS,
    SELECTED,
    Lines,
    Panel,
    Query,
    Row,
    Stack,
    Stat,
    Timeline,
)

MOVES = "trimtab_moves_total"
PAUSED = {"0": ("no", GREEN), "1": ("paused", RED)}


def per_hour(metric: str, label: str, selector: str = "") -> Query:
    """How much a counter grew within an hour, by one label."""
    return Query(f"sum by ({label}) (increase({metric}{{{SELECTED}{selector}}}[1h]))", f"{{{{{label}}}}}")


def helped(window: str, by: str = "") -> str:
    """Graded moves that relieved their nodes, as a share of all: a ratio of sums."""
    grades = f"trimtab_moves_graded_total{{{SELECTED}"
    return f'sum{by} (increase({grades}, helped="true"}}[{window}])) / sum{by} (increase({grades}}}[{window}]))'


def quantile_of(buckets: str, by: str = "") -> tuple[Query, ...]:
    """The median, and what one in twenty is above."""
    rates = f"sum by (le{', ' + by if by else ''}) (increase({buckets}{{{SELECTED}}}[1d]))"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(f"histogram_quantile({value}, {rates})", name + legend) for name, value in (("P50", 0.5), ("P95", 0.95))
    )


def stat(title: str, description: str, expr: str, unit: str = COUNT, **settings: Any) -> Panel:
    return Stat(title=title, description=description, unit=unit, queries=(Query(expr),), width=3, height=4, **settings)


STATUS = Row(
    "Status",
    (
        stat(
            "Moves carried out",
            "Whether plans are carried out (`auto`, or `approve` after somebody agreed) or only logged (`observe`).",
            f'max(trimtab_rescheduling_mode{{{SELECTED}, mode!="observe"}})',
            words={"1": ("yes", GREEN), "0": ("observed only", BLUE)},
        ),
        stat(
            "Kill switch",
            "Whether somebody paused all moves; `trimtab resume` ends that.",
            f"max(trimtab_moves_paused{{{SELECTED}}})",
            words=PAUSED,
        ),
        stat(
            "Ledger",
            "Whether the ledger of moves can be read and written; without it nothing is moved.",
            f"max(trimtab_ledger_unreadable{{{SELECTED}}})",
            words={"0": ("in order", GREEN), "1": ("unreadable", RED)},
        ),
        stat(
            "Moves under way", "Moves that have not ended.", f"sum(trimtab_moves_under_way{{{SELECTED}}}) or vector(0)"
        ),
        stat(
            "Moves done today",
            "Moves of the last 24 hours whose replacement is ready on another node.",
            f'sum(increase({MOVES}{{{SELECTED}, state="done"}}[1d])) or vector(0)',
        ),
        stat(
            "Helped",
            "Share of the grades of the last 24 hours that measured relief.",
            helped("1d"),
            RATIO,
            warn=0.7,
            alarm=0.5,
        ),
        stat(
            "Budget left",
            "Moves that are left in the budget of the whole cluster.",
            f'min(trimtab_move_budget_left{{{SELECTED}, scope="cluster"}})',
            warn=10,
            alarm=1,
        ),
        stat(
            "Paused strategies",
            "Strategies that paused themselves because their moves did not help.",
            f"sum(max by (strategy) (trimtab_strategy_paused{{{SELECTED}}}))",
            warn=1,
            alarm=2,
        ),
    ),
)

PLANS = Row(
    "Plans and moves",
    (
        Lines(
            title="Planned moves",
            description="Moves in plans within an hour, by strategy; in observe mode the same ones over and over.",
            unit=COUNT,
            queries=(per_hour("trimtab_moves_planned_total", "strategy"),),
        ),
        Stack(
            title="Moves by state",
            description="Moves within an hour: charged to the ledger, and how they ended.",
            unit=COUNT,
            queries=(per_hour(MOVES, "state"),),
        ),
        Lines(
            title="Refused by guard",
            description="Why pods of suggested nodes were not moved, within an hour. docs/rescheduling.md lists the guards.",
            unit=COUNT,
            queries=(per_hour("trimtab_move_refusals_total", "guard"),),
        ),
        Lines(
            title="Moves that went wrong",
            description="Failed, refused or cancelled moves within an hour, by reason; the log has the whole sentence.",
            unit=COUNT,
            queries=(per_hour(MOVES, "reason", ', state=~"failed|refused|cancelled"'),),
        ),
        Lines(
            title="Pods that left a node",
            description="Evicted, or given up after their replacement was ready.",
            unit=PER_MINUTE,
            queries=(
                Query(
                    f"60 * sum by (strategy) (rate(trimtab_evictions_total{{{SELECTED}}}[$__rate_interval]))",
                    "{{strategy}}",
                ),
            ),
            width=8,
        ),
        Lines(
            title="Moves under way by state",
            description="surged: the workload has one replica more. leaving, undoing: it is taken back.",
            unit=COUNT,
            queries=(Query(f"sum by (state) (trimtab_moves_under_way{{{SELECTED}}})", "{{state}}"),),
            width=8,
        ),
        Lines(
            title="Oldest move by state",
            description="Time since it was charged. More than half an hour in leaving or undoing is a replica too many.",
            unit=SECONDS,
            queries=(Query(f"max by (state) (trimtab_oldest_move_age_seconds{{{SELECTED}}})", "{{state}}"),),
            width=8,
            alarm=1800,
            warn=1200,
        ),
    ),
)

GRADES = Row(
    "Grades",
    (
        Lines(
            title="Moves that helped",
            description="Share of the grades of 24 hours that measured relief, by strategy.",
            unit=RATIO,
            queries=(Query(helped("1d", " by (strategy)"), "{{strategy}}"),),
            limits=(0, 1),
        ),
        Lines(
            title="Relief: promised and measured",
            description="Mean of the graded moves in the ledger, in units of the penalty, by strategy.",
            unit=COUNT,
            queries=(Query(f"max by (strategy, kind) (trimtab_move_relief{{{SELECTED}}})", "{{strategy}} {{kind}}"),),
        ),
        Lines(
            title="Plan error",
            description="Percentage points between the promised and the measured utilisation of nodes, over 24 hours.",
            unit=COUNT,
            queries=quantile_of("trimtab_plan_error_percent_points_bucket", "node"),
            warn=5,
            alarm=10,
        ),
        Lines(
            title="Time with a ready pod less",
            description="How long moves took a ready pod from its workload, over 24 hours; 0 with the replacement first.",
            unit=SECONDS,
            queries=quantile_of("trimtab_move_unready_seconds_bucket"),
        ),
    ),
)

LIMITS = Row(
    "Budgets, strategies and remedies",
    (
        Lines(
            title="Budgets left",
            description="Moves that are left in each budget, where the fewest are left.",
            unit=COUNT,
            queries=(Query(f"min by (scope) (trimtab_move_budget_left{{{SELECTED}}})", "{{scope}}"),),
        ),
        Lines(
            title="Remedies",
            description="What was done for hot nodes within an hour, by rung of the remedy ladder.",
            unit=COUNT,
            queries=(per_hour("trimtab_remedies_total", "rung"),),
        ),
        Lines(
            title="Nodes without relief",
            description="Nodes that stay hot because none of their pods could be moved: the cluster may need more capacity.",
            unit=COUNT,
            queries=(Query(f"max by (job) (trimtab_nodes_without_relief{{{SELECTED}}})", "{{job}}"),),
            width=8,
            warn=1,
            alarm=3,
        ),
        Lines(
            title="Margins of strategies",
            description="How many times the usual gain the moves of a strategy must have; it rises with moves that miss.",
            unit=COUNT,
            queries=(Query(f"max by (strategy) (trimtab_strategy_margin{{{SELECTED}}})", "{{strategy}}"),),
            width=8,
        ),
        Timeline(
            title="Pauses",
            description="Strategies that paused themselves, and the kill switch.",
            unit=COUNT,
            queries=(
                Query(f"max by (strategy) (trimtab_strategy_paused{{{SELECTED}}})", "{{strategy}}"),
                Query(f"max(trimtab_moves_paused{{{SELECTED}}})", "all moves"),
            ),
            width=8,
            words=PAUSED,
        ),
    ),
)

ROWS = (STATUS, PLANS, GRADES, LIMITS)
