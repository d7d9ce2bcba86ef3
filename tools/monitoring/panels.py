"""Panels as plain values, and Grafana's JSON of them.

A panel says what it shows in words, in PromQL and in a unit; everything else (colours, legends, positions) is the same for
all of one kind and is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    ScaleDistributionConfig,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
SELECTED = 'job=~"$job", instance=~"$instance"'
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"

PERCENT, RATIO, SECONDS, COUNT, PER_SECOND, PER_MINUTE, BYTES, CORES = (
    "percent",
    "percentunit",
    "s",
    "short",
    "ops",
    "opm",
    "bytes",
    "suffix: cores",
)


@dataclass(frozen=True)
class Query:
    """An expression, the legend of its series (`{{label}}`), and in a table the unit of its column if that differs."""

    expr: str
    legend: str = ""
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """`warn` and `alarm` are the values from which it turns yellow and red; below `alarm` if that is the lower one."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    warn: float | None = None
    alarm: float | None = None
    limits: tuple[float, float] | None = None
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # texts and colours of values


class Stat(Panel):
    """The newest value, large."""


class Lines(Panel):
    """Series over time."""


class Stack(Panel):
    """Series over time that add up to a whole."""


class Heatmap(Panel):
    """How many values are in which bucket over time; its query gives cumulative buckets by `le`."""


class Table(Panel):
    """The newest values, one row for each label value and one column for each query."""


class Timeline(Panel):
    """States over time, a bar for each series."""


@dataclass(frozen=True)
class Row:
    """Panels under a heading; widths of neighbours add up to 24."""

    title: str
    panels: tuple[Panel, ...]


def build(panel: Panel, number: int) -> Builder[dashboard.Panel]:
    """The panel for the SDK's dashboard builder."""
    made = BUILDERS[type(panel)](panel)
    made.id(number).title(panel.title).description(panel.description).datasource(DATASOURCE)
    made.unit(panel.unit).span(panel.width).height(panel.height)
    made.thresholds(_thresholds(panel))
    if panel.limits is not None:
        made.min(panel.limits[0]).max(panel.limits[1])
    if panel.words:
        made.mappings([_mapping(panel.words)])
    for position, query in enumerate(panel.queries):
        made.with_target(_target(panel, query, chr(ord("A") + position)))
    built: Builder[dashboard.Panel] = made
    return built


def _target(panel: Panel, query: Query, ref: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref).legend_format(query.legend).datasource(DATASOURCE)
    if isinstance(panel, Heatmap):
        return target.format(PromQueryFormat.HEATMAP).range()
    if isinstance(panel, Table):
        return target.format(PromQueryFormat.TABLE).instant()
    return target.instant() if isinstance(panel, Stat) else target.range()


def _thresholds(panel: Panel) -> grafana.ThresholdsConfig:
    """Green, then yellow and red; the other way round where less is worse."""
    marks = [(value, color) for value, color in ((panel.warn, YELLOW), (panel.alarm, RED)) if value is not None]
    falling = panel.warn is not None and panel.alarm is not None and panel.alarm < panel.warn
    if falling and panel.alarm is not None and panel.warn is not None:
        marks = [(panel.alarm, YELLOW), (panel.warn, GREEN)]
    steps = [dashboard.Threshold(value=None, color=RED if falling else GREEN)]
    steps += [dashboard.Threshold(value=value, color=color) for value, color in marks]
    return grafana.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _mapping(words: Mapping[str, tuple[str, str]]) -> dashboard.ValueMap:
    options = {value: dashboard.ValueMappingResult(text=text, color=color) for value, (text, color) in words.items()}
    return dashboard.ValueMap(options=options)


def _stat(panel: Panel) -> Any:
    newest = ReduceDataOptions().calcs(["lastNotNull"])
    return stat.Panel().reduce_options(newest).color_mode(common.BigValueColorMode.BACKGROUND).no_value("no data")


def _lines(panel: Panel) -> Any:
    made = timeseries.Panel().line_width(1).show_points(common.VisibilityMode.AUTO).axis_soft_min(0)
    made.legend(_legend()).tooltip(
        VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    )
    if panel.warn is not None:
        made.thresholds_style(GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED))
    return made


def _stack(panel: Panel) -> Any:
    return _lines(panel).fill_opacity(30).stacking(StackingConfig().mode(common.StackingMode.NORMAL))


def _legend() -> VizLegendOptions:
    legend = VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
    return legend.show_legend(True)


def _heatmap(panel: Panel) -> Any:
    color = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    scale = ScaleDistributionConfig().type(common.ScaleDistribution.LINEAR)
    made = heatmap.Panel().calculate(False).color(color).scale_distribution(scale)
    return made.y_axis(heatmap.YAxisConfig().unit(panel.unit)).show_y_histogram()


def _table(panel: Panel) -> Any:
    """Joined by their labels; columns have the names of the legends."""
    names = {f"Value #{chr(ord('A') + position)}": query.legend for position, query in enumerate(panel.queries)}
    merge = dashboard.DataTransformerConfig(id_val="merge", options={})
    organize = dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": names}
    )
    made = table.Panel().transformations([merge, organize]).filterable(True)
    for query in panel.queries:
        if query.unit:
            made.override_by_name(query.legend, [dashboard.DynamicConfigValue(id_val="unit", value=query.unit)])
    return made


def _timeline(panel: Panel) -> Any:
    return statetimeline.Panel().merge_values(True).show_value(common.VisibilityMode.NEVER).fill_opacity(80)


BUILDERS: Mapping[type[Panel], Callable[[Panel], Any]] = {
    Stat: _stat,
    Lines: _lines,
    Stack: _stack,
    Heatmap: _heatmap,
    Table: _table,
    Timeline: _timeline,
}
