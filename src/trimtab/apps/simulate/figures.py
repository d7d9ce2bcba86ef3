"""How figures are written, in tables and in the report: shares as percent, and no more digits than noise leaves."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.apps.simulate.results import Results
from trimtab.sim.comparison import Ratio
from trimtab.sim.measures import MEASURES_BY_NAME

MAIN_MEASURES = (
    *("hot80", "hot100", "unmet", "spread", "top_p99", "mem90"),
    *("oom_kills", "pending_p99", "unplaced", "moves"),
)
SHARES = frozenset({"hot80", "hot90", "hot100", "mem80", "mem90", "mem100", "unmet", "stranded_cpu", "stranded_memory"})
NOISE = "≈"
SAME = "the same"


def number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 0.0001 else f"{value:.1e}"


def share(value: float) -> str:
    """As percent."""
    percent = value * 100
    return f"{percent:.1f} %" if percent >= 10 else f"{percent:.2g} %"


def figure(measure: str, value: float) -> str:
    """The value of a measure."""
    return share(value) if measure in SHARES else number(value)


def heading(measure: str) -> str:
    unit = MEASURES_BY_NAME[measure].unit
    return f"{measure} ({unit})" if unit else measure


def ratio_text(ratio: Ratio) -> str:
    """With its interval, and a mark where it is within the noise."""
    if ratio.low is None or ratio.high is None:
        return f"×{ratio.ratio:.2f}"
    if ratio.low == ratio.high == 1:
        return SAME
    noise = "" if ratio.significant else f" {NOISE}"
    return f"×{ratio.ratio:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]{noise}"


def shown_measures(results: Results, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those that differ from 0 for some policy, and the others."""
    shown = [name for name in wanted if any(each.mean for each in results.summaries[name].values())]
    return shown, [name for name in wanted if name not in shown]
